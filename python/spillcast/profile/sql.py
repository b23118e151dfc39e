"""The evidence as tables in DuckDB; each kind's readers are imported where they are needed."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from spillcast.errors import EvidenceMixed, OptionConflict, QueryInvalid, first_line
from spillcast.evidence.open import Evidence, find_evidence
from spillcast.evidence.oracle.trace import TABLES, Progress, TraceOptions
from spillcast.evidence.text import repeated_words
from spillcast.interruptible import run_interruptibly
from spillcast.profile.trace_tables import ask_traces, confine
from spillcast.tabular import plain_rows
from spillcast.text import exact_name, rows_of

if TYPE_CHECKING:
    from spillcast.recording import Recording


def run_sql(
    query: str,
    evidence: Sequence[str],
    *,
    lenient: bool = False,
    on_progress: Progress | None = None,
    say: Callable[[str], None] = lambda _words: None,
) -> tuple[list[str], list[list[Any]]]:
    """Column names and rows. InputError with DuckDB's message for a wrong query.

    ``say`` reports files that were given twice and count once.
    """
    resolved = find_evidence(evidence)
    if lenient and not resolved.traces:
        raise OptionConflict("--lenient is for traces")
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        try:
            files = _register(connection, resolved, on_progress)
            if not resolved.traces or not (resolved.collected or resolved.only_waits() == "traces"):
                confine(connection, Path(folder), files)
                # In a thread, because a working DuckDB notices no signal but SIGINT, and that late.
                return run_interruptibly(lambda: _answer(connection, query), connection.interrupt)
            answer: tuple[list[str], list[list[Any]]]
            options = TraceOptions(lenient=lenient, on_progress=on_progress)
            answer, read = ask_traces(
                connection, query, _answer, resolved.traces, Path(folder), options
            )
            for words in repeated_words(read.repeated):
                say(words)
            return answer
        except duckdb.Error as error:
            shown = [row[0] for row in connection.execute("show tables").fetchall()]
            # Names are checked before the tables of traces are made.
            tables = ", ".join(shown or (*TABLES, "call_tree"))
            reason = first_line(error)
            raise QueryInvalid(f"the query: {reason}", f"the tables are {tables}") from error


def _answer(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[list[Any]]]:
    result = connection.sql(query)
    if result is None:
        raise QueryInvalid("the query asks for nothing", 'for example "from waits limit 5"')
    return result.columns, [list(row) for row in plain_rows(result)]


def _register(
    connection: duckdb.DuckDBPyConnection,
    evidence: Evidence,
    on_progress: Progress | None,
) -> list[Path]:
    """Create the tables except those of traces; returns the user's files that they read."""
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
    """Create the view ``name`` of them, unordered; returns the names of files that it reads.

    A recording that exists in memory only is used as it is. InputError for a damaged file.
    """
    from spillcast.columns import NAME
    from spillcast.recording.schema import WAITS

    if recording.waits_in_memory:
        connection.register(name, recording.waits)
        return []
    recording.check_rows("waits")
    path = recording.path / "waits.parquet"
    rows = rows_of(path)
    present = connection.sql(f"from {rows} limit 0").columns
    kinds = {"int64": "bigint", "bool": "boolean", NAME: "varchar"}
    # Recordings of earlier versions lack some.
    columns = [
        f'"{field.name}"'
        if field.name in present
        else f'null::{kinds[field.type]} as "{field.name}"'
        for field in WAITS
    ]
    connection.execute(f"create view {name} as select {', '.join(columns)} from {rows}")
    # DuckDB opens the given name and the resolved one.
    return [Path(exact_name(path)), path.absolute()]
