"""A server's spills over time: sums by day or hour, what changed, alerts, and a saved look."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from spillcast.engines.history import Alert, Change, History
from spillcast.engines.ranking import ServerRanking
from spillcast.report.page import Page, Part, Words, bar
from spillcast.report.table import Column, Table
from spillcast.text import one_line
from spillcast.units import format_bytes, format_count, format_duration

#: Letters of a statement's text, changes that are listed, and columns of the longest bar.
TEXT_MAX, CHANGES_MAX, EVENTS_MAX = 60, 8, 8
_BAR = 24
_BUCKET_NAMES = {86_400.0: "day", 3600.0: "hour"}
_CAUSES = {
    "version": "another version of PostgreSQL",
    "setting": "a changed setting",
    "rows": "other numbers of rows",
    "plan": "another plan",
    "statement": "a new statement",
}


def history_parts(ranking: ServerRanking, history: History) -> list[Part]:
    """What exceeds a limit, what changed, and the sums by time."""
    lines = [f"  {alert_text(alert)}" for alert in history.alerts]
    lines += [f"  {change_text(change)}" for change in history.changes[:CHANGES_MAX]]
    parts: list[Part] = [Words(lines)]
    if history.buckets:
        parts.append(bucket_table(ranking, history, bars=True))
    return parts


def history_notes(history: History) -> list[str]:
    """What limits the history, and what happened to the server."""
    looks = format_count(history.looks, "look")
    lines = [f"  {looks}, {moment(history.first_s)} to {moment(history.last_s)}, "
             f"PostgreSQL {history.version}"]  # fmt: skip
    lines += [f"  {moment(event.at_s)}: {event.note}" for event in history.events[-EVENTS_MAX:]]
    if (more := len(history.events) - EVENTS_MAX) > 0:
        lines.append(f"  and {format_count(more, 'event')} before; --json lists all")
    if history.lower_bounds:
        count = format_count(history.lower_bounds, "statement")
        lines.append(f"  at least: counters of {count} began anew between two looks")
    if history.earlier_calls:
        count = format_count(history.earlier_calls, "statement")
        lines.append(f"  calls of {count} may include some from before its first spill")
    if len(history.changes) > CHANGES_MAX:
        lines.append(f"  {len(history.changes) - CHANGES_MAX} more changes; --json lists them")
    return lines


def moment(unix_s: float) -> str:
    """A moment in UTC."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"


def change_statement(change: Change) -> str:
    """The beginning of a statement's text, or its identifier."""
    return one_line(change.query or f"queryid {change.queryid}", TEXT_MAX)


def change_text(change: Change) -> str:
    """What changed about a statement, since when, and the evidence for a cause."""
    statement = change_statement(change)
    size = format_bytes(change.bytes_per_call)
    since = f"since {moment(change.after_s)}"
    if change.kind == "new":
        known = f": {', '.join(change.evidence)}" if change.evidence else ""
        return f"new {since}: {statement} spills {size} a call{known}"
    slowly = "gradually " if change.is_gradual else ""
    cause = _CAUSES.get(change.cause or "", "the counters do not show why")
    evidence = ", ".join(change.evidence)
    return (
        f"{change.kind} {since}: a call of {statement} spills {slowly}{change.ratio:.2g} times as "
        f"much ({size}): {cause} ({evidence})"
    )


def alert_text(alert: Alert) -> str:
    """Whether a rule's limit is exceeded."""
    if alert.rate is None:
        return f"alert unknown: {alert.rule}: no recent look tells"
    measure, _, per = alert.rule.partition(">")[0].strip().lower(), *alert.rule.rpartition("/")[1:]
    written = {"temp": format_bytes, "time": format_duration}.get(measure, "{:,.0f}".format)
    state = "exceeded" if alert.exceeded else "met"
    return f"alert {state}: {alert.rule}: {written(alert.rate)}/{per.strip()}"


def bucket_table(ranking: ServerRanking, history: History, *, bars: bool = False) -> Table:
    """A row for each day, hour or minutes: what was written, and by which statement most."""
    name = _BUCKET_NAMES.get(history.bucket_s, "from")
    texts = {s.queryid: one_line(s.query or s.queryid or "", TEXT_MAX) for s in ranking.statements}
    columns = [
        Column(f"{name} (UTC)", "start", "raw"),
        Column("covered", "covered_s", "s", spare=2),
        Column("temp files", "temp_files", "count", spare=1),
        Column("written", "written_bytes", "bytes"),
        Column("temp I/O", "temp_bytes", "bytes"),
        *([Column("", None, spare=2)] if bars else []),
        Column("top statement", "statement", spare=1),
    ]
    longest = max((bucket.temp_bytes for bucket in history.buckets), default=0) or 1
    rows = []
    for bucket in history.buckets:
        first = bucket.statements[0].queryid if bucket.statements else None
        drawn = [bar(bucket.temp_bytes / longest, _BAR)] if bars else []
        rows.append([
            bucket.start, bucket.covered_s, bucket.temp_files, bucket.written_bytes,
            bucket.temp_bytes, *drawn, None if first is None else texts.get(first, first),
        ])  # fmt: skip
    return Table(columns, rows)


def saved_page(saved: Mapping[str, Any]) -> Page:
    """Where a look was saved, and what it holds."""
    lines = [
        f"{saved['server']}: {format_count(saved['statements'], 'statement')} that spilled",
        f"  {saved['path']}: {format_bytes(saved['bytes'])}",
        f"  the queries on the server took {format_duration(saved['asked_s'])}",
        *(f"  not available: {text}" for text in saved["unseen"]),
    ]
    keys = ("server", "path", "bytes", "statements", "asked_s")
    return Page([Words(lines)], Table.of_records([saved], keys))
