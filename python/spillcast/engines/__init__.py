"""Engines whose queries spill: find them, run them, move their temp files."""
