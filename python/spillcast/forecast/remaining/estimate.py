"""An estimate of a quantity of the entire query, and the sources of such estimates."""

from dataclasses import dataclass
from math import exp, hypot, log
from typing import Literal

import numpy as np

from spillcast.columns import Floats
from spillcast.stats import NORMAL_95

#: Figures of the entire query: bytes written and read, time outside temp I/O (``rest``), elapsed
#: time. ``writes`` are the bytes that remain to be written.
Quantity = Literal["written", "read", "rest", "elapsed", "writes"]
#: Sources of estimates, as messages name them.
ELAPSED, FILES_SOURCE, PLAN_SOURCE, HISTORY_SOURCE, CALLS_SOURCE = (
    "--elapsed",
    "files written and not yet read",
    "the plan, which was not run",
    "a previous run",
    "previous calls, by pg_stat_statements",
)
#: Least standard deviation of the logarithm of an estimate.
MIN_SPREAD = 0.01
#: If 0 is the most likely value: standard deviations up to which a draw is 0.
LIKELY = 0.5


@dataclass(frozen=True)
class Estimated:
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
    ) -> "Estimated":
        """An estimate with a standard deviation of its logarithm, and another one ``above``."""
        low = centre * exp(-NORMAL_95 * spread)
        high = centre * exp(NORMAL_95 * (spread if above is None else above))
        return cls(quantity, low, centre, high, source)

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the logarithm, below and above."""
        below = log(self.centre / self.low) / NORMAL_95 if self.low > 0 else 1.0
        above = log(self.high / self.centre) / NORMAL_95
        return max(below, MIN_SPREAD), max(above, MIN_SPREAD)

    @property
    def spread(self) -> float:
        """Root mean square of ``spreads``."""
        return hypot(*self.spreads) / 2**0.5

    def drawn(self, normal: Floats) -> Floats:
        """Draws of the quantity, from draws of a standard normal distribution."""
        if not self.centre:
            beyond = np.maximum(normal - LIKELY, 0.0) / (NORMAL_95 - LIKELY)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Floats = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws
