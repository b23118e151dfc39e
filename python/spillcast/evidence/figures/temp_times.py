"""Times and numbers of temp I/O, where a report prints rounded ones or only bounds of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

from spillcast.evidence.counts import Bounds
from spillcast.evidence.figures.figures import Figures, Moved
from spillcast.evidence.figures.numbers import ZERO, Number
from spillcast.recording.event_names import OPS

#: Bytes of an operation where nothing tells: 31 blocks.
OPERATION_BYTES = 31 * 8192
#: What a wait for temp files takes at the least.
_SHORTEST_S = 10e-6
#: Rounding that leaves less open than this is not worth a word.
_PRECISE = 0.25
_STORAGE_TELLS = "name the storage of its temp files with --from"
TRACE_TELLS = "a trace (10046) or ASH of the run shows it"


@dataclass(frozen=True)
class TempTimes:
    """Seconds of reads and of writes, summed over all processes, and their bounds."""

    read_s: float | None
    write_s: float | None
    within: Bounds[float] | None = None


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
    least_s = total_s if times.within is None else times.within.lower
    most_s = total_s if times.within is None else times.within.upper
    within = Bounds(least_s, most_s + more_s, because, TRACE_TELLS)
    return TempTimes(times.read_s, times.write_s, within)


def uncounted(
    figures: Figures,
    samples: Mapping[str, int],
    most: Mapping[str, int],
    size_bytes: float,
    because: str,
    hint: str,
) -> Figures:
    """Between one operation a sample, and ``most`` of each op or as many as their time allows."""
    fewest = {op: max(1, samples.get(op, 0)) for op in OPS}
    by_time = {op: round((_time_s(figures, op) or 0.0) / _SHORTEST_S) for op in OPS}
    largest = {op: max(fewest[op], most.get(op) or by_time[op]) for op in OPS}
    middle = {op: max(1, round(sqrt(fewest[op] * largest[op]))) for op in OPS}
    words = (
        f"{because}: their number is between {sum(fewest.values()):,} and {sum(largest.values()):,}"
    )
    lower, upper = (_with_counts(figures, counts, size_bytes) for counts in (fewest, largest))
    between = Bounds(lower, upper, words, hint)
    return replace(_with_counts(figures, middle, size_bytes), between=between)


def _time_s(figures: Figures, op: str) -> float | None:
    return figures.reads.time_s if op == "read" else figures.writes.time_s


def _with_counts(figures: Figures, counts: Mapping[str, int], size: float) -> Figures:
    reads, writes = (
        Moved(counts[op], round(counts[op] * size), _time_s(figures, op)) for op in OPS
    )
    return replace(figures, reads=reads, writes=writes)
