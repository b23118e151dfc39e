"""Captures on a machine with many CPUs: a QEMU guest, for costs that depend on their number."""
