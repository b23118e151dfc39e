"""What changes on another storage: the temp events with their gains, and the time outside them.

After a long wait the CPU caches are cold, so the work until the next wait takes longer. Two traces
of the same work measure the difference. Without them the time outside is kept, with a spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import expm1, hypot, log, sqrt

import numpy as np

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.columns import Floats
from spillcast.errors import EvidenceIncomplete, FiguresMissing, NotSpilled, TimesUnknown
from spillcast.forecast.cpu import MIN_ERROR
from spillcast.forecast.interval import DRAWS
from spillcast.forecast.oracle.evidence import (
    EventLatency,
    EventTarget,
    OracleEvidence,
    TraceEvidence,
    matching,
)
from spillcast.forecast.question import Question
from spillcast.forecast.workload import WHOLE_MIN
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.storage import Storage
from spillcast.storage.model import Model
from spillcast.units import format_share

#: Traces are of the same work if at least this share of waits and calls per temp operation agrees.
SAME_WORK = 0.75
#: Stands for zero latency; not 0, so that gains stay finite.
NO_LATENCY_S = 1e-9
#: Number of blocks of whole seconds that a trace is divided into, to measure their scatter. A block
#: is a second or longer, because waits may begin in one block and end in the next.
BLOCKS = 8


@dataclass(frozen=True)
class EventPart:
    """One temp event: its time today, its gain on the target and the latencies behind the gain.

    ``share`` is its share of elapsed time in ASH.
    """

    event: str
    time_s: float
    share: float | None
    seen: EventLatency | None
    latency_s: float
    target: EventLatency | None = None
    gain: float = 1.0
    size_ratio: float = 1.0
    borrowed: bool = False

    @property
    def op(self) -> str | None:
        """``read``, ``write`` or None, from the trace or else from the name."""
        if self.seen is not None:
            return self.seen.op
        return next((op for op in OPS if op in self.event.split()), None)

    @property
    def count(self) -> float:
        """Operations of the run."""
        return self.time_s / self.latency_s

    @property
    def target_s(self) -> float:
        """Its time on the target."""
        return self.time_s / self.gain


def parts_of(
    target: EventTarget, evidence: OracleEvidence, question: Question, elapsed_s: float
) -> list[EventPart]:
    """The temp events, the longest first. Refusal if no gain is known."""
    method = question.method
    events = _baseline(question.temp_events or TEMP_EVENTS, evidence, elapsed_s)
    sharing = _sharing(events, evidence, elapsed_s)
    measured_parts = (_measured(target, event, evidence, sharing, method) for event in events)
    parts = [part for part in measured_parts if part is not None]
    if not parts:
        missing = ", ".join(event.event for event in events)
        if target.storage is not None:
            raise FiguresMissing(
                f"the size of the operations of {missing} is unknown, or {target.name} has no "
                "figures for them: add a trace of the query"
            )
        raise FiguresMissing(
            f"{target.name} contains no {missing}: trace the query there while it spills"
        )
    if method == "seed":
        return [replace(event, target=parts[0].target, gain=parts[0].gain) for event in events]
    pooled = sum(part.time_s for part in parts) / sum(part.target_s for part in parts)
    measured = {part.event: part for part in parts}
    return [
        measured.get(event.event, replace(event, gain=pooled, borrowed=True)) for event in events
    ]


def _baseline(temp_events: str, evidence: OracleEvidence, elapsed_s: float) -> list[EventPart]:
    """The temp events today, the longest first."""
    traces, ash = evidence.traces, evidence.ash
    seen = traces.events if traces is not None else {}
    spilled = evidence.spilled
    # With ``more_pga``, lines may come from work areas of statements that the traces do not have.
    of_traces = spilled.lines if spilled is not None and spilled.more_pga is None else []
    # Up to release 9.2 this event also covers writes of temp files.
    waited = any(is_like(name, temp_events) or name == "direct path write" for name in seen)
    if ash is None and traces and of_traces and not waited:
        raise EvidenceIncomplete(
            f"{of_traces[0].operation} spilled, and it has no wait for temp files",
            "trace it whole, with waits (level 8); tkprof of it gives bounds",
            traces.name,
        )
    baselines = []
    for name in matching(list(ash.share if ash is not None else seen), temp_events):
        latency = seen.get(name)
        if ash is not None:
            latency_s = latency.mean_s if latency is not None else ash.latency_s.get(name, 0.0)
            share = ash.share[name]
            baselines.append(EventPart(name, elapsed_s * share, share, latency, latency_s))
        elif traces is not None and latency is not None:
            if traces.sessions_s <= 0:
                raise EvidenceIncomplete(
                    "the lines have no times (tim)",
                    "the time by event must come from an ASH export",
                    traces.name,
                )
            share = traces.shares.get(name, latency.total_s / traces.sessions_s)
            time_s = share * elapsed_s
            baselines.append(EventPart(name, time_s, None, latency, latency.mean_s))
    sampled = [event for event in baselines if event.time_s > 0]
    if not sampled:
        raise NotSpilled("the evidence shows no time in the temp events")
    timed = [event for event in sampled if event.latency_s > 0]
    if not timed:
        raise TimesUnknown(
            "the samples show no length of a wait for temp files: export TIME_WAITED with them, or "
            "add a trace of the query"
        )
    return sorted(timed, key=lambda event: -event.time_s)


@dataclass(frozen=True)
class _Sharing:
    """The mean number of sessions at work, and a session's time outside temp I/O per operation."""

    sessions: float
    think_s: float


