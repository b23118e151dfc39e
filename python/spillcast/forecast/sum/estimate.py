"""Counts first: the time outside temp I/O stays, each operation takes what it takes over there.

    T_B = T_A - w_A * IO_A + D + w_B * sum over (op, size) of N * L_B(op, size)

N, T_A and IO_A come from one recording, L_B from its replay on the target. w is the weight of a
wait, 1 for one thread and less where several overlap; D is the CPU time that colder or warmer
caches make. docs/method.md derives it and says what breaks it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import hypot

from spillcast.errors import Refusal
from spillcast.forecast.question import CONFIDENCE
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.coverage import in_slices, one_phase, part_factors
from spillcast.forecast.sum.interval import (
    ASKED_NOISE,
    DRAWS,
    PLAN_NOISE,
    WIDENED,
    WIDENED_UNREAD,
    Measured,
    interval,
    joined,
    noise_of,
    overlap_noise,
    widened,
)
from spillcast.forecast.sum.projection import Projection, project
from spillcast.forecast.sum.warnings import refusal, warn
from spillcast.forecast.work_memory.advice import work_memory
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.units import format_duration

#: CPU time may move by anything from nothing to so many times what is likely.
DRIFT_MOST = 2.0
#: An interval whose ends are so many times apart is no answer.
USELESS = 10.0


def forecast(
    recording: Recording,
    target: Storage,
    *,
    elapsed_s: float | None = None,
    confidence: float = CONFIDENCE,
) -> Forecast:
    """Forecast the elapsed time of ``recording`` with its temp files on ``target``.

    ``elapsed_s`` is the wall time of the whole query where the recording covers a part of it; the
    recorded mix is then taken to hold for the rest. InputError when there was no temp I/O, Refusal
    when none could be recorded.
    """
    return forecast_of(Baseline.of(recording, elapsed_s), target, confidence)


def forecast_of(baseline: Baseline, target: Storage, confidence: float = CONFIDENCE) -> Forecast:
    """The same of a query that several targets are asked for."""
    recording = baseline.recording
    unsaid = Forecast(
        target.name,
        baseline.whole_s,
        None,
        None,
        confidence,
        baseline.remainder_s,
        baseline.rest,
        work_memory=work_memory(
            recording, baseline.whole_s, baseline.whole_s - baseline.remainder_s
        ),
    )
    try:
        reason = refusal(recording)
        if reason is not None:
            raise Refusal(reason)
        projection = project(baseline, target)
    except Refusal as because:
        return replace(unsaid, refused=str(because))
    total_s = baseline.remainder_s + projection.drift_s + sum(projection.io_s)
    low_s, high_s = _bounds_s(baseline, projection, target, total_s, confidence)
    if high_s > USELESS * low_s:
        low, high = format_duration(low_s), format_duration(high_s)
        text = f"the evidence does not tell more than that it takes between {low} and {high}"
        return replace(unsaid, refused=text)
    return replace(
        unsaid,
        forecast_s=total_s,
        interval_s=(low_s, high_s),
        ceiling_s=baseline.remainder_s + min(projection.drift_s, 0.0),
        terms=[*_moved(baseline.rest, projection.drift_s), *_io_terms(baseline, projection.io_s)],
        warnings=warn(baseline, target, projection),
        advice=target.facts.get("advice", ()),
    )


def _bounds_s(
    baseline: Baseline, projection: Projection, target: Storage, total_s: float, confidence: float
) -> tuple[float, float]:
    terms = zip(baseline.loads, baseline.io_s, projection.io_s, projection.latencies, strict=True)
    planned = baseline.recording.meta["capture"]["method"] == "explain"
    wider_by = WIDENED_UNREAD if one_phase(baseline.recording, baseline.whole_s) else WIDENED
    part = partial(part_factors, baseline.recording, baseline.whole_s, DRAWS)
    drawn = partial(
        interval,
        baseline.remainder_s,
        [
            Measured(load.op, recorded_s, s, lat.blocks, lat.error)
            for load, recorded_s, s, lat in terms
        ],
        drift_s=max(DRIFT_MOST * projection.drift_s, baseline.least_drift_s),
        delay_s=baseline.ready_s,
        overlap=hypot(overlap_noise(projection.overlap), PLAN_NOISE if planned else 0.0),
        confidence=confidence,
    )
    noise = noise_of(target)
    usual = min(noise, ASKED_NOISE)
    if in_slices(baseline.recording, baseline.whole_s):
        # How unlike slices are shows in themselves, whatever experience says of whole runs.
        slices = drawn(noise=usual, part=part)
        low_s, high_s = joined(widened(drawn(noise=usual), total_s, wider_by), slices, total_s)
    else:
        low_s, high_s = widened(drawn(noise=usual, part=part), total_s, wider_by)
    if noise > ASKED_NOISE:
        # How far off a row of the catalogue may be is known, and needs no experience of ours.
        stated_low_s, stated_high_s = drawn(noise=noise, part=part)
        low_s, high_s = min(low_s, stated_low_s), max(high_s, stated_high_s)
    return low_s, high_s


def refused(baseline: Baseline, target: str, reason: str) -> Forecast:
    """A forecast that gives no number for a target, and the reason."""
    return replace(forecast_of(baseline, Storage(target, "asked", [])), refused=reason)


def _moved(rest: Sequence[Term], drift_s: float) -> list[Term]:
    """The first term, which holds the CPU time, as it is on the target."""
    cpu, *others = rest
    return [replace(cpu, forecast_s=cpu.forecast_s + drift_s), *others]


def _io_terms(baseline: Baseline, target_s: Sequence[float]) -> list[Term]:
    return [
        Term(f"temp {load.op}", load.op, load.bytes, load.count, recorded_s, s)
        for load, recorded_s, s in zip(baseline.loads, baseline.io_s, target_s, strict=True)
    ]
