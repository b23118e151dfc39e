"""Storages that are looked up, not measured: known devices and what can be rented."""

from spillcast.storage.catalogue.formulas import Parameter
from spillcast.storage.catalogue.look_up import Figures, figures, lookup, matching, nearest, rows
from spillcast.storage.catalogue.row import Row

__all__ = ["Figures", "Parameter", "Row", "figures", "lookup", "matching", "nearest", "rows"]
