"""Shared statistics: quantiles of histograms, bootstrap, least squares, pooling.

A histogram consists of the ascending middles of its buckets and the count in each. Profiles of
traces do not import numpy, because that takes longer than reading a small trace. Functions that
need numpy import it themselves.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from spillcast.columns import Floats

#: 90 % of a normal distribution lie within this many standard deviations of its mean.
NORMAL_95 = 1.6448536269514715
#: Above this number of blocks of a measurement, neighbours are joined.
BLOCKS_MAX = 1000
#: Steps after which non-negative least squares have converged.
NNLS_STEPS = 2000


def quantile(middles: Sequence[float], counts: Iterable[float], share: float) -> float:
    """The middle of the bucket that contains the quantile; the histogram must not be empty."""
    return quantiles(middles, counts, [share])[0]


def quantiles(
    middles: Sequence[float], counts: Iterable[float], shares: Iterable[float]
) -> list[float]:
    """The middles of the buckets that contain the quantiles ``shares``."""
    sums = list(accumulate(counts))
    at = (bisect_left(sums, share * sums[-1]) for share in shares)
    return [middles[min(index, len(sums) - 1)] for index in at]


def rounded(values: Iterable[int]) -> tuple[list[int], list[int]]:
    """The histogram of single values, rounded to within 1 %."""
    return merged(([int(float(f"{value:.2e}"))], [1]) for value in values)


def merged(
    histograms: Iterable[tuple[Sequence[int], Sequence[int]]],
) -> tuple[list[int], list[int]]:
    """The sum of several histograms."""
    buckets = Counter[int]()
    for middles, counts in histograms:
        for middle, count in zip(middles, counts, strict=True):
            buckets[middle] += count
    boundaries = sorted(buckets)
    return boundaries, [buckets[middle] for middle in boundaries]


def inverse_variance(values: "Floats", errors: "Floats") -> tuple["Floats", float]:
    """Weights of independent estimates, proportional to 1/error^2, and the error of their mean.

    If the values differ by more than their errors explain, it grows by the Birge ratio.
    """
    weights = errors**-2 / (errors**-2).sum()
    ratio = float((((values - weights @ values) / errors) ** 2).sum()) / (len(values) - 1)
    return weights, float((errors**-2).sum() ** -0.5 * max(ratio, 1.0) ** 0.5)


def resampled_means(blocks: "Floats", draws: "np.random.Generator", count: int) -> "Floats":
    """Block bootstrap: ``count`` resampled means of a measurement, over its own mean.

    ``blocks`` are rows of count and mean. Entire blocks are drawn, because consecutive latencies
    are correlated.
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
