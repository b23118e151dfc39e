"""The single waits of a recording in DuckDB: rows of their file pass through, none are held."""

from pathlib import Path

import duckdb
import pyarrow as pa

from spillcast.recording import Recording
from spillcast.recording.schema import NAME, TABLES

_KINDS = {pa.int64(): "bigint", pa.bool_(): "boolean", NAME: "varchar"}


def view_of_waits(
    connection: duckdb.DuckDBPyConnection, recording: Recording, name: str
) -> list[Path]:
    """Make ``name`` a view of them, in no order; the files that it reads.

    Of a recording that is in memory alone, of that. InputError where the file is damaged.
    """
    if recording.waits_in_memory:
        connection.register(name, recording.waits)
        return []
    recording.check_rows("waits")
    path = recording.path / "waits.parquet"
    read = f"read_parquet('{str(path).replace(chr(39), chr(39) * 2)}')"
    there = connection.sql(f"from {read} limit 0").columns
    # Recordings of earlier versions lack some.
    columns = [
        f'"{field.name}"'
        if field.name in there
        else f'null::{_KINDS[field.type]} as "{field.name}"'
        for field in TABLES["waits"]
    ]
    connection.execute(f"create view {name} as select {', '.join(columns)} from {read}")
    return [path]
