"""Engines whose queries spill, each a package: what spillcast does with them, and how."""
