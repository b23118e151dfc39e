"""Queries evidence as tables of DuckDB, which reads traces while the query runs."""

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from spillcast import _core
from spillcast.errors import EvidenceMixed, OptionConflict, QueryInvalid, first_line
from spillcast.evidence.open import EvidenceFiles, find_evidence
from spillcast.evidence.oracle.trace import (
    TABLES,
    Progress,
    Read,
    TraceOptions,
    Traces,
    failures_as_errors,
    open_reader,
    profile_traces,
    read_once,
    spool_traces,
)
from spillcast.evidence.text import repeated_notes
from spillcast.gate import reading
from spillcast.interruptible import run_interruptibly
from spillcast.tabular import plain_rows
from spillcast.text import exact_name, rows_of, sql_literal
from spillcast.workspace import workspace

if TYPE_CHECKING:
    from spillcast.recording import Recording


def run_sql(
    query: str,
    evidence: Sequence[str],
    *,
    lenient: bool = False,
    on_progress: Progress | None = None,
    notify: Callable[[str], None] = lambda _words: None,
) -> tuple[list[str], list[list[Any]]]:
    """Column names and rows of the result. InputError with DuckDB's message for a wrong query.

    ``notify`` is called with a note for each file that was given twice and counts once.
    """
    resolved = find_evidence(evidence)
    if lenient and not resolved.traces:
        raise OptionConflict("--lenient is for traces")
    with own_duckdb() as (connection, folder):
        try:
            files = _register(connection, resolved, on_progress)
            if not resolved.traces or not (resolved.collected or resolved.only_waits() == "traces"):
                confine(connection, folder, files)
                # In a thread: a busy DuckDB ignores all signals but SIGINT, and reacts to it late.
                return run_interruptibly(lambda: _answer(connection, query), connection.interrupt)
            answer: tuple[list[str], list[list[Any]]]
            options = TraceOptions(lenient=lenient, on_progress=on_progress)
            answer, read = scan_traces(connection, query, _answer, resolved.traces, folder, options)
            for words in repeated_notes(read.repeated):
                notify(words)
            return answer
        except duckdb.Error as error:
            shown = [row[0] for row in connection.execute("show tables").fetchall()]
            # For traces, names are checked before the tables are created.
            tables = ", ".join(shown or (*TABLES, "call_tree"))
            raise QueryInvalid(
                f"the query: {first_line(error)}", f"the tables are {tables}"
            ) from error


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[list[Any]]]:
    result = connection.sql(query)
    if result is None:
        raise QueryInvalid("the query returns nothing", 'for example "from waits limit 5"')
    return result.columns, [list(row) for row in plain_rows(result)]


def _register(
    connection: duckdb.DuckDBPyConnection,
    evidence: EvidenceFiles,
    on_progress: Progress | None,
) -> list[Path]:
    """Creates the tables except those of traces; returns the user's files that they read."""
    kind = evidence.only_waits()
    # Files that were collected together form one set of tables.
    kinds = {kind} if not evidence.collected else {"ash", "statistics"}
    tables: dict[str, Any] = {}
    if "statistics" in kinds and evidence.statistics:
        from spillcast.evidence.oracle.collected import read_statistics

        tables["statistics"] = read_statistics(evidence.statistics).rows
    if evidence.work_areas or evidence.temp_usage:
        from spillcast.evidence.oracle import collected

        if evidence.work_areas:
            tables["work_areas"] = collected.read_work_areas(evidence.work_areas)
        if evidence.temp_usage:
            tables["temp_usage"] = collected.read_temp_usage(evidence.temp_usage)
    files: list[Path] = []
    if kind == "recordings":
        from spillcast.recording import Recording

        if len(evidence.recordings) != 1:
            raise EvidenceMixed("several recordings were given", "ask one at a time")
        recording = Recording.open(evidence.recordings[0])
        files = view_of_waits(connection, recording, "waits")
        tables |= {"seconds": recording.seconds, "samples": recording.samples}
    if "ash" in kinds and evidence.ash:
        from spillcast.evidence.oracle.ash import read_ash

        tables["samples"] = read_ash(evidence.ash, on_progress=on_progress).samples
    for name, table in tables.items():
        connection.register(name, table)
    return files


