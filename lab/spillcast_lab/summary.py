"""What cases say together: errors, coverage and width of intervals, the seed's formula beside."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

import numpy as np

from spillcast.lab.case import Case
from spillcast_lab.variants import without


@dataclass(frozen=True)
class Summary:
    """Figures of some cases; errors are absolute and relative to the measured time.

    None where there is nothing to take a figure from. ``ratio`` is the seed's median error over
    the forecast's on the cases that have both.
    """

    cases: int
    refused: int
    median: float | None
    p90: float | None
    worst: float | None
    #: Median of the signed errors; above 0 where forecasts are too long.
    bias: float | None
    #: Probability that so many errors or more have the same sign where forecasts have no bias.
    sign_test: float | None
    #: Of the intervals that were given, the share that holds the measured time.
    coverage: float | None
    half_width: float | None
    #: Share measured below what no storage was said to bring them under.
    below_ceiling: float | None
    #: How far a run on the target is from others there: the median over runs.
    run_apart: float | None
    seed_median: float | None
    ratio: float | None

    @property
    def refused_share(self) -> float | None:
        """Share of the cases without a number."""
        return self.refused / self.cases if self.cases else None


def summarise(cases: Sequence[Case]) -> Summary:
    """The figures of some cases."""
    signed = [case.error for case in cases if case.error is not None]
    errors = list(map(abs, signed))
    given = [case.covered for case in cases if case.forecast.interval_s is not None]
    widths = [case.half_width for case in cases if case.half_width is not None]
    below = [case.below_ceiling for case in cases if case.below_ceiling is not None]
    both = [
        (abs(case.error), abs(case.seed_error))
        for case in cases
        if case.error is not None and case.seed_error is not None
    ]
    seed_median = _median(seed for _, seed in both)
    beside = _median(error for error, _ in both)
    return Summary(
        cases=len(cases),
        refused=len(cases) - len(errors),
        median=_median(errors),
        p90=float(np.quantile(errors, 0.9)) if errors else None,
        worst=max(errors, default=None),
        bias=_median(signed),
        sign_test=sign_test(signed) if signed else None,
        coverage=sum(given) / len(given) if given else None,
        half_width=_median(widths),
        below_ceiling=sum(below) / len(below) if below else None,
        run_apart=_median(repeated(cases)),
        seed_median=seed_median,
        ratio=seed_median / beside if seed_median is not None and beside else None,
    )


def sign_test(errors: Sequence[float]) -> float:
    """Two-sided p-value of the signs: without bias, errors above and below 0 are equally likely."""
    above = sum(error > 0 for error in errors)
    count = above + sum(error < 0 for error in errors)
    fewer = sum(comb(count, k) for k in range(min(above, count - above) + 1))
    return min(fewer * 0.5 ** (count - 1), 1.0)


def grouped(cases: Iterable[Case], key: Callable[[Case], str]) -> dict[str, list[Case]]:
    """Cases by what they have in common, in the order of its words."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return dict(sorted(groups.items()))


#: Evidence of an entire run.
ENTIRE = ("recording", "event_log", "event_log+recording")


def of_evidence(cases: Iterable[Case], *names: str) -> list[Case]:
    """Those made from these kinds of evidence; of an entire run where none is named."""
    return [case for case in cases if case.evidence.name in (names or ENTIRE)]


def repeated(cases: Iterable[Case]) -> list[float]:
    """How far runs on the targets are from others there; those of several cases count once."""
    runs = {
        (case.engine, case.workload, case.threads, case.target): case.on_target for case in cases
    }
    return [apart for run in runs.values() for apart in run.deviations]


def without_estimate(cases: Iterable[Case], name: str) -> list[Case]:
    """The cases with forecasts that leave an estimate out, as they are where that says the same."""
    return [case.otherwise(without(name)) or case for case in cases]


def forecast_with(cases: Iterable[Case], name: str) -> list[Case]:
    """The cases that have a variant of this name, with its forecast."""
    return [variant for case in cases if (variant := case.otherwise(name)) is not None]


def worst(cases: Sequence[Case], count: int = 10) -> list[Case]:
    """The cases with the largest errors, the worst first."""
    known = [case for case in cases if case.error is not None]
    return sorted(known, key=lambda case: -abs(case.error or 0.0))[:count]


def recording_cost(case: Case) -> float:
    """By what share of a bare run the recorded one took longer."""
    return case.forecast.baseline_s / case.measured_from_s - 1


def refusals(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases without a number by the reason; of reasons that differ in figures, the first."""
    by_kind: dict[str, list[Case]] = {}
    for case in cases:
        if case.forecast.refused is not None:
            kind = re.sub(r"\d[\d.,]*( (ns|us|ms|s|min|h)\b)?", "", case.forecast.refused)
            by_kind.setdefault(kind, []).append(case)
    return {str(refused[0].forecast.refused): refused for refused in by_kind.values()}


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return median(listed) if listed else None
