"""An estimate of a quantity of the entire query, and how several of them are pooled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from typing import Literal

import numpy as np

from spillcast.forecast.interval import NINE_IN_TEN
from spillcast.forecast.remaining.progress import Array
from spillcast.stats import inverse_variance

#: Bytes that the entire query writes to temp files, and reads from them; its time outside temp I/O,
#: and all of it. ``writes`` are bytes that remain to be written.
Quantity = Literal["written", "read", "rest", "elapsed", "writes"]
#: No estimate is taken to be surer than this (standard deviation of its logarithm).
MIN_SPREAD = 0.01
#: Where nothing is the most likely: standard deviations above which there is something.
LIKELY = 0.5
#: What shows a quantity, in words.
ELAPSED, FILES_SOURCE, PLAN_SOURCE, HISTORY_SOURCE, CALLS_SOURCE = (
    "--elapsed",
    "files written and not yet read",
    "the plan, which was not run",
    "a previous run",
    "previous calls, by pg_stat_statements",
)


@dataclass(frozen=True)
class Estimate:
    """A quantity of the entire query on the storage of its recording, nine in ten within."""

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
        """With a standard deviation of its logarithm, ``above`` where that differs."""
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
        """Both together."""
        return hypot(*self.spreads) / 2**0.5

    def drawn(self, normal: Array) -> Array:
        """Draws, from draws of a standard normal."""
        if not self.centre:
            # More likely than not there is nothing of it.
            beyond = np.maximum(normal - LIKELY, 0.0) / (NINE_IN_TEN - LIKELY)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Array = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws


def pooled_by_quantity(estimates: Sequence[Estimate]) -> Mapping[Quantity, Estimate]:
    """One estimate of each quantity that has any.

    Bytes that remain by the files alone may be followed by more, so that those of the entire query
    replace them.
    """
    by: dict[Quantity, list[Estimate]] = {}
    for estimate in estimates:
        by.setdefault(estimate.quantity, []).append(estimate)
    if "written" in by:
        by.pop("writes", None)
    return {quantity: _pool(alike) for quantity, alike in by.items()}


def _pool(estimates: Sequence[Estimate]) -> Estimate:
    """One estimate of several, each with a weight of one over its spread squared.

    Where they are further apart than that explains, the spread grows by as much (Birge).
    """
    if len(estimates) == 1:
        return estimates[0]
    logs = np.array([log(estimate.centre) for estimate in estimates])
    weights, spread = inverse_variance(logs, np.array([estimate.spread for estimate in estimates]))
    order = np.argsort(-weights, kind="stable")
    source = " and ".join(dict.fromkeys(estimates[at].source for at in order))
    return Estimate.around(estimates[0].quantity, exp(float(weights @ logs)), spread, source)
