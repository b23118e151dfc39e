"""Rows of waits -> a profile, counted by DuckDB: recordings, and traces under a condition."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from spillcast import _core
from spillcast.errors import QueryInvalid, SelectionEmpty, first_line
from spillcast.evidence.oracle.trace import ALWAYS, Progress, Window
from spillcast.profile.result import QUANTILES, LatencyCounts, Profile, bare_row, with_shares
from spillcast.profile.trace_tables import (
    ask_no_traces,
    ask_traces,
    check_keys,
    condition_of,
    confine,
    keys_of,
    named,
)
from spillcast.profile.traces import WAITS_ALONE, trace_warnings
from spillcast.stats import quantiles

if TYPE_CHECKING:
    from spillcast.recording import Recording

_COLUMNS = {
    "event": "event",
    "op": "op::varchar",
    "size": "{size}",
    "file": "file",
    "object": "object",
    "sql": "sql_id",
    # Traces write 0 for an unknown value.
    "session": "nullif(session, 0)",
    "second": "(start_ns + elapsed_ns) // 1000000000",
    "minute": "(start_ns + elapsed_ns) // 60000000000",
}
#: Separates temp I/O from I/O on data and on other files.
_FILES = "if(op is null, null, if(temp, 'temp', 'other')) as files"
#: Null where operations differ, also where some are neither read nor write.
_COMMON_OP = (
    "if(count(distinct op) = 1 and count(op) = count(*), any_value(op::varchar), null) as op"
)
_WORD = re.compile(r"\w+")
#: Names that need the text of a statement, or columns that are not named.
_OF_STATEMENTS = {"statement", "columns", "waits"}
_WITH_STATEMENTS = (
    "(select waits.*, statement from waits left join statement_texts using (sql_id)) as waits"
)
#: A column of recordings alone: what a temp file contains, by its name.
_KIND = "kind"
#: A thread without temp I/O mostly waits for threads with it: for work, or for their end.
_IDLE = "op is null and session in (from idle_sessions)"
_IDLE_SESSIONS = """
    create temp table idle_sessions as
    select session from recorded group by session having not bool_or(temp)
"""
#: Durations cut to three digits, so that a histogram has few buckets and keeps powers of ten.
_THREE_DIGITS = " ".join(
    ["case when elapsed_ns < 1000 then elapsed_ns"]
    + [f"when elapsed_ns < {10**n} then elapsed_ns // {10 ** (n - 3)} * {10 ** (n - 3)}"
       for n in range(4, 18)]
    + [f"else elapsed_ns // {10**15} * {10**15} end"]
)  # fmt: skip


def of_trace_rows(
    paths: Sequence[Path],
    by: Sequence[str],
    where: str | None,
    lenient: bool,
    on_progress: Progress | None,
    window: Window = ALWAYS,
) -> Profile:
    """The waits of traces for which ``where`` holds, by names or expressions.

    The rows pass through DuckDB in batches.
    """
    query = _Query(_source(by, where), by, where, "blocks")
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder:
        with duckdb.connect() as connection:
            ask_no_traces(connection, Path(folder))
            query.check(connection)
        with duckdb.connect() as connection, query.failures():
            (rows, histograms), read = ask_traces(
                connection,
                query.query,
                lambda connection, _query: query.answer(connection),
                paths,
                Path(folder),
                lenient=lenient,
                on_progress=on_progress,
                window=window,
            )
    read.check(window)
    query.check_some(rows)
    elapsed_us = sum(session["elapsed_us"] for session in read.sessions())
    first_second = read.first_second()
    for row in rows:
        source, line = row["longest_at"]
        row["longest_at"] = f"{read.paths[source]}:{line}"
        row["count_share"] = row["count"] / read.waits()
        row["share"] = row["total_us"] / elapsed_us if elapsed_us else None
        if "second" in by:
            row["second"] -= first_second
        if "minute" in by:
            row["minute"] -= first_second // 60
    warnings = trace_warnings(read)
    if where is None:
        warnings.append(WAITS_ALONE)
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), warnings, histograms)


def _source(by: Sequence[str], where: str | None) -> str:
    """The waits of a trace, joined with their statement's text if a name may need it."""
    return _WITH_STATEMENTS if _words(by, where) & _OF_STATEMENTS else "waits"


def _words(by: Sequence[str], where: str | None) -> set[str]:
    return {word for text in (*by, where or "") for word in _WORD.findall(text.lower())}


def _with_kinds(connection: duckdb.DuckDBPyConnection) -> str:
    """The recorded waits with the kind of their temp file; null for a name that no engine gives."""
    files = connection.execute("select distinct file from recorded where temp").fetchall()
    names = [(file, _core.temp_name_of(file or "")) for (file,) in files]
    kinds = [(file, name[1]) for file, name in names if name is not None]
    connection.execute(f"create temp table kinds (file varchar, {_KIND} varchar)")
    if kinds:
        connection.executemany("insert into kinds values (?, ?)", kinds)
    return "recorded left join kinds using (file)"


