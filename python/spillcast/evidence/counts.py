"""Counts of the temp I/O of a run: totals by op, and bounds of what their source leaves open.

Plans, statement statistics, reports and stated figures contain such totals and no single waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from spillcast.errors import TimesContradictory
from spillcast.recording.calibration import MachineCalibration
from spillcast.recording.event_names import OPS
from spillcast.recording.meta import NOBODY, ObservedEngine
from spillcast.recording.server_meta import Statement
from spillcast.units import format_duration

T = TypeVar("T")
#: The smallest total time of temp I/O: no latency follows from a time of 0.
MIN_TOTAL_S = 1e-6
#: Bounds of this ratio are those of a sample or of rounding.
CLOSE = 0.7
#: The evidence that contains the number of processes.
PROCESSES_REMEDY = "EXPLAIN (ANALYZE, BUFFERS) of a query shows it"


@dataclass(frozen=True)
class Bounds(Generic[T]):
    """A quantity that its source leaves open: its bounds, and the reason for them.

    ``remedy`` names the evidence that contains the quantity.
    """

    lower: T
    upper: T
    reason: str
    remedy: str = ""


def are_close(bounds: "Bounds[float]") -> bool:
    """Whether the bounds are so close that the quantity is about known."""
    return bounds.lower >= CLOSE * bounds.upper


def middle(bounds: "Bounds[float]") -> float:
    """The arithmetic mean of both bounds."""
    return (bounds.lower + bounds.upper) / 2


def middle_processes(bounds: "Bounds[float]") -> float:
    """The harmonic mean of both bounds: elapsed time goes with 1 / processes."""
    return 2 / (1 / bounds.lower + 1 / bounds.upper)


def feasible_processes(
    bounds: "Bounds[float]", elapsed_s: float, temp_s: float, other_s: float = 0.0
) -> "Bounds[float]":
    """The bounds without numbers of processes that could not have done the I/O in ``elapsed_s``.

    ``temp_s`` is all temp I/O and ``other_s`` all other I/O, summed over the processes, of which
    each does one thing at a time. TimesContradictory where that leaves none.
    """
    if temp_s == 0:
        return bounds
    left_s = elapsed_s - other_s / bounds.upper
    if temp_s > bounds.upper * left_s:
        io, elapsed = format_duration(temp_s + other_s), format_duration(elapsed_s)
        processes = "process" if bounds.upper == 1 else "processes"
        raise TimesContradictory(
            f"its I/O took {io} in all its processes and the query {elapsed}: that is more than "
            f"{bounds.upper:.3g} {processes} can do ({bounds.reason})"
        )
    return replace(bounds, lower=max(bounds.lower, temp_s / left_s))


@dataclass(frozen=True)
class Unknown:
    """A quantity of a run that has only bounds: the code of its warning, a sentence, a remedy."""

    code: str
    words: str
    remedy: str


@dataclass(frozen=True)
class OpCounts:
    """The reads or the writes of temp files: operations, bytes, and their time over all threads."""

    count: int = 0
    bytes: int = 0
    total_ns: int = 0

    @classmethod
    def timed(cls, count: int, size_bytes: int, total_s: float | None) -> "OpCounts":
        """Counts with a total time, 0 where that is not known."""
        return cls(count, size_bytes, round((total_s or 0.0) * 1e9) if count else 0)

    def scaled(self, times: float, counts: float) -> "OpCounts":
        """With so many times the total time, and so many times the operations."""
        if not self.count:
            return self
        count = max(1, round(self.count * counts))
        return OpCounts(count, round(self.bytes / self.count * count), round(self.total_ns * times))


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a source without single waits contains of one run.

    ``processes`` shared the temp I/O equally, on the mean. Of what has bounds, the counts hold a
    value between them.
    """

    #: What an error names.
    path: Path
    elapsed_s: float
    reads: OpCounts
    writes: OpCounts
    #: ``explain`` (PostgreSQL), ``report`` (Oracle), ``profile`` (DuckDB, ClickHouse) or
    #: ``figures`` (stated).
    source: str
    engine: ObservedEngine = NOBODY
    processes: float = 1.0
    processes_bounds: Bounds[float] | None = None
    #: Of the time of all temp I/O, summed over the processes (s).
    time_bounds: Bounds[float] | None = None
    #: Whether the number of operations follows from their time and a mean latency.
    counts_follow_time: bool = False
    #: The run with the least temp I/O that it may have done, and with the most.
    io_bounds: "Bounds[Counts] | None" = None
    cpu_s: float | None = None
    #: Elapsed time of reads of tables.
    data_read_s: float = 0.0
    #: Size of the temp files, and how many were written in turn.
    held_bytes: int = 0
    files: int = 1
    statement: Statement | None = None
    #: What a wait costs on the machine.
    calibration: MachineCalibration | None = None
    #: What the source does not contain, in sentences.
    notes: Sequence[str] = ()
    #: The storage whose latencies were assumed.
    timed_on: str | None = None
    #: Why there is no recording in place of the counts.
    absent_because: str | None = None

    @property
    def by_op(self) -> Sequence[tuple[str, OpCounts]]:
        """The ops that the run did."""
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
        """The quantity that has only bounds; None where all are known."""
        if self.io_bounds is not None:
            return Unknown("io-unknown", self.io_bounds.reason, self.io_bounds.remedy)
        if (time := self.time_bounds) is not None:
            lower, upper = format_duration(time.lower), format_duration(time.upper)
            words = f"how long temp I/O took is not known: {lower} to {upper} ({time.reason})"
            return Unknown("untold" if are_close(time) else "time-unknown", words, time.remedy)
        if (shared := self.processes_bounds) is None:
            return None
        words = (
            "temp I/O is summed over the processes of a query, and how many shared it is not "
            f"known: {shared.lower:.3g} to {shared.upper:.3g} ({shared.reason})"
        )
        return Unknown("processes", words, shared.remedy or PROCESSES_REMEDY)

    def at_bounds(self) -> "list[Counts]":
        """The counts at each bound of what has bounds; empty where all is known."""
        if self.io_bounds is None:
            return self._at_bounds_of_time()
        runs = self.io_bounds.lower, self.io_bounds.upper
        return [bound for run in runs for bound in run._at_bounds_of_time() or [run]]

    def with_mean_ns(self, mean_ns: Mapping[str, int]) -> "Counts":
        """Operations that take so long each, by op."""
        reads, writes = (
            replace(its, total_ns=mean_ns[op] * its.count if its.count else 0)
            for op, its in zip(OPS, (self.reads, self.writes), strict=True)
        )
        return replace(self, reads=reads, writes=writes)

    @property
    def of_statement(self) -> Statement | None:
        """The statement that ran; None where neither its text nor its identifier is known."""
        return self.statement or self.engine.statement

    def with_processes(self, processes: float) -> "Counts":
        """The same I/O, shared by so many processes."""
        return replace(self, processes=processes, processes_bounds=None)

    def with_total_s(self, total_s: float) -> "Counts":
        """Temp I/O that takes ``total_s``; the number of operations follows where it can."""
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
        # The bounds are parts of the elapsed time, in as many processes as there are taken to be.
        return [
            run.with_total_s(total_s * run.processes / self.processes)
            for run in runs
            for total_s in (time.lower, time.upper)
        ]
