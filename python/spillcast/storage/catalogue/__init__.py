"""Storages that are looked up, not measured: known devices and what can be rented."""

from spillcast.storage.catalogue.formulas import Parameter
from spillcast.storage.catalogue.row import Row, figures, lookup, matching, nearest

__all__ = ["Parameter", "Row", "figures", "lookup", "matching", "nearest"]
