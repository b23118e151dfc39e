"""Reads files of other programs as evidence of a run; ``open`` sorts them by kind."""
