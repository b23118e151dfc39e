"""Reads shares of samples by wait event: of a report of ASH, or of a query that counts them."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceUnsuited, NoTempIo
from spillcast.evidence.counts import (
    OPERATION_BYTES,
    Bounds,
    Counts,
    TempTimes,
    counts_of_figures,
    with_count_bounds,
)
from spillcast.evidence.numbers import (
    FigureCheck,
    Number,
    check_all,
    number_of,
    rounded_number,
    value_of,
)
from spillcast.evidence.oracle import ORACLE, SAMPLE_COUNTS
from spillcast.evidence.oracle.report_tables import ReportTable, plain_of, report_text, tables_of
from spillcast.evidence.selection import Selection
from spillcast.gate import reading
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.units import format_duration

HINT_SHARES = "export the rows of ASH themselves: spillcast collect oracle"
_MINUTES = re.compile(r"Elapsed Time:\s*([\d,.]+)\s*\(mins?\)", re.IGNORECASE)
_ACTIVE = re.compile(r"Average Active Sessions:\s*([\d,.]+)", re.IGNORECASE)
#: Printed beside the title of each section if the report covers less than a day.
_FROM_TO = re.compile(r"\(\w{3} \d+ (\d\d):(\d\d) to (\d\d):(\d\d)\)")
_EVENT = ("event", "wait_chain")
#: The interval (s) of samples in the history, and in memory.
_HISTORY, _HISTORY_INTERVAL_S, _INTERVAL_S = "dba_hist_active_sess", 10.0, 1.0
_ON_CPU = re.compile(r"|(?:on )?cpu.*|null|-+", re.IGNORECASE)
#: What counts samples in a query, or is the name of such a column.
_COUNT = r"count\(\s*(?:[*\d]|sample_\w+)\s*\)"
#: The name of a row that adds up the others, as of a rollup.
_SUM = re.compile(r"|sum|total", re.IGNORECASE)
_SUBTOTALS = re.compile(r"\b(?:rollup|cube|grouping\s+sets)\b", re.IGNORECASE)
_TEMP = r"direct path (?:read|write) temp"


@dataclass(frozen=True)
class Share:
    """An event's share of all samples; its seconds or active sessions, None if unknown."""

    event: str
    percent: Number
    total_s: Number | None
    sessions: Number | None


@reading(hint=HINT_SHARES)
def read_shares(path: Path, selection: Selection) -> Counts:
    """Counts from the share of temp waits. InputError if it or the total time is unknown."""
    text = report_text(path)
    tables = tables_of(text)
    shares = list(_shares(tables))
    if not shares and re.search(SAMPLE_COUNTS, text, re.IGNORECASE):
        interval_s = _HISTORY_INTERVAL_S if _HISTORY in text.lower() else _INTERVAL_S
        shares = _counted_shares(tables, text, interval_s)
        has_cpu = any(_ON_CPU.fullmatch(share.event) for share in shares)
        if shares and not has_cpu and selection.elapsed_s is None:
            raise EvidenceUnsuited("its samples on a CPU are missing", "give the time: --elapsed")
    temp = [share for share in shares if is_like(share.event, TEMP_EVENTS)]
    if not temp:
        if re.search(_TEMP, text, re.IGNORECASE):
            message = "its waits for temp files are in no table that is understood"
            raise EvidenceDamaged(message)
        raise NoTempIo("none of its events is a wait for temp files", HINT_SHARES)
    database_s = _database_s(plain_of(text), shares)
    if not database_s:
        raise EvidenceUnsuited("it does not show how long the database was busy", HINT_SHARES)
    times = {op: 0.0 for op in OPS}
    largest = _largest(shares)
    for share in temp:
        times[share.event.lower().split()[2]] += share.percent.value / 100 * database_s
        if share.total_s is not None and largest.total_s is not None:
            # Both percentages are rounded.
            part = largest.total_s * share.percent / largest.percent
            words = f"{share.percent.value:g} % of {format_duration(database_s)}"
            seconds = f"{format_duration(share.total_s.value)} of {share.event}"
            check_all([FigureCheck("share-of-db-time", part, words, share.total_s, seconds)])
    total_s = sum(times.values())
    error = sum(max(0.5, share.percent.width / 2) for share in temp) / 100
    low_s = max(0.0, total_s - database_s * error)
    time_bounds = Bounds(low_s, 2 * total_s - low_s, "shares of samples, rounded", HINT_SHARES)
    temp_io = with_count_bounds(
        TempTimes(times["read"], times["write"], time_bounds),
        {op: round(time_s) for op, time_s in times.items()},
        {},
        OPERATION_BYTES,
        "samples of waits for temp files have no counts of them",
        HINT_SHARES,
    )
    return counts_of_figures(
        selection,
        temp_io,
        engine=ORACLE,
        elapsed_s=database_s,
        subject="the time of all sessions",
        notes=["this is for the time of all sessions together, estimated from samples"],
    )


