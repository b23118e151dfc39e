"""Counts first: the time outside temp I/O stays, each operation takes what it takes over there.

    T_B = T_A - IO_A + sum over (op, size) of N * L_B(op, size) / c

N, T_A and IO_A come from one recording, L_B from its replay on the target. c is the number of
operations in flight while there are any. docs/method.md derives it and says what breaks it.
"""

import math
from collections.abc import Sequence

from spillcast.errors import InputError, Refusal
from spillcast.forecast.interval import ASKED_NOISE, REPLAY_NOISE, Measured, interval
from spillcast.forecast.latency import Latency, latency
from spillcast.forecast.load import Load, in_flight, sessions, temp_load
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.warnings import refusal, warn
from spillcast.recording import Recording
from spillcast.storage import Storage

CONFIDENCE = 0.9


def forecast(
    baseline: Recording,
    target: Storage,
    *,
    elapsed_s: float | None = None,
    confidence: float = CONFIDENCE,
) -> Forecast:
    """Forecast the elapsed time of ``baseline`` with its temp files on ``target``.

    ``elapsed_s`` is the wall time of the whole query where the recording covers a part of it; the
    recorded mix is then taken to hold for the rest. InputError when there was no temp I/O.
    """
    loads = temp_load(baseline)
    if not loads:
        raise InputError(f"{baseline.path}: no temp I/O was recorded, so no storage changes it")
    whole_s = baseline.elapsed_s if elapsed_s is None else elapsed_s
    scale = whole_s / baseline.elapsed_s
    at_once = in_flight(baseline)
    io_s = scale * sum(load.total_s for load in loads) / at_once
    remainder_s = max(whole_s - io_s, 0.0)
    rest = _rest(baseline, remainder_s, scale)
    try:
        reason = refusal(baseline)
        if reason is not None:
            raise Refusal(reason)
        found = [latency(target, load.op, load.size_class_bytes) for load in loads]
    except Refusal as refused:
        return Forecast(
            target.name, whole_s, None, None, confidence, remainder_s, rest, refused=str(refused)
        )
    there = float(target.facts.get("in_flight", at_once))
    forecast_s = [scale * load.count * lat.mean_s / there for load, lat in zip(loads, found, strict=True)]
    io_terms = _io_terms(loads, forecast_s, scale / at_once)
    total_s = remainder_s + sum(forecast_s)
    bounds = interval(
        remainder_s,
        [Measured(s, lat.blocks) for s, lat in zip(forecast_s, found, strict=True)],
        decades=_decades(loads, found),
        noise=ASKED_NOISE if target.source == "asked" else REPLAY_NOISE,
        confidence=confidence,
    )
    bounds = (min(bounds[0], total_s), max(bounds[1], total_s))
    warnings = warn(baseline, target, loads, found, remainder_s / whole_s)
    return Forecast(
        target.name,
        whole_s,
        total_s,
        bounds,
        confidence,
        remainder_s,
        [*rest, *io_terms],
        warnings=warnings,
    )


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


def _io_terms(loads: Sequence[Load], forecast_s: Sequence[float], scale: float) -> list[Term]:
    return [
        Term(f"temp {load.op}", load.op, load.bytes, load.count, scale * load.total_s, seconds)
        for load, seconds in zip(loads, forecast_s, strict=True)
    ]


def _decades(loads: Sequence[Load], found: Sequence[Latency]) -> float:
    """log10 of the target's latency over the baseline's, for this load."""
    here = sum(load.total_s for load in loads)
    there = sum(load.count * lat.mean_s for load, lat in zip(loads, found, strict=True))
    return math.log10(there / here) if here > 0 and there > 0 else 0.0
