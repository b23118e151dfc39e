"""Statistics that several rooms use: quantiles of histograms, bootstrap, least squares, pooling.

A histogram is kept as the middles of its buckets, ascending, and the count in each. Profiles of
traces are made without numpy, whose import takes longer than a small trace, so the functions that
use it import it themselves.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: The 95 % quantile of a normal distribution: 90 % of it lie within so many standard deviations.
NORMAL_95 = 1.6448536269514715
#: More blocks of a measurement are joined with their neighbours to at most so many.
BLOCKS_MAX = 1000
#: Steps in which non-negative least squares settle.
NNLS_STEPS = 2000


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


def inverse_variance(values: "Floats", errors: "Floats") -> tuple["Floats", float]:
    """Weights of independent estimates, one over the error squared, and the error of their mean.

    If values differ by more than their errors explain, the error grows by as much (Birge ratio).
    """
    weights = errors**-2 / (errors**-2).sum()
    ratio = float((((values - weights @ values) / errors) ** 2).sum()) / (len(values) - 1)
    return weights, float((errors**-2).sum() ** -0.5 * max(ratio, 1.0) ** 0.5)


def resampled_means(blocks: "Floats", draws: "np.random.Generator", count: int) -> "Floats":
    """Block bootstrap: ``count`` means of the measurement, resampled by block, over its own mean.

    ``blocks`` are rows of count and mean. Latencies next to each other are alike, so entire blocks
    are drawn, not single operations.
    """
    import numpy as np

    if len(blocks) < 2:
        return np.ones(count)
    begins = np.arange(0, len(blocks), -(-len(blocks) // BLOCKS_MAX))
    size, total = (np.add.reduceat(each, begins) for each in (blocks[:, 0], blocks.prod(axis=1)))
    overall = float(total.sum() / size.sum())
    if overall == 0:
        return np.ones(count)
    picks = draws.integers(0, len(size), (count, len(size)))
    means = total[picks].sum(axis=1) / size[picks].sum(axis=1)
    return np.asarray(means / overall)


def nonnegative_least_squares(matrix: "Floats", target: "Floats") -> "Floats":
    """Least squares without negative unknowns, by coordinate descent."""
    import numpy as np

    square, right = matrix.T @ matrix, matrix.T @ target
    solution = np.zeros(len(right))
    for _ in range(NNLS_STEPS):
        for at in np.flatnonzero(square.diagonal() > 0):
            step = (right[at] - square[at] @ solution) / square[at, at]
            solution[at] = max(solution[at] + step, 0.0)
    return solution
