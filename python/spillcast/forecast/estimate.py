"""Counts first: the time outside temp I/O stays, each operation takes what it takes over there.

    T_B = T_A - w_A * IO_A + D + w_B * sum over (op, size) of N * L_B(op, size)

N, T_A and IO_A come from one recording, L_B from its replay on the target. w is the weight of a
wait, 1 for one thread and less where several overlap; D is the CPU time that colder or warmer
caches make. docs/method.md derives it and says what breaks it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from spillcast.errors import InputError, Refusal
from spillcast.forecast.elsewhere import elsewhere
from spillcast.forecast.interval import (
    ASKED_NOISE,
    DRAWS,
    Measured,
    interval,
    noise_of,
    overlap_noise,
    widened,
)
from spillcast.forecast.load import Load, sessions, temp_load
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.threads import Threads
from spillcast.forecast.unseen import part_factors
from spillcast.forecast.warnings import refusal, warn
from spillcast.forecast.work_memory import work_memory
from spillcast.recording import Recording
from spillcast.storage import Storage
from spillcast.units import format_duration

CONFIDENCE = 0.9
#: An interval whose ends are so many times apart is no answer.
USELESS = 10.0


def forecast(
    baseline: Recording,
    target: Storage,
    *,
    elapsed_s: float | None = None,
    confidence: float = CONFIDENCE,
) -> Forecast:
    """Forecast the elapsed time of ``baseline`` with its temp files on ``target``.

    ``elapsed_s`` is the wall time of the whole query where the recording covers a part of it; the
    recorded mix is then taken to hold for the rest. InputError when there was no temp I/O, Refusal
    when none could be recorded.
    """
    baseline.need_io()
    loads = temp_load(baseline)
    if not loads:
        raise InputError(f"{baseline.path}: no temp I/O was recorded, so no storage changes it")
    whole_s = baseline.elapsed_s if elapsed_s is None else elapsed_s
    if min(whole_s, baseline.elapsed_s) <= 0:
        raise InputError(f"{baseline.path}: an elapsed time of 0 leaves nothing to forecast")
    scale = whole_s / baseline.elapsed_s
    threads = Threads(baseline, loads)
    here_s = [scale * threads.here.of_waits * load.total_s for load in loads]
    remainder_s = max(whole_s - sum(here_s), 0.0)
    rest = _rest(baseline, remainder_s, scale)
    memory = work_memory(baseline, whole_s, whole_s - remainder_s)
    unsaid = Forecast(
        target.name, whole_s, None, None, confidence, remainder_s, rest, work_memory=memory
    )
    try:
        reason = refusal(baseline)
        if reason is not None:
            raise Refusal(reason)
        there = elsewhere(baseline, target, loads, threads, scale)
    except Refusal as because:
        return replace(unsaid, refused=str(because))
    # Below half, caches would have to be what most of the time goes into.
    drift_s, drift_most_s = (max(s, -remainder_s / 2) for s in (there.drift_s, there.drift_most_s))
    total_s = remainder_s + drift_s + sum(there.io_s)
    terms = zip(loads, here_s, there.io_s, there.latencies, strict=True)
    delay_s = scale * baseline.meta["capture"]["run_queue_delay_s"] * threads.here.of_cpu
    drawn = partial(
        interval,
        remainder_s,
        [Measured(load.op, here, io_s, lat.blocks, lat.error) for load, here, io_s, lat in terms],
        drift_s=drift_most_s,
        perturbed_s=_perturbed_s(baseline, scale),
        delay_s=min(delay_s, remainder_s),
        overlap=overlap_noise(there.weight),
        part=partial(part_factors, baseline, whole_s, DRAWS),
        confidence=confidence,
    )
    noise = noise_of(target)
    bounds = widened(drawn(noise=min(noise, ASKED_NOISE)), total_s)
    if noise > ASKED_NOISE:
        # How far off a row of the catalogue may be is known, and needs no experience of ours.
        stated = drawn(noise=noise)
        bounds = min(bounds[0], stated[0]), max(bounds[1], stated[1])
    if bounds[1] > USELESS * bounds[0]:
        low, high = map(format_duration, bounds)
        text = f"the evidence does not tell more than that it takes between {low} and {high}"
        return replace(unsaid, refused=text)
    return replace(
        unsaid,
        forecast_s=total_s,
        interval_s=bounds,
        ceiling_s=remainder_s + min(drift_s, 0.0),
        terms=[*_moved(rest, drift_s), *_io_terms(loads, here_s, there.io_s)],
        warnings=warn(baseline, target, loads, there, remainder_s / whole_s, whole_s),
        advice=target.facts.get("advice", ()),
    )


def refused(baseline: Recording, target: str, reason: str) -> Forecast:
    """A forecast that gives no number for a target, and the reason."""
    bare = Storage(target, "asked", [])
    return replace(forecast(baseline, bare), refused=reason)


def _rest(baseline: Recording, remainder_s: float, scale: float) -> list[Term]:
    """The time outside temp I/O, which stays: CPU and other waits, told apart for one thread."""
    cpu_s = baseline.meta.get("cpu_s")
    if cpu_s is None or sessions(baseline) > 1 or cpu_s * scale > remainder_s:
        return [Term("CPU and other waits", None, None, None, remainder_s, remainder_s)]
    cpu_s *= scale
    other_s = remainder_s - cpu_s
    return [
        Term("CPU", None, None, None, cpu_s, cpu_s),
        Term("other waits", None, None, None, other_s, other_s),
    ]


def _perturbed_s(baseline: Recording, scale: float) -> tuple[float, float]:
    """By how much less and more the delays of the recording may have cost than was taken off."""
    perturbation = baseline.meta.get("perturbation")
    if perturbation is None:
        return 0.0, 0.0
    least_s, most_s = perturbation["cost_bounds_s"]
    likely_s = perturbation["cost_s"]
    return scale * (likely_s - least_s), scale * (most_s - likely_s)


def _moved(rest: Sequence[Term], drift_s: float) -> list[Term]:
    """The first term, which holds the CPU time, as it is on the target."""
    cpu, *others = rest
    return [replace(cpu, forecast_s=cpu.forecast_s + drift_s), *others]


def _io_terms(
    loads: Sequence[Load], here_s: Sequence[float], there_s: Sequence[float]
) -> list[Term]:
    return [
        Term(f"temp {load.op}", load.op, load.bytes, load.count, here, there)
        for load, here, there in zip(loads, here_s, there_s, strict=True)
    ]
