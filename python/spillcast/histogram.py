"""Histograms as all rooms keep them: the middles of the buckets, ascending, and what is in each."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

#: The 95 % quantile of a normal distribution: 90 % of it lie within so many standard deviations.
NORMAL_95 = 1.645


def quantile(middles: Sequence[float], counts: Iterable[float], share: float) -> float:
    """The bucket below whose end this share lies; there must be something in one."""
    return quantiles(middles, counts, [share])[0]


def quantiles(
    middles: Sequence[float], counts: Iterable[float], shares: Iterable[float]
) -> list[float]:
    """The buckets below whose ends these shares lie."""
    sums = list(accumulate(counts))
    at = (bisect_left(sums, share * sums[-1]) for share in shares)
    return [middles[min(index, len(sums) - 1)] for index in at]


def rounded(values: Iterable[int]) -> tuple[list[int], list[int]]:
    """A histogram of single values: each to within 1 %."""
    return merged(([int(float(f"{value:.2e}"))], [1]) for value in values)


def merged(
    histograms: Iterable[tuple[Sequence[int], Sequence[int]]],
) -> tuple[list[int], list[int]]:
    """All of them as one."""
    buckets = Counter[int]()
    for middles, counts in histograms:
        for middle, count in zip(middles, counts, strict=True):
            buckets[middle] += count
    boundaries = sorted(buckets)
    return boundaries, [buckets[middle] for middle in boundaries]
