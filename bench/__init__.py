"""Benchmarks: each runs its peer in the same run and prints a ratio."""
