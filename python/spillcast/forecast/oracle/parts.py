"""The events that change on another storage: their time today, and their gain."""

import glob
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path

from spillcast import _core
from spillcast.errors import (
    EvidenceIncomplete,
    FiguresMissing,
    InputError,
    NotSpilled,
    TargetInvalid,
    TargetUnsuited,
)
from spillcast.evidence.open import find_evidence, traces_below
from spillcast.forecast.oracle.evidence import (
    EventLatency,
    OracleEvidence,
    TraceEvidence,
    matching,
    read_traces,
    statements_of,
)
from spillcast.forecast.question import Question
from spillcast.recording.event_names import OPS, TEMP_EVENTS, is_like
from spillcast.storage import Storage
from spillcast.storage.model import Model
from spillcast.storage.target import check_word, is_place, resolve_storage
from spillcast.text import shell_word
from spillcast.units import parse_factor, parse_latency_s

#: Statements that an error names.
_NAMED = 3
FORMS = "a trace taken there, latency:150us, factor:60, catalogue:NAME or a storage.json"
#: The hint for a target that Oracle's evidence cannot be compared with.
_ASK = (
    "trace the query for a minute with temp on the other storage, or give latency:150us, "
    "catalogue:NAME or a storage.json"
)


@dataclass(frozen=True)
class Target:
    """The other storage: traces taken there, its figures, a latency for all, or a gain."""

    name: str
    traces: TraceEvidence | None = None
    latency_s: float | None = None
    factor: float | None = None
    storage: Storage | None = None


def target_of(target: Storage | str | Path, evidence: OracleEvidence, question: Question) -> Target:
    """The target that a storage is, or that a word names. InputError where it names none."""
    if isinstance(target, Storage):
        return Target(target.name, storage=target)
    text = str(target)
    check_word(text, "--to")
    place = is_place(Path(target))
    if text == "tmpfs" or text.startswith("cache:") or (place and not traces_below(Path(target))):
        return Target(text, storage=_probed(text, evidence, question))
    if not place:
        return resolve_target(text, lenient=question.lenient)
    temp_events = question.temp_events or TEMP_EVENTS
    paths = traces_of_same_work(
        Path(target), evidence.statements, temp_events, lenient=question.lenient
    )
    traces = read_traces(paths, lenient=question.lenient)
    return Target(f"{target} ({traces.name})", traces=traces)


def resolve_target(text: str, *, lenient: bool = False) -> Target:
    """The target that a word names: a latency, a gain, a storage or traces, but no directory.

    InputError where it names none.
    """
    check_word(text, "--to")
    kind, colon, value = text.partition(":")
    if colon and kind == "latency":
        latency_s = parse_latency_s(value, f"--to {text}")
        if latency_s == 0:
            raise TargetInvalid(
                f"--to {text}: every operation takes a time", "for example latency:10us"
            )
        return Target(text, latency_s=latency_s)
    if colon and kind == "factor":
        return Target(text, factor=parse_factor(text, value))
    if (colon and kind == "catalogue") or (text.endswith(".json") and Path(text).is_file()):
        storage = resolve_storage(text)
        return Target(storage.name, storage=storage)
    if text != "-" and not (Path(text).exists() or glob.glob(text)):
        resolve_storage(text, f"--to {text}", FORMS)
    evidence = find_evidence([text])
    if not evidence.traces:
        raise TargetUnsuited(
            f"--to {text}: a baseline of traces or ASH is compared with traces", _ASK
        )
    traces = read_traces(evidence.traces, lenient=lenient)
    return Target(traces.name, traces=traces)


@dataclass(frozen=True)
class EventBaseline:
    """One boosted event on the baseline; ``share`` is its share of elapsed time in ASH."""

    event: str
    time_s: float
    share: float | None
    seen: EventLatency | None
    latency_s: float

    @property
    def op(self) -> str | None:
        """Read, write or neither, from the trace or else from the name."""
        if self.seen is not None:
            return self.seen.op
        return next((op for op in OPS if op in self.event.split()), None)


@dataclass(frozen=True)
class Part:
    """One boosted event, its gain on the target and what that rests on."""

    baseline: EventBaseline
    target: EventLatency | None
    gain: float
    size_ratio: float = 1.0
    borrowed: bool = False


def parts_of(
    target: Target, evidence: OracleEvidence, question: Question, elapsed_s: float
) -> list[Part]:
    """The boosted events, the longest first. Refusal where no gain is known."""
    events, method = (
        _baseline(question.temp_events or TEMP_EVENTS, evidence, elapsed_s),
        question.method,
    )
    parts = [
        part for event in events if (part := _measured(target, event, evidence, method)) is not None
    ]
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
        return [replace(parts[0], baseline=event) for event in events]
    pooled = sum(part.baseline.time_s for part in parts) / sum(
        p.baseline.time_s / p.gain for p in parts
    )
    measured = {part.baseline.event: part for part in parts}
    return [measured.get(event.event, Part(event, None, pooled, borrowed=True)) for event in events]


