"""A forecast from Oracle's evidence: shares of elapsed time, and latencies on both storages.

    T_B = T_A + sum over temp events of time_e * (1 / g_e - 1) + N * (r_B - r_A)
    g_e = L_A / (L_B * b_A / b_B)

Temp events are those like ``temp_events``: waits for temp files, or what ``--temp-events`` names.
time_e is the time in one of them, from ASH (its share of the elapsed time) or from a trace that
covers the run. L and b, mean latency and blocks per operation, come from short traces on both
storages. r is the time outside these waits per operation, and N the number of operations
(parts.py). ``method="seed"`` is the formula of the blog post: the gain of the largest event for all
events, without a match of sizes, and with the time outside unchanged.
"""

import glob
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np

from spillcast.calibrated import calibrated
from spillcast.columns import Floats
from spillcast.errors import InputError, OptionInvalid, Refusal, TargetInvalid, TargetUnsuited
from spillcast.evidence.open import find_evidence, traces_below
from spillcast.evidence.oracle.collected import BlockSize
from spillcast.evidence.oracle.trace import OPEN_SHARE
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.interval import DRAWS, too_wide
from spillcast.forecast.oracle.evidence import (
    AshEvidence,
    EventLatency,
    EventTarget,
    OracleEvidence,
    TraceEvidence,
    read_traces,
    statements_of,
)
from spillcast.forecast.oracle.parts import (
    NO_LATENCY_S,
    EventPart,
    TargetRest,
    parts_of,
    target_rest,
    window_error,
)
from spillcast.forecast.question import Question
from spillcast.forecast.result import WAIT, Forecast, Interval, Term
from spillcast.forecast.warnings import AMPLIFIED, probe_warnings, provenance_warnings
from spillcast.recording import TEMP_EVENTS
from spillcast.recording.observed import IN_MEMORY
from spillcast.stats import resampled_means
from spillcast.storage import Storage
from spillcast.storage.source import ASSUMED
from spillcast.storage.storage import nonnull_facts
from spillcast.storage.target import can_probe, parse_assumed, refuse_blank, resolve_storage
from spillcast.text import shell_word
from spillcast.units import format_bytes, format_count, format_duration, format_share

#: Standard deviation, from run to run, of the time that does not belong to temp operations, as a
#: share of that time. Assumed: no forecasts from Oracle's evidence are verified.
TRACE_REST_SPREAD = 0.05
#: With a shorter temp latency, flash probably serves the baseline already.
FLASH_S = 1e-3
#: A warning names events that only the target has, if they are at least this share of its waits.
NEW_SHARE = 0.05
#: A warning reports that a flash cache serves temp I/O above this share of the requests.
SERVED = 0.2
#: Maximum number of statements that an error names.
_NAMED = 3
FORMS = (
    "a trace taken there, latency:150us, factor:60, catalogue:NAME, "
    "limits:iops=12000,throughput=500MiB/s,latency=0.5ms or a storage.json"
)
#: The hint for a target that Oracle's evidence cannot be compared with.
_ASK = (
    "trace the query for a minute with temp on the other storage, or give latency:150us, "
    "catalogue:NAME or a storage.json"
)


def forecast_events(target: EventTarget, evidence: OracleEvidence, question: Question) -> Forecast:
    """Forecast a run from ASH, traces or both. InputError if ``temp_events`` matches nothing."""
    elapsed_s = evidence.covered_s if question.elapsed_s is None else question.elapsed_s
    # Traces of one statement give the sum over its sessions, which may exceed the elapsed time.
    if evidence.ash is not None or question.sql_id is None:
        question.check_elapsed(evidence.covered_s)
    if elapsed_s <= 0:
        given = question.elapsed_s is not None
        problem = "--elapsed is 0" if given else "the evidence covers no time"
        raise OptionInvalid(problem, "give the time of the run with --elapsed, such as 12m53s")
    unanswered = Forecast.unanswered(
        target.name, elapsed_s, question.confidence, method=question.method
    )
    try:
        parts = parts_of(target, evidence, question, elapsed_s)
    except Refusal as refused:
        return unanswered.refused_by(refused)
    rest_s = max(elapsed_s - sum(part.time_s for part in parts), 0.0)
    with_rest = question.method != "seed" and "rest" not in question.without
    moved = target_rest(target, evidence, parts, elapsed_s, enabled=with_rest)
    terms = [Term("CPU and other waits", None, None, None, rest_s, rest_s + moved.change_s)]
    terms += [
        Term(part.event, part.op or WAIT, None, round(part.count), part.time_s, part.target_s)
        for part in parts
    ]
    total_s = sum(term.forecast_s for term in terms)
    # A latency or a factor is an assumption of the user, without an error.
    noise = 0.0 if target.storage is None else target.storage.source.noise
    low, high = _interval(parts, elapsed_s, moved, evidence.ash, question, noise)
    interval_s = min(low, total_s), max(high, total_s)
    min_s, max_s = _limit(evidence, question, elapsed_s)
    ceiling_s = min(rest_s, total_s)
    ceiling_interval_s = min(min_s, ceiling_s, interval_s[0]), max(max_s, ceiling_s)
    answer = replace(
        unanswered,
        ceiling_s=ceiling_s,
        ceiling_interval_s=ceiling_interval_s,
        warnings=[*_warnings(target, parts, evidence, elapsed_s, moved.kept)],
        advice=target.storage.facts.get("advice", ()) if target.storage is not None else (),
        spilled=evidence.spilled and evidence.spilled.with_fix(rest_s, ceiling_interval_s),
    )
    if (reason := too_wide(*interval_s, elapsed_s)) is not None:
        return answer.refused_by(reason)
    return replace(answer, forecast_s=total_s, interval_s=interval_s, terms=terms)


