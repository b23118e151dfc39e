"""Pages of a profile, of functions on CPU, and of the result of an SQL query."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spillcast.profile import Profile
from spillcast.profile.result import CALL, ROW_SOURCE
from spillcast.report import (
    Drawing,
    Notes,
    Page,
    PagePart,
    Prose,
    TitledTable,
    histogram,
    listed,
    peak_letters,
)
from spillcast.tabular import Column, PrintedTable

#: Maximum number of listed damaged lines.
DAMAGED_MAX = 10
_TIMES = (
    Column("total", "total_us", "us"),
    Column("share", "share", "share"),
    Column("count", "count", "count"),
    Column(None, "min_us", "us"),
    Column("mean", "mean_us", "us"),
    Column("p50", "p50_us", "us", spare=2),
    Column("p95", "p95_us", "us", spare=3),
    Column("p99", "p99_us", "us"),
    Column("max", "max_us", "us", spare=1),
)
#: The indentation of a plan's operation, for each level.
_STEP = "· "
#: The position of the share of waits among the times.
_COUNT_SHARE_AT = [column.key for column in _TIMES].index("count") + 1
_UNITS = {"size": "size", "second": "raw", "minute": "raw"}
_STATISTICS = (
    Column("statistic", "event"),
    Column("growth", "value", "count"),
    Column("per second, at most", "per_second_max", "count"),
    Column("since logon", "accumulated", "count"),
)
#: The columns of plan lines, and of calls.
_ROW_SOURCES = (
    Column("line", "row-source", "raw"),
    Column("operation", "operation"),
    Column("sql", "sql", spare=2),
    Column("time", "total_us", "us"),
    Column("share", "share", "share"),
    Column("count", "count", "count", spare=3),
    Column("rows", "rows", "count", spare=1),
    Column("starts", "starts", "count", spare=4),
    Column("temp read", "temp_read_bytes", "bytes"),
    Column("written", "temp_written_bytes", "bytes"),
    Column("of all temp", "temp_share", "percent"),
    Column("passes", "passes", "raw"),
)
_CALLS = (
    Column("time", "total_us", "us"),
    Column("share", "share", "share"),
    Column("CPU", "cpu_us", "us"),
    Column("count", "count", "count"),
    Column("mean", "mean_us", "us", spare=3),
    Column("max", "max_us", "us", spare=2),
    Column("rows", "rows", "count"),
    Column("read", "reads", "count"),
    Column("consistent", "consistent_gets", "count", spare=1),
    Column("current", "current_gets", "count", spare=1),
    Column("misses", "misses", "count", spare=4),
    Column("longest at", "longest_at", spare=5),
)
FUNCTIONS = (
    Column("self", "total_us", "us"),
    Column("share", "share", "percent1"),
    Column("with callees", "with_callees_us", "us", spare=1),
    Column("share", "with_callees_share", "percent1"),
    Column(None, "count", "count"),
)
#: The default number of functions.
_FUNCTIONS_SHOWN = 30
_EXECUTIONS = (
    Column("began", "began"),
    Column("lasted", "elapsed_s", "s"),
    Column("samples", "samples", "count"),
    Column("sql", "sql_id"),
    Column("exec id", "exec_id", "raw"),
    Column("instance", "instance", "raw"),
    Column("session", "session", "raw"),
    Column("sessions", "sessions", "raw", spare=1),
)


def profile_page(profile: Profile, *, histograms: bool = False) -> Page:
    """The rows of a profile; idle events come last, because no storage shortens them."""
    if profile.rows and "value" in profile.rows[0]:
        table = PrintedTable.of(_STATISTICS, profile.rows)
        return Page([table], table)
    by_thread = any("files" in row for row in profile.rows)
    idle = [row for row in profile.rows if row.get("idle") and not by_thread]
    busy = [row for row in profile.rows if not row.get("idle")]
    parts: list[PagePart] = [
        Prose([profile.elapsed_text()]),
        _table(profile, busy, readable=True),
        Prose([f"  {text}" for text in profile.words]),
    ]
    if idle:
        parts.append(TitledTable("  idle", _table(profile, idle)))
    if histograms:
        parts += _histograms(profile)
    if profile.executions:
        title = f"  {len(profile.executions):,} executions; a forecast is for one"
        parts.append(TitledTable(title, PrintedTable.of(_EXECUTIONS, profile.executions)))
    lines = [f"  warning: {text}" for text in profile.warnings]
    damaged = [f"damaged: {d['file']}:{d['line']}: {d['what']}" for d in profile.damaged]
    lines += [f"  {line}" for line in listed(damaged, DAMAGED_MAX)]
    return Page([*parts, Notes(lines)], _table(profile, profile.rows))


def folded_page(recording: str, profile: Profile) -> Page:
    """Folded stacks, for other programs that draw flame graphs."""
    from spillcast.profile.functions import folded, stacks_of
    from spillcast.recording import Recording

    lines = "\n".join(folded(stacks_of(Recording.open(recording))))
    return Page([Drawing(lambda _width: lines)], functions_page(profile, None).data)


def functions_page(profile: Profile, top: int | None) -> Page:
    """The ``top`` functions by their own CPU time, and warnings."""
    table = PrintedTable.of(
        [*(Column(name, name) for name in profile.by), *FUNCTIONS], profile.rows
    )
    shown = replace(table, rows=table.rows[: top or _FUNCTIONS_SHOWN])
    lines, more = [f"  warning: {text}" for text in profile.warnings], list[str]()
    if (left_out := len(table.rows) - len(shown.rows)) > 0:
        share = sum(row["share"] for row in profile.rows[len(shown.rows) :])
        more = [f"  and {left_out:,} more with {share:.1%} of the time: --top {len(table.rows)}"]
    return Page([Prose(profile.words), shown, Prose(more), Notes(lines)], table)


def _table(
    profile: Profile, rows: Sequence[dict[str, Any]], *, readable: bool = False
) -> PrintedTable:
    if ROW_SOURCE in profile.by:
        if readable:
            rows = [row | {"operation": _indented(row)} for row in rows]
        return PrintedTable.of(_ROW_SOURCES, rows)
    if CALL in profile.by:
        return PrintedTable.of([*(Column(name, name) for name in profile.by), *_CALLS], rows)
    if readable:
        # Samples on CPU have no wait times.
        rows = [row | {key: row.get(key) or None for key in ("mean_us", "max_us")} for row in rows]
    last = [Column("longest at", "longest_at", spare=4)]
    if any("latency_us" in row for row in profile.rows):
        last = [Column("unbiased", "latency_us", "us"), Column(None, "n_est", "number")]
    keys = [Column(name, name, _UNITS.get(name, "text")) for name in profile.by]
    # Rows of ASH are also by statement.
    statements = {row["sql"] for row in profile.rows if "sql" in row}
    if statements and "sql" not in profile.by:
        keys.append(Column("sql", "sql", spare=0 if len(statements) > 1 else 3))
    if "event" in profile.by and any("files" in row for row in profile.rows):
        keys.append(Column("files", "files"))
    times = list(_TIMES)
    if any("count_share" in row for row in profile.rows):
        times.insert(_COUNT_SHARE_AT, Column("of waits", "count_share", "share", spare=3))
    hidden = [Column(None, name) for name in ("op", "idle") if name not in profile.by]
    return PrintedTable.of([*keys, *hidden, *times, *last], rows)


def _indented(row: dict[str, Any]) -> str | None:
    operation: str | None = row["operation"]
    return operation if operation is None else f"{_STEP * row['depth']}{operation}"


def _histograms(profile: Profile) -> list[PagePart]:
    """The latencies of each row as bars; several peaks with their likely cause."""
    from spillcast.storage.description import find_peaks, peaks_text, plausible_cause

    columns = {name: Column(name, name, _UNITS.get(name, "text")) for name in profile.by}
    parts: list[PagePart] = []
    for row, buckets in zip(profile.rows, profile.histograms, strict=False):
        if not sum(buckets[1]) or (row.get("idle") and "files" in row):
            continue
        title = ", ".join(column.written(row[name]) for name, column in columns.items())
        peaks = find_peaks(*buckets) if row["op"] is not None else []
        parts.append(histogram(f"  {title}", buckets, peaks))
        if len(peaks) > 1:
            lines = [f"  {peak_letters(peaks)}{peaks_text(peaks)}"]
            is_direct = str(row.get("event", "")).startswith("direct path")
            if cause := plausible_cause(peaks, "direct" if is_direct else "buffered"):
                lines.append(f"  {cause}")
            parts.append(Prose(lines))
    return parts


def sql_page(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Page:
    """The unchanged values of a query's result, under its column names."""
    has_text = [any(isinstance(row[at], str) for row in rows) for at in range(len(columns))]
    typed = zip(columns, has_text, strict=True)
    table = PrintedTable(
        [Column(name, name, "text" if text else "raw") for name, text in typed], rows
    )
    return Page([table], table)
