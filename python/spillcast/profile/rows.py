"""Profiles waits with DuckDB: those of recordings, and of traces under a condition."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from spillcast import _core
from spillcast.errors import QueryInvalid, SelectionEmpty, first_line
from spillcast.evidence.oracle.trace import WHOLE, TraceOptions
from spillcast.profile.result import QUANTILES, LatencyCounts, Profile, bare_row, with_shares
from spillcast.profile.sql import confine, own_duckdb, register_traces, scan_traces, view_of_waits
from spillcast.profile.traces import WAITS_ALONE, trace_warnings
from spillcast.stats import quantiles
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.recording import Recording

Connection = duckdb.DuckDBPyConnection
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Grouping:
    """Groups rows of a table by names or SQL expressions, in descending order of time."""

    by: Sequence[str]
    where: str | None
    #: The SQL of each name that ``by`` may contain.
    names: Mapping[str, str]

    @property
    def condition(self) -> str:
        """The condition in parentheses, so that it cannot extend beyond WHERE."""
        return "true" if self.where is None else f"({self.where}\n)"

    def query(self, table: str, sums: Sequence[str], further_keys: Sequence[str] = ()) -> str:
        """The SELECT of the keys and of ``sums``, one of which is ``total_us``."""
        keys = [f"({self.names.get(key, key)}) as key_{at}" for at, key in enumerate(self.by)]
        keys += further_keys
        groups = ", ".join(str(number + 1) for number in range(len(keys)))
        rows = f"select * from {table} where {self.condition}"
        select = f"select {', '.join([*keys, *sums])} from ({rows}) group by {groups}"
        # Groups with the same total have a defined order.
        return f"{select} order by total_us desc, {groups}"

    def check(self, connection: Connection, table: str) -> None:
        """QueryInvalid if an expression or the condition is not SQL over the table's columns."""
        columns = ", ".join(connection.sql(f"from {table} limit 0").columns)
        for key in self.by:
            if key in self.names:
                continue
            try:
                query = f"select ({key}) as key_0 from {table} group by 1 limit 0"
                connection.sql(query).fetchall()
            except duckdb.Error as error:
                reason = "unknown" if _NAME.fullmatch(key) else first_line(error)
                hint = f"it may be {', '.join(self.names)}, or SQL over the columns {columns}"
                raise QueryInvalid(f"--by {key}: {reason}", hint) from error
        with self.failures("--where", f"the columns are {columns}"):
            connection.sql(f"select 1 from {table} where {self.condition} limit 0").fetchall()

    def check_unread(self, table: str) -> None:
        """Like ``check``, but on an empty table of traces, before the traces are read."""
        with own_duckdb() as (connection, folder):
            register_traces(connection)
            confine(connection, folder)
            self.check(connection, table)

    @contextmanager
    def failures(self, option: str | None = None, hint: str | None = None) -> Iterator[None]:
        """Turns DuckDB's errors into QueryInvalid, of ``option`` or of the options with SQL."""
        try:
            yield
        except duckdb.Error as error:
            has_sql = {"--by": not self.names.keys() >= {*self.by}, "--where": bool(self.where)}
            options = option or " or ".join(name for name, given in has_sql.items() if given)
            raise QueryInvalid(f"{options or '--by'}: {first_line(error)}", hint) from error

    def answer(self, connection: Connection, query: str) -> list[dict[str, Any]]:
        """The rows, with their keys under the names of ``by``."""
        relation = connection.sql(query)
        names = [*self.by, *relation.columns[len(self.by) :]]
        rows = []
        for values in relation.fetchall():
            keys = dict(zip(self.by, map(_plain, values), strict=False))
            # A key replaces a sum of the same name.
            rows.append(dict(zip(names, values, strict=True)) | keys)
        return rows

    def check_some(self, rows: Sequence[Mapping[str, Any]], noun: str) -> None:
        """SelectionEmpty if the condition holds for no row; ``noun`` names a row in the message."""
        if self.where is not None and not rows:
            raise SelectionEmpty(f"--where: no {noun} meets '{self.where}'")


def _plain(value: Any) -> Any:
    """A value that JSON can represent."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | timedelta | list | dict | bytes):
        return str(value)
    return value


_COLUMNS = {
    "event": "event",
    "op": "op::varchar",
    "size": "blocks",
    "file": "file",
    "object": "object",
    "sql": "sql_id",
    # Traces write 0 for an unknown value.
    "session": "nullif(session, 0)",
    "second": "(start_ns + elapsed_ns) // 1000000000",
    "minute": "(start_ns + elapsed_ns) // 60000000000",
}
#: Whether the files of an I/O operation are temp files.
_FILES = "if(op is null, null, if(temp, 'temp', 'other')) as files"
#: The op of all operations of a group; null if they differ or some are neither read nor write.
_COMMON_OP = (
    "if(count(distinct op) = 1 and count(op) = count(*), any_value(op::varchar), null) as op"
)
#: Words by which an expression may refer to the text of a statement.
_OF_STATEMENTS = {"statement", "columns", "waits"}
_WITH_STATEMENTS = (
    "(select waits.*, statement from waits left join statement_texts using (sql_id)) as waits"
)
#: A column of recordings: what a temp file contains, derived from its name.
_KIND = "kind"
#: A thread without temp I/O mostly waits for work, or for the end of threads with temp I/O.
_IDLE = "op is null and session in (from idle_sessions)"
_IDLE_SESSIONS = """
    create temp table idle_sessions as
    select session from recorded group by session having not bool_or(temp)
