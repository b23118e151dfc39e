"""Damaged evidence for every reader: small real shapes, mutated, and what verbs make of them."""
