"""Servers: the statements that lose most time by spilling, their history, and saved snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spillcast.engines.ranking import Change, Gain, Ranked, ServerRanking, SpillHistory
from spillcast.evidence.postgres.work_memory import SORT_TIMES_MAX
from spillcast.fleet.snapshots import LiveSession
from spillcast.forecast.verdict import in_memory_sentences, notable_s
from spillcast.report import Commands, Page, PagePart, Prose, bar
from spillcast.tabular import Column, PrintedTable, saved_text
from spillcast.text import one_line, sentence
from spillcast.units import (
    DAY_S,
    format_bytes,
    format_count,
    format_duration,
    format_interval,
    format_setting,
)

#: Maximum length of a statement's text, in characters.
TEXT_MAX = 60
#: Maximum number of listed sessions, and of listed statements that failed.
LIVE_MAX, FAILED_MAX = 3, 5
NO_SPILL = "no spill"
#: Windows of fewer days are written in hours.
_DAYS_MIN = 2


def ranking_page(ranking: ServerRanking, top: int, *, per_day: bool = False) -> Page:
    """The verdict, a row for each statement, current spills, missing evidence, and next steps."""
    history = ranking.history
    scale = (ranking.per_day if per_day else None) or 1.0
    parts: list[PagePart] = [Prose(_verdict(ranking, scale), indent="")]
    if ranking.is_blind and ranking.databases:
        parts.append(_databases(ranking))
    if history is not None:
        parts += history_parts(ranking, history)
    if ranking.statements:
        parts.append(_table(ranking, ranking.statements[:top], scale))
    lines = _notes(ranking, top, per_day=per_day)
    lines += [] if history is None else history_notes(history)
    parts.append(Prose(lines))
    if ranking.record is not None:
        when = "the first when it runs" if ranking.outlasting is None else "what spills now"
        parts += [Prose([f"Next, record {when}:"]), Commands([ranking.record])]
    if ranking.enable:
        words = Prose(["Enable pg_stat_statements, which counts statements:"])
        parts += [words, Commands(ranking.enable)]
    return Page(parts, _data(ranking))


def histories_page(rankings: Sequence[ServerRanking], top: int, *, per_day: bool) -> Page:
    """The page of each server; several servers have their names as headings."""
    pages = [ranking_page(ranking, top, per_day=per_day) for ranking in rankings]
    parts: list[PagePart] = []
    for ranking, page in zip(rankings, pages, strict=True):
        parts += [Prose([f"{ranking.source}:"]), *page.parts] if len(pages) > 1 else page.parts
    columns = [Column(None, "server"), *pages[0].data.columns]
    rows = [
        [ranking.source, *row]
        for ranking, page in zip(rankings, pages, strict=True)
        for row in page.data.rows
    ]
    return Page(parts, PrintedTable(columns, rows))


def _verdict(ranking: ServerRanking, scale: float) -> list[str]:
    longest = ranking.outlasting
    now = [] if longest is None else [f"Session {longest.pid} spills now: {_temp_text(longest)}."]
    if ranking.is_blind:
        return now + _blind(ranking)
    count, window = len(ranking.statements), f"counted over {window_text(ranking.window_s)}"
    if not count:
        text = "Nothing else spills" if now else "Nothing spills"
        text = "Calls failed at a limit of their temp files" if ranking.exceeded else text
        return [*now, f"{text}, {window}."]
    statements = format_count(count, "statement")
    if ranking.statements_seen:
        statements = f"{count:,} of {format_count(ranking.statements_seen, 'statement')}"
    text = f"{statements} {'spill' if count > 1 else 'spills'}, {window}"
    timed = [statement.temp_s for statement in ranking.statements if statement.temp_s is not None]
    if timed:
        bounds_s = [sum(ends_s) for ends_s in zip(*timed, strict=True)]
        text += f": temp I/O takes {_span(s * scale for s in bounds_s)}"
        text += " a day" if scale != 1.0 else ""
        if ranking.elapsed_s:
            shares = sorted({round(100 * s / ranking.elapsed_s) for s in bounds_s})
            text += f", {' to '.join(map(str, shares))} % of the time in statements"
    lines = [*now, f"{text}."]
    first = ranking.statements[0]
    if first.no_spill is not None:
        lines.append(f"First statement: {fixes_text(first, ranking.memory, scale)}.")
        uncached_s = {name: gain.without_cache_s for name, gain in _by_saving(first)}
        if cached := {name: s for name, s in uncached_s.items() if s is not None}:
            at_most = "at most " if first.temp_bytes is None else ""
            lines += in_memory_sentences(cached, first.elapsed_s or 0.0, at_most)
    return lines


def fixes_text(ranked: Ranked, memory: str, scale: float = 1.0) -> str:
    """The saving by each fix of a statement with a forecast, with its interval."""
    assert ranked.no_spill is not None
    no_spill = f"more {ranked.memory or memory}"
    if ranked.work_mem_bytes is not None:
        no_spill = f"work_mem {format_setting(ranked.work_mem_bytes)}"
    gains = {no_spill: ranked.no_spill}
    by_target = _by_saving(ranked)
    gains |= {_storage_name(name): gain for name, gain in by_target if gain.without_cache_s is None}
    texts = []
    for fix, gain in gains.items():
        saved, bounds = _saving_cells(gain, ranked, scale, nothing="about nothing")
        verb = "saves" if bounds is None or gain.saved_s >= 0 else "is"
        texts.append(f"{fix} {verb} {saved}{'' if bounds is None else f' ({bounds})'}")
    return "; ".join(texts)


def _storage_name(target: str) -> str:
    """``aws-gp3``, or ``10x faster storage`` for ``factor:10``."""
    kind, _, value = target.partition(":")
    return f"{value}x faster storage" if kind == "factor" else target.removeprefix("catalogue:")


def _by_saving(ranked: Ranked) -> list[tuple[str, Gain]]:
    return sorted(ranked.gains.items(), key=lambda item: -item[1].saved_s)


def _temp_text(session: LiveSession) -> str:
    size, since = format_bytes(session.temp_bytes), format_duration(session.running_s)
    return f"{size} of temp files after {since}"


def _blind(ranking: ServerRanking) -> list[str]:
    files = sum(database.temp_files for database in ranking.databases)
    size = sum(database.temp_bytes for database in ranking.databases)
    if not size:
        written = "" if ranking.live else "No database has written temp files; "
        return [sentence(f"{written}which statements spill is not counted")]
    written = f"{format_count(files, 'temp file')}, {format_bytes(size)}"
    databases = format_count(len(ranking.databases), "database")
    lines = [
        f"Statements spill: {written} in {databases}. No forecast: which statements spill is not "
        "counted."
    ]
    if active_s := [d.active_s for d in ranking.databases if d.active_s is not None]:
        most = format_duration(sum(active_s))
        lines.append(
            f"Their temp I/O took at most {most}, the time of all statements in these databases."
        )
    return lines


def _databases(ranking: ServerRanking) -> PrintedTable:
    names = list(dict.fromkeys(name for database in ranking.databases for name in database.spill_s))
    columns = [
        Column("database", "name"),
        Column("temp files", "temp_files", "count"),
        Column("written", "temp_bytes", "bytes"),
        Column("since", "since", spare=1),
        Column("at most", "active_s", "s"),
        *(Column(f"on {name.removeprefix('catalogue:')}", name, "s") for name in names),
    ]
    records = [
        {**d.spill_s, **vars(d), "since": d.since_s and moment(d.since_s)}
        for d in ranking.databases
    ]
    return PrintedTable.of(columns, records)


def window_text(seconds: float | None) -> str:
    """The length of the window in which calls were counted, in days if long."""
    if seconds is None:
        return "an unknown time"
    days = seconds / DAY_S
    return f"{days:.3g} days" if days >= _DAYS_MIN else format_duration(seconds)


def _span(bounds_s: Iterable[float]) -> str:
    return " to ".join(dict.fromkeys(map(format_duration, bounds_s)))


def _table(ranking: ServerRanking, shown: Sequence[Ranked], scale: float) -> PrintedTable:
    """A row for each statement: the counts, times ``scale``, and the saving by each fix."""
    timed = any(ranked.temp_mean_s is not None or ranked.temp_bytes is None for ranked in shown)
    columns = [
        Column("statement", None),
        Column("calls" if scale == 1.0 else "calls a day", None, "integer", spare=1),
        Column("temp I/O", None, "raw" if timed else "bytes"),
        Column("share", None, "percent", spare=1),
        Column("disk tables", None, "integer"),
        Column("merge passes", None, "integer"),
    ]
    names = [*ranking.targets, NO_SPILL]
    # Bounds need much width, so they are wrapped rather than left out.
    unit = "words" if any(ranked.is_bounded for ranked in shown) else "raw"
    for name in names:
        columns += [
            Column(_storage_name(name), None, unit),
            Column(f"{100 * ranking.confidence:g} % interval", None, "raw", spare=2),
        ]
    columns += [Column("work_mem", None), Column("memory", None)]
    rows = []
    for ranked in shown:
        temp_s, elapsed_s = ranked.temp_mean_s, ranked.elapsed_s
        share = None if temp_s is None or not elapsed_s else temp_s / elapsed_s
        temp: Any = (ranked.temp_bytes or 0) * scale
        if timed:
            bounds_s = ranked.temp_s if temp_s is None else (temp_s,)
            temp = bounds_s and _span(s * scale for s in bounds_s)
        row: list[Any] = [
            _short(ranked.name),
            None if ranked.calls is None else ranked.calls * scale,
            *(temp, share and min(share, 1.0), ranked.disk_tables, ranked.merge_passes),
        ]
        for name in names:
            gain = ranked.no_spill if name == NO_SPILL else ranked.gains.get(name)
            row += (None, None) if gain is None else _saving_cells(gain, ranked, scale)
        peak = ranked.memory_between
        rows.append([*row, _work_mem(ranked), peak and " to ".join(map(format_bytes, peak))])
    return PrintedTable(columns, rows)


def _work_mem(ranked: Ranked) -> str | None:
    """The work_mem with which a statement does not spill, or its bounds; None if unknown."""
    if ranked.work_mem_bytes is not None:
        return format_setting(ranked.work_mem_bytes)
    if not ranked.work_mem_between:
        return None
    low, high = ranked.work_mem_between
    of = "" if ranked.memory is None else f" of {ranked.memory}"
    least, most = format_setting(low), "or more" if high is None else f"to {format_setting(high)}"
    return f"{least} {most}{of}"


def _saving_cells(
    gain: Gain, ranked: Ranked, scale: float, nothing: str = saved_text(0.0)
) -> tuple[str, str | None]:
    """A saving and its interval; only the interval if the statement has only bounds.

    Below 0 the statement becomes slower.
    """
    values_s = gain.interval_s if ranked.is_bounded else (gain.saved_s,)
    if not any(notable_s(value_s, ranked.elapsed_s or 0.0) for value_s in values_s):
        return nothing, None
    bounds = format_interval([bound_s * scale for bound_s in gain.interval_s])
    return (bounds, None) if ranked.is_bounded else (saved_text(gain.saved_s * scale), bounds)


def _short(query: str) -> str:
    return one_line(query, TEXT_MAX)


def _notes(ranking: ServerRanking, top: int, *, per_day: bool) -> list[str]:
    lines = []
    if ranking.statements:
        sums = "all calls that were counted"
        if per_day and ranking.per_day:
            sums = f"a day, extrapolated from {window_text(ranking.window_s)}"
        elif per_day:
            sums = "not by day: the time of the counts is not known"
        slower = "; negative: slower" if any(s.gains for s in ranking.statements) else ""
        lines.append(f"  temp I/O and what each fix saves: elapsed time, {sums}{slower}")
    if ranking.is_blind and ranking.databases:
        lines.append("  at most: how long statements ran in the database")
        if any(statement.spill_s for statement in ranking.databases):
            lines.append("  on a storage: all of it written once and read once, by one process")
    if (more := len(ranking.statements) - top) > 0:
        lines.append(f"  and {more:,} more: --top {len(ranking.statements)}")
    for session in ranking.live[:LIVE_MAX]:
        text = f"{_temp_text(session)}: {_short(session.query)}"
        lines.append(f"  now: pid {session.pid}, {text}")
    if any(statement.work_mem_between for statement in ranking.statements[:top]):
        lines.append(
            "  work_mem: by the sizes of temp files alone: a sort needs at least its file, at most "
            f"{SORT_TIMES_MAX} times that; a hash, or a sort with LIMIT, may need less"
        )
    if any(statement.memory_between for statement in ranking.statements[:top]):
        lines.append(
            "  memory: with a limit of so much nothing spills, by the peak of the query and what "
            "it wrote uncompressed"
        )
    for failure in ranking.exceeded[:FAILED_MAX]:
        calls, text = format_count(failure.calls, "call"), _short(failure.query or "(not known)")
        lines.append(f"  failed: {calls} spilled more than {failure.limit} allows: {text}")
    refused = dict.fromkeys(
        statement.refused for statement in ranking.statements[:top] if statement.refused
    )
    lines += [f"  no forecast: {text}" for text in refused]
    lines += [f"  not available: {note.message}" for note in ranking.unseen]
    if ranking.asked_s is not None:
        lines.append(f"  spillcast's own queries took {format_duration(ranking.asked_s)}")
    return lines


_DATA_KEYS = (
    *("queryid", "query", "calls", "elapsed_s", "temp_bytes", "temp_low_s", "temp_high_s", "fix"),
    *("saved_s", "low_s", "high_s", "work_mem_bytes", "refused"),
)


def _data(ranking: ServerRanking) -> PrintedTable:
    """A row for each statement and fix; sums over the time in which calls were counted."""
    records: list[dict[str, Any]] = []
    for statement in ranking.statements:
        low_s, high_s = statement.temp_s or (None, None)
        record = vars(statement) | {"temp_low_s": low_s, "temp_high_s": high_s}
        gains = dict(statement.gains)
        if statement.no_spill is not None:
            gains[NO_SPILL] = statement.no_spill
        if not gains:
            records.append(record)
        for fix, gain in gains.items():
            # A statement with bounds has no estimate.
            saved_s = None if statement.is_bounded else gain.saved_s
            records.append(record | {"fix": fix, "saved_s": saved_s, "interval_s": gain.interval_s})
    return PrintedTable.of_records(records, _DATA_KEYS)


#: Maximum numbers of listed changes and events, and of columns of a bar.
CHANGES_MAX, EVENTS_MAX, _BAR_MAX = 8, 8, 24
_BUCKET_NAMES = {86_400.0: "day", 3600.0: "hour"}
_CAUSES = {
    "version": "another version of PostgreSQL",
    "setting": "a changed setting",
    "rows": "other numbers of rows",
    "plan": "another plan",
    "statement": "a new statement",
}


def history_parts(ranking: ServerRanking, history: SpillHistory) -> list[PagePart]:
    """Alerts, changes, and the table of sums by time."""
    lines = [f"  {alert.text}" for alert in history.alerts]
    lines += [f"  {change_text(change)}" for change in history.changes[:CHANGES_MAX]]
    parts: list[PagePart] = [Prose(lines)]
    if history.buckets:
        parts.append(bucket_table(ranking, history, bars=True))
    return parts


def history_notes(history: SpillHistory) -> list[str]:
    """The extent of the history, events of the server, and weaknesses of the numbers."""
    snapshots = format_count(history.looks, "snapshot")
    extent = f"{moment(history.first_s)} to {moment(history.last_s)}"
    lines = [f"  {snapshots}, {extent}, PostgreSQL {history.version}"]
    lines += [f"  {moment(event.at_s)}: {event.note}" for event in history.events[-EVENTS_MAX:]]
    if (more := len(history.events) - EVENTS_MAX) > 0:
        lines.append(f"  and {format_count(more, 'event')} before; --json lists all")
    if history.lower_bounds:
        count = format_count(history.lower_bounds, "statement")
        lines.append(f"  at least: counters of {count} were reset between two snapshots")
    if history.earlier_calls:
        count = format_count(history.earlier_calls, "statement")
        lines.append(f"  calls of {count} may include some from before the first spill")
    if len(history.changes) > CHANGES_MAX:
        lines.append(f"  {len(history.changes) - CHANGES_MAX} more changes; --json lists them")
    return lines


def moment(unix_s: float) -> str:
    """A moment in UTC."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"


