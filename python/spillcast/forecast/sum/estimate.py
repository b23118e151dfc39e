"""Counts first: the time outside temp I/O stays, each operation takes what it takes over there.

    T_B = T_A - w_A * IO_A + D + w_B * sum over (op, size) of N * L_B(op, size)

Calls that make, resize, sync or remove temp files are operations too, with a kind for a size.
N, T_A and IO_A come from one recording, L_B from its replay on the target. w is the weight of a
wait, 1 for one thread and less where several overlap; D is the CPU time that colder or warmer
caches make. docs/method.md derives it and says what breaks it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import hypot, log, sqrt

import numpy as np

from spillcast.errors import RecordingInsufficient, Refusal
from spillcast.forecast.assumptions import MODELS_APART, PAGE_CACHE_ERROR
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.refusals import too_wide
from spillcast.forecast.result import CHANGES, QUOTA, Forecast, Sampled, Term, Warm
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.ceiling import direction_of, drawn_rest, factors_of, kind_of
from spillcast.forecast.sum.interval import (
    DRAWS,
    Measured,
    Uncertainty,
    drawn_totals,
)
from spillcast.forecast.sum.page_cache import (
    about_page_cache,
    about_skipped_cache,
    without_cache_s,
)
from spillcast.forecast.sum.projection import Projection, project
from spillcast.forecast.sum.rehearsed import as_measured, drawn_run_s, rehearsed_of, run_s
from spillcast.forecast.sum.sampling import sampled_of
from spillcast.forecast.sum.warnings import refusal, warn
from spillcast.storage import Storage
from spillcast.storage.rehearse import Rehearsal
from spillcast.storage.source import ASSUMED, LATENCY_NOISE


def forecast_of(
    baseline: Baseline,
    target: Storage,
    confidence: float = CONFIDENCE,
    *,
    cached: bool | None = None,
) -> Forecast:
    """The elapsed time of a query with its temp files on ``target``.

    Through a page cache where ``cached``; by default where the figures of the target leave room for
    one, and the recording shows one.
    """
    cached = target.source.uncached if cached is None else cached
    unsaid = Forecast(
        target=target.name,
        baseline_s=baseline.whole_s,
        forecast_s=None,
        interval_s=None,
        confidence=confidence,
        ceiling_s=baseline.remainder_s,
        terms=baseline.rest,
        warnings=(),
        refused=None,
        part=baseline.part,
        recorded_s=baseline.recorded_s,
        to_come=None if baseline.to_come is None else baseline.to_come.summary(),
        warm=_warm(baseline, None),
    )
    try:
        if (text := refusal(baseline)) is not None:
            raise RecordingInsufficient(text)
        ceiling = baseline.ceiling
        unsaid = replace(
            unsaid, ceiling_s=ceiling.about_s, ceiling_interval_s=ceiling.interval_s(confidence)
        )
        projection = project(baseline, target, cached=cached)
    except Refusal as because:
        return unsaid.refused_by(because)
    unhelped_s = total_on(baseline, target) if projection.missed is not None else None
    rehearsed = rehearsed_of(baseline, target)
    measured = target.rehearsal if rehearsed is not None and rehearsed.ended else None
    if measured is not None:
        projection = as_measured(projection, baseline, run_s(measured))
    target_s = projection.changes_s + sum(projection.io_s)
    total_s = float(baseline.remainder_s + baseline.limits_s + projection.drift_s + target_s)
    if total_s <= 0:
        text = "all of the time recorded was temp I/O: nothing is left of it"
        return unsaid.refused_by(RecordingInsufficient(text))
    ceiling = ceiling.at_most(total_s)
    on_it = partial(total_on, target=target, cached=cached)
    sample = None if measured else sampled_of(baseline, on_it)
    uncertainty = _uncertainty(baseline, projection, target, total_s, measured, unhelped_s, sample)
    if rehearsed is not None:
        uncertainty = replace(uncertainty, residual_share=1 - rehearsed.share)
    low_s, high_s = uncertainty.bounds_s(confidence)
    unsaid = replace(
        unsaid,
        uncertainty=uncertainty,
        sampled=sample,
        without_cache_s=without_cache_s(projection, total_s, unhelped_s),
        warnings=[
            *warn(baseline, target, projection, ceiling.about_s),
            *about_page_cache(baseline, projection, total_s, unhelped_s),
            *about_skipped_cache(baseline, target, total_s, partial(total_on, cached=True)),
        ],
    )
    # What is refused for its interval keeps its warnings: they tell why it is so wide.
    if (reason := too_wide(low_s, high_s, baseline.whole_s)) is not None:
        return unsaid.refused_by(reason)
    return replace(
        unsaid,
        forecast_s=total_s,
        rehearsed=rehearsed,
        interval_s=(low_s, high_s),
        ceiling_s=ceiling.about_s,
        ceiling_interval_s=ceiling.interval_s(confidence, low_s),
        terms=[
            *_moved(baseline.rest, projection.drift_s),
            *_io_terms(baseline, projection.io_s),
            *_changes_term(baseline, projection.changes_s),
        ],
        advice=target.facts.get("advice", ()),
        warm=_warm(baseline, total_s),
    )


def _uncertainty(
    baseline: Baseline,
    projection: Projection,
    target: Storage,
    total_s: float,
    measured: Rehearsal | None,
    unhelped_s: float | None,
    sample: Sampled | None,
) -> Uncertainty:
    """What is known of this very question, drawn, beside what verified forecasts tell.

    ``unhelped_s`` is the elapsed time without the page cache that it is taken to have there.
    """
    draws = np.random.default_rng(0)
    rest_s = drawn_rest(baseline, projection.drift_s, projection.drift_error_s, draws)
    if baseline.changes:
        off = np.exp(draws.normal(0, target.source.noise, DRAWS))
        rest_s += projection.changes_s * off
    terms = zip(baseline.loads, baseline.io_s, projection.io_s, projection.latencies, strict=True)
    times = baseline.io_scale
    drawn_s = drawn_totals(
        rest_s,
        [
            # The more operations the whole query does, the less it matters how each of them goes.
            Measured(load.op, recorded_s, s, lat.blocks, lat.error, round(times * load.count))
            for load, recorded_s, s, lat in terms
        ],
        draws,
        noise=hypot(LATENCY_NOISE, target.source.noise * projection.storage_share),
        factors=factors_of(baseline, draws),
        whole_known=baseline.to_come is None,
    )
    if unhelped_s is not None and projection.missed is not None:
        half = 2 * sqrt(projection.missed * (1 - projection.missed))
        off_s = PAGE_CACHE_ERROR * half * abs(unhelped_s - total_s)
        drawn_s = np.maximum(drawn_s + draws.normal(0, off_s, DRAWS), baseline.remainder_s / 2)
    apart = MODELS_APART * log(projection.overlap.apart)
    drawn_s *= np.exp(draws.normal(0, apart, DRAWS))
    if sample is not None:
        drawn_s *= np.exp(draws.normal(0, sample.error, DRAWS))
    if measured is not None:
        drawn_s = drawn_run_s(measured, draws, DRAWS)
    return Uncertainty.of(
        total_s,
        total_s - sum(projection.io_s),
        drawn_s,
        kind_of(baseline),
        direction_of(baseline.loads, projection.latencies),
    )


def total_on(baseline: Baseline, target: Storage, *, cached: bool = False) -> float:
    """The elapsed time on a storage, with a page cache before it or without."""
    projection = project(baseline, target, cached=cached)
    target_s = projection.drift_s + projection.changes_s + sum(projection.io_s)
    return baseline.remainder_s + baseline.limits_s + target_s


def refused(baseline: Baseline, target: str, reason: Refusal) -> Forecast:
    """A forecast that gives no number for a target, and the reason."""
    return forecast_of(baseline, Storage(target, ASSUMED, [])).refused_by(reason)


def _warm(baseline: Baseline, total_s: float | None) -> Warm | None:
    """A run on warm data, which takes ``total_s`` on the target as it is."""
    if (cold := baseline.cold_data) is None:
        return None
    target_s = None if total_s is None else max(total_s - cold.forecast_s, 0.0)
    return Warm(baseline.whole_s - cold.baseline_s, target_s)


def _moved(rest: Sequence[Term], drift_s: float) -> list[Term]:
    """The first term, which holds the CPU time, as it is on the target.

    Where CPU time is had at the rate of a quota, less of it is less of that wait, too.
    """
    cpu, *others = rest
    moved_s = drift_s
    if any(term.name == QUOTA for term in others):
        moved_s = max(drift_s, -cpu.forecast_s / 2)
        others = [
            replace(term, forecast_s=term.forecast_s + drift_s - moved_s)
            if term.name == QUOTA
            else term
            for term in others
        ]
    return [replace(cpu, forecast_s=cpu.forecast_s + moved_s), *others]


def _changes_term(baseline: Baseline, target_s: float) -> list[Term]:
    if not (count := sum(change.count for change in baseline.changes)):
        return []
    return [Term(CHANGES, None, None, count, baseline.changes_s, target_s)]


def _io_terms(baseline: Baseline, target_s: Sequence[float]) -> list[Term]:
    return [
        Term(f"temp {load.op}", load.op, load.bytes, load.count, recorded_s, s)
        for load, recorded_s, s in zip(baseline.loads, baseline.io_s, target_s, strict=True)
    ]