def _sharing(events: Sequence[EventPart], evidence: OracleEvidence, elapsed_s: float) -> _Sharing:
    """How sessions share a storage. Their waits in traces are a multiple of the elapsed time's."""
    temp_s = sum(event.time_s for event in events)
    think_s = max(elapsed_s - temp_s, 0.0) / sum(event.count for event in events)
    if evidence.ash is not None:
        return _Sharing(evidence.ash.sessions, think_s)
    traced_s = sum(event.seen.total_s for event in events if event.seen is not None)
    covered = (evidence.covered_s or elapsed_s) / elapsed_s
    return _Sharing(max(traced_s / (covered * temp_s), 1.0), think_s)


def _measured(
    target: EventTarget,
    part: EventPart,
    evidence: OracleEvidence,
    sharing: _Sharing,
    method: str,
) -> EventPart | None:
    """The event with its gain; None if the target has no figures for it."""
    if target.factor is not None:
        return replace(part, gain=target.factor)
    if target.latency_s is not None:
        return replace(part, gain=part.latency_s / target.latency_s)
    if target.storage is not None:
        return _described(target.storage, part, evidence, sharing)
    measured = target.traces.events.get(part.event) if target.traces is not None else None
    if measured is None or measured.total_s <= 0:
        return None
    ratio = 1.0
    if method != "seed" and part.seen is not None and part.seen.blocks and measured.blocks:
        ratio = part.seen.blocks / measured.blocks
    gain = part.latency_s / (measured.mean_s * ratio)
    return replace(part, target=measured, gain=gain, size_ratio=ratio)


def _described(
    storage: Storage, part: EventPart, evidence: OracleEvidence, sharing: _Sharing
) -> EventPart | None:
    """The event with its gain by the figures of a storage, which all sessions share.

    Burst credits are assumed to be used up. Operations are sequential or random as in the traces,
    or random if these do not show it. None if their size is unknown, or if the storage has no
    figures for them.
    """
    seen, op, block_bytes = part.seen, part.op, evidence.block.bytes
    if (
        op is None
        or seen is None
        or seen.blocks is None
        or not any(group.count for group in storage.of(op))
    ):
        return None
    model, sizes = Model(storage), seen.sizes or {seen.blocks: 1}
    # The traces are read for the order of operations only if the storage distinguishes it.
    patterns_differ = len({group.pattern for group in storage.of(op)}) > 1
    in_order = evidence.sequential if patterns_differ and is_like(seen.event, TEMP_EVENTS) else {}

    def latency_s(size: int, sequential: bool | None = None) -> float:
        alone_s = model.latency(op, size, sequential=sequential).mean_s
        queued_s = model.latency(
            op, size, depth=sharing.sessions, sequential=sequential, lasting=True
        ).mean_s
        # While a session works outside temp I/O, the storage serves the others, and bursts refill.
        return max(alone_s, queued_s - sharing.think_s)

    def mean_s(size: int) -> float:
        share = in_order.get((op, _core.size_class_bytes(size)))
        if share is None:
            return latency_s(size)
        return share * latency_s(size, True) + (1 - share) * latency_s(size, False)

    target_s = sum(count * mean_s(round(blocks * block_bytes)) for blocks, count in sizes.items())
    mean_target_s = max(target_s / sum(sizes.values()), NO_LATENCY_S)
    return replace(part, gain=float(part.latency_s / mean_target_s))


