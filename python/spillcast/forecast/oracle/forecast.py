"""A forecast from Oracle's evidence: a share of elapsed time, and latencies on both storages.

    T_B = T_A + sum over boosted events of time_e * (1 / g_e - 1) + N * (r_B - r_A)
    g_e = L_A / (L_B * b_A / b_B)

N boosted operations take r_A outside the waits here and r_B there: rest.py. time_e comes from ASH
(share times elapsed) or from a trace that covers the run; L and b, mean latency and blocks per
operation, from short traces on either storage. ``method="seed"`` takes the gain of the largest
event for all, does not match sizes and keeps the time outside, as the post that started this did.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import OptionInvalid, Refusal
from spillcast.forecast.assumptions import TRACE_REST_SPREAD
from spillcast.forecast.interval import DRAWS, check_elapsed, too_wide
from spillcast.forecast.oracle.events import AshEvidence, EventLatency
from spillcast.forecast.oracle.evidence import OracleEvidence
from spillcast.forecast.oracle.parts import Part, Target, parts_of
from spillcast.forecast.oracle.rest import TargetRest, latency_error, target_rest
from spillcast.forecast.oracle.warnings import warn
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast, Term
from spillcast.stats import resampled_means

Array = NDArray[np.float64]


def forecast_events(
    target: Target, evidence: OracleEvidence, question: Question | None = None
) -> Forecast:
    """Forecast a run from ASH, traces or both. InputError where ``temp_events`` matches nothing."""
    question = question or Question()
    method, confidence = question.method, question.confidence
    whole_s = evidence.covered_s if question.elapsed_s is None else question.elapsed_s
    # Of one statement traces tell the time of all its sessions together.
    if evidence.ash is not None or question.sql_id is None:
        check_elapsed(question.elapsed_s, evidence.covered_s)
    if whole_s <= 0:
        given = question.elapsed_s is not None
        problem = "--elapsed is 0" if given else "the evidence covers no time"
        raise OptionInvalid(problem, "give the time of the run with --elapsed, such as 12m53s")
    unsaid = Forecast(
        target=target.name,
        baseline_s=whole_s,
        forecast_s=None,
        interval_s=None,
        confidence=confidence,
        ceiling_s=whole_s,
        terms=(),
        method=method,
        warnings=(),
        refused=None,
    )
    try:
        parts = parts_of(target, evidence, question, whole_s)
    except Refusal as refused:
        return unsaid.refused_by(refused)
    boosted_s = sum(part.baseline.time_s for part in parts)
    rest_s = max(whole_s - boosted_s, 0.0)
    with_rest = method != "seed" and "rest" not in question.without
    moved = target_rest(target, evidence, parts, whole_s, enabled=with_rest)
    terms = [Term("CPU and other waits", None, None, None, rest_s, rest_s + moved.change_s)]
    for part in parts:
        event = part.baseline
        count = round(event.time_s / event.latency_s)
        terms.append(
            Term(event.event, event.op, None, count, event.time_s, event.time_s / part.gain)
        )
    total_s = sum(term.forecast_s for term in terms)
    # A latency or a factor is asked, not measured: it is taken at its word.
    noise = 0.0 if target.storage is None else target.storage.source.noise
    (low, high), (least, most) = _intervals(
        parts, whole_s, moved, evidence.ash, method, noise, confidence
    )
    interval_s = min(low, total_s), max(high, total_s)
    ceiling_s = rest_s + min(moved.change_s, 0.0)
    answer = replace(
        unsaid,
        ceiling_s=ceiling_s,
        ceiling_interval_s=(min(least, ceiling_s), max(most, ceiling_s)),
        warnings=warn(target, parts, evidence, whole_s, moved.kept),
        advice=target.storage.facts.get("advice", ()) if target.storage is not None else (),
    )
    if evidence.spilled is not None:
        bounds = min(least, ceiling_s), max(most, ceiling_s)
        answer = replace(answer, spilled=evidence.spilled.with_cure(rest_s, bounds))
    if (reason := too_wide(*interval_s)) is not None:
        return answer.refused_by(reason)
    return replace(answer, forecast_s=total_s, interval_s=interval_s, terms=terms)


def _intervals(
    parts: Sequence[Part],
    whole_s: float,
    moved: TargetRest,
    ash: AshEvidence | None,
    method: str,
    noise_level: float,
    confidence: float,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of the total, and of what is left of it without the boosted waits.

    What varies: hits of samples, latencies, how these go with size, and the time outside. The same
    draws make both, so that the first are nowhere below the second.
    """
    draws = np.random.default_rng(0)
    times = _drawn_times(parts, whole_s, ash, draws)
    rest = np.maximum(whole_s - times.sum(axis=0), 0.0)
    far = np.maximum(rest - moved.near_s, 0.0)
    total: Array = far * draws.normal(0, TRACE_REST_SPREAD, DRAWS)
    total = np.maximum(rest + total + moved.drawn_s(draws), 0.0)
    unwaited = total
    # In proportion to size, not at all, or anything in between.
    exponent = draws.uniform(0, 1, DRAWS) if method != "seed" else np.zeros(DRAWS)
    noise = np.maximum(1 + draws.normal(0, noise_level, DRAWS), 0.0)
    for part, time_s in zip(parts, times, strict=True):
        change = np.ones(DRAWS)
        count = part.baseline.time_s / part.baseline.latency_s
        if part.target is not None:
            change = change * _drawn_mean(part.target, count, draws)
        if part.baseline.share is not None and part.baseline.seen is not None:
            change = change / _drawn_mean(part.baseline.seen, count, draws)
        if part.size_ratio != 1.0:
            change = change * part.size_ratio ** (exponent - 1)
        total = total + time_s / part.gain * change * noise
    tail = (1 - confidence) / 2
    low, high = np.quantile(total, [tail, 1 - tail])
    least, most = np.quantile(unwaited, [tail, 1 - tail])
    return (float(low), float(high)), (float(least), float(most))


def _drawn_mean(seen: EventLatency, whole: float, draws: np.random.Generator) -> Array:
    """The mean latency of ``whole`` operations over that of those seen.

    Seconds of a trace tell how far it drifts, and nothing of what is rare and long or came later.
    """
    off = draws.normal(0, latency_error(seen.count, whole), DRAWS)
    means: Array = resampled_means(seen.stretches, draws, DRAWS) * np.exp(off)
    return means


def _drawn_times(
    parts: Sequence[Part], whole_s: float, ash: AshEvidence | None, draws: np.random.Generator
) -> Array:
    """Time of each event in each draw: multinomial where it comes from samples."""
    if ash is None:
        return np.array([[part.baseline.time_s] * DRAWS for part in parts])
    shares = [part.baseline.share or 0.0 for part in parts]
    rest = max(0.0, 1.0 - sum(shares))
    hits = draws.multinomial(ash.instants, [*shares, rest], DRAWS)
    return np.asarray(hits[:, :-1].T / ash.instants * whole_s)
