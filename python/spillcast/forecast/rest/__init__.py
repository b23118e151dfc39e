"""The time outside temp I/O: what of it moves with the storage, and what recording it added."""