def _limit(evidence: OracleEvidence, question: Question, elapsed_s: float) -> Interval:
    """Bounds of the elapsed time (s) without waits in temp events: the limit of any storage."""
    target = EventTarget("", latency_s=NO_LATENCY_S)
    parts = parts_of(target, evidence, question, elapsed_s)
    moved = target_rest(target, evidence, parts, elapsed_s)
    no_waits = [replace(part, gain=inf) for part in parts]
    return _interval(no_waits, elapsed_s, moved, evidence.ash, question, 0.0)


def _interval(
    parts: Sequence[EventPart],
    elapsed_s: float,
    moved: TargetRest,
    ash: AshEvidence | None,
    question: Question,
    noise_level: float,
) -> Interval:
    """Bounds of the elapsed time on the target (s).

    Draws vary the samples per event, latencies, their growth with size, and the time outside.
    """
    rng = np.random.default_rng(0)
    times_s = _drawn_times(parts, elapsed_s, ash, rng)
    today_s = np.maximum(elapsed_s - times_s.sum(axis=0), 0.0)
    far_s = np.maximum(today_s - moved.near_s, 0.0)
    variation_s: Floats = far_s * rng.normal(0, TRACE_REST_SPREAD, DRAWS)
    total_s: Floats = np.maximum(today_s + variation_s + moved.drawn_s(rng), 0.0)
    # Latency grows in proportion to size, not at all, or anything in between.
    exponent = rng.uniform(0, 1, DRAWS) if question.method != "seed" else np.zeros(DRAWS)
    noise = np.maximum(1 + rng.normal(0, noise_level, DRAWS), 0.0)
    for part, time_s in zip(parts, times_s, strict=True):
        change = np.ones(DRAWS)
        if part.target is not None:
            change = change * _drawn_mean(part.target, part.count, rng)
        if part.share is not None and part.seen is not None:
            change = change / _drawn_mean(part.seen, part.count, rng)
        if part.size_ratio != 1.0:
            change = change * part.size_ratio ** (exponent - 1)
        total_s = total_s + time_s / part.gain * change * noise
    tail = (1 - question.confidence) / 2
    low_s, high_s = np.quantile(total_s, [tail, 1 - tail]).tolist()
    return low_s, high_s


def _drawn_mean(seen: EventLatency, total: float, rng: np.random.Generator) -> Floats:
    """Draws of the mean latency of ``total`` operations over that of the traced ones.

    Resampled seconds of the trace show its drift. ``window_error`` covers what they cannot show:
    rare long waits, and waits after the end of the trace.
    """
    error = window_error(calibrated().oracle_latency_error, seen.count, total)
    unseen = rng.normal(0, error, DRAWS)
    means: Floats = resampled_means(seen.stretches, rng, DRAWS) * np.exp(unseen)
    return means


def _drawn_times(
    parts: Sequence[EventPart], elapsed_s: float, ash: AshEvidence | None, rng: np.random.Generator
) -> Floats:
    """Time (s) of each event in each draw, shape (parts, DRAWS); from samples it is multinomial."""
    if ash is None:
        return np.array([[part.time_s] * DRAWS for part in parts])
    shares = [part.share or 0.0 for part in parts]
    rest = max(0.0, 1.0 - sum(shares))
    hits = rng.multinomial(ash.instants, [*shares, rest], DRAWS)
    return np.asarray(hits[:, :-1].T / ash.instants * elapsed_s)


