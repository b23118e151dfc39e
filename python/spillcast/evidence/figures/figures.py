"""Counts of a run from what a report, a profile or a person states of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceIncomplete,
    NoTempIo,
    TimesUnknown,
)
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Bounds, Counts, OpCounts, middle_processes
from spillcast.evidence.figures.numbers import ZERO, Number
from spillcast.gate import COUNT_MAX
from spillcast.recording.event_names import OPS
from spillcast.units import format_duration

#: The sources of such counts: what a person typed, what Oracle reports, and what DuckDB does.
FIGURES, REPORT, PROFILE = "figures", "report", "profile"
_UNTIMED = "give the time of its temp I/O, or name its storage with --from"
#: Rounded times may add up to more than the run by so much of it.
ROUNDED = 0.02
#: 30 years: no run took as long.
LONGEST_S = 1e9
THREADS_MAX = 10_000
#: Blocks of an operation where nothing tells: the most usual number in traces of Oracle.
OPERATION_BLOCKS = 31
OPERATION_BYTES = OPERATION_BLOCKS * 8192
#: What a wait for temp files takes at the least.
_SHORTEST_S = 10e-6
#: Rounding that leaves less open than this is not worth a word.
_PRECISE = 0.25
_STORAGE_TELLS = "name the storage of its temp files with --from"
TRACE_TELLS = "a trace (10046) or ASH of the run shows it"


def counts_of_figures(
    path: Path,
    selection: Selection,
    *,
    elapsed_s: float,
    reads: OpCounts,
    writes: OpCounts,
    source: str = REPORT,
    elapsed_unknown: str = "",
    threads: float = 1.0,
    busy_s: float | None = None,
    cpu_s: float | None = None,
    processes_bounds: Bounds[float] | None = None,
    time_bounds: Bounds[float] | None = None,
    notes: Sequence[str] = (),
    **more: Any,
) -> Counts:
    """The counts of a run; ``more`` are fields of Counts.

    ``threads`` is how many were at work on the mean; times of I/O and CPU are summed over them.
    Where ``busy_s`` is known, the time of all of them together, they follow from it.
    ``elapsed_unknown`` says why there is no elapsed time. InputError for figures that cannot be;
    Refusal, if ``selection.timed``, where nothing tells how long temp I/O took.
    """
    elapsed_s = selection.elapsed_s or elapsed_s
    if elapsed_s <= 0:
        because = f": {elapsed_unknown}" if elapsed_unknown else ""
        raise EvidenceIncomplete(
            f"{path}: no elapsed time{because}", "give it with --elapsed, such as 12m53s"
        )
    if busy_s is not None:
        threads = max(1.0, busy_s / elapsed_s)
    counts = _checked(
        Counts(
            path=path,
            elapsed_s=elapsed_s,
            reads=reads,
            writes=writes,
            source=source,
            processes=threads,
            processes_bounds=processes_bounds,
            time_bounds=time_bounds if selection.timed else None,
            cpu_s=cpu_s,
            # What is read was written once, if nothing else is known.
            held_bytes=writes.bytes or reads.bytes,
            notes=tuple(notes),
            **more,
        )
    )
    if selection.timed and not counts.total_s:
        raise TimesUnknown(f"{path}: no time of temp I/O is given: {_UNTIMED}")
    if processes_bounds is not None:
        threads = middle_processes(processes_bounds)
    return replace(counts, processes=threads, cpu_s=cpu_s if counts.processes == 1 else None)


def with_io_bounds(
    counts: Counts,
    lower: tuple[OpCounts, OpCounts],
    upper: tuple[OpCounts, OpCounts],
    reason: str,
    remedy: str,
) -> Counts:
    """The counts with the least and the most temp I/O that the run may have done."""
    fewest, most = (
        _checked(
            replace(counts, reads=reads, writes=writes, held_bytes=writes.bytes or reads.bytes)
        )
        for reads, writes in (lower, upper)
    )
    return replace(counts, io_bounds=Bounds(fewest, most, reason, remedy))


def _checked(counts: Counts) -> Counts:
    """The same. InputError for what no run can have been."""
    path, reads, writes, threads = counts.path, counts.reads, counts.writes, counts.processes
    if not counts.operations:
        raise NoTempIo(
            f"{path}: no reads and writes of temp files",
            "a forecast needs their number and size",
        )
    if max(reads.count, writes.count, reads.bytes, writes.bytes) > COUNT_MAX:
        raise EvidenceContradictory(f"{path}: more operations or bytes than any storage has")
    if not 1 <= threads <= THREADS_MAX:
        raise EvidenceContradictory(
            f"{path}: {threads:g} threads", f"there are 1 to {THREADS_MAX:,}"
        )
    io_s = counts.total_s
    if max(counts.elapsed_s, counts.cpu_s or 0.0, io_s) > LONGEST_S:
        raise EvidenceContradictory(f"{path}: a time of more than 30 years", "times are in seconds")
    if io_s > (1 + ROUNDED) * threads * counts.elapsed_s:
        words = "one thread" if threads == 1 else f"{threads:.3g} threads"
        raise EvidenceContradictory(
            f"{path}: temp I/O took {format_duration(io_s)} in {words}, and "
            f"the run {format_duration(counts.elapsed_s)}",
            "give the mean number of threads, or the elapsed time of the whole run",
        )
    return counts


@dataclass(frozen=True)
class TempTimes:
    """Seconds of reads and of writes, summed over all processes, and their bounds."""

    read_s: float | None
    write_s: float | None
    within: Bounds[float] | None = None

    def moved(
        self, counts: Mapping[str, int], size_bytes: Mapping[str, float]
    ) -> tuple[OpCounts, OpCounts]:
        """Reads and writes of these times: how many and how many bytes in all, by op."""
        return (
            OpCounts.timed(counts["read"], round(size_bytes["read"]), self.read_s),
            OpCounts.timed(counts["write"], round(size_bytes["write"]), self.write_s),
        )


def printed(read: Number | None, write: Number | None) -> TempTimes:
    """Times as printed; their bounds where the last digit matters, as of ``0.00``."""
    times = read or ZERO, write or ZERO
    total = times[0] + times[1]
    if total.spread <= _PRECISE:
        return TempTimes(times[0].value, times[1].value)
    within = Bounds(total.low, total.high, "the report rounds times of waits", TRACE_TELLS)
    if total.value:
        return TempTimes(times[0].value, times[1].value, within)
    return TempTimes(times[0].high / 2, times[1].high / 2, within)


def at_most(total_s: float, reads: int, writes: int, because: str) -> TempTimes:
    """Where temp I/O took no longer than this, and nothing tells how long."""
    share = total_s / 2 / max(reads + writes, 1)
    within = Bounds(0.0, total_s, because, f"{_STORAGE_TELLS}; {TRACE_TELLS}")
    return TempTimes(share * reads, share * writes, within)


def with_more(times: TempTimes, more_s: float, because: str) -> TempTimes:
    """The same where waits that are not listed may have taken so much more."""
    total_s = (times.read_s or 0.0) + (times.write_s or 0.0)
    lower_s = total_s if times.within is None else times.within.lower
    upper_s = total_s if times.within is None else times.within.upper
    within = Bounds(lower_s, upper_s + more_s, because, TRACE_TELLS)
    return TempTimes(times.read_s, times.write_s, within)


@dataclass(frozen=True)
class Uncounted:
    """Temp I/O of known time that has only bounds of its number: reads and writes of each."""

    lower: tuple[OpCounts, OpCounts]
    middle: tuple[OpCounts, OpCounts]
    upper: tuple[OpCounts, OpCounts]
    reason: str

    def bounds(self, counts: Counts, remedy: str) -> Counts:
        """The counts, which are those of the middle, with both bounds."""
        return with_io_bounds(counts, self.lower, self.upper, self.reason, remedy)


def uncounted(
    times: TempTimes,
    samples: Mapping[str, int],
    max_counts: Mapping[str, int],
    size_bytes: float,
    because: str,
) -> Uncounted:
    """Between one operation a sample, and ``max_counts``, or as many as their time allows."""
    seconds = {"read": times.read_s, "write": times.write_s}
    min_counts = {op: max(1, samples.get(op, 0)) for op in OPS}
    by_time = {op: round((seconds[op] or 0.0) / _SHORTEST_S) for op in OPS}
    upper_counts = {op: max(min_counts[op], max_counts.get(op) or by_time[op]) for op in OPS}
    middle = {op: max(1, round(sqrt(min_counts[op] * upper_counts[op]))) for op in OPS}
    lower, between, upper = (
        times.moved(counts, {op: count * size_bytes for op, count in counts.items()})
        for counts in (min_counts, middle, upper_counts)
    )
    lowest, highest = sum(min_counts.values()), sum(upper_counts.values())
    words = f"{because}: their number is between {lowest:,} and {highest:,}"
    return Uncounted(lower, between, upper, words)
