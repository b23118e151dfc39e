"""Shares of samples by event, as an ASH report and ashtop print them: no counts of I/O."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceUnsuited, NoTempIo
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.figures.figures import (
    OPERATION_BYTES,
    TempTimes,
    counts_of_figures,
    uncounted,
)
from spillcast.evidence.figures.numbers import number_of, value_of
from spillcast.evidence.oracle.report_tables import Table, check_all_read, report_text, tables_of
from spillcast.recording.event_names import OPS, TEMP_EVENTS, is_like

HOW = "export the rows of ASH themselves: spillcast collect oracle"
_MINUTES = re.compile(r"Elapsed Time:\s*([\d,.]+)\s*\(mins?\)", re.IGNORECASE)
_ACTIVE = re.compile(r"Average Active Sessions:\s*([\d,.]+)", re.IGNORECASE)
_TEMP = r"direct path (?:read|write) temp"


@dataclass(frozen=True)
class Share:
    """An event's part of all samples; its seconds where they are printed."""

    event: str
    percent: float
    total_s: float | None = None


def read(paths: Sequence[Path], selection: Selection) -> Counts:
    """The share of temp waits. InputError where there is none, or nothing tells the time in all."""
    (path,) = paths
    text = report_text(path, HOW)
    tables = tables_of(path, text, HOW)
    within = {at for table in tables for at in range(table.first, table.last)}
    check_all_read(path, text.splitlines(), within, HOW)
    shares = list(_shares(tables))
    temp = [share for share in shares if is_like(share.event, TEMP_EVENTS)]
    if not temp:
        if re.search(_TEMP, text, re.IGNORECASE):
            message = f"{path}: its waits for temp files are in no table that is understood"
            raise EvidenceDamaged(message, HOW)
        raise NoTempIo(f"{path}: none of its events is a wait for temp files", HOW)
    database_s = _database_s(text, shares)
    if not database_s:
        raise EvidenceUnsuited(f"{path}: it does not tell how long the database was busy", HOW)
    times = {op: 0.0 for op in OPS}
    for share in temp:
        times[share.event.lower().split()[2]] += share.percent / 100 * database_s
    total_s = sum(times.values())
    low_s = max(0.0, total_s - database_s * 0.005 * len(temp))
    estimate = uncounted(
        TempTimes(times["read"], times["write"]),
        {op: round(time_s) for op, time_s in times.items()},
        {},
        OPERATION_BYTES,
        "samples of waits for temp files have no counts of them",
    )
    reads, writes = estimate.middle
    counts = counts_of_figures(
        path,
        selection,
        elapsed_s=database_s,
        reads=reads,
        writes=writes,
        time_bounds=Bounds(low_s, 2 * total_s - low_s, "shares of samples, rounded", HOW),
        notes=["this is for the time of all sessions together, as far as samples tell it"],
    )
    return estimate.bounds(counts, HOW)


def _shares(tables: Sequence[Table]) -> Iterator[Share]:
    """The rows of the first table of events that has percentages."""
    for table in tables:
        event = next((name for name in table.names if re.sub(r"\W", "", name) == "event"), None)
        percent = next((n for n in table.names if n in ("%this", "%event", "%activity")), None)
        if event is None or percent is None:
            continue
        seconds = table.named("totalseconds")
        for row in table.rows:
            number = number_of(row.get(percent, "").strip("| "))
            if number is not None:
                total_s = value_of(number_of(row.get(seconds or "", "")))
                yield Share(row[event].strip("| "), number.value, total_s)
        return


def _database_s(text: str, shares: Sequence[Share]) -> float | None:
    """Of the widest row with seconds, or of active sessions over the time of the report."""
    timed = [share for share in shares if share.total_s and share.percent]
    if timed:
        widest = max(timed, key=lambda share: share.percent)
        return 100 * (widest.total_s or 0.0) / widest.percent
    minutes, active = _MINUTES.search(text), _ACTIVE.search(text)
    if minutes is None or active is None:
        return None
    span, sessions = number_of(minutes[1]), number_of(active[1])
    return None if span is None or sessions is None else 60 * span.value * sessions.value