def _warnings(
    target: EventTarget,
    parts: Sequence[EventPart],
    evidence: OracleEvidence,
    elapsed_s: float,
    rest_kept: str | None,
) -> Iterator[Caveat]:
    """The warnings of a forecast, the most important ones first."""
    traces, ash = evidence.traces, evidence.ash
    for op, share in evidence.flash.items():
        if share > SERVED:
            text = f"the flash cache serves {format_share(share)} of temp {op}s already"
            yield Caveat("flash-cache", f"{text}: moving temp gains little")
    for note in ash.notes if ash is not None else ():
        yield Caveat("ash", note)
    temp = [part for part in parts if part.event.endswith(" temp")]
    if temp and temp[0].latency_s < FLASH_S:
        yield Caveat(
            "already-fast",
            f"{temp[0].event} takes {format_duration(temp[0].latency_s)} today: already flash, or "
            "cached; on Exadata the flash cache may serve temp, so moving it gains little",
        )
    for part in parts:
        yield from _about_gain(part, target)
    if target.storage is not None:
        yield from _about_figures(target.storage, evidence.block)
        yield from probe_warnings(target.storage.facts)
        yield from provenance_warnings(target.storage)
    elif target.traces is None:
        yield from (Caveat(*warning) for warning in ASSUMED.warnings)
    elif traces is not None:
        yield from _new_events(target.traces, traces)
    if traces is not None and ash is None:
        yield from _about_cover(traces, elapsed_s)
    if rest_kept is not None:
        text = f"the time outside the temp events is assumed unchanged: {rest_kept}"
        yield Caveat("rest-kept", text)
    yield from _about_files([t for t in (traces, target.traces) if t is not None])


def _about_cover(traces: TraceEvidence, elapsed_s: float) -> Iterator[Caveat]:
    """Warnings about the part of the run that traces cover, without ASH for the rest."""
    if traces.elapsed_s < 0.9 * elapsed_s:
        covered, total = format_duration(traces.elapsed_s), format_duration(elapsed_s)
        yield Caveat(
            "part",
            f"the trace covers {covered} of {total}: the rest is assumed to have the same mix; ASH "
            "of the entire run would show it",
        )
    elif traces.ended or traces.open_s > OPEN_SHARE * elapsed_s:
        ended = traces.ended or (
            f"{format_duration(traces.open_s)} of waits belong to a call that does not end in the "
            "trace: the query goes on, or lines are missing, such as those that grep left out"
        )
        text = f"{ended}; {format_duration(elapsed_s)} is the time from the first line to the last"
        yield Caveat("part-only", text)
    if traces.sessions_s > 1.05 * traces.elapsed_s:
        text = "sessions ran in parallel: each is assumed to have its share of their waits"
        yield Caveat("threads", text)


def _about_figures(storage: Storage, block: BlockSize) -> Iterator[Caveat]:
    """Warnings about figures that no replay of this trace measured, and the block size."""
    size, facts = format_bytes(block.bytes), nonnull_facts(storage.facts)
    if "like" not in facts:
        known = "" if block.known_from is None else f": blocks are {size}, by {block.known_from}"
        yield Caveat("not-replayed", f"{storage.name} was not probed with this trace{known}")
    elif not (facts.get("direct") or facts.get("filesystem") in IN_MEMORY):
        text = "does not support direct I/O: the page cache served part of the probe"
        yield Caveat("page-cache", f"{storage.name} {text}")
    if block.known_from is None:
        yield Caveat("block-assumed", f"blocks are assumed to be {size}")


def _about_files(read: Sequence[TraceEvidence]) -> Iterator[Caveat]:
    """Warnings about files and lines of traces that are left out."""
    yield from (Caveat("repeated", note) for traces in read for note in traces.notes)
    yield from (
        Caveat("excess-time", traces.excess) for traces in read if traces.excess is not None
    )
    damaged, unmeasured = (
        sum(getattr(t, name) for t in read) for name in ("damaged", "unmeasured")
    )
    if damaged:
        text = f"{format_count(damaged, 'damaged line')} skipped"
        if unmeasured:
            text += f", {unmeasured:,} because of an impossible wait time (ela= below zero)"
        yield Caveat("damaged", text)


def _about_gain(part: EventPart, target: EventTarget) -> Iterator[Caveat]:
    event, seen, measured = part.event, part.seen, part.target
    if part.borrowed:
        text = f"{event} was not seen on {target.name}: it is assumed to speed up like the others"
        yield Caveat("gain-borrowed", text)
    if part.size_ratio != 1.0 and seen is not None and measured is not None:
        yield Caveat(
            "sizes",
            f"{event} moves {seen.blocks:.3g} blocks now and {measured.blocks:.3g} on the target: "
            "latencies are compared per block",
        )
    if seen is None and measured is not None and measured.blocks:
        yield Caveat(
            "sizes-unknown",
            f"{event} moves {measured.blocks:.3g} blocks on the target and an unknown number now",
        )
    if 1 / part.gain > AMPLIFIED:
        yield Caveat(
            "amplified",
            f"{event} takes {1 / part.gain:.0f} times as long on the target: an error in its share "
            "of the time grows by the same factor",
        )


