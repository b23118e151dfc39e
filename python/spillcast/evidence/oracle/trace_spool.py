"""The rows of extended SQL traces as Parquet files."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillcast import _core
from spillcast.evidence.oracle.trace import (
    TABLES,
    Progress,
    Read,
    ReadFailures,
    Traces,
    open_reader,
    read_once,
)
from spillcast.evidence.oracle.trace_window import ALWAYS, Window
from spillcast.interruptible import run_interruptibly


def spool_traces(
    paths: Sequence[Path],
    folder: Path,
    *,
    columns: Sequence[tuple[str, str]] | None = None,
    lenient: bool = False,
    on_progress: Progress | None = None,
    window: Window = ALWAYS,
) -> Traces:
    """Write all rows to a Parquet file for each of TABLES, called as it.

    Where pairs of a table and a column are given, these alone are written, and nulls for others.
    """

    def spool(kept: list[Path]) -> Read:
        return _spool(kept, folder, columns, lenient, on_progress, window)

    traces = read_once(paths, spool)
    traces.check(window)
    return traces


def _spool(
    paths: Sequence[Path],
    folder: Path,
    columns: Sequence[tuple[str, str]] | None,
    lenient: bool,
    on_progress: Progress | None,
    window: Window,
) -> Read:
    reader, watch = open_reader(paths, lenient, on_progress, window)
    writers: dict[str, pq.ParquetWriter] = {}

    def take(*tables: _core.Table) -> None:
        for name, table in zip(TABLES, tables, strict=True):
            batch = pa.record_batch(table)
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", batch.schema)
            writers[name].write_batch(batch)

    try:
        with ReadFailures():
            facts = run_interruptibly(
                lambda: reader.rows(take, columns=columns), reader.cancel, watch
            )
    finally:
        for writer in writers.values():
            writer.close()
    return [], facts
