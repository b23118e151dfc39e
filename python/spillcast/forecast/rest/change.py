"""How the CPU time of a query moves with the storage: estimates, and what several of them say."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.load import Load

Array = NDArray[np.float64]
#: An estimate is never surer than this share of what it says: nothing of the kind repeats better.
LEAST_ERROR = 0.05


@dataclass(frozen=True)
class CpuChange:
    """CPU time that operations take more on the target than here, and how far off that may be."""

    #: Where it is from: ``machine``, ``recording``, ``rehearsal``, or several of these.
    source: str
    #: Seconds an operation takes more, by load; below 0 where waits get shorter.
    each_s: Array
    #: Operations by load.
    count: Array
    #: Standard error of the whole, s.
    error_s: float

    @cached_property
    def total_s(self) -> float:
        """Of all operations together."""
        return float(self.count @ self.each_s)


def counts(loads: Sequence[Load]) -> Array:
    """Operations by load."""
    return np.array([load.count for load in loads], dtype=float)


def blended(estimates: Sequence[CpuChange]) -> CpuChange:
    """One estimate of several of the same loads, each with a weight of one over its error squared.

    They are taken to be wrong for reasons of their own; where they are further apart than their
    errors explain, the error grows by as much (Birge).
    """
    if len(estimates) == 1:
        return estimates[0]
    errors = np.array(
        [max(estimate.error_s, LEAST_ERROR * abs(estimate.total_s)) for estimate in estimates]
    )
    if not errors.all():
        return estimates[int(np.argmin(errors))]
    weights = errors**-2 / (errors**-2).sum()
    totals = np.array([estimate.total_s for estimate in estimates])
    apart = float((((totals - weights @ totals) / errors) ** 2).sum()) / (len(estimates) - 1)
    return CpuChange(
        " and ".join(estimate.source for estimate in estimates),
        np.asarray(weights @ np.array([estimate.each_s for estimate in estimates])),
        estimates[0].count,
        float((errors**-2).sum() ** -0.5 * max(apart, 1.0) ** 0.5),
    )