def _baseline(temp_events: str, evidence: OracleEvidence, elapsed_s: float) -> list[EventBaseline]:
    traces, ash = evidence.traces, evidence.ash
    seen = traces.events if traces is not None else {}
    baselines = []
    for name in matching(list(ash.share if ash is not None else seen), temp_events):
        latency = seen.get(name)
        if ash is not None:
            latency_s = latency.mean_s if latency is not None else ash.latency_s.get(name, 0.0)
            baselines.append(
                EventBaseline(
                    name, elapsed_s * ash.share[name], ash.share[name], latency, latency_s
                )
            )
        elif traces is not None and latency is not None:
            if traces.sessions_s <= 0:
                raise EvidenceIncomplete(
                    f"{traces.name}: the lines have no times (tim)",
                    "the time by event must come from an ASH export",
                )
            time_s = latency.total_s / traces.sessions_s * elapsed_s
            baselines.append(EventBaseline(name, time_s, None, latency, latency.mean_s))
    baselines = [event for event in baselines if event.time_s > 0 and event.latency_s > 0]
    if not baselines:
        raise NotSpilled("the evidence shows no time in the boosted events")
    return sorted(baselines, key=lambda event: -event.time_s)


def _measured(
    target: Target, baseline: EventBaseline, evidence: OracleEvidence, method: str
) -> Part | None:
    """The event with its gain; None where the target did not see it."""
    if target.factor is not None:
        return Part(baseline, None, target.factor)
    if target.latency_s is not None:
        return Part(baseline, None, baseline.latency_s / target.latency_s)
    if target.storage is not None:
        return _described(target.storage, baseline, evidence)
    measured = target.traces.events.get(baseline.event) if target.traces is not None else None
    if measured is None or measured.total_s <= 0:
        return None
    ratio = 1.0
    if method != "seed" and baseline.seen is not None and baseline.seen.blocks and measured.blocks:
        ratio = baseline.seen.blocks / measured.blocks
    return Part(baseline, measured, baseline.latency_s / (measured.mean_s * ratio), ratio)


def _described(storage: Storage, baseline: EventBaseline, evidence: OracleEvidence) -> Part | None:
    """The event with its gain by the figures of a storage, for operations one at a time.

    They are in the order of the traces where these tell it, and random otherwise. None where the
    trace does not tell their size, or the storage has no figures for them.
    """
    seen, op, block_bytes = baseline.seen, baseline.op, evidence.block.bytes
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

    def mean_s(size: int) -> float:
        share = in_order.get((op, _core.size_class_bytes(size)))
        if share is None:
            return model.latency(op, size).mean_s
        after, anywhere = (
            model.latency(op, size, sequential=is_sequential).mean_s
            for is_sequential in (True, False)
        )
        return share * after + (1 - share) * anywhere

    target_s = sum(count * mean_s(round(blocks * block_bytes)) for blocks, count in sizes.items())
    return Part(baseline, None, float(baseline.latency_s * sum(sizes.values()) / target_s))


def _probed(text: str, evidence: OracleEvidence, question: Question) -> Storage:
    """What the reads and writes of the traces take on the target that ``text`` names.

    InputError without traces, and where these name no temp file. Refusal where the temp files would
    not fit into memory.
    """
    from spillcast.evidence.oracle.trace import recording_of_traces
    from spillcast.storage.target import resolve

    if not evidence.paths:
        raise TargetUnsuited(
            f"--to {text}: ASH samples cannot be replayed",
            "add a trace of at least a minute of the query, or give latency:150us, catalogue:NAME "
            "or a storage.json",
        )
    recording = recording_of_traces(evidence.paths, evidence.block.bytes, lenient=question.lenient)
    with question.watch(text) as show:
        return resolve(text, recording, budget=question.probe_budget, on_progress=show)


def traces_of_same_work(
    folder: Path, statements: Set[str], temp_events: str, *, lenient: bool = False
) -> list[Path]:
    """Those in which one of ``statements`` waits for events like ``temp_events``.

    A directory of traces holds those of everybody. InputError where none is of the same work, or
    where the baseline does not say which statement it is of.
    """
    target = f"--to {folder}"
    probe = f"spillcast probe {shell_word(folder)} --grid -o there.json, then --to there.json"
    paths = traces_below(folder)
    if not paths:
        raise TargetUnsuited(
            f"{target}: traces and ASH are not replayed on a directory, and this one holds no "
            "trace of the query",
            f"probe it: {probe}",
        )
    if not statements:
        raise TargetUnsuited(
            f"{target}: the baseline does not name its statement, and of {len(paths):,} traces "
            "below the directory it is unknown which are of the same statement",
            f"give its traces instead of the directory, or probe it: {probe}",
        )
    same = [path for path in paths if statements & _statements_in(path, temp_events, lenient)]
    if not same:
        named = sorted(statements)[:_NAMED]
        more = ", ..." if len(statements) > _NAMED else ""
        raise TargetUnsuited(
            f"{target}: of {len(paths):,} traces below it none has waits for '{temp_events}' of "
            f"the same statement ({', '.join(named)}{more})",
            f"trace the query for a minute with temp there, or probe the directory: {probe}",
        )
    return same


def _statements_in(path: Path, temp_events: str, lenient: bool) -> Set[str]:
    """None of them in a file that is no trace of waits."""
    try:
        return statements_of([path], temp_events, lenient=lenient)
    except InputError:
        return frozenset()