def change_statement(change: Change) -> str:
    """The beginning of a statement's text, or its identifier."""
    return _short(change.query or f"queryid {change.queryid}")


def change_text(change: Change) -> str:
    """The change of a statement, its start, and the evidence for a cause."""
    statement = change_statement(change)
    size = format_bytes(change.bytes_per_call)
    since = f"since {moment(change.after_s)}"
    if change.kind == "new":
        evidence = f": {', '.join(change.evidence)}" if change.evidence else ""
        return f"new {since}: {statement} spills {size} a call{evidence}"
    gradually = "gradually " if change.is_gradual else ""
    cause = _CAUSES.get(change.cause or "", "the counters do not show why")
    evidence = ", ".join(change.evidence)
    return (
        f"{change.kind} {since}: a call of {statement} spills {gradually}{change.ratio:.2g} times "
        f"as much ({size}): {cause} ({evidence})"
    )


def bucket_table(
    ranking: ServerRanking, history: SpillHistory, *, bars: bool = False
) -> PrintedTable:
    """A row for each day, hour or some minutes: bytes written, and the largest statement."""
    name = _BUCKET_NAMES.get(history.bucket_s, "from")
    texts = {s.queryid: _short(s.query or s.queryid or "") for s in ranking.statements}
    columns = [
        Column(f"{name} (UTC)", "start", "raw"),
        Column("covered", "covered_s", "s", spare=2),
        Column("temp files", "temp_files", "count", spare=1),
        Column("written", "written_bytes", "bytes"),
        Column("temp I/O", "temp_bytes", "bytes"),
        Column("", "bar", spare=2),
        Column("top statement", "statement", spare=1),
    ]
    largest = max((bucket.temp_bytes for bucket in history.buckets), default=0) or 1
    rows: list[dict[str, Any]] = []
    for bucket in history.buckets:
        first = bucket.statements[0].queryid if bucket.statements else None
        drawn_bar = bar(bucket.temp_bytes / largest, _BAR_MAX) if bars else None
        top = first and texts.get(first, first)
        rows.append(vars(bucket) | {"bar": drawn_bar, "statement": top})
    return PrintedTable.of(columns, rows)


def saved_page(saved: Mapping[str, Any]) -> Page:
    """The path and the contents of a saved snapshot."""
    lines = [
        f"{saved['server']}: {format_count(saved['statements'], 'statement')} that spilled",
        f"  {saved['path']}: {format_bytes(saved['bytes'])}",
        f"  the queries on the server took {format_duration(saved['asked_s'])}",
        *(f"  not available: {note['message']}" for note in saved["unseen"]),
    ]
    keys = ("server", "path", "bytes", "statements", "asked_s")
    return Page([Prose(lines)], PrintedTable.of_records([saved], keys))
