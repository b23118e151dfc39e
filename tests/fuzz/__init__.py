"""Damaged evidence for every reader: small real shapes, mutated, and the outcomes of verbs."""
