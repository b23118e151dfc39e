"""How long temp I/O took, where a report prints rounded times or only bounds of them."""

from dataclasses import dataclass

from spillcast.evidence.counts import Bounds
from spillcast.evidence.figures.numbers import ZERO, Number

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
