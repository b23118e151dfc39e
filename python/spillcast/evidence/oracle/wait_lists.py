"""Lists of wait events: which columns are counts and times, and the waits for each event."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceMixed
from spillcast.evidence.numbers import ZERO, Held, Number, number_of, seconds_of
from spillcast.evidence.oracle.report_tables import Row, Table
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.units import format_duration

#: The column of instances, and what stands in it for all of them.
_INSTANCE, _ALL_INSTANCES = "i#", "*"
#: A total that is rounded more coarsely does not show which columns it is the product of.
PRECISE = 0.25
#: Units of times by what a column's name contains.
_UNITS_S = (
    (re.compile(r"micro|[(_]us"), 1e-6),
    (re.compile(r"[(_]ms"), 1e-3),
    (re.compile(r"time_waited$"), 1e-2),
)
_MS = 1e-3
#: Lists of waits have fewer columns of numbers.
_COLUMNS_MAX = 12


@dataclass(frozen=True)
class Wait:
    """The waits for one event: how many, their seconds, and their share of DB time."""

    event: str
    count: Number
    total: Number
    mean: Number | None
    share: Number | None

    @property
    def words(self) -> str:
        """Its time, for a message."""
        return f"{format_duration(self.total.value)} of {self.event}"


@dataclass(frozen=True)
class WaitColumns:
    """The columns of a list of events by what they contain, and the units of their times (s)."""

    event: str
    count: str | None
    total: str
    mean: str | None
    share: str | None
    total_unit_s: float = 1.0
    mean_unit_s: float = _MS


@dataclass(frozen=True)
class WaitList:
    """A list of events; the time of all that it profiles, None where no row has it."""

    waits: Sequence[Wait]
    elapsed: Number | None = None


def wait_lists(path: Path, tables: Sequence[Table], hint: str) -> Iterator[WaitList]:
    """Each list of events; of several instances the rows of all together.

    InputError where the row of temp waits is cut.
    """
    for table in tables:
        rows = list(_rows(table))
        if (columns := _wait_columns(table, rows)) is None:
            continue
        instance, waits = _ALL_INSTANCES, list[Wait]()
        for row in rows:
            instance = row.get(_INSTANCE, "") or instance
            if instance != _ALL_INSTANCES:
                continue
            wait = _wait(row, columns)
            if wait is not None:
                waits.append(wait)
            is_temp = is_like(row[columns.event], TEMP_EVENTS)
            is_counted = columns.count is None or number_of(row[columns.count]) is not None
            if is_temp and (wait is None or not is_counted or (columns.mean and not wait.mean)):
                raise EvidenceDamaged(f"{path}: the line of {row[columns.event]} is cut", hint)
        temp = [wait.event.lower() for wait in waits if is_like(wait.event, TEMP_EVENTS)]
        if len(temp) > len(set(temp)):
            raise EvidenceMixed(
                f"{path}: several rows of {temp[0]}: of snapshots, sessions or instances",
                "keep the rows of one, or add them up",
            )
        yield _without_total(waits)


def _rows(table: Table) -> Iterator[Row]:
    """The rows; of a cell with two values, such as a time and its percentage, the first."""
    for row in table.rows:
        yield {name: cell.split("  ")[0] for name, cell in row.items()}


def _without_total(waits: Sequence[Wait]) -> WaitList:
    """The list without its last row if that is the sum of the others, as in profiles of traces."""
    if len(waits) < 3 or is_like(waits[-1].event, TEMP_EVENTS):
        return WaitList(waits)
    *events, last = waits
    total = sum((wait.total for wait in events), ZERO)
    is_sum = Held("sum-of-parts", total, "", last.total, "").holds
    return WaitList(events, last.total) if is_sum and last.total.value else WaitList(waits)


def comparisons(waits: Sequence[Wait], whole: Number | None) -> Iterator[Held]:
    """Of each wait its count, mean, total and share, and ``whole``, the time of all."""
    for wait in waits:
        if wait.mean is not None and wait.count.value:
            times = f"{wait.count.value:,.0f} waits of {format_duration(wait.mean.value)}"
            product = wait.count * wait.mean
            yield Held("count-mean-total", product, times, wait.total, wait.words)
        if whole is None:
            continue
        total = f"{format_duration(whole.value)} of DB time"
        yield Held("part-of-whole", wait.total, wait.words, whole, total)
        if wait.share is not None:
            share = f"{100 * wait.share.value:.3g} % of {total}"
            part = wait.share * whole
            yield Held("share-of-db-time", part, share, wait.total, wait.words)


def _wait_columns(table: Table, rows: Sequence[Row]) -> WaitColumns | None:
    """The columns of a list of events, by their names or else by their cells."""
    names = table.names
    event = next(
        (name for row in rows for name, cell in row.items() if is_like(cell, TEMP_EVENTS)), None
    ) or next((name for name in names if name.endswith("event")), None)
    if event is None:
        return None
    total = table.named("time(s") or table.named("total(s")
    # A title right above the heading is a part of the names.
    count = next((name for name in names if name.endswith("waits")), None)
    mean = next(filter(None, map(table.named, ("avgwait", "wait(ms", "avg(ms", "avgms"))), None)
    share = next((n for n in names if "%" in n and n.endswith("time")), None)
    if total is not None and (count is not None or mean is not None):
        units_s = _unit_s(total, 1.0), _unit_s(mean or "", _MS)
        return WaitColumns(event, count, total, mean, share, *units_s)
    temp = [row for row in rows if is_like(row[event], TEMP_EVENTS)]
    others = [n for n in names if n not in (event, share) and any(seconds_of(r[n]) for r in temp)]
    possible = (
        WaitColumns(event, count, total, mean, share, _unit_s(total, 1.0), unit_s)
        for count, total, mean in permutations(others[:_COLUMNS_MAX], 3)
        for unit_s in sorted({_unit_s(mean, _MS), _unit_s(mean, 1.0)})
    )
    fitting = (c for c in possible if all(_multiply(temp, c)) and sum(_multiply(rows, c)) > 1)
    return min(fitting, key=lambda columns: _error(temp, columns), default=None)


def _error(rows: Sequence[Row], columns: WaitColumns) -> float:
    """How far counts times means are from the totals, by these: rounded means fit several."""
    waits = [wait for row in rows if (wait := _wait(row, columns)) and wait.mean]
    return sum(
        abs(wait.count.value * wait.mean.value - wait.total.value) / wait.total.value
        for wait in waits
        if wait.mean and wait.total.value
    )


def _unit_s(name: str, otherwise: float) -> float:
    """The unit of a column of times by its name."""
    return next((unit_s for part, unit_s in _UNITS_S if part.search(name)), otherwise)


def _multiply(rows: Sequence[Row], columns: WaitColumns) -> Iterator[bool]:
    """Whether a count times a mean is the total, for each row that shows it."""
    for row in rows:
        wait = _wait(row, columns)
        if wait and wait.mean and wait.count.value and wait.total.spread < PRECISE:
            product = next(comparisons([wait], None))
            # A count and a mean in ms have the same product in either order.
            yield product.holds and wait.count.value > wait.mean.value / _MS


def _wait(row: Row, columns: WaitColumns) -> Wait | None:
    def seconds(name: str | None, unit_s: float) -> Number | None:
        cell = "" if name is None else row.get(name, "")
        number = seconds_of(cell)
        return number if number is None or cell[-1:] == "s" else number * unit_s

    total = seconds(columns.total, columns.total_unit_s)
    if total is None:
        return None
    mean = seconds(columns.mean, columns.mean_unit_s)
    count = ZERO if columns.count is None else number_of(row.get(columns.count, "")) or ZERO
    if columns.count is None and mean is not None and mean.value:
        count = total / mean
    share = seconds(columns.share, 1.0)
    return Wait(row[columns.event], count, total, mean, None if share is None else share * 0.01)
