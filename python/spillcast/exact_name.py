"""Names of files for DuckDB, which takes a name for a pattern and ``~`` for a home."""

import glob
import os
from pathlib import Path


def exact_name(path: str | Path) -> str:
    """A name that stands for this file alone, whatever letters are in it."""
    return glob.escape(os.path.abspath(path))


def rows_of(path: str | Path) -> str:
    """SQL for the rows of this Parquet file."""
    return "read_parquet('" + exact_name(path).replace("'", "''") + "')"
