"""The tables of the catalogue: CSV files of the package, read once."""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

Entry = Mapping[str, str]


@cache
def table(name: str) -> tuple[Entry, ...]:
    """The entries of ``data/NAME.csv``, by column."""
    text = files(__package__).joinpath("data", f"{name}.csv").read_text()
    return tuple(csv.DictReader(text.splitlines()))


def number(entry: Entry, column: str) -> float | None:
    """A figure, or None where the table has none."""
    return float(entry[column]) if entry[column] else None
