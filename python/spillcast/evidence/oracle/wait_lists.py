"""Reads lists of wait events in reports: the number and the time of the waits for each event."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from spillcast.errors import EvidenceDamaged, EvidenceMixed
from spillcast.evidence.numbers import TOLERANCE, ZERO, FigureCheck, Number, number_of, seconds_of
from spillcast.evidence.oracle.report_tables import ReportRow, ReportTable
from spillcast.recording import TEMP_EVENTS, is_like
from spillcast.units import format_duration

#: The column of instances, and its value for all instances together.
_INSTANCE, _ALL_INSTANCES = "i#", "*"
#: Columns of an instance or a session; text above the heading may precede their names.
_OWNER = re.compile(rf"(?:.*\W)?(?:{_INSTANCE}|inst_id|sid|session_id)")
#: Columns of a histogram: the number of waits, and the end of their bucket.
_BUCKET_COUNT, _BUCKET_ENDS = "wait_count", ("wait_time_micro", "wait_time_milli")
#: Snapper's column of differences.
_DELTA = "delta"
#: The largest ratio of unrelated figures, and the maximum probability of a chance fit.
_RANGE, _CHANCE_MAX = 1e3, 0.01
#: Units of times, by a part of the column's name.
_UNITS_S = (
    (re.compile(r"nano|[(_]ns"), 1e-9),
    # Snapper prints differences in microseconds.
    (re.compile(r"micro|[(_]us|^delta$"), 1e-6),
    (re.compile(r"[(_]ms|milli"), 1e-3),
    (
        re.compile(r"[(_]cs|[ch]sec|centi|hundredth|(?:time_waited|average_wait)(?:_fg|_?delta)?$"),
        1e-2,
    ),
    (re.compile(r"(?<![munch])sec|[(_]s$"), 1.0),
    (re.compile(r"\(min|_min(?:s|ute)"), 60.0),
    (re.compile(r"[(_]h(?:ou)?r"), 3600.0),
)
#: Parts of the names of percentages, and of times that are no totals.
_PERCENTAGE = re.compile(r"^%|pct|perc")
_NO_TOTAL = re.compile(r"avg|aver|mean|median|std|max|^min|prev|last|per_")
_MS = 1e-3
#: The resolution of an event's total time in views.
_TICK_S = 0.01
#: The maximum number of columns that are tried in search of a list of waits.
_COLUMNS_MAX = 12


@dataclass(frozen=True)
class EventWaits:
    """The waits for one event: their number, their seconds, and their share of DB time."""

    event: str
    count: Number
    total: Number
    mean: Number | None
    share: Number | None

    @property
    def words(self) -> str:
        """Its time and event, for a message."""
        return f"{format_duration(self.total.value)} of {self.event}"


@dataclass(frozen=True)
class WaitColumns:
    """The names of the columns of a list of events, and the units of their times (s)."""

    event: str
    count: str | None
    total: str
    mean: str | None
    share: str | None
    total_unit_s: float = 1.0
    mean_unit_s: float = _MS

    @property
    def in_buckets(self) -> bool:
        """Whether ``total`` is the end of a histogram's bucket."""
        return self.count == _BUCKET_COUNT

    @property
    def of_view(self) -> bool:
        """Whether these are columns of a wait view, or of Snapper's output."""
        views = self.in_buckets, self.is_mean, self.total == _DELTA
        return any(views) or "time_wait" in self.total

    @property
    def is_mean(self) -> bool:
        """Whether ``total`` is the mean time of a view without a column of totals."""
        return self.total.startswith("average_wait")


@dataclass(frozen=True)
class WaitList:
    """A list of events, and the total time of the profile; None if no row has it.

    ``owner`` is the session or instance of the rows of a view, "" if no column names it; None for
    other lists.
    """

    waits: Sequence[EventWaits]
    elapsed: Number | None = None
    owner: str | None = None

    @property
    def temp(self) -> Sequence[EventWaits]:
        """The waits for temp files, without events that never occurred."""
        waits = (wait for wait in self.waits if wait.count.value or wait.total.value)
        return [wait for wait in waits if is_like(wait.event, TEMP_EVENTS)]


