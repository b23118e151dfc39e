"""Estimates of quantities of the entire query, and the pooling of several estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import Literal

import numpy as np

from spillcast.forecast.interval import NINE_IN_TEN
from spillcast.forecast.remaining.progress import Array
from spillcast.stats import inverse_variance

#: Of the entire query: bytes written to and read from temp files, time outside temp I/O, elapsed
#: time. ``writes`` are the bytes that remain to be written.
Quantity = Literal["written", "read", "rest", "elapsed", "writes"]
#: Least standard deviation of the logarithm of an estimate.
MIN_SPREAD = 0.01
#: If 0 is the most likely value: standard deviations above which a draw is larger.
LIKELY = 0.5
#: Sources of estimates, in words.
ELAPSED, FILES_SOURCE, PLAN_SOURCE, HISTORY_SOURCE, CALLS_SOURCE = (
    "--elapsed",
    "files written and not yet read",
    "the plan, which was not run",
    "a previous run",
    "previous calls, by pg_stat_statements",
)


@dataclass(frozen=True)
class Estimate:
    """A quantity of the entire query on the recorded storage, with a 90 % interval."""

    quantity: Quantity
    low: float
    centre: float
    high: float
    source: str

    @classmethod
    def around(
        cls,
        quantity: Quantity,
        centre: float,
        spread: float,
        source: str,
        above: float | None = None,
    ) -> "Estimate":
        """An estimate from the standard deviation of its logarithm, ``above`` if not symmetric."""
        low = centre * exp(-NINE_IN_TEN * spread)
        high = centre * exp(NINE_IN_TEN * (spread if above is None else above))
        return cls(quantity, low, centre, high, source)

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the logarithm, below and above."""
        below = log(self.centre / self.low) / NINE_IN_TEN if self.low > 0 else 1.0
        above = log(self.high / self.centre) / NINE_IN_TEN
        return max(below, MIN_SPREAD), max(above, MIN_SPREAD)

    @property
    def spread(self) -> float:
        """Root mean square of both."""
        return hypot(*self.spreads) / 2**0.5

    def drawn(self, normal: Array) -> Array:
        """Draws, from draws of a standard normal."""
        if not self.centre:
            # 0 is the most likely value.
            beyond = np.maximum(normal - LIKELY, 0.0) / (NINE_IN_TEN - LIKELY)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Array = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws


def pooled_by_quantity(estimates: Sequence[Estimate]) -> Mapping[Quantity, Estimate]:
    """One estimate for each quantity.

    An estimate of all bytes written replaces one of the remaining writes by the files, which more
    writes may follow.
    """
    by: dict[Quantity, list[Estimate]] = {}
    for estimate in estimates:
        by.setdefault(estimate.quantity, []).append(estimate)
    if "written" in by:
        by.pop("writes", None)
    return {quantity: _pool(alike) for quantity, alike in by.items()}


def _pool(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates, weighted by inverse variance.

    If they differ by more than their spreads explain, the spread grows by as much (Birge).
    """
    if len(estimates) == 1:
        return estimates[0]
    logs = np.array([log(estimate.centre) for estimate in estimates])
    weights, spread = inverse_variance(logs, np.array([estimate.spread for estimate in estimates]))
    order = np.argsort(-weights, kind="stable")
    source = " and ".join(dict.fromkeys(estimates[at].source for at in order))
    return Estimate.around(estimates[0].quantity, exp(float(weights @ logs)), spread, source)
