"""The CPU time that a wait costs once it is over, as measured by real work on a machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.document import key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Between waits that were measured the cost is a straight line over log(1 + wait / this): nothing
#: goes cold in less, and each time as long brings as much again.
SHORT_S = 20e-6
#: No wait costs more than one of so many times the longest that was measured.
BEYOND = 8.0
#: The engine of a cost that rests on all of them.
ANY = "any"
#: Lengths of waits that are told apart when many are looked at, per power of ten.
LEVELS = 8


@dataclass(frozen=True)
class WaitCost:
    """Extra CPU time of the work after a wait, by its length and that of the work.

    Work goes through memory that went cold, step by step: of each part with a CPU time f in which
    it is gone through, work of CPU time b meets 1 - exp(-b / f). A wait of w makes a share s(w) of
    f longer: extra(b, w) = sum over f of s(w) * f * (1 - exp(-b / f)).
    """

    engine: str = key("engine whose queries were run; `any` for all together", example="postgres")
    queries: int = key("how many", example=4)
    spread: float = key("relative standard deviation between queries", example=0.4)
    fill_s: Sequence[float] = key("CPU times f", unit="s", example=[1e-5, 1e-4])
    waits_s: Sequence[float] = key("measured waits, ascending", unit="s", example=[0.0003])
    shares: Sequence[Sequence[float]] = key(
        "shares s: a list for each wait, with an entry for each f", example=[[1.0, 0.2]]
    )

    def extra_s(self, warm_s: "Floats", wait_s: float) -> "Floats":
        """CPU time that work takes more after a wait than warm, where it takes ``warm_s``."""
        import numpy as np

        return filled_s(warm_s, np.array(self.fill_s)) @ self._shares(wait_s)

    def warm_s(self, burst_s: "Floats", wait_s: float) -> "Floats":
        """What work that took ``burst_s`` after a wait takes warm: the other way round."""
        import numpy as np

        if not len(burst_s):
            return burst_s
        longest_s = max(float(burst_s.max()), 1e-9)
        warm_s = np.concatenate([[0.0], np.geomspace(min(1e-7, longest_s / 10), longest_s, 400)])
        return np.asarray(np.interp(burst_s, warm_s + self.extra_s(warm_s, wait_s), warm_s))

    def moved_s(self, burst_s: "Floats", waited_s: "Floats", wait_s: float) -> float:
        """Seconds a burst takes more, on average, after ``wait_s`` than after what it waited."""
        import numpy as np

        levels = np.round(LEVELS * np.log10(np.maximum(waited_s, 1e-7)))
        total_s = 0.0
        for level in np.unique(levels):
            its = levels == level
            warm_s = self.warm_s(burst_s[its], float(waited_s[its].mean()))
            total_s += float((warm_s + self.extra_s(warm_s, wait_s) - burst_s[its]).sum())
        return total_s / max(len(burst_s), 1)

    def _shares(self, wait_s: float) -> "Floats":
        """The extra CPU time (s) after a wait of any length."""
        import numpy as np

        known_s = [0.0, *self.waits_s]
        shares = np.vstack([np.zeros(len(self.fill_s)), np.array(self.shares)])
        wait_s = min(wait_s, BEYOND * known_s[-1])
        at, *points = weights_of(np.array([wait_s, *known_s]))
        right = min(int(np.searchsorted(points, at, side="left")) or 1, len(points) - 1)
        part = (at - points[right - 1]) / (points[right] - points[right - 1])
        return np.asarray(shares[right - 1] + part * (shares[right] - shares[right - 1]))


@dataclass(frozen=True)
class MachineCalibration:
    """The part of its machine's calibration that a recording contains."""

    measured_at_s: float = key("time of the measurement", unit="s since 1970", example=1.8e9)
    costs: Sequence[WaitCost] = key(
        "cost of a wait by engine; the last entry is for all engines together"
    )

    def cost_of(self, engine: str) -> WaitCost:
        """The cost for an engine, or that for all if it was not measured."""
        return next((cost for cost in self.costs if cost.engine == engine), self.costs[-1])


def weights_of(waits_s: "Floats") -> "Floats":
    """How much goes cold in a wait, in no unit; 0 in none."""
    import numpy as np

    return np.log1p(waits_s / SHORT_S)


def filled_s(work_s: "Floats", fill_s: "Floats") -> "Floats":
    """CPU time in which work goes through each part of memory: rows of work, columns f."""
    import numpy as np

    return np.asarray(fill_s * -np.expm1(-np.asarray(work_s)[:, None] / fill_s))