def _shares(tables: Sequence[ReportTable]) -> Iterator[Share]:
    """The rows of the first table of events with percentages.

    InputError if the row of temp waits is cut.
    """
    for table in tables:
        event = next((name for name in table.names if re.sub(r"[\W\d]", "", name) in _EVENT), None)
        percent = next((n for n in table.names if n in ("%this", "%event", "%activity")), None)
        if event is None or percent is None:
            continue
        seconds, sessions = table.named("seconds"), table.named("activesessions")
        for row in table.rows:
            number = rounded_number(row.get(percent, "").strip("| "))
            # A chain of waits begins with the wait of the session itself.
            first = row.get(event, "").strip("| ").removeprefix("->").partition("->")[0].strip()
            # A row that is shifted relative to its columns has the name elsewhere.
            others = (cell for name, cell in row.items() if name != event)
            is_temp = re.search(_TEMP, " ".join((first, *others)), re.IGNORECASE) is not None
            if is_temp and (number is None or not is_like(first, TEMP_EVENTS)):
                raise EvidenceDamaged(f"the line of {first} is not understood")
            if number is not None:
                total_s, active = (
                    rounded_number(row.get(name or "", "")) for name in (seconds, sessions)
                )
                yield Share(first, number, total_s, active)
        return


def _counted_shares(tables: Sequence[ReportTable], text: str, interval_s: float) -> list[Share]:
    """The shares of events in the first table that counts their samples by the query in ``text``.

    EvidenceDamaged if a count is no number, EvidenceUnsuited if some are subtotals of others.
    """
    for table in tables:
        event = next((name for name in table.names if name in _EVENT), None)
        column = next((name for name in table.names if _is_count(name, text)), None)
        if event is None or column is None:
            continue
        if len(table.names) > 2 and _SUBTOTALS.search(text):
            raise EvidenceUnsuited("its counts include sums of other rows", HINT_SHARES)
        counted = [(row[event], _samples(row[event], row[column])) for row in table.rows]
        total = sum(count for _, count in counted)
        sums = [row for row in counted if 2 * row[1] == total and _SUM.fullmatch(row[0])]
        for row in sums[:1]:
            counted.remove(row)
            total -= row[1]
        return [_share(name, count, total, interval_s) for name, count in counted if count]
    return []


def _is_count(name: str, text: str) -> bool:
    """Whether a column counts samples: by its name, or by its alias in the query in ``text``."""
    alias = rf"\b{_COUNT}\s+(?:as\s+)?\"?{re.escape(name)}(?!\w)"
    is_alias = bool(name) and re.search(alias, text, re.IGNORECASE) is not None
    return re.fullmatch(_COUNT, name) is not None or is_alias


def _samples(event: str, cell: str) -> int:
    number = number_of(cell)
    if number is not None and number.value == int(number.value):
        return int(number.value)
    if cell.strip(" -*") or is_like(event, TEMP_EVENTS):
        raise EvidenceDamaged(f"the line of {event} is not understood")
    return 0


def _share(event: str, count: int, total: int, interval_s: float) -> Share:
    """The share of samples, with twice its standard error."""
    share = 100 * count / total
    error = 2 * math.sqrt(share * (100 - share) / total)
    percent = Number(share, max(share - error, 0.0), share + error)
    return Share(event, percent, Number.of(count * interval_s), None)


def _largest(shares: Sequence[Share]) -> Share:
    return max(shares, key=lambda share: share.percent.value)


def _database_s(text: str, shares: Sequence[Share]) -> float | None:
    """DB time (s) from the row of the largest share, or from active sessions times elapsed time."""
    largest = _largest(shares)
    percent, total_s, sessions = map(value_of, (largest.percent, largest.total_s, largest.sessions))
    if total_s and percent:
        return 100 * total_s / percent
    minutes, active = (
        value_of(number_of(match[1])) if (match := pattern.search(text)) else None
        for pattern in (_MINUTES, _ACTIVE)
    )
    if minutes is None and (match := _FROM_TO.search(text)):
        first, last = (60 * int(match[at]) + int(match[at + 1]) for at in (1, 3))
        minutes = float((last - first) % (24 * 60))
    if active is None and sessions and percent:
        active = 100 * sessions / percent
    return None if minutes is None or active is None else 60 * minutes * active
