"""Engines whose queries spill: what spillcast does with them, and how."""
