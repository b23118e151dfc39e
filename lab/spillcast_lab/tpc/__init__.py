"""Benchmarks of the TPC as experiments: generated tables, queries that spill."""
