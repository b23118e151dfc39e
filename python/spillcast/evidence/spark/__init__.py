"""Spark: event logs of applications, and recordings of their executors."""
