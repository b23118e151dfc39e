"""A forecast from Oracle's evidence: a share of elapsed time, and latencies on both storages.

    T_B = T_A + sum over boosted events of time_e * (1 / g_e - 1),    g_e = L_A / (L_B * b_A / b_B)

time_e comes from ASH (share times elapsed) or from a trace that covers the run; L and b, mean
latency and blocks per operation, from short traces on either storage. ``method="seed"`` takes the
gain of the largest event for all and does not match sizes, as the post that started this did.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import InputError, Refusal
from spillcast.forecast.events import (
    AshEvidence,
    EventLatency,
    TraceEvidence,
    matching,
    read_traces,
)
from spillcast.forecast.interval import DRAWS, REPLAY_NOISE, RUN_NOISE, resampled_means
from spillcast.forecast.result import Forecast, Term, Warned
from spillcast.recording.evidence import find_evidence
from spillcast.units import format_duration, parse_duration_s, parse_factor

#: Temp latency below which the baseline is likely served by flash already.
FLASH_S = 1e-3
#: Share of the target's waits from which an event that the baseline has not is named.
NEW_SHARE = 0.05

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """The other storage: traces taken there, a latency for every operation, or a gain."""

    name: str
    traces: TraceEvidence | None = None
    latency_s: float | None = None
    factor: float | None = None


def resolve_target(text: str) -> Target:
    """The target that a word on the command line names. InputError where it names none."""
    kind, colon, value = text.partition(":")
    if colon and kind == "latency":
        return Target(text, latency_s=parse_duration_s(value))
    if colon and kind == "factor":
        return Target(text, factor=parse_factor(text, value))
    evidence = find_evidence([text])
    if not evidence.traces:
        raise InputError(
            f"--to {text}: a baseline of traces or ASH is compared with traces",
            "trace the query for a minute with temp on the other storage, or ask latency:150us",
        )
    traces = read_traces(evidence.traces)
    return Target(traces.name, traces=traces)


@dataclass(frozen=True)
class _Part:
    """One boosted event: its time here, and how the gain over there is known."""

    event: str
    op: str | None
    time_s: float
    share: float | None
    here: EventLatency | None
    here_s: float
    there: EventLatency | None
    gain: float
    size_ratio: float
    borrowed: bool


def forecast_events(
    target: Target,
    boost: str,
    *,
    traces: TraceEvidence | None,
    ash: AshEvidence | None,
    elapsed_s: float | None = None,
    method: str = "counts",
    confidence: float = 0.9,
) -> Forecast:
    """Forecast a run from ASH, traces or both. InputError where ``boost`` matches nothing."""
    covered_s = ash.elapsed_s if ash is not None else traces.elapsed_s if traces else 0.0
    whole_s = covered_s if elapsed_s is None else elapsed_s
    if whole_s <= 0:
        raise InputError("the evidence covers no time", "give the time of the run with --elapsed")
    try:
        parts = _parts(target, boost, traces, ash, whole_s, method)
    except Refusal as refused:
        return Forecast(
            target.name, whole_s, None, None, confidence, whole_s, [], method, refused=str(refused)
        )
    boosted_s = sum(part.time_s for part in parts)
    rest_s = max(whole_s - boosted_s, 0.0)
    terms = [Term("CPU and other waits", None, None, None, rest_s, rest_s)]
    for part in parts:
        count = round(part.time_s / part.here_s)
        there_s = part.time_s / part.gain
        terms.append(Term(part.event, part.op, None, count, part.time_s, there_s))
    total_s = sum(term.forecast_s for term in terms)
    low, high = _interval(parts, whole_s, ash, method, confidence)
    return Forecast(
        target.name,
        whole_s,
        total_s,
        (min(low, total_s), max(high, total_s)),
        confidence,
        rest_s,
        terms,
        method,
        _warnings(target, parts, traces, ash, whole_s),
    )


def _parts(
    target: Target,
    boost: str,
    traces: TraceEvidence | None,
    ash: AshEvidence | None,
    whole_s: float,
    method: str,
) -> list[_Part]:
    seen = traces.events if traces is not None else {}
    names = matching(list(ash.share) if ash is not None else list(seen), boost)
    parts = []
    for name in names:
        here = seen.get(name)
        if ash is not None:
            share: float | None = ash.share[name]
            time_s = whole_s * ash.share[name]
            here_s = here.mean_s if here is not None else ash.latency_s.get(name)
        else:
            assert here is not None
            assert traces is not None
            share = None
            time_s = here.total_s / traces.sessions * whole_s / traces.elapsed_s
            here_s = here.mean_s
        if time_s > 0 and here_s:
            parts.append((name, time_s, share, here, here_s))
    if not parts:
        raise Refusal("the boosted events took no time that the evidence could tell")
    parts.sort(key=lambda part: -part[1])
    gains = {name: _gain(target, name, here, here_s, method) for name, *_, here, here_s in parts}
    known = [(part[1], gains[part[0]]) for part in parts if gains[part[0]] is not None]
    if not known:
        missing = ", ".join(name for name, *_ in parts)
        raise Refusal(f"{target.name} saw none of {missing}: trace it there while it spills")
    if method == "seed":
        first = known[0][1]
        known, gains = [(1.0, first)], dict.fromkeys(gains, first)
    pooled_time = sum(time_s for time_s, _ in known)
    pooled = pooled_time / sum(time_s / gain[0] for time_s, gain in known if gain)
    result = []
    for name, time_s, share, here, here_s in parts:
        gain = gains[name]
        there = target.traces.events.get(name) if target.traces is not None else None
        op = here.op if here is not None else "write" if "write" in name else "read"
        result.append(
            _Part(
                name,
                op,
                time_s,
                share,
                here,
                here_s,
                there,
                gain[0] if gain is not None else pooled,
                gain[1] if gain is not None else 1.0,
                gain is None,
            )
        )
    return result


def _gain(
    target: Target, name: str, here: EventLatency | None, here_s: float, method: str
) -> tuple[float, float] | None:
    """(gain, blocks here over blocks there); None where the target did not see the event."""
    if target.factor is not None:
        return target.factor, 1.0
    if target.latency_s is not None:
        return here_s / target.latency_s, 1.0
    there = target.traces.events.get(name) if target.traces is not None else None
    if there is None or there.total_s <= 0:
        return None
    ratio = 1.0
    if method != "seed" and here is not None and here.blocks and there.blocks:
        ratio = here.blocks / there.blocks
    return here_s / (there.mean_s * ratio), ratio


def _interval(
    parts: Sequence[_Part],
    whole_s: float,
    ash: AshEvidence | None,
    method: str,
    confidence: float,
) -> tuple[float, float]:
    """What varies: the samples that hit, the latencies, and how latency goes with size."""
    draws = np.random.default_rng(0)
    times = _drawn_times(parts, whole_s, ash, draws)
    rest = np.maximum(whole_s - times.sum(axis=0), 0.0)
    total: Array = rest * (1 + draws.normal(0, RUN_NOISE, DRAWS))
    # In proportion to size, not at all, or anything in between.
    exponent = draws.uniform(0, 1, DRAWS) if method != "seed" else np.zeros(DRAWS)
    noise = 1 + draws.normal(0, REPLAY_NOISE, DRAWS)
    for part, time_s in zip(parts, times, strict=True):
        change = np.ones(DRAWS)
        if part.there is not None:
            change = change * resampled_means(part.there.stretches, draws)
        if part.share is not None and part.here is not None:
            change = change / resampled_means(part.here.stretches, draws)
        if part.size_ratio != 1.0:
            change = change * part.size_ratio ** (exponent - 1)
        total = total + time_s / part.gain * change * noise
    tail = (1 - confidence) / 2
    low, high = np.quantile(total, [tail, 1 - tail])
    return float(low), float(high)


def _drawn_times(
    parts: Sequence[_Part], whole_s: float, ash: AshEvidence | None, draws: np.random.Generator
) -> Array:
    """Time of each event in each draw: multinomial where it comes from samples."""
    if ash is None:
        return np.array([[part.time_s] * DRAWS for part in parts])
    shares = [part.share or 0.0 for part in parts]
    rest = max(0.0, 1.0 - sum(shares))
    hits = draws.multinomial(ash.instants, [*shares, rest], DRAWS)
    return np.asarray(hits[:, :-1].T / ash.instants * whole_s)


def _warnings(
    target: Target,
    parts: Sequence[_Part],
    traces: TraceEvidence | None,
    ash: AshEvidence | None,
    whole_s: float,
) -> list[Warned]:
    warnings = [Warned("ash", note) for note in (ash.notes if ash is not None else [])]
    temp = [part for part in parts if part.event.endswith(" temp")]
    if temp and temp[0].here_s < FLASH_S:
        text = (
            f"{temp[0].event} takes {format_duration(temp[0].here_s)} here: flash already, or a "
            "cache; on Exadata temp may be served by the flash cache, and moving it gains little"
        )
        warnings.append(Warned("already-fast", text))
    for part in parts:
        if part.borrowed:
            text = f"{part.event} was not seen on {target.name}: the gain of the others is taken"
            warnings.append(Warned("gain-borrowed", text))
        if part.size_ratio != 1.0 and part.here is not None and part.there is not None:
            text = (
                f"{part.event} moves {part.here.blocks:.3g} blocks here and "
                f"{part.there.blocks:.3g} there: latencies are compared per block"
            )
            warnings.append(Warned("sizes", text))
    if target.traces is None:
        warnings.append(Warned("not-measured", "nothing was measured: the latency is a wish"))
    else:
        warnings += _new_events(target.traces, traces)
    if ash is None and traces is not None and traces.elapsed_s < 0.9 * whole_s:
        text = (
            f"the trace covers {format_duration(traces.elapsed_s)} of {format_duration(whole_s)}: "
            "its mix is taken to hold for the rest; ASH of the whole run would tell"
        )
        warnings.append(Warned("part", text))
    if traces is not None and ash is None and traces.sessions > 1:
        text = "several sessions: the time of waits is divided by their number"
        warnings.append(Warned("threads", text))
    damaged = sum(t.damaged for t in (traces, target.traces) if t is not None)
    if damaged:
        warnings.append(Warned("damaged", f"{damaged:,} damaged lines were left out"))
    return warnings


def _new_events(there: TraceEvidence, here: TraceEvidence | None) -> list[Warned]:
    """Events that only the target has: no term holds their time."""
    if here is None:
        return []
    waits_s = sum(event.total_s for event in there.events.values() if not event.idle) or 1.0
    return [
        Warned(
            "new-event",
            f"{name} is {event.total_s / waits_s:.1%} of the waits on {there.name} and was not "
            "seen here: no term holds it",
        )
        for name, event in sorted(there.events.items())
        if name not in here.events and not event.idle and event.total_s > NEW_SHARE * waits_s
    ]
