"""Rows of waits -> a profile, counted by DuckDB: recordings, and traces under a condition."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from spillcast.errors import InputError, first_line
from spillcast.profile.expressions import check_keys, confine, keys_of, named
from spillcast.profile.result import QUANTILES, LatencyCounts, Profile, bare_row, with_shares
from spillcast.profile.statement_texts import add_statement_texts
from spillcast.profile.traces import WAITS_ALONE, trace_warnings
from spillcast.profile.waits_view import view_of_waits
from spillcast.recording import Recording
from spillcast.recording.trace import Progress
from spillcast.recording.trace_spool import spool_traces
from spillcast.recording.trace_window import ALWAYS, Window

_COLUMNS = {
    "event": "event",
    "op": "op::varchar",
    "size": "{size}",
    "file": "file",
    "object": "object",
    "sql": "sql_id",
    # Traces write 0 where they do not tell.
    "session": "nullif(session, 0)",
    "second": "(start_ns + elapsed_ns) // 1000000000 - {first_second}",
    "minute": "(start_ns + elapsed_ns) // 60000000000 - {first_second} // 60",
}
#: Temp I/O is told from I/O on data, and on whatever other files there are.
_FILES = "if(op is null, null, if(temp, 'temp', 'other')) as files"
#: Null where operations differ, also where some are neither read nor write.
_COMMON_OP = (
    "if(count(distinct op) = 1 and count(op) = count(*), any_value(op::varchar), null) as op"
)
_ALL = "true"
_WORD = re.compile(r"\w+")
#: Of waits, whatever is asked: what rows of a profile have.
_ALWAYS = {"elapsed_ns", "op", "idle", "source", "line", "sql_id"}
#: Words for columns that are not named.
_WHOLE_ROWS = {"columns", "waits", "recorded"}
#: A thread that does no temp I/O mostly waits for those that do: for work, or for their end.
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
    """Traces, as far as ``where`` holds, by names or expressions.

    The rows pass through Parquet files, not memory.
    """
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        read = spool_traces(
            paths,
            Path(folder),
            columns=_columns([*by, where or _ALL]),
            lenient=lenient,
            on_progress=on_progress,
            window=window,
        )
        _add_waits(connection, folder)
        confine(connection, Path(folder))
        elapsed_us = sum(session["elapsed_us"] for session in read.sessions())
        rows, histograms = _aggregate(
            connection, by, where or _ALL, elapsed_us, "blocks", read.first_second()
        )
    for row in rows:
        source, line = row["longest_at"]
        row["longest_at"] = f"{read.paths[source]}:{line}"
        row["count_share"] = row["count"] / read.waits()
    warnings = trace_warnings(read, 0)
    if where is None:
        warnings.append(WAITS_ALONE)
    return Profile(by, elapsed_us / 1e6, rows, read.damaged(), warnings, histograms)


def _columns(asked: Sequence[str]) -> list[tuple[str, str]] | None:
    """Tables of traces and columns of them that expressions may need; None for all.

    A column is needed only where it is named, or where whole rows are.
    """
    words = {word for text in asked for word in _WORD.findall(text.lower())}
    if words & _WHOLE_ROWS:
        return None
    for one in words & set(_COLUMNS):
        words |= {"blocks"} if one == "size" else set(_WORD.findall(_COLUMNS[one]))
    needed = [("waits", name) for name in sorted(words | _ALWAYS)]
    return needed + ([("statements", "")] if "statement" in words else [])


def _add_waits(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """The view ``waits`` of a trace, with the text of each wait's statement."""
    for name in ("waits", "statements"):
        view = "recorded" if name == "waits" else name
        table = f"read_parquet('{folder}/{name}.parquet')"
        connection.execute(f"create view {view} as from {table}")
    add_statement_texts(connection)
    connection.execute(
        "create view waits as select recorded.*, statement from recorded "
        "left join statement_texts using (sql_id)"
    )


def of_recording(recording: Recording, by: Sequence[str], where: str | None) -> Profile:
    """The single waits of a recording, with its CPU time beside them."""
    elapsed_us = recording.elapsed_s * 1e6
    with tempfile.TemporaryDirectory(prefix="spillcast-") as folder, duckdb.connect() as connection:
        files = view_of_waits(connection, recording, "recorded")
        confine(connection, Path(folder), files)
        connection.execute(_IDLE_SESSIONS)
        [(some,)] = connection.execute("select count(*) > 0 from idle_sessions").fetchall()
        # To look into an empty table takes as long as into another.
        columns = f"*, {_IDLE if some else 'false'} as idle, 0 as source"
        connection.execute(f"create view waits as select {columns} from recorded")
        rows, histograms = _aggregate(connection, by, where or _ALL, elapsed_us, "bytes", 0)
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


def _aggregate(
    connection: duckdb.DuckDBPyConnection,
    by: Sequence[str],
    where: str,
    elapsed_us: float,
    size: str,
    first_second: int,
) -> tuple[list[dict[str, Any]], list[LatencyCounts]]:
    """Rows of the view ``waits`` in the columns of a trace's profile, and their histograms."""
    names = {"size": size, "first_second": first_second}
    known = {name: column.format_map(names) for name, column in _COLUMNS.items()}
    check_keys(connection, "waits", by, known)
    keys = keys_of(by, known)
    # Some waits of a row may be idle and others not: of recordings, and of events, they are apart.
    apart = "event" in by or size == "bytes"
    keys += ["idle"] if apart else []
    keys += [_FILES] if "event" in by and size == "bytes" else []
    op = [] if "op" in by else [_COMMON_OP]
    # Of a recording no row tells its line.
    longest = "[source, line], (elapsed_ns, -source, -line)" if size == "blocks" else "null, null"
    columns = [
        *keys,
        *op,
        *([] if apart else ["bool_and(idle) as idle"]),
        "count(*) as count",
        "round(sum(elapsed_ns) / 1e3)::bigint as total_us",
        f"sum(elapsed_ns) / 1e3 / {elapsed_us or 'null'} as share",
        "min(elapsed_ns) / 1e3 as min_us",
        "avg(elapsed_ns) / 1e3 as mean_us",
        f"quantile_disc(elapsed_ns, {list(QUANTILES.values())}) as quantiles",
        "max(elapsed_ns) / 1e3 as max_us",
        f"arg_max({longest}) as longest_at",
        f"histogram({_THREE_DIGITS}) as histogram",
    ]
    groups = ", ".join(str(number + 1) for number in range(len(keys)))
    query = (
        f"select {', '.join(columns)} from (select * from waits where {where}) "
        f"group by {groups} order by total_us desc"
    )
    try:
        rows = connection.sql(query).to_arrow_table().to_pylist()
    except duckdb.Error as error:
        what = first_line(error)
        columns_there = ", ".join(connection.sql("from waits limit 0").columns)
        raise InputError(f"--where: {what}", f"the columns are {columns_there}") from error
    if where != _ALL and not rows:
        raise InputError(f"--where: no wait meets '{where}'")
    rows = [named(_with_quantiles(row), by) for row in rows]
    histograms = [dict(row.pop("histogram")) for row in rows]
    return rows, [(list(counts), list(counts.values())) for counts in histograms]


def _with_quantiles(row: dict[str, Any]) -> dict[str, Any]:
    """A row with each of its quantiles under its name, in their place."""
    found = dict[str, Any]()
    for name, value in row.items():
        if name == "quantiles":
            found |= {one: ns / 1e3 for one, ns in zip(QUANTILES, value, strict=True)}
        else:
            found[name] = value
    return found
