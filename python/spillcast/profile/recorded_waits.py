"""The single waits of a recording in DuckDB: rows of their file pass through, none are held."""

from pathlib import Path

import duckdb

from spillcast.columns import NAME
from spillcast.parquet import in_bounds
from spillcast.recording import Recording
from spillcast.recording.recording import Totals
from spillcast.recording.schema import SIGNED, TABLES
from spillcast.text import exact_name, rows_of

_KINDS = {"int64": "bigint", "bool": "boolean", NAME: "varchar"}


def view_of_waits(
    connection: duckdb.DuckDBPyConnection, recording: Recording, name: str
) -> list[Path]:
    """Create the view ``name`` of them, unordered; returns the names of files that it reads.

    A recording that exists in memory only is used as it is. InputError for a damaged file.
    """
    if recording.waits_in_memory:
        connection.register(name, recording.waits)
        return []
    path = recording.path / "waits.parquet"
    # Opens the file and checks the types of its columns.
    next(recording.batches("waits"), None)
    try:
        _view(connection, path, name)
        if not recording.is_checked("waits"):
            _check(connection, recording, name)
    except duckdb.Error:
        # Raises the same error as for any recording.
        recording.check_rows("waits")
        raise
    # DuckDB opens the given name and the resolved one.
    return [Path(exact_name(path)), path.absolute()]


def _view(connection: duckdb.DuckDBPyConnection, path: Path, name: str) -> None:
    read = rows_of(path)
    present = connection.sql(f"from {read} limit 0").columns
    # Recordings of earlier versions lack some.
    columns = [
        f'"{field.name}"'
        if field.name in present
        else f'null::{_KINDS[field.type]} as "{field.name}"'
        for field in TABLES["waits"]
    ]
    connection.execute(f"create view {name} as select {', '.join(columns)} from {read}")


def _check(connection: duckdb.DuckDBPyConnection, recording: Recording, name: str) -> None:
    """InputError for damaged rows; DuckDB checks them in half of the time."""
    totals = "count(*), sum(bytes), sum(elapsed_ns), max(start_ns + elapsed_ns)"
    fields = TABLES["waits"]
    counts = ", ".join(f'count("{field.name}")' for field in fields)
    numbers = [field.name for field in fields if field.type == "int64"]
    ends = ", ".join(f'min("{number}"), max("{number}")' for number in numbers)
    [row] = connection.execute(f"select {totals}, {counts}, {ends} from {name}").fetchall()
    seen, rest = Totals(*(value or 0 for value in row[:4])), row[4:]
    filled = dict(zip((field.name for field in fields), rest, strict=False))
    bounds = zip(numbers, rest[len(fields) :: 2], rest[len(fields) + 1 :: 2], strict=True)
    in_order = all(
        least is None or in_bounds(number, least, most, signed=number in SIGNED)
        for number, least, most in bounds
    ) and all(field.nullable or filled[field.name] == seen.rows for field in fields)
    if in_order:
        recording.check_waits(seen)
    else:
        recording.check_rows("waits")