def wait_lists(tables: Sequence[ReportTable]) -> Iterator[WaitList]:
    """Each list of events; for several instances, the rows for all of them together.

    InputError if the row of temp waits is cut.
    """
    views: dict[tuple[str, ...], tuple[WaitColumns, dict[str, list[EventWaits]]]] = {}
    for table in tables:
        # Of a cell with two values, such as a time and a percentage, only the first counts.
        rows = [{name: cell.split("  ")[0] for name, cell in row.items()} for row in table.rows]
        if (columns := _wait_columns(table, rows)) is None:
            continue
        table.check_distinct(columns.event, columns.count, columns.total, columns.mean)
        by_owner: dict[str, list[EventWaits]] = {}
        if columns.of_view:
            # A view is printed on several pages, each with a heading.
            _, by_owner = views.setdefault(tuple(table.names), (columns, by_owner))
        of_instances = _INSTANCE in table.names
        owners = list(filter(_OWNER.fullmatch, table.names))
        owner = _ALL_INSTANCES if of_instances else ""
        for row in rows:
            owner = " ".join(filter(None, (row.get(name) for name in owners))) or owner
            if of_instances and owner != _ALL_INSTANCES:
                continue
            wait = _wait(row, columns)
            if wait is not None:
                by_owner.setdefault(owner, []).append(wait)
            is_temp = is_like(row[columns.event], TEMP_EVENTS)
            count = ZERO if columns.count is None else number_of(row[columns.count])
            is_counted = count is not None and count.is_count
            has_mean = columns.mean is None or wait is None or wait.mean or not wait.count.value
            if is_temp and not (wait and wait.total.low >= 0 and is_counted and has_mean):
                raise EvidenceDamaged(f"the line of {row[columns.event]} is cut")
        if not columns.of_view:
            yield from (_without_total(_once(waits)) for waits in by_owner.values())
    for columns, by_owner in views.values():
        for owner, waits in by_owner.items():
            distinct = _once(waits, of_buckets=columns.in_buckets)
            yield WaitList(_of_buckets(distinct) if columns.in_buckets else distinct, owner=owner)


def _once(waits: Sequence[EventWaits], *, of_buckets: bool = False) -> Sequence[EventWaits]:
    """The waits. InputError if an event of temp files, or its bucket, has several rows."""
    temp = [
        (wait.event.lower(), wait.mean if of_buckets else None) for wait in WaitList(waits).temp
    ]
    if len(temp) > len(set(temp)):
        raise EvidenceMixed(
            f"several rows of {temp[0][0]}: of snapshots, sessions or instances",
            "keep the rows of one, or add them up",
        )
    return waits


def _of_buckets(waits: Sequence[EventWaits]) -> list[EventWaits]:
    """The waits of a histogram, summed over its buckets."""
    by_event: dict[str, EventWaits] = {}
    for wait in waits:
        former = by_event.get(wait.event, EventWaits(wait.event, ZERO, ZERO, None, None))
        count, total = former.count + wait.count, former.total + wait.total
        by_event[wait.event] = replace(wait, count=count, total=total, mean=None)
    return list(by_event.values())


def _without_total(waits: Sequence[EventWaits]) -> WaitList:
    """The list without its last row if that is the sum of the others, as in profiles of traces."""
    if len(waits) < 3 or is_like(waits[-1].event, TEMP_EVENTS):
        return WaitList(waits)
    *events, last = waits
    total = sum((wait.total for wait in events), ZERO)
    is_sum = FigureCheck("sum-of-parts", total, "", last.total, "").holds
    return WaitList(events, last.total) if is_sum and last.total.value else WaitList(waits)


def checks(waits: Sequence[EventWaits], whole: Number | None) -> Iterator[FigureCheck]:
    """Checks each wait's count, mean, total and share against each other and against ``whole``."""
    for wait in waits:
        if wait.mean is not None and wait.count.value:
            times = f"{wait.count.value:,.0f} waits of {format_duration(wait.mean.value)}"
            product = wait.count * wait.mean
            yield FigureCheck("count-mean-total", product, times, wait.total, wait.words)
        if whole is None:
            continue
        total = f"{format_duration(whole.value)} of DB time"
        yield FigureCheck("part-of-whole", wait.total, wait.words, whole, total)
        if wait.share is not None:
            share = f"{100 * wait.share.value:.3g} % of {total}"
            part = wait.share * whole
            yield FigureCheck("share-of-db-time", part, share, wait.total, wait.words)


def _wait_columns(table: ReportTable, rows: Sequence[ReportRow]) -> WaitColumns | None:
    """The columns of a list of events, by their names or otherwise by their values."""
    names = table.names
    event = next(
        (name for row in rows for name, cell in row.items() if is_like(cell, TEMP_EVENTS)), None
    ) or next((name for name in names if name.endswith("event")), None)
    if event is None:
        return None
    share = next((n for n in names if n.endswith("time") and re.search("%|pct", n)), None)
    share = share or next((n for n in names if n.endswith("%total")), None)
    named = _named_columns(table, event, share)
    return named or _fitting_columns(names, rows, event, share)


def _named_columns(table: ReportTable, event: str, share: str | None) -> WaitColumns | None:
    """The columns by their names; None if these do not show counts and times."""
    names = table.names
    bucket = next(filter(None, map(table.named, _BUCKET_ENDS)), None)
    if bucket is not None and _BUCKET_COUNT in names:
        return WaitColumns(event, _BUCKET_COUNT, bucket, None, None, _unit_s(bucket, 1.0))
    measured = ReportTable([name for name in names if not _PERCENTAGE.search(name)])
    whole = ReportTable([name for name in measured.names if _is_total(name)])
    totals = ("time(s", "total(s", "time_waited_micro", "time_wait")
    total = next(filter(None, map(whole.named, totals)), _DELTA if _DELTA in names else None)
    # A title directly above the heading becomes a part of the names.
    ends = re.compile("waits(?:_fg|_?delta)?$")
    count = next(filter(ends.search, measured.names), None)
    averages = ("avgwait", "wait(ms", "avg(ms", "avgms", "average_wait")
    mean = next(filter(None, map(measured.named, averages)), None)
    if total is not None and (count is not None or mean is not None):
        units_s = _unit_s(total, 1.0), _unit_s(mean or "", _MS)
        return WaitColumns(event, count, total, mean, share, *units_s)
    if mean is not None and mean.startswith("average_wait") and count is not None:
        return WaitColumns(event, count, mean, None, share, _unit_s(mean, 1.0))
    return None


