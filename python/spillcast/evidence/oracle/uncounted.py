"""Temp I/O of which only the time is known: between the fewest operations and the most."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from spillcast.evidence.counts import Bounds
from spillcast.evidence.figures.figures import Figures, Moved
from spillcast.recording.event_names import OPS

#: Bytes of an operation where nothing tells: 31 blocks.
OPERATION_BYTES = 31 * 8192
#: What a wait for temp files takes at the least.
_SHORTEST_S = 10e-6


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
