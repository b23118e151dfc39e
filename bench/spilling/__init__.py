"""A sort and a join that spill on purpose: I/O of known fan-in, for experiments."""
