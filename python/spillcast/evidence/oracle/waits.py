"""Waits for temp files by event: rows of views of waits, and shares of samples of an ASH report."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceUnsuited, NoTempIo
from spillcast.evidence.choice import Item, Selection, pick
from spillcast.evidence.counts import (
    OPERATION_BLOCKS,
    OPERATION_BYTES,
    Bounds,
    Counts,
    TempTimes,
    counts_of_figures,
    printed,
    uncounted,
)
from spillcast.evidence.numbers import (
    ZERO,
    Held,
    Number,
    hold,
    number_of,
    rounded_number,
    value_of,
)
from spillcast.evidence.oracle.report_tables import (
    FIGURES,
    Table,
    check_all_read,
    report_text,
    tables_of,
)
from spillcast.evidence.oracle.spooled import Row, spooled_of, table_lines
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.units import format_duration

HOW_VIEWS = (
    "export event, total_waits and time_waited_micro of v$session_event where sid = ..., with set "
    "markup csv on"
)
_NAMES = (
    *("sid", "session_id", "inst_id", "event", "total_waits", "time_waited_micro", "time_waited"),
    *("average_wait", "wait_time_milli", "wait_time_micro", "wait_count"),
)
#: Columns of a session, or of all sessions of an instance.
_OWNERS = ("inst_id", "sid", "session_id")
_RULE = re.compile(r"\s*-+(\s+-+)+\s*")
#: Waits and their seconds.
Waited = tuple[float, Number]


def read_views(paths: Sequence[Path], selection: Selection) -> Counts:
    """The waits of one session, or of an instance. InputError where none is for temp files."""
    (path,) = paths
    by_owner: dict[str, dict[str, Waited]] = {}
    for row in _rows(path):
        owner = " ".join(str(row[name]) for name in _OWNERS if row.get(name))
        event = (row.get("event") or "").lower()
        if is_like(event, TEMP_EVENTS) and event.split()[2] in OPS:
            waits = by_owner.setdefault(owner, {})
            former = waits.get(event.split()[2], (0.0, ZERO))
            waited = _waited(path, row)
            waits[event.split()[2]] = former[0] + waited[0], former[1] + waited[1]
    items: list[Item[Mapping[str, Waited]]] = [
        Item(waits, sum(total.value for _, total in waits.values()), session=owner or None)
        for owner, waits in by_owner.items()
    ]
    if not items:
        raise NoTempIo(f"{path}: none of its events is a wait for temp files: it did not spill")
    return _figures(path, pick(path, items, selection), selection)


def _figures(path: Path, waits: Mapping[str, Waited], selection: Selection) -> Counts:
    counts = {op: round(waits[op][0]) if op in waits else 0 for op in OPS}
    if "write" not in waits:
        raise EvidenceIncomplete(
            f"{path}: it lacks the row of direct path write temp: what is read was written",
            HOW_VIEWS,
        )
    times = printed(*(waits[op][1] if op in waits else None for op in OPS))
    size = OPERATION_BLOCKS * selection.block_bytes
    return counts_of_figures(
        path,
        selection,
        times.moved(counts, {op: count * size for op, count in counts.items()}),
        elapsed_s=0.0,
        elapsed_unknown="the view has waits since the session or the instance began",
        notes=[
            "views of waits count all that a session or an instance did since it began",
            f"they have no blocks: each I/O is assumed to move {OPERATION_BLOCKS}",
        ],
    )


def _rows(path: Path) -> Iterator[Row]:
    lines = table_lines(path, HOW_VIEWS)
    spooled = spooled_of(path, lines, {name: name for name in _NAMES})
    present = spooled.columns.keys()
    counted = {"event", "total_waits"} <= present and present & {"time_waited_micro", "time_waited"}
    if not counted and not ("wait_count" in present and "event" in present):
        lacks = {"event", "total_waits", "time_waited_micro"} - present
        raise EvidenceIncomplete(
            f"{path}: it lacks the column {min(lacks, default='EVENT').upper()}", HOW_VIEWS
        )
    for damage in spooled.damaged:
        # Words around the table are none of its rows.
        if FIGURES.search(lines[damage.line - 1]):
            raise EvidenceDamaged(f"{path}: line {damage.line}: {damage.text}", HOW_VIEWS)
    rule = next((len(line.rstrip()) for line in lines if _RULE.fullmatch(line)), 0)
    for line in lines:
        # Numbers stand at the right end of their column.
        if FIGURES.search(line) and len(line.rstrip()) < rule:
            raise EvidenceDamaged(f"{path}: it is cut: {' '.join(line.split())}", HOW_VIEWS)
    yield from spooled.rows


def _waited(path: Path, row: Row) -> Waited:
    """A row's waits and their time; of a histogram between the bounds of its bucket."""
    if row.get("wait_count") is not None:
        count = _number(path, row, "wait_count").value
        name, scale = ("wait_time_micro", 1e-6)
        if row.get(name) is None:
            name, scale = "wait_time_milli", 1e-3
        upper = _number(path, row, name).value * scale
        # Buckets double; the first one begins at nothing.
        lower = upper / 2 if upper > scale else 0.0
        return count, Number((lower + upper) / 2, lower, upper) * count
    count = _number(path, row, "total_waits").value
    if row.get("time_waited_micro") is not None:
        return count, _number(path, row, "time_waited_micro") * 1e-6
    total = _number(path, row, "time_waited") * 0.01
    if row.get("average_wait") is not None:
        mean = _number(path, row, "average_wait") * 0.01
        words = f"{count:,.0f} waits of {format_duration(mean.value)}"
        total_text = f"{format_duration(total.value)} in all"
        hold(path, [Held("count-mean-total", mean * count, words, total, total_text)], HOW_VIEWS)
    return count, total


