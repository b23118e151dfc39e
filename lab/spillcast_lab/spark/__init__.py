"""Spark in verifications: jobs, volumes with a known page cache, runs and their event logs."""
