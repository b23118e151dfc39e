"""How far verified forecasts were off, made into intervals: conformal, by kind of evidence.

A case's score is its residual |log(measured / forecast)| over the spread stated for it. That spread
is made of shares of the forecast that are not and that are temp I/O, each as far off as it was in
whole recordings, and of what is known of the case itself. An interval of so many spreads as a share
of the scores are below holds that share of further cases.

A case is scored with the spreads of the other queries, so that none is judged by what was taken
from it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log, pi
from statistics import NormalDist, fmean, median
from typing import NamedTuple

import numpy as np

from spillcast.calibrated import (
    ANY,
    Category,
    Residuals,
    calibrated,
)
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.workload import KINDS
from spillcast.lab.case import Case
from spillcast.report.checks import share
from spillcast.tabular import markdown_table, paragraph
from spillcast_lab.summary import of_evidence

#: Levels whose quantiles are kept.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99)
#: Spreads, and factors of them, that are tried: 10 % apart.
SPREADS = np.geomspace(0.01, 1.0, 49)
FACTORS = np.geomspace(0.5, 50.0, 49)
#: Fewer cases tell no spread and no quantile.
CASES_MIN = 10
WHOLE = "recording"
#: Cut from a few runs, many of each: they tell of no other kind.
PART = "part"


@dataclass(frozen=True)
class Residual:
    """A verified forecast: what its interval follows from, and how far off it was."""

    #: Engine and kind of query: cases of one query are alike.
    query: str
    uncertainty: Uncertainty
    #: Logarithm of measured over forecast.
    off: float

    def score(self, residuals: Residuals) -> float:
        """How many of its spreads it was off."""
        return abs(self.off) / self.uncertainty.spreads(residuals)[self.off > 0]

    def held(self, residuals: Residuals, confidence: float) -> bool:
        """Whether an interval from these residuals holds what was measured."""
        low_s, high_s = self.uncertainty.bounds_s(confidence, residuals)
        return low_s <= self.uncertainty.forecast_s * exp(self.off) <= high_s


def residuals_of(cases: Iterable[Case]) -> list[Residual]:
    """Of all cases that say what their interval follows from, also where it was too wide."""
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
    """What intervals are to be made from."""
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
    """The spreads, and how many times as far off each kind of evidence is; no quantiles yet."""
    whole = [residual for residual in residuals if residual.uncertainty.kind == WHOLE]
    share, known, off = _columns(whole)
    rest = (SPREADS[:, None, None] * share) ** 2
    io = (SPREADS[:, None] * (1 - share)) ** 2
    at = np.argmin([_unlikely(np.sqrt(each + io + known**2), off) for each in rest])
    rest_spread, io_spread = (float(SPREADS[n]) for n in np.unravel_index(at, (len(SPREADS),) * 2))
    categories = list[Category]()
    for kind in KINDS:
        its = [residual for residual in residuals if residual.uncertainty.kind == kind]
        share, known, off = _columns(its)
        spread = np.hypot(rest_spread * share, io_spread * (1 - share))
        every = np.sqrt((FACTORS[:, None] * spread) ** 2 + known**2)
        enough = kind != WHOLE and len(its) >= CASES_MIN
        factor = float(FACTORS[np.argmin(_unlikely(every, off))]) if enough else 1.0
        ways = Counter(residual.uncertainty.direction for residual in its)
        directions = sorted(way for way, cases in ways.items() if cases >= CASES_MIN)
        categories += [Category(kind, way, 0, factor, 0.0, []) for way in (ANY, *directions)]
    return Residuals(rest_spread, io_spread, LEVELS, categories)


def _columns(residuals: Sequence[Residual]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each: the share that is not temp I/O, the spread that is known, and how far off it was."""
    rows = [
        (u.rest_share, u.above if residual.off > 0 else u.below, abs(residual.off))
        for residual in residuals
        for u in [residual.uncertainty]
    ]
    share, known, off = np.array(rows, dtype=float).reshape(-1, 3).T
    return share, known, off


def _unlikely(spreads: np.ndarray, off: np.ndarray) -> np.ndarray:
    """How unlikely the residuals are, for rows of spreads.

    By their size and not by its square, so that one outlier does not make the spread; of normal
    residuals it is their standard deviation that comes out.
    """
    unlikelihood: np.ndarray = (np.log(spreads) + (pi / 2) ** 0.5 * off / spreads).sum(axis=-1)
    return unlikelihood


def _category(category: Category, scored: Sequence[tuple[Residual, float]]) -> Category:
    """With its quantiles; where its cases are too few for a level, of ever more others too."""
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
        known = [
            residual for pool in pools if (residual := conformal_quantile(pool, level)) is not None
        ]
        # Beyond what any cases tell, in proportion to a normal distribution.
        quantile = known[0] if known else times * normal
        # A level that others are asked for is no nearer than one below it.
        quantiles.append(max([quantile, *quantiles[-1:]]))
        times = quantiles[-1] / normal
        if conformal_quantile(pools[0], level) is not None:
            alone_up_to = level
    return replace(category, cases=len(members), alone_up_to=alone_up_to, quantiles=quantiles)


def conformal_quantile(scores: Sequence[float], level: float) -> float | None:
    """The score that a further case stays below with probability ``level``.

    Of n scores the one of rank ceil((n + 1) * level). None where there are too few, or where it
    would be the largest: that one may be a fluke.
    """
    rank = ceil((len(scores) + 1) * level)
    return sorted(scores)[rank - 1] if len(scores) >= CASES_MIN and rank < len(scores) else None


class Judged(NamedTuple):
    """A case: what its interval follows from, whether that holds, and half of its width."""

    uncertainty: Uncertainty
    held: bool
    half_width: float


def judge(all_residuals: Sequence[Residual], confidence: float) -> list[Judged]:
    """Each case by the intervals that the other queries make."""
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
    """The quantiles of intervals, and how well these hold other cases."""
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
            "[calibrated.toml](../python/spillcast/calibrated.toml), which tells what each rests "
            "on. The half-width of an interval is its spread times "
            "a quantile: that of the errors, in spreads, of verified forecasts of the same kind of "
            "evidence and direction ([method](method.md#the-interval)). *factor* is the error of "
            "a kind of evidence relative to whole recordings. Quantiles with an asterisk also use "
            "other categories, because there are too few cases."
        ),
        quantiles,
        *judged(cases, cases[0].forecast.confidence),
    ]
    if runs := [held for case in of_evidence(cases) for held in case.runs_covered]:
        single = (
            f"The intervals contain {fmean(runs):.0%} of all single runs on the targets, including "
            "the disturbed runs that do not count."
        )
        lines.append(paragraph(single))
    return "\n\n".join(lines)


def judged(cases: Sequence[Case], confidence: float) -> list[str]:
    """The cases in intervals that the other queries make; nothing where there are none."""
    residuals = residuals_of(cases)
    if len({residual.query for residual in residuals}) < 2:
        return []
    made = judge(residuals, confidence)
    given = [
        Judged(case.forecast.uncertainty, case.covered, case.half_width)
        for case in cases
        if case.forecast.uncertainty and case.half_width is not None
    ]
    groups = {
        (row.uncertainty.kind, way) for row in made for way in (row.uncertainty.direction, ANY)
    }
    rows = []
    for kind, way in sorted(groups):
        others, stated = (
            [
                row
                for row in judgements
                if row.uncertainty.kind == kind and way in (ANY, row.uncertainty.direction)
            ]
            for judgements in (made, given)
        )
        rows.append([kind, way, f"{len(others)}", *_figures(others), *_figures(stated)])
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
