"""What a server loses by spilling, on one screen: the verdict, the statements, what is not seen."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from spillcast.engines.ranking import Gain, Ranked, ServerRanking
from spillcast.forecast.in_memory import in_memory_words, negligible
from spillcast.report.page import Commands, Page, Part, Words
from spillcast.report.table import Column, Table, saved_text
from spillcast.units import format_bytes, format_count, format_duration, format_setting
from spillcast.visible import one_line

#: Letters of a statement's text.
TEXT_MAX = 60
#: Sessions that are named.
LIVE_MAX = 3
NO_SPILL = "no spill"


def ranking_page(found: ServerRanking, top: int, *, per_day: bool = False) -> Page:
    """The verdict, a row a statement, what spills now, what could not be seen, what to do next."""
    scale = (found.per_day if per_day else None) or 1.0
    parts: list[Part] = [Words(_verdict(found, scale), indent="")]
    if found.is_blind and found.databases:
        parts.append(_databases(found))
    if found.statements:
        parts.append(_table(found, found.statements[:top], scale))
    if said := _notes(found, top, per_day=per_day):
        parts.append(Words(said))
    if found.enable:
        parts += [Words(["Enable pg_stat_statements, which counts statements:"])]
        parts.append(Commands(found.enable))
    if found.record is not None:
        parts.append(Words(["Next, record the first when it runs:"]))
        parts.append(Commands([found.record]))
    return Page(parts, _data(found))


def _verdict(found: ServerRanking, scale: float) -> list[str]:
    if found.is_blind:
        return _blind(found)
    count = len(found.statements)
    if not count:
        return [f"Nothing spills: {_whole(found)}."]
    spill = "spill" if count > 1 else "spills"
    of = format_count(count, "statement")
    if found.statements_seen:
        of = f"{count:,} of {format_count(found.statements_seen, 'statement')}"
    said = f"{of} {spill}, {_whole(found)}"
    timed = [one.temp_s for one in found.statements if one.temp_s is not None]
    if timed:
        low, high = (sum(bounds[at] for bounds in timed) for at in (0, 1))
        said += f": temp I/O takes {_span(low * scale, high * scale)}"
        said += " a day" if scale != 1.0 else ""
        if found.elapsed_s:
            shares = sorted({round(100 * s / found.elapsed_s) for s in (low, high)})
            said += f", {' to '.join(map(str, shares))} % of the time in statements"
    lines = [f"{said}."]
    first = found.statements[0]
    if first.no_spill is not None:
        gains = sorted(first.gains.items(), key=lambda one: -one[1].saved_s)
        cures = {_cure(first): first.no_spill}
        cures |= {name: gain for name, gain in gains if gain.without_cache_s is None}
        saved = "; ".join(f"{name} {_saved(gain, first, scale)}" for name, gain in cures.items())
        lines.append(f"Time that fixes save for the first: {saved}.")
        cached = {
            name: gain.without_cache_s for name, gain in gains if gain.without_cache_s is not None
        }
        if cached:
            lines += in_memory_words(cached, first.elapsed_s or 0.0)
    return lines


def _blind(found: ServerRanking) -> list[str]:
    """What databases have written is all that is counted, and bounds what it cost."""
    files, size = (
        sum(getattr(one, name) for one in found.databases) for name in ("temp_files", "temp_bytes")
    )
    if not size:
        return ["No database has written temp files; which statements spill is not counted."]
    lines = [
        f"Statements spill: {format_count(files, 'temp file')}, {format_bytes(size)} in "
        f"{format_count(len(found.databases), 'database')}. No forecast: which statements spill is "
        "not counted."
    ]
    active = [one.active_s for one in found.databases if one.active_s is not None]
    if active:
        lines.append(
            f"Their temp I/O took at most {format_duration(sum(active))}, for as long statements "
            "ran in these databases."
        )
    return lines


def _databases(found: ServerRanking) -> Table:
    names = list(dict.fromkeys(name for one in found.databases for name in one.spill_s))
    columns = [
        Column("database", None),
        Column("temp files", None, "count"),
        Column("written", None, "bytes"),
        Column("since", None, spare=1),
        Column("at most", None, "s"),
        *(Column(f"on {name.removeprefix('catalogue:')}", None, "s") for name in names),
    ]
    rows = [
        [
            one.name,
            one.temp_files,
            one.temp_bytes,
            None if one.since_s is None else _moment(one.since_s),
            one.active_s,
            *(one.spill_s.get(name) for name in names),
        ]
        for one in found.databases
    ]
    return Table(columns, rows)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _cure(one: Ranked) -> str:
    if one.work_mem_bytes is None:
        return "not spilling (more work_mem)"
    return f"work_mem {format_setting(one.work_mem_bytes)}"


def _whole(found: ServerRanking) -> str:
    if found.window_s is None:
        return "over an unknown time"
    return f"in {format_duration(found.window_s)}"


def _span(low_s: float, high_s: float) -> str:
    low, high = map(format_duration, (low_s, high_s))
    return low if low == high else f"{low} to {high}"


def _saved(gain: Gain, of: Ranked, scale: float) -> str:
    if negligible(gain.saved_s, of.elapsed_s or 0.0):
        return "about nothing"
    low, high = (saved_text(s * scale) for s in gain.interval_s)
    return f"{saved_text(gain.saved_s * scale)} ({low} to {high})"


def _table(found: ServerRanking, shown: Sequence[Ranked], scale: float) -> Table:
    """Sums as they were counted, or a day; a gain with its interval where there is room."""
    timed = any(one.temp_s is not None for one in shown)
    columns = [
        Column("statement", None),
        Column("calls" if scale == 1.0 else "calls a day", None, "whole", spare=1),
        Column("temp I/O", None, "bytes" if not timed else "s"),
        Column("share", None, "percent", spare=1),
    ]
    names = [*found.targets, NO_SPILL]
    for name in names:
        columns += [
            Column(name.removeprefix("catalogue:"), None, "saved"),
            Column(f"{100 * found.confidence:g} % interval", None, "saved interval", spare=2),
        ]
    columns.append(Column("work_mem", None))
    rows = []
    for one in shown:
        middle_s = None if one.temp_s is None else sum(one.temp_s) / 2
        share = None if middle_s is None or not one.elapsed_s else middle_s / one.elapsed_s
        temp = one.temp_bytes * scale if not timed else middle_s and middle_s * scale
        calls = None if one.calls is None else one.calls * scale
        row: list[Any] = [_text(one), calls, temp, share and min(share, 1.0)]
        for name in names:
            gain = one.no_spill if name == NO_SPILL else one.gains.get(name)
            row += [None, None] if gain is None else _cells(gain, one, scale)
        enough = one.work_mem_bytes
        rows.append([*row, None if enough is None else format_setting(enough)])
    return Table(columns, rows)


def _cells(gain: Gain, of: Ranked, scale: float) -> list[Any]:
    if negligible(gain.saved_s, of.elapsed_s or 0.0):
        return [0.0, None]
    low_s, high_s = gain.interval_s
    return [gain.saved_s * scale, (low_s * scale, high_s * scale)]


def _text(one: Ranked) -> str:
    return _shown(one.query or "(hidden)")


def _shown(query: str) -> str:
    return one_line(query, TEXT_MAX)


def _notes(found: ServerRanking, top: int, *, per_day: bool) -> list[str]:
    said = []
    if found.statements:
        sums = "all calls that were counted"
        if per_day:
            sums = f"a day, extrapolated from {_whole(found).removeprefix('in ')}"
            sums = sums if found.per_day else "not by day: the time of the counts is not known"
        said.append(f"  temp I/O and what each fix saves: elapsed time, {sums}")
    if found.is_blind and found.databases:
        said.append("  at most: how long statements ran in the database")
        if any(one.spill_s for one in found.databases):
            said.append("  on a storage: all of it written once and read once, a block at a time")
    if (more := len(found.statements) - top) > 0:
        said.append(f"  and {more:,} more: --top {len(found.statements)}")
    for one in found.live[:LIVE_MAX]:
        text = _shown(one.query)
        size, since = format_bytes(one.temp_bytes), format_duration(one.running_s)
        said.append(f"  now: pid {one.pid}, {size} of temp files after {since}: {text}")
    refused = dict.fromkeys(one.refused for one in found.statements[:top] if one.refused)
    said += [f"  no forecast: {text}" for text in refused]
    said += [f"  not available: {text}" for text in found.unseen]
    if found.asked_s is not None:
        said.append(f"  queries on the server took {format_duration(found.asked_s)}")
    return said


_COLUMNS = (
    *(Column(None, name) for name in ("queryid", "query")),
    Column(None, "calls", "count"),
    Column(None, "elapsed_s", "s"),
    Column(None, "temp_bytes", "bytes"),
    *(Column(None, name, "s") for name in ("temp_low_s", "temp_high_s")),
    Column(None, "cure"),
    *(Column(None, name, "s") for name in ("saved_s", "low_s", "high_s")),
    Column(None, "work_mem_bytes", "bytes"),
    Column(None, "refused"),
)


def _data(found: ServerRanking) -> Table:
    """A row for each statement and cure; sums of the time looked at."""
    rows: list[list[Any]] = []
    for one in found.statements:
        low_s, high_s = one.temp_s or (None, None)
        head = [one.queryid, one.query, one.calls, one.elapsed_s, one.temp_bytes, low_s, high_s]
        cures = {**one.gains, **({NO_SPILL: one.no_spill} if one.no_spill else {})}
        for name, gain in cures.items():
            rows.append(
                [*head, name, gain.saved_s, *gain.interval_s, one.work_mem_bytes, one.refused]
            )
        if not cures:
            rows.append([*head, *[None] * 4, one.work_mem_bytes, one.refused])
    return Table(_COLUMNS, rows)