@dataclass(frozen=True)
class TargetRest:
    """How the time outside the temp events changes on the target."""

    #: Seconds of it today that belong to temp operations; the others do not change on the target.
    near_s: float
    #: Logarithm of these seconds on the target over those today.
    log_ratio: float
    #: Standard deviation of ``log_ratio`` in both directions.
    spread: float
    #: A further half-normal deviation in the direction of the waits: below 0 if they get shorter.
    toward: float
    #: Why the target's trace does not show the change; None if it does.
    kept: str | None = None
    #: Bounds of the term added to ``log_ratio`` if operations on the target move another number of
    #: blocks, because the time may be proportional to blocks or to operations.
    by_size: tuple[float, float] = (0.0, 0.0)

    @property
    def change_s(self) -> float:
        """Additional seconds on the target; below 0 if it takes less."""
        return self.near_s * expm1(self.log_ratio)

    def drawn_s(self, rng: np.random.Generator) -> Floats:
        """Draws of ``change_s``, shape (DRAWS,)."""
        either_way = rng.normal(0, self.spread, DRAWS)
        sideways = self.toward * np.abs(rng.normal(0, 1, DRAWS))
        if any(self.by_size):
            sideways = sideways + rng.uniform(*self.by_size, DRAWS)
        drawn: Floats = self.near_s * np.expm1(self.log_ratio + either_way + sideways)
        return drawn


@dataclass(frozen=True)
class _TimeOutside:
    """The time outside the temp events in one trace."""

    #: Temp operations, converted to operations of the baseline's size.
    count: float
    #: Seconds outside for each operation of the trace.
    per_operation_s: float
    #: Logarithm of the number of operations for each one of the baseline's size.
    log_smaller: float
    #: Relative standard error of ``per_operation_s``, from blocks of the trace.
    scatter: float
    #: Waits and calls of each kind per operation of the baseline's size.
    kinds: dict[str, float]


def window_error(level: Sequence[float], count: float, total: float) -> float:
    """Relative error if the mean of ``count`` operations stands for all ``total`` of a run.

    ``level`` is the error that no number of operations reduces, and the error of one operation.
    """
    unseen = max(0.0, 1.0 - count / total)
    return max(MIN_ERROR, hypot(level[0], level[1] / sqrt(count)) * sqrt(unseen))


def target_rest(
    target: EventTarget,
    evidence: OracleEvidence,
    parts: Sequence[EventPart],
    elapsed_s: float,
    *,
    enabled: bool = True,
) -> TargetRest:
    """The change by traces on both storages; without them, or if disabled, 0 with a spread."""
    measured = calibrated()
    boosted_s = sum(part.time_s for part in parts)
    rest_s = max(elapsed_s - boosted_s, 0.0)
    count = sum(part.count for part in parts)
    # A wait as short as an access to memory leaves the caches warm.
    shortest_s = [min(part.count * measured.memory_s, part.time_s) for part in parts]
    gain = boosted_s / sum(map(max, shortest_s, [part.target_s for part in parts]))
    source_outside = _outside(evidence.traces, {part.event: 1.0 for part in parts})
    per_operation_s = (
        source_outside.per_operation_s if source_outside is not None else measured.oracle_rest_s
    )
    near_s = min(rest_s, count * per_operation_s)
    moves = measured.oracle_rest_moves * log(gain)
    kept = TargetRest(near_s, 0.0, measured.oracle_rest_spread, -moves)
    if target.traces is None or not enabled:
        return kept
    sizes = {part.event: part.size_ratio for part in parts}
    target_outside = _outside(target.traces, sizes)
    why = _why_not(target, source_outside, target_outside)
    if source_outside is None or target_outside is None or why is not None:
        return replace(kept, kept=why)
    level = measured.oracle_rest_error
    source_error, target_error = (
        hypot(window_error(level, rest.count, count), rest.scatter)
        for rest in (source_outside, target_outside)
    )
    if evidence.ash is None and source_outside.count >= WHOLE_MIN * count:
        source_error = MIN_ERROR
    error = hypot(source_error, target_error)
    # The measured change is weighted against the assumption that little changes.
    likely = hypot(measured.oracle_rest_spread, moves)
    weight = likely**2 / (likely**2 + error**2)
    # The query moves the same blocks on both storages. If sizes differ, traces do not show whether
    # time is per block or per operation: only the change that both cases imply is certain.
    by_operation = log(target_outside.per_operation_s / source_outside.per_operation_s)
    low, high = sorted((by_operation, by_operation + target_outside.log_smaller))
    ratio = min(max(0.0, low), high)
    by_size = weight * (low - ratio), weight * (high - ratio)
    return TargetRest(near_s, weight * ratio, error * weight**0.5, 0.0, by_size=by_size)


