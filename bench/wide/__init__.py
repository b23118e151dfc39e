"""Captures on a machine of many CPUs: a guest under QEMU, for what depends on their number."""
