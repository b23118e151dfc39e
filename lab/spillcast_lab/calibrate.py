"""Conformal intervals from the errors of verified forecasts, by kind of evidence and direction.

The score of a case is its residual |log(measured / forecast)| over its spread. The spread combines
the errors of the time outside temp I/O and of temp I/O, as in verified forecasts from whole
recordings, with the errors of the inputs of this forecast. An interval of q spreads contains a
share of new cases that equals the share of scores below q.

Spreads for a case are from other queries only, so that no query is judged by its own errors.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log, pi
from statistics import NormalDist, fmean, median
from typing import NamedTuple

import numpy as np

from spillcast.calibrated import ANY, Category, Residuals, calibrated
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.workload import KINDS
from spillcast.lab.case import Case
from spillcast.report.checks import share
from spillcast.tabular import markdown_table, paragraph
from spillcast_lab.outcome import is_covered, runs_covered
from spillcast_lab.summary import of_evidence

#: Levels at which quantiles are stored.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99)
#: Candidate spreads and factors, 10 % apart.
SPREADS = np.geomspace(0.01, 1.0, 49)
FACTORS = np.geomspace(0.5, 50.0, 49)
#: Least number of cases for a spread or a quantile.
CASES_MIN = 10
WHOLE = "recording"
#: Many parts are cut from each of a few runs, so they do not count for other kinds of evidence.
PART = "part"


@dataclass(frozen=True)
class Residual:
    """The error of a verified forecast, and the uncertainty behind its interval."""

    #: Engine and name of the query. Cases of one query resemble each other.
    query: str
    uncertainty: Uncertainty
    #: Logarithm of measured over forecast.
    log_error: float

    def score(self, residuals: Residuals) -> float:
        """The absolute error in spreads."""
        return abs(self.log_error) / self.uncertainty.spreads(residuals)[self.log_error > 0]

    def held(self, residuals: Residuals, confidence: float) -> bool:
        """Whether an interval from these residuals contains the measured time."""
        low_s, high_s = self.uncertainty.bounds_s(confidence, residuals)
        return low_s <= self.uncertainty.forecast_s * exp(self.log_error) <= high_s


def residuals_of(cases: Iterable[Case]) -> list[Residual]:
    """The errors of all cases with an uncertainty, including those refused for a wide interval."""
    return [
        Residual(
            f"{case.engine.split()[0]} {case.workload}",
            uncertainty,
            log(case.measured_to_s / uncertainty.forecast_s),
        )
        for case in cases
        if (uncertainty := case.forecast.uncertainty) is not None and uncertainty.forecast_s > 0
    ]


def calibrate(residuals: Sequence[Residual]) -> Residuals:
    """The spreads and quantiles of further intervals."""
    scored = [
        (residual, residual.score(spreads))
        for query in sorted({residual.query for residual in residuals})
        for spreads in [_spreads([residual for residual in residuals if residual.query != query])]
        for residual in residuals
        if residual.query == query
    ]
    spreads = _spreads(residuals)
    return replace(
        spreads, categories=[_category(residual, scored) for residual in spreads.categories]
    )


def _spreads(residuals: Sequence[Residual]) -> Residuals:
    """The spreads, and the factor of each kind of evidence; no quantiles yet."""
    whole = [residual for residual in residuals if residual.uncertainty.kind == WHOLE]
    share, input_spread, error = _columns(whole)
    io = (SPREADS[:, None] * (1 - share)) ** 2
    unlikelihoods = [
        _unlikelihood(np.sqrt((spread * share) ** 2 + io + input_spread**2), error)
        for spread in SPREADS
    ]
    best = np.unravel_index(np.argmin(unlikelihoods), (len(SPREADS), len(SPREADS)))
    rest_spread, io_spread = (float(SPREADS[index]) for index in best)
    categories = list[Category]()
    for kind in KINDS:
        of_kind = [residual for residual in residuals if residual.uncertainty.kind == kind]
        factor = 1.0
        if kind != WHOLE and len(of_kind) >= CASES_MIN:
            share, input_spread, error = _columns(of_kind)
            spread = np.hypot(rest_spread * share, io_spread * (1 - share))
            by_factor = np.hypot(FACTORS[:, None] * spread, input_spread)
            factor = float(FACTORS[np.argmin(_unlikelihood(by_factor, error))])
        counts = Counter(residual.uncertainty.direction for residual in of_kind)
        directions = sorted(each for each, cases in counts.items() if cases >= CASES_MIN)
        categories += [Category(kind, each, 0, factor, 0.0, []) for each in (ANY, *directions)]
    return Residuals(rest_spread, io_spread, LEVELS, categories)


def _columns(residuals: Sequence[Residual]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays of the share outside temp I/O, the spread from the inputs, and the absolute error."""
    rows = [
        (u.rest_share, u.above if residual.log_error > 0 else u.below, abs(residual.log_error))
        for residual in residuals
        for u in [residual.uncertainty]
    ]
    share, input_spread, error = np.array(rows, dtype=float).reshape(-1, 3).T
    return share, input_spread, error


