"""Reads files of other programs as evidence of a run; ``open`` sorts them by kind."""

import csv

# A cell of a table may hold a statement, which exceeds the default limit.
csv.field_size_limit(1 << 30)