def of_recording(recording: "Recording", by: Sequence[str], where: str | None) -> Profile:
    """The single waits of a recording, with its CPU time beside them."""
    # Traces are read without numpy.
    from spillcast.profile.recorded_waits import view_of_waits

    elapsed_us = recording.elapsed_s * 1e6
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        files = view_of_waits(connection, recording, "recorded")
        confine(connection, Path(folder), files)
        connection.execute(_IDLE_SESSIONS)
        [(some,)] = connection.execute("select count(*) > 0 from idle_sessions").fetchall()
        # A query of an empty table takes as long as one of a full table.
        columns = f"*, {_IDLE if some else 'false'} as idle, 0 as source"
        source = _with_kinds(connection) if _KIND in _words(by, where) else "recorded"
        connection.execute(f"create view waits as select {columns} from {source}")
        query = _Query("waits", by, where, "bytes")
        query.check(connection)
        with query.failures():
            rows, histograms = query.answer(connection)
        query.check_some(rows)
    for row in rows:
        row["longest_at"] = None
    warnings = []
    if not recording.meta.raw.whole:
        warnings.append("single waits were kept in slices: totals are those of the slices")
    elif where is None and list(by) == ["event"] and recording.meta.cpu_s is not None:
        rows.append(bare_row("CPU", recording.meta.cpu_s * 1e6, elapsed_us) | {"files": None})
        histograms.append(([], []))
    rows = with_shares(rows, recording.elapsed_s)
    return Profile(by, recording.elapsed_s, rows, [], warnings, histograms).sorted()


@dataclass(frozen=True)
class _Query:
    """Rows of ``source``, which has the columns of waits, in the columns of a trace's profile."""

    source: str
    by: Sequence[str]
    where: str | None
    #: The column of sizes, which differs between traces and recordings.
    size: str

    @property
    def condition(self) -> str:
        return condition_of(self.where)

    @cached_property
    def query(self) -> str:
        """Shares and quantiles are not known yet."""
        keys = keys_of(self.by, self._known())
        of_trace = self.size == "blocks"
        # Of recordings, and of events, what is idle is apart from what is not.
        apart = "event" in self.by or not of_trace
        keys += ["idle"] if apart else []
        keys += [_FILES] if "event" in self.by and not of_trace else []
        # Rows of a recording have no line number.
        longest = "[source, line], (elapsed_ns, -source, -line)" if of_trace else "null, null"
        columns = [
            *keys,
            *([] if "op" in self.by else [_COMMON_OP]),
            *([] if apart else ["bool_and(idle) as idle"]),
            "count(*) as count",
            "round(sum(elapsed_ns) / 1e3)::bigint as total_us",
            "null as share",
            "min(elapsed_ns) / 1e3 as min_us",
            "avg(elapsed_ns) / 1e3 as mean_us",
            *(f"null as {name}" for name in QUANTILES),
            "max(elapsed_ns) / 1e3 as max_us",
            f"arg_max({longest}) as longest_at",
            f"histogram({_THREE_DIGITS}) as histogram",
        ]
        groups = ", ".join(str(number + 1) for number in range(len(keys)))
        rows = f"select * from {self.source} where {self.condition}"
        select = f"select {', '.join(columns)} from ({rows}) group by {groups}"
        # A defined order for rows with the same total.
        return f"{select} order by total_us desc, {groups}"

    def _known(self) -> dict[str, str]:
        return {name: column.replace("{size}", self.size) for name, column in _COLUMNS.items()}

    def check(self, connection: duckdb.DuckDBPyConnection) -> None:
        """InputError for an invalid expression or condition."""
        # Without rows, skip the statements.
        source = _WITH_STATEMENTS if self.size == "blocks" else self.source
        check_keys(connection, source, self.by, self._known())
        columns = connection.sql(f"from {source} limit 0").columns
        with self.failures(f"the columns are {', '.join(columns)}"):
            connection.sql(f"select 1 from {source} where {self.condition} limit 0").fetchall()

    @contextmanager
    def failures(self, hint: str | None = None) -> Iterator[None]:
        """Turn DuckDB's errors into InputError."""
        try:
            yield
        except duckdb.Error as error:
            raise QueryInvalid(f"--where: {first_line(error)}", hint) from error

    def answer(
        self, connection: duckdb.DuckDBPyConnection
    ) -> tuple[list[dict[str, Any]], list[LatencyCounts]]:
        """Rows and their histograms."""
        relation = connection.sql(self.query)
        names = relation.columns
        rows = [named(dict(zip(names, row, strict=True)), self.by) for row in relation.fetchall()]
        histograms = list[LatencyCounts]()
        for row in rows:
            counts = dict(row.pop("histogram"))
            histograms.append((list(counts), list(counts.values())))
            _add_quantiles(row, *histograms[-1])
        return rows, histograms

    def check_some(self, rows: Sequence[dict[str, Any]]) -> None:
        """InputError if the condition holds for no wait."""
        if self.where is not None and not rows:
            raise SelectionEmpty(f"--where: no wait meets '{self.where}'")


def _add_quantiles(row: dict[str, Any], cut_ns: Sequence[int], counts: Sequence[int]) -> None:
    """Move durations that were cut to three digits to the middle of their range."""
    values_by_row = quantiles(cut_ns, counts, QUANTILES.values())
    for name, ns in zip(QUANTILES, values_by_row, strict=True):
        middle_us = (ns + (10 ** max(len(str(ns)) - 3, 0) - 1) / 2) / 1e3
        row[name] = min(max(middle_us, row["min_us"]), row["max_us"])