def _unlikelihood(spreads: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The negative log-likelihood of absolute errors, for each row of spreads.

    It grows linearly with an error, not with its square, so that one outlier does not determine the
    spread. The factor makes the best spread of normal errors their standard deviation.
    """
    by_case: np.ndarray = np.log(spreads) + (pi / 2) ** 0.5 * error / spreads
    return np.asarray(by_case.sum(axis=-1))


def _category(category: Category, scored: Sequence[tuple[Residual, float]]) -> Category:
    """The category with its quantiles; levels with too few cases use a wider pool."""
    kind = [
        (residual, score)
        for residual, score in scored
        if residual.uncertainty.kind == category.kind
    ]
    members = [
        (residual, score)
        for residual, score in kind
        if category.direction in (ANY, residual.uncertainty.direction)
    ]
    whole = [(residual, score) for residual, score in scored if residual.uncertainty.kind != PART]
    pools = [[score for _, score in pool] for pool in (members, kind, whole)]
    quantiles, alone_up_to, times = list[float](), 0.0, 1.0
    for level in LEVELS:
        normal = NormalDist().inv_cdf((1 + level) / 2)
        by_pool = (conformal_quantile(pool, level) for pool in pools)
        # Without enough cases in any pool, quantiles continue like those of a normal distribution.
        quantile = next((score for score in by_pool if score is not None), times * normal)
        # The quantile of a wider pool may be below that of a lower level.
        quantiles.append(max([quantile, *quantiles[-1:]]))
        times = quantiles[-1] / normal
        if conformal_quantile(pools[0], level) is not None:
            alone_up_to = level
    return replace(category, cases=len(members), alone_up_to=alone_up_to, quantiles=quantiles)


def conformal_quantile(scores: Sequence[float], level: float) -> float | None:
    """The score that a new case stays below with probability ``level``.

    It has the rank ceil((n + 1) * level) of n scores. None for too few scores, or if it is the
    largest one, which may be an outlier.
    """
    rank = ceil((len(scores) + 1) * level)
    return sorted(scores)[rank - 1] if len(scores) >= CASES_MIN and rank < len(scores) else None


class Judged(NamedTuple):
    """A case with an interval: whether it contains the measured time, and its half-width."""

    uncertainty: Uncertainty
    held: bool
    half_width: float


def judge(all_residuals: Sequence[Residual], confidence: float) -> list[Judged]:
    """Each case with an interval from the errors of other queries."""
    judged = []
    for query in sorted({residual.query for residual in all_residuals}):
        residuals = calibrate([residual for residual in all_residuals if residual.query != query])
        for residual in (residual for residual in all_residuals if residual.query == query):
            low_s, high_s = residual.uncertainty.bounds_s(confidence, residuals)
            width = (high_s - low_s) / 2 / residual.uncertainty.forecast_s
            held = residual.held(residuals, confidence)
            judged.append(Judged(residual.uncertainty, held, width))
    return judged


def calibration(cases: Sequence[Case]) -> str:
    """The page's section on intervals: their quantiles, and the cases that they contain."""
    made = calibrated().residuals
    quantiles = markdown_table(
        ("evidence", "direction", "cases", "factor", *(f"{level:.1%}" for level in made.levels)),
        [
            [constant.kind, constant.direction, f"{constant.cases}", f"{constant.factor:.1f}",
             *(f"{times:.2f}{'' if level <= constant.alone_up_to else '*'}"
               for level, times in zip(made.levels, constant.quantiles, strict=True))]
            for constant in made.categories
        ],
    )  # fmt: skip
    lines = [
        paragraph(
            "`make constants` measures the constants and writes "
            "[calibrated.toml](../python/spillcast/calibrated.toml), which names the source of "
            "each. The half-width of an interval is its spread times a quantile: that of the "
            "errors, in spreads, of verified forecasts of the same kind of evidence and "
            "direction ([method](method.md#the-interval)). *factor* is the error of "
            "a kind of evidence relative to whole recordings. Quantiles with an asterisk also use "
            "other categories, because there are too few cases."
        ),
        quantiles,
        *judged(cases, cases[0].forecast.confidence),
    ]
    if runs := [held for case in of_evidence(cases) for held in runs_covered(case)]:
        single = (
            f"The intervals contain {fmean(runs):.0%} of all single runs on the targets, including "
            "the disturbed runs that do not count."
        )
        lines.append(paragraph(single))
    return "\n\n".join(lines)


def judged(cases: Sequence[Case], confidence: float) -> list[str]:
    """A table of the cases in intervals from the other queries; empty for a single query."""
    residuals = residuals_of(cases)
    if len({residual.query for residual in residuals}) < 2:
        return []
    made = judge(residuals, confidence)
    given = [
        Judged(case.forecast.uncertainty, is_covered(case), width)
        for case in cases
        if case.forecast.uncertainty and (width := case.forecast.half_width) is not None
    ]
    groups = {
        (row.uncertainty.kind, name) for row in made for name in (row.uncertainty.direction, ANY)
    }
    rows = []
    for kind, name in sorted(groups):
        from_others, stated = (
            [
                row
                for row in judgements
                if row.uncertainty.kind == kind and name in (ANY, row.uncertainty.direction)
            ]
            for judgements in (made, given)
        )
        rows.append([kind, name, f"{len(from_others)}", *_figures(from_others), *_figures(stated)])
    text = (
        f"Each case is tested with a {confidence:.0%} interval made from all other queries, "
        "including cases that were refused because their interval was too wide. The last columns "
        "are the intervals as stated:"
    )
    header = ("evidence", "direction", "cases", "held", "width", "stated: held", "width")
    return [paragraph(text), markdown_table(header, rows)]


def _figures(rows: Sequence[Judged]) -> list[str]:
    if not rows:
        return ["-", "-"]
    held, width = fmean(row.held for row in rows), median(row.half_width for row in rows)
    return [share(held, 0), share(width)]
