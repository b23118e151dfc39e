"""Figures of one run, bare or out of a report, as evidence: counts."""