def _new_events(target: TraceEvidence, recorded: TraceEvidence) -> Iterator[Caveat]:
    """Warnings about events that only the target has, whose time is in no term."""
    waits_s = sum(event.total_s for event in target.events.values() if not event.idle) or 1.0
    for name, event in sorted(target.events.items()):
        is_new = name not in recorded.events and not event.idle
        if is_new and event.total_s > NEW_SHARE * waits_s:
            yield Caveat(
                "new-event",
                f"{name} is {format_share(event.total_s / waits_s, 1)} of the waits on "
                f"{target.name} and does not occur in the baseline: the forecast does not include "
                "it",
            )


def target_of(
    target: Storage | str | Path, evidence: OracleEvidence, question: Question
) -> EventTarget:
    """The target for a storage or a word of ``--to``. InputError if the word names no target."""
    if isinstance(target, Storage):
        return EventTarget(target.name, storage=target)
    text = str(target)
    refuse_blank(text, "--to")
    place = can_probe(Path(target))
    if text == "tmpfs" or text.startswith("cache:") or (place and not traces_below(Path(target))):
        return EventTarget(text, storage=_probed(text, evidence, question))
    if not place:
        return resolve_target(text, lenient=question.lenient)
    paths = _traces_of_same_work(Path(target), evidence.statements, question)
    traces = read_traces(paths, lenient=question.lenient)
    return EventTarget(f"{target} ({traces.name})", traces=traces)


def resolve_target(text: str, *, lenient: bool = False) -> EventTarget:
    """The target for a word: a latency, a gain, a storage or traces, but no directory.

    InputError if it names no target.
    """
    match parse_assumed(text):
        case "latency", latency_s:
            if latency_s == 0:
                raise TargetInvalid(
                    f"--to {text}: every operation takes a time", "for example latency:10us"
                )
            return EventTarget(text, latency_s=latency_s)
        case "factor", factor:
            return EventTarget(text, factor=factor)
    is_file = text == "-" or Path(text).exists() or bool(glob.glob(text))
    if text.endswith(".json") or not is_file:
        storage = resolve_storage(text, f"--to {text}", FORMS)
        return EventTarget(storage.name, storage=storage)
    evidence = find_evidence([text])
    if not evidence.traces:
        raise TargetUnsuited(
            f"--to {text}: a baseline of traces or ASH is compared with traces", _ASK
        )
    traces = read_traces(evidence.traces, lenient=lenient)
    return EventTarget(traces.name, traces=traces)


def _probed(text: str, evidence: OracleEvidence, question: Question) -> Storage:
    """The latencies of the traces' reads and writes on the target that ``text`` names, by a probe.

    InputError without traces, or if they name no temp file. Refusal if the files would not fit into
    memory.
    """
    from spillcast.evidence.oracle.trace_recording import recording_of_traces

    if not evidence.paths:
        raise TargetUnsuited(
            f"--to {text}: ASH samples cannot be replayed",
            "add a trace of at least a minute of the query, or give latency:150us, catalogue:NAME "
            "or a storage.json",
        )
    recording = recording_of_traces(evidence.paths, evidence.block.bytes, lenient=question.lenient)
    return question.storage(text, recording)


def _traces_of_same_work(folder: Path, statements: Set[str], question: Question) -> list[Path]:
    """The traces below ``folder`` in which one of ``statements`` waits for temp events.

    A directory of traces contains the traces of all sessions. InputError if none has the same
    statement, or if the baseline does not name its statement.
    """
    target = f"--to {folder}"
    probe = f"spillcast probe {shell_word(folder)} --grid -o there.json, then --to there.json"
    paths, temp_events = traces_below(folder), question.temp_events or TEMP_EVENTS
    if not statements:
        raise TargetUnsuited(
            f"{target}: the baseline does not name its statement, and of {len(paths):,} traces "
            "below the directory it is unknown which are of the same statement",
            f"give its traces instead of the directory, or probe it: {probe}",
        )
    same = []
    for path in paths:
        # Other files of the directory may not be traces, or may be traces without waits.
        with suppress(InputError):
            if statements & statements_of([path], temp_events, lenient=question.lenient):
                same.append(path)
    if not same:
        named = sorted(statements)[:_NAMED]
        more = ", ..." if len(statements) > _NAMED else ""
        raise TargetUnsuited(
            f"{target}: of {len(paths):,} traces below it none has waits for '{temp_events}' of "
            f"the same statement ({', '.join(named)}{more})",
            f"trace the query for a minute with temp there, or probe the directory: {probe}",
        )
    return same
