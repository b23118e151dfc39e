"""How wide intervals must be: one factor, checked on workloads that it was not taken from.

An interval of low and high about a forecast f, made wider by k, goes from f * (low / f) ** k to
f * (high / f) ** k. The least k with which it holds the truth t is

    score = log(t / f) / log(b / f)        b: the bound on the side of the truth

so the k that makes a share of the cases fit is a quantile of their scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log

from spillcast.lab.case import Case


@dataclass(frozen=True)
class LeftOut:
    """A workload, the factor taken from all others, and how many of its cases that covers."""

    workload: str
    cases: int
    #: None where all the others together are too few for the level.
    k: float | None
    covered: int

    @property
    def coverage(self) -> float:
        """Share of its cases that the intervals hold once they are widened by ``k``."""
        return self.covered / self.cases


@dataclass(frozen=True)
class Calibration:
    """What the cases say of the width of intervals at one level."""

    confidence: float
    #: The factor from all cases together; None where they are too few for the level.
    k: float | None
    left_out: Sequence[LeftOut]

    @property
    def coverage(self) -> float | None:
        """Share of all cases that are held with the factor of the other workloads."""
        cases = sum(one.cases for one in self.left_out)
        return sum(one.covered for one in self.left_out) / cases if cases else None


def score(case: Case) -> float | None:
    """The least widening with which the interval holds the measured time; 0 where they are equal.

    None where the forecast was refused; infinite where a bound is the forecast itself.
    """
    forecast_s, bounds = case.forecast.forecast_s, case.forecast.interval_s
    if not forecast_s or bounds is None:
        return None
    off = log(case.measured_to_s / forecast_s)
    if off == 0:
        return 0.0
    bound = log(max(bounds[off > 0], 1e-9) / forecast_s)
    return off / bound if bound * off > 0 else inf


def widening(scores: Sequence[float], confidence: float) -> float | None:
    """The factor with which a further case is held with probability ``confidence``.

    Of n scores the one of rank ceil((n + 1) * confidence), as in conformal prediction; None where
    there are too few for that rank.
    """
    rank = ceil((len(scores) + 1) * confidence)
    return sorted(scores)[rank - 1] if rank <= len(scores) else None


def calibrate(cases: Sequence[Case], confidence: float = 0.9) -> Calibration:
    """Leave out one workload after the other, of all engines and thread counts at once."""
    known = [(case.workload, found) for case in cases if (found := score(case)) is not None]
    left_out = []
    for workload in sorted({name for name, _ in known}):
        its = [found for name, found in known if name == workload]
        k = widening([found for name, found in known if name != workload], confidence)
        covered = 0 if k is None else sum(found <= k for found in its)
        left_out.append(LeftOut(workload, len(its), k, covered))
    return Calibration(confidence, widening([found for _, found in known], confidence), left_out)