def view_of_waits(
    connection: duckdb.DuckDBPyConnection, recording: "Recording", name: str
) -> list[Path]:
    """Creates the view ``name`` of unordered waits; returns the paths of files that it reads.

    Waits in memory have no file. InputError for a damaged file.
    """
    from spillcast.columns import NAME
    from spillcast.recording.meta import COPY_AGAIN
    from spillcast.recording.schema import WAITS

    if recording.waits_in_memory:
        connection.register(name, recording.waits)
        return []
    path = recording.checked_file("waits")
    rows = rows_of(path)
    with reading(path, COPY_AGAIN):
        present = connection.sql(f"from {rows} limit 0").columns
    kinds = {"int64": "bigint", "bool": "boolean", NAME: "varchar"}
    # Recordings of earlier versions lack some columns.
    columns = [
        f'"{field.name}"'
        if field.name in present
        else f'null::{kinds[field.type]} as "{field.name}"'
        for field in WAITS
    ]
    connection.execute(f"create view {name} as select {', '.join(columns)} from {rows}")
    # DuckDB opens both the given path and the resolved one.
    return [Path(exact_name(path)), path.absolute()]


@contextmanager
def own_duckdb() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """An empty DuckDB, and a folder for its files; both are removed after the block."""
    with workspace(private=True) as folder, duckdb.connect() as connection:
        yield connection, folder


def confine(
    connection: duckdb.DuckDBPyConnection, folder: Path, files: Sequence[Path] = ()
) -> None:
    """Restricts SQL to the evidence: only ``files`` and those in ``folder`` are readable."""
    connection.execute("set temp_directory = ?", [str(folder / "temp")])
    connection.execute("set allowed_directories = ?", [[str(folder)]])
    connection.execute("set allowed_paths = ?", [[str(file) for file in files]])
    connection.execute("set python_enable_replacements = false")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


