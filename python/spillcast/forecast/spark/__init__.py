"""Spark applications, simulated with their temp files on another storage."""
