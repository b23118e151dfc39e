"""Counts of the temp I/O of a run: totals by op, with bounds for quantities that are not known.

Plans, statement statistics, reports and stated figures contain such totals but no single waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceIncomplete,
    NoTempIo,
    TimesContradictory,
    TimesUnknown,
)
from spillcast.evidence.numbers import ZERO, Number
from spillcast.evidence.selection import Selection
from spillcast.gate import COUNT_MAX
from spillcast.recording import OPS
from spillcast.recording.calibration import MachineCalibration
from spillcast.recording.meta import NO_ENGINE, ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.units import format_bytes, format_duration

if TYPE_CHECKING:
    from spillcast.evidence.postgres.work_memory import PlanSpills

T = TypeVar("T")
#: The smallest total time of temp I/O: a total of 0 gives no latency.
MIN_TOTAL_S = 1e-6
#: Bounds are close if lower / upper is at least this, as where they come from samples or rounding.
CLOSE_RATIO = 0.7


@dataclass(frozen=True)
class Bounds(Generic[T]):
    """The bounds of a quantity that its source does not contain, and the reason for them.

    ``remedy`` names the evidence that contains the quantity.
    """

    lower: T
    upper: T
    reason: str
    remedy: str = ""


def are_close(bounds: Bounds[float]) -> bool:
    """Whether the bounds are close enough to treat the quantity as known."""
    return bounds.lower >= CLOSE_RATIO * bounds.upper


def middle(bounds: Bounds[float]) -> float:
    """The arithmetic mean of both bounds."""
    return (bounds.lower + bounds.upper) / 2


def middle_processes(bounds: Bounds[float]) -> float:
    """The harmonic mean of both bounds: elapsed time is proportional to 1 / processes."""
    return 2 / (1 / bounds.lower + 1 / bounds.upper)


def feasible_processes(
    bounds: Bounds[float], elapsed_s: float, temp_s: float, other_s: float = 0.0
) -> Bounds[float]:
    """The bounds without process counts that could not have done the I/O in ``elapsed_s``.

    ``temp_s`` is the time of all temp I/O and ``other_s`` that of all other I/O, summed over the
    processes. Each process does one operation at a time. TimesContradictory if no count fits.
    """
    if temp_s == 0:
        return bounds
    left_s = elapsed_s - other_s / bounds.upper
    if temp_s > (1 + ROUNDING_SHARE) * bounds.upper * left_s:
        io, elapsed = format_duration(temp_s + other_s), format_duration(elapsed_s)
        processes = "process" if bounds.upper == 1 else "processes"
        raise TimesContradictory(
            f"its I/O took {io} in all its processes and the query {elapsed}: that is more than "
            f"{bounds.upper:.3g} {processes} can do ({bounds.reason})"
        )
    return replace(bounds, lower=min(bounds.upper, max(bounds.lower, temp_s / left_s)))


@dataclass(frozen=True)
class Unknown:
    """A quantity of a run that has only bounds: its warning's code, a sentence, a remedy."""

    code: str
    text: str
    remedy: str