#: Patterns of literals and blanks, and their replacements in a normalised statement.
_NORMALISED = (("'(?:[^']|'')*'", ":s"), (r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", ":n"), (r"\s+", " "))


def add_call_tree(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the views ``call_tree``, calls with callers and own work, and ``statement_texts``.

    A trace has a line when a call ends, so the caller is the session's next call with a smaller
    depth. A call whose callees took longer than itself counts as having none. ``statement`` is the
    text without literals.
    """
    row = connection.execute("select coalesce(max(dep), 0) from calls").fetchone()
    deepest = 0 if row is None else row[0]
    parts = [
        "select *, null::bigint as parent_line, null::varchar as caller from calls where dep = 0"
    ]
    parts += [
        "select c.*, p.line as parent_line, p.sql_id as caller "
        f"from (from calls where dep = {n}) c "
        f"asof left join (from calls where dep < {n}) p on c.source = p.source "
        "and coalesce(c.session, 0) = coalesce(p.session, 0) and c.line < p.line"
        for n in range(1, deepest + 1)
    ]
    statement = "lower(trim(any_value(text)))"
    for pattern, replacement in _NORMALISED:
        statement = f"regexp_replace({statement}, {sql_literal(pattern)}, '{replacement}', 'g')"
    # Before Oracle 11g the hash value identifies a statement.
    connection.execute(
        "create view statement_texts as select "
        f"coalesce(nullif(sql_id, ''), hv::varchar) as sql_id, {statement} as statement "
        "from statements group by 1"
    )
    connection.execute(
        f"create view call_tree as with called as ({' union all '.join(parts)}), "
        "callees as (select source, parent_line as line, sum(p) as p, sum(cr) as cr, "
        "sum(cu) as cu, sum(e_us) as e_us, count(*) as calls "
        "from called where parent_line is not null group by all), "
        # Times are rounded to microseconds individually.
        "below as (select callees.* from callees join calls using (source, line) "
        "where callees.e_us <= calls.e_us + callees.calls + 1) "
        "select called.*, called.p - coalesce(below.p, 0) as self_p, "
        "called.cr - coalesce(below.cr, 0) as self_cr, "
        "called.cu - coalesce(below.cu, 0) as self_cu, statement_texts.statement from called "
        "left join below on called.source = below.source and called.line = below.line "
        "left join statement_texts on called.sql_id = statement_texts.sql_id"
    )


#: The names of a table and of a column.
Column = tuple[str, str]
_SCAN = "PYTHON_ARROW_SCAN"
#: The maximum number of batches that are read ahead.
_READ_AHEAD = 2
#: Runs a query on a connection.
RunQuery = Callable[[duckdb.DuckDBPyConnection, str], Any]
TakeBatch = Callable[[_core.Table], None]


def scan_traces(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    run_query: RunQuery,
    paths: Sequence[Path],
    folder: Path,
    options: TraceOptions,
) -> tuple[Any, Traces]:
    """The result of ``run_query`` on a connection with the traces as tables, and the traces."""
    try:
        columns, scans = requested(query)
    except duckdb.Error:
        # The query may use tables of files that were collected with the traces.
        if not connection.execute("show tables").fetchall():
            raise
        columns, scans = None, 2
    if scans != 1:
        read = spool_traces(paths, folder, options, columns)
        for name in TABLES:
            connection.execute(f"create view {name} as from {rows_of(folder / f'{name}.parquet')}")
        add_call_tree(connection)
        confine(connection, folder)
        return run_query(connection, query), read
    tables = register_traces(connection)
    confine(connection, folder)
    assert columns is not None
    table = columns[0][0]
    stream = tables[table]
    answers: list[Any] = []

    def read_and_ask(kept: list[Path]) -> Read:
        reader, watch = open_reader(kept, options)

        def fill(take: TakeBatch) -> dict[str, Any]:
            at = TABLES.index(table)
            return reader.rows(lambda *batch: take(batch[at]), columns=columns)

        with failures_as_errors(), stream.filled(fill, reader.cancel):
            try:
                answer = run_interruptibly(
                    lambda: run_query(connection, query), connection.interrupt, watch
                )
            except duckdb.Error:
                stream.check()
                raise
        answers[:] = [answer]
        # A query that needs no more rows ends the reading early, without facts about the files, by
        # which duplicates are recognised. A single file has no duplicate.
        if stream.facts is None and len(kept) > 1:
            return [], {"files": profile_traces(kept, [], replace(options, on_progress=None)).files}
        return [], stream.facts or {"files": [{"sessions": []}]}

    read = read_once(paths, read_and_ask)
    return answers[0], read


def register_traces(connection: duckdb.DuckDBPyConnection) -> "dict[str, _Stream]":
    """Creates the tables of traces; returns their streams, which have no rows yet."""
    tables = dict(zip(TABLES, map(_Stream, _core.TraceReader.no_rows()), strict=True))
    for name, table in tables.items():
        connection.register(name, table)
    add_call_tree(connection)
    return tables


def requested(query: str) -> tuple[list[Column] | None, int]:
    """The columns that a query needs (None: all), and the number of its table scans.

    Raises DuckDB's error for an unknown name before anything is read.
    """
    with duckdb.connect() as connection:
        tables = register_traces(connection)
        for table in tables.values():
            table.bound = False
        try:
            if len(connection.extract_statements(query)) != 1:
                return None, 2
            [(_, plan)] = connection.execute(f"explain (format json) {query}").fetchall()
            scans = list(_scans(json.loads(plan)))
            if "call_tree" in query.lower():
                return None, 2
        except (duckdb.BinderException, duckdb.CatalogException):
            raise
        except (duckdb.Error, ValueError):
            return None, 2
    bound = [name for name, table in tables.items() if table.bound]
    names = {name for scan in scans for name in scan}
    columns = [
        (name, column)
        for name in bound
        for column, *_ in tables[name].empty.fields()
        if column in names
    ]
    # count(*) needs rows of a table, but no column.
    columns += [(name, "") for name in bound]
    return columns, len(scans)


def _scans(nodes: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """The columns of each table scan in a plan."""
    for node in nodes:
        if node["name"].strip() == _SCAN:
            columns = node["extra_info"].get("Projections", [])
            yield [columns] if isinstance(columns, str) else columns
        yield from _scans(node["children"])


class _Stream:
    """A table that DuckDB reads through the Arrow interface; it has rows within ``filled``."""

    def __init__(self, empty: _core.Table) -> None:
        self.empty = empty
        self.bound = False
        self.facts: dict[str, Any] | None = None
        self._failure: BaseException | None = None
        self._ahead: queue.Queue[_core.Table | None] | None = None

    def __arrow_c_schema__(self) -> object:
        self.bound = True
        return self.empty.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _core.Stream(self.empty, self._next).__arrow_c_stream__(requested_schema)

    @contextmanager
    def filled(
        self, fill: Callable[[TakeBatch], dict[str, Any]], cancel: Callable[[], None]
    ) -> Iterator[None]:
        """Within the context, ``fill`` runs in a thread and passes the rows to its argument.

        The end of the block calls ``cancel``, which must end ``fill``.
        """
        self.facts = self._failure = None
        ahead = self._ahead = queue.Queue[_core.Table | None](_READ_AHEAD)
        ended = threading.Event()

        def put(table: _core.Table | None) -> None:
            while not ended.is_set():
                with suppress(queue.Full):
                    ahead.put(table, timeout=0.1)
                    break

        def read() -> None:
            try:
                self.facts = fill(lambda table: put(table) if len(table) else None)
            except BaseException as error:
                # A cancelled reader has not failed.
                self._failure = None if ended.is_set() else error
            finally:
                put(None)

        thread = threading.Thread(target=read, name="spillcast-read")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            cancel()
            thread.join()
            self._ahead = None

    def check(self) -> None:
        """Raises the reader's original exception; DuckDB only passes on its text."""
        if self._failure is not None:
            raise self._failure

    def _next(self) -> _core.Table | None:
        table = None if self._ahead is None else self._ahead.get()
        if table is None:
            self.check()
        return table