def _is_total(name: str) -> bool:
    """Whether a column may be a total; one of a view is none if its unit is unknown."""
    has_unit = "time_wait" not in name or _unit_s(name, 0.0) > 0.0
    return has_unit and _NO_TOTAL.search(name) is None


def _fitting_columns(
    names: Sequence[str], rows: Sequence[ReportRow], event: str, share: str | None
) -> WaitColumns | None:
    """Three columns of which count times mean is the total in all rows; None without any."""
    temp = [row for row in rows if is_like(row[event], TEMP_EVENTS)]
    others = [n for n in names if n not in (event, share) and any(seconds_of(r[n]) for r in temp)]
    possible = (
        WaitColumns(event, count, total, mean, share, _unit_s(total, 1.0), unit_s)
        for count, total, mean in permutations(others[:_COLUMNS_MAX], 3)
        for unit_s in sorted({_unit_s(mean, _MS), _unit_s(mean, 1.0)})
    )
    # Rows of temp files have figures, so most candidates fail at the first of them.
    rows = sorted(rows, key=lambda row: not is_like(row[event], TEMP_EVENTS))
    fitting = (columns for columns in possible if _chance(rows, columns) < _CHANCE_MAX)
    return min(fitting, key=lambda columns: _error(temp, columns), default=None)


def _error(rows: Sequence[ReportRow], columns: WaitColumns) -> float:
    """The error (s) of counts times means, which selects one of several columns that fit."""
    waits = filter(None, (_wait(row, columns) for row in rows))
    return sum(abs(w.count.value * w.mean.value - w.total.value) for w in waits if w.mean)


def _unit_s(name: str, otherwise: float) -> float:
    """The unit (s) of a column of times, by its name."""
    return next((unit_s for part, unit_s in _UNITS_S if part.search(name)), otherwise)


def _chance(rows: Sequence[ReportRow], columns: WaitColumns) -> float:
    """The probability that each row's count times its mean equals its total by chance.

    1 if a row does not fit, or if only one does. Coarsely rounded figures prove less.
    """
    chances: list[float] = []
    for row in rows:
        wait = _wait(row, columns)
        if wait is None or wait.mean is None or not wait.total.value:
            continue
        # A count and a mean in ms have the same product in either order.
        mean_ms = wait.mean.value / _MS
        is_temp = is_like(wait.event, TEMP_EVENTS)
        product, total = wait.count * wait.mean, wait.total
        if not is_temp and abs(product.value - total.value) <= _TICK_S:
            continue
        is_swapped = is_temp and wait.count.value < mean_ms
        if is_swapped or not all(check.holds for check in checks([wait], None)):
            return 1.0
        if wait.count.value > mean_ms and product.low * total.low > 0:
            bounds = product.high * total.high / (product.low * total.low)
            chances.append(min(1.0, math.log(bounds * (1 + TOLERANCE)) / math.log(_RANGE)))
    return math.prod(chances) if len(chances) > 1 else 1.0


def _wait(row: ReportRow, columns: WaitColumns) -> EventWaits | None:
    def seconds(name: str | None, unit_s: float) -> Number | None:
        cell = "" if name is None else row.get(name, "")
        number = seconds_of(cell.removeprefix("-"))
        number = number if number is None or cell[-1:] == "s" else number * unit_s
        # Profiles have a negative time if calls took less than their waits and CPU time.
        return -number if number is not None and cell[:1] == "-" else number

    total = seconds(columns.total, columns.total_unit_s)
    if total is None:
        return None
    if columns.in_buckets:
        # Buckets double in size; the first one begins at 0.
        lower_s = total.value / 2 if total.value > columns.total_unit_s else 0.0
        count = number_of(row.get(_BUCKET_COUNT, "")) or ZERO
        bucket = Number((lower_s + total.value) / 2, lower_s, total.value)
        return EventWaits(row[columns.event], count, bucket * count, bucket, None)
    mean = seconds(columns.mean, columns.mean_unit_s)
    count = ZERO if columns.count is None else number_of(row.get(columns.count, "")) or ZERO
    if columns.is_mean:
        total = total * count
    elif columns.count is None and mean is not None and mean.value:
        count = total / mean
    share = seconds(columns.share, 1.0)
    return EventWaits(
        row[columns.event], count, total, mean, None if share is None else share * 0.01
    )
