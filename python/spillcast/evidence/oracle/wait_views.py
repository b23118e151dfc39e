"""Rows of V$SESSION_EVENT, V$SYSTEM_EVENT and V$EVENT_HISTOGRAM: waits for temp files by op."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, NoTempIo
from spillcast.evidence.choice import Item, Selection, pick
from spillcast.evidence.counts import Counts
from spillcast.evidence.figures.figures import OPERATION_BLOCKS, counts_of_figures, printed
from spillcast.evidence.figures.numbers import ZERO, Held, Number, hold, number_of, rounded_number
from spillcast.evidence.oracle.report_tables import FIGURES, table_lines
from spillcast.evidence.oracle.spooled import Row, spooled_of
from spillcast.recording.event_names import OPS, TEMP_EVENTS, is_like
from spillcast.units import format_duration

HOW = (
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


def read(paths: Sequence[Path], selection: Selection) -> Counts:
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
            f"{path}: it lacks the row of direct path write temp: what is read was written", HOW
        )
    times = printed(*(waits[op][1] if op in waits else None for op in OPS))
    size = OPERATION_BLOCKS * selection.block_bytes
    reads, writes = times.moved(counts, {op: count * size for op, count in counts.items()})
    return counts_of_figures(
        path,
        selection,
        elapsed_s=0.0,
        elapsed_unknown="the view has waits since the session or the instance began",
        reads=reads,
        writes=writes,
        time_bounds=times.within,
        notes=[
            "views of waits count all that a session or an instance did since it began",
            f"they have no blocks: each I/O is assumed to move {OPERATION_BLOCKS}",
        ],
    )


def _rows(path: Path) -> Iterator[Row]:
    lines = table_lines(path, HOW)
    spooled = spooled_of(path, lines, {name: name for name in _NAMES})
    present = spooled.columns.keys()
    counted = {"event", "total_waits"} <= present and present & {"time_waited_micro", "time_waited"}
    if not counted and not ("wait_count" in present and "event" in present):
        lacks = {"event", "total_waits", "time_waited_micro"} - present
        raise EvidenceIncomplete(
            f"{path}: it lacks the column {min(lacks, default='EVENT').upper()}", HOW
        )
    for damage in spooled.damaged:
        # Words around the table are none of its rows.
        if FIGURES.search(lines[damage.line - 1]):
            raise EvidenceDamaged(f"{path}: line {damage.line}: {damage.text}", HOW)
    rule = next((len(line.rstrip()) for line in lines if _RULE.fullmatch(line)), 0)
    for line in lines:
        # Numbers stand at the right end of their column.
        if FIGURES.search(line) and len(line.rstrip()) < rule:
            raise EvidenceDamaged(f"{path}: it is cut: {' '.join(line.split())}", HOW)
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
        hold(path, [Held("count-mean-total", mean * count, words, total, total_text)], HOW)
    return count, total


def _number(path: Path, row: Row, name: str) -> Number:
    text = row.get(name) or ""
    # Microseconds and counts are whole; hundredths of a second are rounded.
    rounded = name in ("time_waited", "average_wait")
    number = rounded_number(text) if rounded else number_of(text)
    if number is None:
        raise EvidenceDamaged(f"{path}: {name.upper()} is {text!r}, not a number", HOW)
    return number