def _why_not(
    target: EventTarget, source_outside: _TimeOutside | None, target_outside: _TimeOutside | None
) -> str | None:
    """Why two traces do not show how the time outside changes; None if they do."""
    if source_outside is None:
        return "no trace of whole sessions on the current storage shows it by operation"
    if target_outside is None:
        return f"{target.name} does not show it by operation"
    kinds = source_outside.kinds, target_outside.kinds
    pairs = [tuple(shares.get(name, 0.0) for shares in kinds) for name in kinds[0] | kinds[1]]
    # The work that both traces have in common, over the work of either.
    similarity = sum(map(min, pairs)) / sum(map(max, pairs))
    if similarity < SAME_WORK:
        return (
            f"only {format_share(similarity)} of the operations here and on {target.name} are the "
            "same: other phases of the query"
        )
    return None


def _outside(trace: TraceEvidence | None, sizes: dict[str, float]) -> _TimeOutside | None:
    """The time outside in a trace; ``sizes`` are blocks per operation today over the target's.

    ``sizes`` has the temp events as keys. None if the trace does not cover whole sessions,
    or if its waits leave no time.
    """
    if trace is None or trace.calls is None:
        return None
    counts = {name: seen.count for name, seen in trace.events.items()}
    temp = {name: counts[name] / sizes[name] for name in sizes if name in counts}
    waited_s = sum(s.total_s for name, s in trace.events.items() if name in sizes or s.idle)
    count = sum(temp.values())
    outside_s = trace.sessions_s - waited_s
    if count <= 0 or outside_s <= 0:
        return None
    others = {n: s.count for n, s in trace.events.items() if n not in sizes and not s.idle}
    kinds = {name: n / count for name, n in {**others, **trace.calls, **temp}.items()}
    operations = sum(counts[name] for name in temp)
    per_operation_s, log_smaller = outside_s / operations, log(operations / count)
    return _TimeOutside(count, per_operation_s, log_smaller, _scatter(trace, sizes), kinds)


def _scatter(trace: TraceEvidence, sizes: dict[str, float]) -> float:
    """Relative standard error of the time outside per operation, from blocks of seconds.

    0 if unknown: for traces of several sessions or pieces, and of only a few seconds.
    """
    seconds = [seen.seconds for seen in trace.events.values() if len(seen.seconds)]
    first = int(min((times[0] for times in seconds), default=0))
    last = int(max((times[-1] for times in seconds), default=0))
    # The trace covers only a part of its first and last second.
    length = (last - first - 1) // BLOCKS
    in_turn = last - first > 1.05 * trace.elapsed_s + 1
    if length < 1 or in_turn or trace.sessions_s > 1.05 * trace.elapsed_s:
        return 0.0
    outside_s, count = np.full(BLOCKS, float(length)), np.zeros(BLOCKS)
    for name, seen in trace.events.items():
        if not (name in sizes or seen.idle):
            continue
        block = (seen.seconds - first - 1) // length
        inside = (block >= 0) & (block < BLOCKS)
        times = seen.stretches[inside].prod(axis=1)
        outside_s -= np.bincount(block[inside], times, BLOCKS)
        if name in sizes:
            count += np.bincount(block[inside], seen.stretches[inside, 0], BLOCKS)
    mean_s = outside_s.sum() / count.sum() if count.sum() else 0.0
    if mean_s <= 0:
        return 0.0
    # This is the error of a ratio of sums: blocks with more operations weigh more.
    off = (outside_s - mean_s * count) / (mean_s * count.mean())
    return float(off.std(ddof=1) / BLOCKS**0.5)