@dataclass(frozen=True)
class OpCounts:
    """The reads or the writes of temp files: operations, bytes, and their time over all threads."""

    count: int = 0
    bytes: int = 0
    total_ns: int = 0

    @classmethod
    def timed(cls, count: int, size_bytes: int, total_s: float | None) -> "OpCounts":
        """Counts with a total time, 0 if the time is unknown."""
        return cls(count, size_bytes, round((total_s or 0.0) * 1e9) if count else 0)

    def __add__(self, other: "OpCounts") -> "OpCounts":
        return OpCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    def scaled(self, times: float, counts: float) -> "OpCounts":
        """The counts with the total time scaled by ``times`` and the operations by ``counts``."""
        if not self.count:
            return self
        count = max(1, round(self.count * counts))
        return OpCounts(count, round(self.bytes / self.count * count), round(self.total_ns * times))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The totals of one run from a source without single waits.

    ``processes`` is the mean number of processes, which shared the temp I/O equally. The value of a
    quantity with bounds lies between them.
    """

    elapsed_s: float
    reads: OpCounts
    writes: OpCounts
    #: ``explain`` (PostgreSQL), ``report`` (Oracle), ``profile`` (another engine) or
    #: ``figures`` (stated).
    source: str
    engine: ObservedEngine = NO_ENGINE
    processes: float = 1.0
    processes_bounds: Bounds[float] | None = None
    #: Bounds of the time of all temp I/O, summed over ``processes`` (s).
    time_bounds: Bounds[float] | None = None
    #: An upper bound of this time (s) if the source does not time temp I/O; None if unknown.
    time_max_s: float | None = None
    #: Whether the number of operations is derived from their time and a mean latency.
    counts_follow_time: bool = False
    #: The run with the least possible temp I/O, and the run with the most.
    io_bounds: "Bounds[Counts] | None" = None
    cpu_s: float | None = None
    #: Whether the engine's temp I/O passes through the page cache of the kernel.
    buffered: bool = False
    #: Elapsed time of reads of tables.
    data_read_s: float = 0.0
    #: Size of the temp files, and how many files the writes alternate between.
    held_bytes: int = 0
    files: int = 1
    statement: CountedStatement | None = None
    #: The plan of EXPLAIN that is the source, and its nodes that spill, if known.
    document: Mapping[str, Any] | None = None
    plan: "PlanSpills | None" = None
    #: The subject of the counts in a sentence, if they are not those of one query.
    subject: str | None = None
    #: The overhead of a wait on the machine.
    calibration: MachineCalibration | None = None
    #: Sentences about the limits of the source.
    notes: Sequence[str] = ()
    #: The storage whose latencies were assumed.
    timed_on: str | None = None
    #: Why there are counts in place of a recording.
    absent_because: str | None = None
    #: The source; errors and tables name the run by it.
    path: Path = Path("figures")

    def of_file(self, path: Path) -> "Counts":
        """The same counts, with ``path`` as their source."""
        bounds = self.io_bounds
        if bounds is not None:
            ends = bounds.lower.of_file(path), bounds.upper.of_file(path)
            bounds = replace(bounds, lower=ends[0], upper=ends[1])
        return replace(self, path=path, io_bounds=bounds)

    @property
    def by_op(self) -> Sequence[tuple[str, OpCounts]]:
        """Ops with at least one operation, and their counts."""
        pairs = zip(OPS, (self.reads, self.writes), strict=True)
        return [(op, counts) for op, counts in pairs if counts.count]

    @property
    def operations(self) -> int:
        """Reads and writes."""
        return self.reads.count + self.writes.count

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.reads.bytes + self.writes.bytes

    @property
    def total_s(self) -> float:
        """Time of all temp I/O, summed over the processes."""
        return (self.reads.total_ns + self.writes.total_ns) / 1e9

    @property
    def unknown(self) -> Unknown | None:
        """The most important quantity that has only bounds; None if all quantities are known."""
        if self.io_bounds is not None:
            return Unknown("io-unknown", self.io_bounds.reason, self.io_bounds.remedy)
        if (time := self.time_bounds) is not None:
            lower, upper = format_duration(time.lower), format_duration(time.upper)
            words = f"how long temp I/O took is not known: {lower} to {upper} ({time.reason})"
            if self.timed_on is not None:
                return Unknown("cached-io", words, time.remedy)
            return Unknown("incomplete" if are_close(time) else "time-unknown", words, time.remedy)
        if (shared := self.processes_bounds) is None:
            return None
        words = (
            "temp I/O is summed over the processes of a query, and how many shared it is not "
            f"known: {shared.lower:.3g} to {shared.upper:.3g} ({shared.reason})"
        )
        return Unknown("processes", words, shared.remedy)

    def at_bounds(self) -> "list[Counts]":
        """The counts at each bound of each quantity with bounds; empty if all are known."""
        if self.io_bounds is None:
            return self._at_bounds_of_time()
        runs = self.io_bounds.lower, self.io_bounds.upper
        return [bound for run in runs for bound in run._at_bounds_of_time() or [run]]

    @property
    def of_statement(self) -> CountedStatement | None:
        """The statement that ran; None if neither its text nor its identifier is known."""
        return self.statement or self.engine.statement

    def with_processes(self, processes: float) -> "Counts":
        """The same I/O, shared by this number of processes."""
        return replace(self, processes=processes, processes_bounds=None)

    def with_total_s(self, total_s: float) -> "Counts":
        """Temp I/O that takes ``total_s``; with ``counts_follow_time`` operations scale too."""
        times = max(total_s, MIN_TOTAL_S) / max(self.total_s, MIN_TOTAL_S)
        counts = times if self.counts_follow_time else 1.0
        return replace(
            self,
            reads=self.reads.scaled(times, counts),
            writes=self.writes.scaled(times, counts),
            time_bounds=None,
        )

    def _at_bounds_of_time(self) -> "list[Counts]":
        shared, time = self.processes_bounds, self.time_bounds
        runs = [self]
        if shared is not None:
            runs = [self.with_processes(number) for number in (shared.lower, shared.upper)]
        if time is None:
            return [] if shared is None else runs
        # The time is summed over processes, so its bounds are proportional to their number.
        return [
            run.with_total_s(total_s * run.processes / self.processes)
            for run in runs
            for total_s in (time.lower, time.upper)
        ]


#: Values of ``Counts.source``.
FIGURES, REPORT, PROFILE = "figures", "report", "profile"
_UNTIMED = "give the time of its temp I/O, or name its storage with --from"
#: The throughput of memory in one thread, and the factor by which no memory is faster.
MEMORY_BYTES_PER_S, FASTER = 8.192e9, 2
#: The share of a run by which the sum of rounded times may exceed it.
ROUNDING_SHARE = 0.02
#: An upper bound of any time of a run: 30 years.
LONGEST_S = 1e9
THREADS_MAX = 10_000
#: Blocks of an operation of unknown size: the most frequent number in Oracle's traces.
OPERATION_BLOCKS = 31
OPERATION_BYTES = OPERATION_BLOCKS * 8192
#: The shortest wait for temp files.
_SHORTEST_S = 10e-6
#: Bounds from rounding are left out if they differ by at most this share of the value.
_SPREAD_SHOWN = 0.25
TRACE_HINT = "a trace (10046) or ASH of the run shows it"
_TIMES_HINT = f"name the storage of its temp files with --from; {TRACE_HINT}"


@dataclass(frozen=True)
class TempCounts:
    """The temp I/O of a run as its source counts it, with bounds for what is not known."""

    reads: OpCounts
    writes: OpCounts
    #: Bounds of the time of reads and writes together, summed over the processes (s).
    time_bounds: Bounds[float] | None = None
    #: The least possible reads and writes of the run, and the most.
    io_bounds: Bounds[tuple[OpCounts, OpCounts]] | None = None

    def between(
        self, fewest: "TempCounts", most: "TempCounts", reason: str, remedy: str
    ) -> "TempCounts":
        """The same counts, with the I/O of ``fewest`` and of ``most`` as bounds."""
        lower, upper = (fewest.reads, fewest.writes), (most.reads, most.writes)
        return replace(self, io_bounds=Bounds(lower, upper, reason, remedy))


def counts_of_figures(
    selection: Selection,
    temp: TempCounts,
    *,
    elapsed_s: float,
    source: str = REPORT,
    elapsed_unknown: str = "",
    threads: float | Bounds[float] = 1.0,
    busy_s: float | None = None,
    cpu_s: float | None = None,
    notes: Sequence[str] = (),
    **more: Any,
) -> Counts:
    """The counts of a run; ``more`` are fields of Counts.

    ``threads`` is the mean number of busy threads, or its bounds; if ``busy_s``, the sum of their
    times, is given, it is computed from that. Times of I/O and CPU are sums over the threads.
    ``elapsed_unknown`` is why no elapsed time is known. InputError for impossible figures. Refusal,
    if ``selection.timed``, for temp I/O without a time.
    """
    elapsed_s = selection.elapsed_s or elapsed_s
    if elapsed_s <= 0:
        because = f": {elapsed_unknown}" if elapsed_unknown else ""
        raise EvidenceIncomplete(
            f"no elapsed time{because}", "give it with --elapsed, such as 12m53s"
        )
    if busy_s is not None:
        threads = max(1.0, busy_s / elapsed_s)
    processes = threads.upper if isinstance(threads, Bounds) else threads
    shared = threads if isinstance(threads, Bounds) and processes > 1 else None
    absent = [op for op, n in zip(OPS, (temp.reads, temp.writes), strict=True) if not n.count]
    if len(absent) == 1 and temp.io_bounds is None and source != FIGURES:
        notes = [*notes, f"it has no {absent[0]}s of temp files: part of temp I/O may be missing"]
    counts = _checked(
        Counts(
            elapsed_s=elapsed_s,
            reads=temp.reads,
            writes=temp.writes,
            source=source,
            processes=processes,
            processes_bounds=shared,
            time_bounds=temp.time_bounds,
            cpu_s=cpu_s,
            # If writes are not counted, all bytes read are assumed to have been written once.
            held_bytes=temp.writes.bytes or temp.reads.bytes,
            notes=tuple(notes),
            **more,
        )
    )
    if selection.timed and not counts.total_s:
        raise TimesUnknown(f"no time of temp I/O is given: {_UNTIMED}")
    if source != FIGURES and (temp.time_bounds is not None or not counts.total_s):
        _check_speed(temp, elapsed_s, processes)
    if shared is not None:
        processes = middle_processes(shared)
        if (time := counts.time_bounds) is not None:
            # A sum takes most of the run if the fewest threads shared it, least if the most did.
            lower_s, upper_s = time.lower / shared.upper, min(time.upper / shared.lower, elapsed_s)
            time = replace(time, lower=lower_s * processes, upper=upper_s * processes)
            counts = replace(counts, time_bounds=time)
    if not selection.timed and (time := counts.time_bounds) is not None:
        counts = replace(counts, time_bounds=None, time_max_s=time.upper)
    counts = replace(counts, processes=processes, cpu_s=cpu_s if counts.processes == 1 else None)
    if (io := temp.io_bounds) is None:
        return counts
    fewest, most = (
        _checked(
            replace(counts, reads=reads, writes=writes, held_bytes=writes.bytes or reads.bytes)
        )
        for reads, writes in (io.lower, io.upper)
    )
    return replace(counts, io_bounds=Bounds(fewest, most, io.reason, io.remedy))


def _check_speed(temp: TempCounts, elapsed_s: float, threads: float) -> None:
    """EvidenceContradictory for I/O that is faster than the memory of any machine."""
    moved = temp.io_bounds.lower if temp.io_bounds else (temp.reads, temp.writes)
    size_bytes = sum(op.bytes for op in moved)
    if size_bytes > FASTER * MEMORY_BYTES_PER_S * threads * elapsed_s:
        raise EvidenceContradictory(
            f"{format_bytes(size_bytes)} in {format_duration(elapsed_s)}: no memory is as fast",
            "is the elapsed time in the unit of its column? Or give the mean number of threads",
        )


def _checked(counts: Counts) -> Counts:
    """Returns the counts unchanged. InputError if they are impossible."""
    reads, writes, threads = counts.reads, counts.writes, counts.processes
    if not counts.operations:
        raise NoTempIo(
            "no reads and writes of temp files", "a forecast needs their number and size"
        )
    if max(reads.count, writes.count, reads.bytes, writes.bytes) > COUNT_MAX:
        raise EvidenceContradictory("more operations or bytes than any storage has")
    for op, moved in counts.by_op:
        if not moved.count <= moved.bytes <= max(moved.count, 1) << 31:
            many = f"{moved.count:,} {op}s of temp files of {format_bytes(moved.bytes)} in all"
            raise EvidenceContradictory(f"{many}: each moves 1 byte to 2 GiB")
    if not 1 <= threads <= THREADS_MAX:
        raise EvidenceContradictory(f"{threads:g} threads", f"give 1 to {THREADS_MAX:,}")
    io_s = counts.total_s
    if max(counts.elapsed_s, counts.cpu_s or 0.0, io_s) > LONGEST_S:
        raise EvidenceContradictory("a time of more than 30 years", "times are in seconds")
    if io_s > (1 + ROUNDING_SHARE) * threads * counts.elapsed_s:
        words = "one thread" if threads == 1 else f"{threads:.3g} threads"
        raise EvidenceContradictory(
            f"temp I/O took {format_duration(io_s)} in {words}, and "
            f"the run {format_duration(counts.elapsed_s)}",
            "give the mean number of threads, or the elapsed time of the whole run",
        )
    return counts


#: The number of operations and their bytes by op.
OpTotals = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class TempTimes:
    """Seconds of reads and of writes, summed over all processes; bounds of their sum."""

    read_s: float | None
    write_s: float | None
    within: Bounds[float] | None = None

    def moved(self, totals: OpTotals) -> TempCounts:
        """Reads and writes that take these times."""
        (reads, read_bytes), (writes, written_bytes) = (map(round, totals[op]) for op in OPS)
        return TempCounts(
            OpCounts.timed(reads, read_bytes, self.read_s),
            OpCounts.timed(writes, written_bytes, self.write_s),
            self.within,
        )

    def bounded(self, fewest: OpTotals, most: OpTotals, reason: str, remedy: str) -> TempCounts:
        """Reads and writes that take these times; their numbers are geometric means of bounds."""
        mean = {
            op: [
                sqrt(low * high) if low else high / 2
                for low, high in zip(fewest[op], most[op], strict=True)
            ]
            for op in OPS
        }
        lower, temp, upper = (
            self.moved({op: (round(n) or size > 0, size) for op, (n, size) in totals.items()})
            for totals in (fewest, mean, most)
        )
        return temp.between(lower, upper, reason, remedy)


def printed_times(read: Number | None, write: Number | None) -> TempTimes:
    """Times as printed, with bounds where rounding matters, as in ``0.00``."""
    read, write = read or ZERO, write or ZERO
    total = read + write
    within = Bounds(total.low, total.high, "the report rounds times of waits", TRACE_HINT)
    if total.value:
        return TempTimes(read.value, write.value, within if total.spread > _SPREAD_SHOWN else None)
    return TempTimes(read.high / 2, write.high / 2, within)


def times_up_to(
    total_s: float, reads: int, writes: int, because: str, remedy: str = _TIMES_HINT
) -> TempTimes:
    """Times of temp I/O of which only a maximum is known: half of it, shared by operation count."""
    share = total_s / 2 / max(reads + writes, 1)
    return TempTimes(share * reads, share * writes, Bounds(0.0, total_s, because, remedy))


def with_unlisted(times: TempTimes, more_s: float, because: str) -> TempTimes:
    """The same times if waits that the report does not list may have taken up to ``more_s``."""
    total_s = (times.read_s or 0.0) + (times.write_s or 0.0)
    within = times.within or Bounds(total_s, total_s, because)
    bounds = Bounds(within.lower, within.upper + more_s, because, TRACE_HINT)
    return replace(times, within=bounds)


def with_count_bounds(
    times: TempTimes,
    samples: Mapping[str, int],
    max_counts: Mapping[str, int],
    size_bytes: float,
    because: str,
    remedy: str,
) -> TempCounts:
    """Temp I/O of known time whose number of operations has only bounds.

    The bounds are one operation for each sample, and ``max_counts`` or what the time allows.
    """
    seconds = {"read": times.read_s, "write": times.write_s}
    lower = {op: max(1, samples.get(op, 0)) for op in OPS}
    by_time = {op: round((seconds[op] or 0.0) / _SHORTEST_S) for op in OPS}
    upper = {op: max(lower[op], max_counts.get(op) or by_time[op]) for op in OPS}
    lowest, highest = sum(lower.values()), sum(upper.values())
    words = f"{because}: their number is between {lowest:,} and {highest:,}"
    fewest, most = (
        {op: (n, n * size_bytes) for op, n in counts.items()} for counts in (lower, upper)
    )
    return times.bounded(fewest, most, words, remedy)