def _number(path: Path, row: Row, name: str) -> Number:
    text = row.get(name) or ""
    # Microseconds and counts are whole; hundredths of a second are rounded.
    rounded = name in ("time_waited", "average_wait")
    number = rounded_number(text) if rounded else number_of(text)
    if number is None:
        raise EvidenceDamaged(f"{path}: {name.upper()} is {text!r}, not a number", HOW_VIEWS)
    return number


HOW_SHARES = "export the rows of ASH themselves: spillcast collect oracle"
_MINUTES = re.compile(r"Elapsed Time:\s*([\d,.]+)\s*\(mins?\)", re.IGNORECASE)
_ACTIVE = re.compile(r"Average Active Sessions:\s*([\d,.]+)", re.IGNORECASE)
#: Beside the title of each section of a report of less than a day.
_FROM_TO = re.compile(r"\(\w{3} \d+ (\d\d):(\d\d) to (\d\d):(\d\d)\)")
_EVENT = ("event", "wait_chain")
_TEMP = r"direct path (?:read|write) temp"


@dataclass(frozen=True)
class Share:
    """An event's part of all samples; its seconds or active sessions, None if not printed."""

    event: str
    percent: float
    total_s: float | None
    sessions: float | None


def read_shares(paths: Sequence[Path], selection: Selection) -> Counts:
    """The share of temp waits. InputError where there is none, or nothing tells the time in all."""
    (path,) = paths
    text = report_text(path, HOW_SHARES)
    tables = tables_of(path, text, HOW_SHARES)
    within = {at for table in tables for at in range(table.first, table.last)}
    check_all_read(path, text.splitlines(), within, HOW_SHARES)
    shares = list(_shares(tables))
    temp = [share for share in shares if is_like(share.event, TEMP_EVENTS)]
    if not temp:
        if re.search(_TEMP, text, re.IGNORECASE):
            message = f"{path}: its waits for temp files are in no table that is understood"
            raise EvidenceDamaged(message, HOW_SHARES)
        raise NoTempIo(f"{path}: none of its events is a wait for temp files", HOW_SHARES)
    database_s = _database_s(text, shares)
    if not database_s:
        raise EvidenceUnsuited(
            f"{path}: it does not tell how long the database was busy", HOW_SHARES
        )
    times = {op: 0.0 for op in OPS}
    for share in temp:
        times[share.event.lower().split()[2]] += share.percent / 100 * database_s
    total_s = sum(times.values())
    low_s = max(0.0, total_s - database_s * 0.005 * len(temp))
    time_bounds = Bounds(low_s, 2 * total_s - low_s, "shares of samples, rounded", HOW_SHARES)
    temp_io = uncounted(
        TempTimes(times["read"], times["write"], time_bounds),
        {op: round(time_s) for op, time_s in times.items()},
        {},
        OPERATION_BYTES,
        "samples of waits for temp files have no counts of them",
        HOW_SHARES,
    )
    return counts_of_figures(
        path,
        selection,
        temp_io,
        elapsed_s=database_s,
        subject="the time of all sessions",
        notes=["this is for the time of all sessions together, as far as samples tell it"],
    )


def _shares(tables: Sequence[Table]) -> Iterator[Share]:
    """The rows of the first table of events that has percentages."""
    for table in tables:
        event = next((name for name in table.names if re.sub(r"\W", "", name) in _EVENT), None)
        percent = next((n for n in table.names if n in ("%this", "%event", "%activity")), None)
        if event is None or percent is None:
            continue
        seconds, sessions = table.named("seconds"), table.named("activesessions")
        for row in table.rows:
            number = number_of(row.get(percent, "").strip("| "))
            if number is not None:
                total_s, active = (
                    value_of(number_of(row.get(name or "", ""))) for name in (seconds, sessions)
                )
                # A chain of waits begins with that of the session itself.
                first = row[event].strip("| ").removeprefix("->").partition("->")[0]
                yield Share(first.strip(), number.value, total_s, active)
        return


def _database_s(text: str, shares: Sequence[Share]) -> float | None:
    """From the row of the largest share, or from active sessions times elapsed time."""
    largest = max(shares, key=lambda share: share.percent)
    if largest.total_s and largest.percent:
        return 100 * largest.total_s / largest.percent
    minutes, active = (
        value_of(number_of(match[1])) if (match := pattern.search(text)) else None
        for pattern in (_MINUTES, _ACTIVE)
    )
    if minutes is None and (match := _FROM_TO.search(text)):
        first, last = (60 * int(match[at]) + int(match[at + 1]) for at in (1, 3))
        minutes = float((last - first) % (24 * 60))
    if active is None and largest.sessions and largest.percent:
        active = 100 * largest.sessions / largest.percent
    return None if minutes is None or active is None else 60 * minutes * active
