"""The events that change on another storage: their time here, and their gain there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import InputError, Refusal
from spillcast.forecast.events import (
    AshEvidence,
    EventLatency,
    TraceEvidence,
    matching,
    read_traces,
)
from spillcast.recording.evidence import find_evidence
from spillcast.units import parse_duration_s, parse_factor


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
class Part:
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


def parts_of(
    target: Target,
    boost: str,
    traces: TraceEvidence | None,
    ash: AshEvidence | None,
    whole_s: float,
    method: str,
) -> list[Part]:
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
            Part(
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
