"""Counts first: the time outside temp I/O stays, each operation takes what it takes over there.

    T_B = T_A - IO_A + D + sum over (op, size) of N * L_B(op, size) / c

N, T_A and IO_A come from one recording, L_B from its replay on the target. c is the number of
operations in flight while there are any; D is the CPU time that colder or warmer caches make.
docs/method.md derives it and says what breaks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillcast.errors import InputError, Refusal
from spillcast.forecast.drift import cpu_drift_s
from spillcast.forecast.interval import Measured, interval, noise_of
from spillcast.forecast.latency import Latency, latencies, limited_s
from spillcast.forecast.load import Load, in_flight, processes, sessions, temp_load
from spillcast.forecast.result import Forecast, Term
from spillcast.forecast.shared import Shared, shared
from spillcast.forecast.warnings import refusal, warn
from spillcast.forecast.work_memory import work_memory
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
    at_once = in_flight(baseline)
    sharing = shared(baseline, loads)
    remainder_s = max(whole_s - scale * sum(load.total_s for load in loads) / at_once, 0.0)
    rest = _rest(baseline, remainder_s, scale)
    memory = work_memory(baseline, whole_s, whole_s - remainder_s)
    try:
        reason = refusal(baseline)
        if reason is not None:
            raise Refusal(reason)
        counted = processes(baseline) is not None
        there = _elsewhere(target, loads, at_once, scale, sharing, counted=counted)
    except Refusal as refused:
        return Forecast(
            target.name,
            whole_s,
            None,
            None,
            confidence,
            remainder_s,
            rest,
            refused=str(refused),
            work_memory=memory,
        )
    # Work that goes on side by side takes its part of the elapsed time.
    apart = at_once if sharing is None else sharing.processes
    drift_s, drift_most_s = (
        # Below half, caches would have to be what most of the time goes into.
        max(scale * seconds / apart, -remainder_s / 2)
        for seconds in cpu_drift_s(baseline, loads, there.latencies)
    )
    total_s = remainder_s + drift_s + sum(there.io_s)
    terms = zip(there.io_s, there.latencies, strict=True)
    bounds = interval(
        remainder_s,
        [Measured(seconds, lat.blocks, lat.error) for seconds, lat in terms],
        drift_s=drift_most_s,
        delay_s=min(scale * baseline.meta["capture"]["run_queue_delay_s"] / apart, remainder_s),
        noise=noise_of(target),
        confidence=confidence,
    )
    return Forecast(
        target.name,
        whole_s,
        total_s,
        (min(bounds[0], total_s), max(bounds[1], total_s)),
        confidence,
        remainder_s + min(drift_s, 0.0) + there.least_s,
        [*_moved(rest, drift_s), *_io_terms(loads, there.io_s, scale / at_once)],
        warnings=warn(
            baseline, target, loads, there.latencies, remainder_s / whole_s, there.saturated
        ),
        advice=target.facts.get("advice", ()),
        work_memory=memory,
    )


def refused(baseline: Recording, target: str, reason: str) -> Forecast:
    """A forecast that gives no number for a target, and the reason."""
    bare = Storage(target, "asked", [])
    return replace(forecast(baseline, bare), refused=reason)


@dataclass(frozen=True)
class _Elsewhere:
    """The loads of a run on another storage."""

    latencies: Sequence[Latency]
    io_s: Sequence[float]
    #: What temp I/O would add without any latency, as processes then wait for CPUs instead.
    least_s: float
    #: The limit of the storage that the run would wait for.
    saturated: str | None


def _elsewhere(
    target: Storage,
    loads: Sequence[Load],
    at_once: float,
    scale: float,
    sharing: Shared | None,
    *,
    counted: bool,
) -> _Elsewhere:
    """Refusal where the target has no figures for what the run does.

    If only ``counted``, ``at_once`` processes share the I/O wherever it stands.
    """
    there = float(target.facts.get("in_flight", at_once))
    found = latencies(target, loads, there)
    there = at_once if counted else there
    alone_s = [load.count * lat.mean_s for load, lat in zip(loads, found, strict=True)]
    io_s, idle_s = sum(alone_s) / there, 0.0
    if sharing is not None:
        here_s = sum(load.total_s for load in loads)
        here = here_s / at_once, here_s / sharing.count
        io_s = sharing.added_s(*here, sum(alone_s) / sharing.count)
        idle_s = sharing.added_s(*here, 0.0)
    least_s, limit = limited_s(target, loads, scale)
    saturated = least_s > scale * io_s
    whole_s = max(least_s, scale * io_s)
    weights = alone_s if any(alone_s) else [load.count for load in loads]
    parts_s = [whole_s * weight / sum(weights) for weight in weights]
    return _Elsewhere(found, parts_s, scale * idle_s, limit if saturated else None)


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


def _moved(rest: Sequence[Term], drift_s: float) -> list[Term]:
    """The first term, which holds the CPU time, as it is on the target."""
    cpu, *others = rest
    return [replace(cpu, forecast_s=cpu.forecast_s + drift_s), *others]


def _io_terms(loads: Sequence[Load], forecast_s: Sequence[float], scale: float) -> list[Term]:
    return [
        Term(f"temp {load.op}", load.op, load.bytes, load.count, scale * load.total_s, seconds)
        for load, seconds in zip(loads, forecast_s, strict=True)
    ]
