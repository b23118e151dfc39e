"""What a source says of a whole query: a figure, its bounds, and where it is from."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.sum.interval import NINE_IN_TEN

Array = NDArray[np.float64]
#: What is told: bytes that the whole query writes to temp files, reads from them; its time outside
#: temp I/O, and all of it. ``writes`` are bytes that are yet to come.
About = Literal["written", "read", "rest", "elapsed", "writes"]
#: No figure is taken to be surer than this (standard deviation of its logarithm).
SURE = 0.01
#: Where nothing is the most likely: standard deviations above which there is something.
LIKELY = 0.5


@dataclass(frozen=True)
class QuantityEstimate:
    """A figure of the whole query on the storage that it was recorded on, nine in ten within."""

    about: About
    low: float
    centre: float
    high: float
    #: ``spill``, ``input``, ``plan``, ``history`` or ``told``, and it in words.
    kind: str
    source: str

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the logarithm, below and above."""
        below = log(self.centre / self.low) / NINE_IN_TEN if self.low > 0 else 1.0
        return max(below, SURE), max(log(self.high / self.centre) / NINE_IN_TEN, SURE)

    def drawn(self, normal: Array) -> Array:
        """Draws, from draws of a standard normal."""
        if not self.centre:
            # More likely than not there is nothing of it.
            beyond = np.maximum(normal - LIKELY, 0.0) / (NINE_IN_TEN - LIKELY)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Array = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws


def about(
    quantity: About,
    centre: float,
    spread: float,
    kind: str,
    source: str,
    above: float | None = None,
) -> QuantityEstimate:
    """A figure with a standard deviation of its logarithm, ``above`` where that differs."""
    low = centre * exp(-NINE_IN_TEN * spread)
    high = centre * exp(NINE_IN_TEN * (spread if above is None else above))
    return QuantityEstimate(quantity, low, centre, high, kind, source)


def together(estimates: Sequence[QuantityEstimate]) -> QuantityEstimate:
    """One figure of several, each with a weight of one over its spread squared.

    Where they are further apart than that explains, the spread grows by as much (Birge).
    """
    if len(estimates) == 1:
        return estimates[0]
    spreads = np.array([hypot(*estimate.spreads) / 2**0.5 for estimate in estimates])
    weights = spreads**-2 / (spreads**-2).sum()
    logs = np.array([log(estimate.centre) for estimate in estimates])
    centre = float(weights @ logs)
    apart = float((((logs - centre) / spreads) ** 2).sum()) / (len(estimates) - 1)
    spread = float((spreads**-2).sum() ** -0.5 * max(apart, 1.0) ** 0.5)
    order = np.argsort(-weights, kind="stable")
    source = " and ".join(dict.fromkeys(estimates[at].source for at in order))
    return about(estimates[0].about, exp(centre), spread, estimates[order[0]].kind, source)