"""
#: The share of the elapsed time from which a warning mentions waits for a CPU.
_DELAY_SHARE = 0.05
#: Durations with three significant digits, so that a histogram has few buckets.
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
    options: TraceOptions = WHOLE,
) -> Profile:
    """The waits of traces that satisfy ``where``, by names or expressions.

    DuckDB reads the rows in batches.
    """
    grouping = Grouping(by, where, _COLUMNS)
    source = _WITH_STATEMENTS if _words(by, where) & _OF_STATEMENTS else "waits"
    query = _query_of_waits(grouping, source, of_trace=True)
    # Without rows, the join with statements takes no time.
    grouping.check_unread(_WITH_STATEMENTS)
    with own_duckdb() as (connection, folder), grouping.failures():
        rows, read = scan_traces(connection, query, grouping.answer, paths, folder, options)
    read.check(options.chosen)
    grouping.check_some(rows, "wait")
    histograms = _take_histograms(rows)
    elapsed_us = read.elapsed_us()
    first_second = read.first_second()
    for row in rows:
        source, line = row["longest_at"]
        row["longest_at"] = f"{read.paths[source]}:{line}"
        row["count_share"] = row["count"] / read.total("waits")
        row["share"] = row["total_us"] / elapsed_us if elapsed_us else None
        if "second" in by:
            row["second"] -= first_second
        if "minute" in by:
            row["minute"] -= first_second // 60
    warnings = trace_warnings(read)
    if where is None:
        warnings.append(WAITS_ALONE)
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), warnings, histograms=histograms)


def _words(by: Sequence[str], where: str | None) -> set[str]:
    return {word for text in (*by, where or "") for word in _NAME.findall(text.lower())}


def _with_kinds(connection: duckdb.DuckDBPyConnection) -> str:
    """The recorded waits with the kind of their temp file; null for names of unknown engines."""
    files = connection.execute("select distinct file from recorded where temp").fetchall()
    temp_names = [(file, _core.temp_name_of(file or "")) for (file,) in files]
    kinds = [(file, temp_name[1]) for file, temp_name in temp_names if temp_name is not None]
    connection.execute(f"create temp table kinds (file varchar, {_KIND} varchar)")
    if kinds:
        connection.executemany("insert into kinds values (?, ?)", kinds)
    return "recorded left join kinds using (file)"


def of_recording(recording: "Recording", by: Sequence[str], where: str | None) -> Profile:
    """The single waits of a recording, and a row of its CPU time if ``by`` is the event."""
    elapsed_us = recording.elapsed_s * 1e6
    with own_duckdb() as (connection, folder):
        files = view_of_waits(connection, recording, "recorded")
        confine(connection, folder, files)
        connection.execute(_IDLE_SESSIONS)
        columns = f"*, {_IDLE} as idle, 0 as source"
        source = _with_kinds(connection) if _KIND in _words(by, where) else "recorded"
        connection.execute(f"create view waits as select {columns} from {source}")
        grouping = Grouping(by, where, {**_COLUMNS, "size": "bytes"})
        grouping.check(connection, "waits")
        with grouping.failures():
            rows = grouping.answer(connection, _query_of_waits(grouping, "waits", of_trace=False))
        grouping.check_some(rows, "wait")
    histograms = _take_histograms(rows)
    for row in rows:
        row["longest_at"] = None
    warnings = []
    if not recording.meta.raw.whole:
        warnings.append("single waits were kept in slices: totals are those of the slices")
    elif where is None and list(by) == ["event"] and recording.meta.cpu_s is not None:
        cpu_us = recording.meta.cpu_s * 1e6
        rows.append({"event": "CPU", **bare_row(cpu_us, elapsed_us), "files": None})
        histograms.append(([], []))
        delay_s = recording.meta.capture.run_queue_delay_s
        if delay_s > _DELAY_SHARE * recording.elapsed_s:
            waited = format_duration(delay_s)
            warnings.append(
                f"no row contains the {waited} of waits for a CPU, except those within an operation"
            )
    rows = with_shares(rows, recording.elapsed_s)
    return Profile(by, recording.elapsed_s, rows, [], warnings, histograms=histograms).sorted()


def _query_of_waits(grouping: Grouping, table: str, *, of_trace: bool) -> str:
    """The SELECT of a profile's rows, without shares and quantiles."""
    by = grouping.by
    # Idle waits have separate rows in recordings, and by event.
    separate = "event" in by or not of_trace
    further_keys = ["idle"] if separate else []
    further_keys += [_FILES] if "event" in by and not of_trace else []
    # Only rows of a trace have line numbers.
    longest = "[source, line], (elapsed_ns, -source, -line)" if of_trace else "null, null"
    sums = [
        *([] if "op" in by else [_COMMON_OP]),
        *([] if separate else ["bool_and(idle) as idle"]),
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
    return grouping.query(table, sums, further_keys)


def _take_histograms(rows: Sequence[dict[str, Any]]) -> list[LatencyCounts]:
    """Replaces the histogram of each row by quantiles; returns the histograms."""
    histograms = list[LatencyCounts]()
    for row in rows:
        counts = dict(row.pop("histogram"))
        histograms.append((list(counts), list(counts.values())))
        cut_ns = quantiles(*histograms[-1], QUANTILES.values())
        for name, ns in zip(QUANTILES, cut_ns, strict=True):
            # The middle of all durations with the same three digits.
            middle_us = (ns + (10 ** max(len(str(ns)) - 3, 0) - 1) / 2) / 1e3
            row[name] = min(max(middle_us, row["min_us"]), row["max_us"])
    return histograms
