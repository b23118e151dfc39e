"""The tables of traces for one query: a stream of what it asks, or files of it.

A query that scans one table once gets its rows while they are read, so that they are never all in
memory. Any other gets what it asks as Parquet files, for rows are read once.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from spillcast import _core
from spillcast.interruptible import run_interruptibly
from spillcast.profile.calls import add_call_tree
from spillcast.profile.expressions import confine
from spillcast.recording.trace import (
    Progress,
    Read,
    ReadFailures,
    Traces,
    open_reader,
    profile_traces,
    read_once,
)
from spillcast.recording.trace_spool import TABLES, spool_traces

#: A table and a column of it.
Column = tuple[str, str]
_SCAN = "PYTHON_ARROW_SCAN"
#: Batches that wait for the database.
_AHEAD = 2
Ask = Callable[[duckdb.DuckDBPyConnection], Any]


def ask_traces(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    ask: Ask,
    paths: Sequence[Path],
    folder: Path,
    *,
    lenient: bool,
    on_progress: Progress | None,
) -> tuple[Any, Traces]:
    """What ``ask`` makes of the connection, in which the traces are tables for this query."""
    columns, scans = _asked(query)
    if scans == 0:
        read = profile_traces(paths, [], lenient=lenient, on_progress=on_progress)
    elif scans != 1:
        read = spool_traces(
            paths, folder, columns=columns, lenient=lenient, on_progress=on_progress
        )
        for name in TABLES:
            path = str(folder / f"{name}.parquet").replace("'", "''")
            connection.execute(f"create view {name} as from read_parquet('{path}')")
        add_call_tree(connection)
        confine(connection, folder)
        return ask(connection), read
    tables = {name: _Stream(table) for name, table in _no_rows().items()}
    _register(connection, tables)
    confine(connection, folder)
    if scans == 0:
        return ask(connection), read
    assert columns is not None
    stream = tables[columns[0][0]]
    found: list[Any] = []

    def read_and_ask(kept: list[Path]) -> Read:
        reader, watch = open_reader(kept, lenient, on_progress)
        with ReadFailures(), stream.of(reader, columns):
            try:
                answer = run_interruptibly(lambda: ask(connection), connection.interrupt, watch)
            except duckdb.Error:
                stream.check()
                raise
        found[:] = [answer]
        # A query that has enough ends the reading.
        return [], stream.facts or {"files": _facts(kept, lenient)}

    read = read_once(paths, read_and_ask)
    return found[0], read


def _facts(paths: Sequence[Path], lenient: bool) -> list[Any]:
    """What is read of each file; of one alone nobody asks, for it can be no copy."""
    return (
        profile_traces(paths, [], lenient=lenient).files if len(paths) > 1 else [{"sessions": []}]
    )


def _no_rows() -> dict[str, pa.RecordBatch]:
    return dict(zip(TABLES, map(pa.record_batch, _core.TraceReader.no_rows()), strict=True))


def _register(connection: duckdb.DuckDBPyConnection, tables: "dict[str, _Stream]") -> None:
    for name, table in tables.items():
        connection.register(name, table)
    add_call_tree(connection)


def _asked(query: str) -> tuple[list[Column] | None, int]:
    """The columns that a query needs, None for all, and how many scans of tables it makes."""
    tables = {name: _Stream(table) for name, table in _no_rows().items()}
    with duckdb.connect() as connection:
        _register(connection, tables)
        for table in tables.values():
            table.bound = False
        try:
            if len(connection.extract_statements(query)) != 1 or "call_tree" in query.lower():
                return None, 2
            [(_, plan)] = connection.execute(f"explain (format json) {query}").fetchall()
            scans = list(_scans(json.loads(plan)))
        except (duckdb.Error, ValueError):
            return None, 2
    bound = [name for name, table in tables.items() if table.bound]
    names = {name for scan in scans for name in scan}
    columns = [
        (name, column) for name in bound for column in tables[name].names() if column in names
    ]
    # Of a table that is only counted no column is needed, but its rows.
    columns += [(name, "") for name in bound]
    return columns, len(scans)


def _scans(nodes: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """The columns of each scan of a plan."""
    for node in nodes:
        if node["name"].strip() == _SCAN:
            columns = node["extra_info"].get("Projections", [])
            yield [columns] if isinstance(columns, str) else columns
        yield from _scans(node["children"])


class _Stream:
    """A table as DuckDB reads it, by the interface of Arrow: with rows while there is a reader."""

    def __init__(self, empty: pa.RecordBatch) -> None:
        self.empty = empty
        self.bound = False
        self.facts: dict[str, Any] | None = None
        self._failure: BaseException | None = None
        self._reader: _core.TraceReader | None = None

    def names(self) -> list[str]:
        return list(self.empty.schema.names)

    def __arrow_c_schema__(self) -> object:
        self.bound = True
        return self.empty.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = iter(()) if self._reader is None else self._batches()
        stream = pa.RecordBatchReader.from_batches(self.empty.schema, batches)
        return stream.__arrow_c_stream__(requested_schema)

    def of(self, reader: _core.TraceReader, columns: Sequence[Column]) -> "_Stream":
        """Begin to read; the reading ends with the block at the latest."""
        self._reader, self.facts, self._failure = reader, None, None
        self._ended = threading.Event()
        self._ahead: queue.Queue[pa.RecordBatch | None] = queue.Queue(_AHEAD)
        at = TABLES.index(columns[0][0])

        def take(*tables: _core.Table) -> None:
            if len(tables[at]):
                self._put(pa.record_batch(tables[at]))

        def read() -> None:
            try:
                self.facts = reader.rows(take, columns=columns)
            except BaseException as error:
                self._failure = error
            finally:
                self._put(None)

        self._thread = threading.Thread(target=read, name="spillcast-read")
        return self

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        if self._reader is not None:
            self._reader.cancel()
        self._thread.join()
        self._reader = None

    def check(self) -> None:
        """Raise what the reader was ended by, of which the database knows the words alone."""
        if self._failure is not None and not self._ended.is_set():
            raise self._failure

    def _put(self, batch: pa.RecordBatch | None) -> None:
        while not self._ended.is_set():
            with suppress(queue.Full):
                self._ahead.put(batch, timeout=0.1)
                break

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._ahead.get()) is not None:
            yield batch
        self.check()
