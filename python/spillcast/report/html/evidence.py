"""Reads evidence as runs of a page: time by state, latencies, statements and measurement."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast.engines.registry import known_as
from spillcast.errors import OptionConflict
from spillcast.evidence.open import EvidenceFiles
from spillcast.evidence.oracle.trace import TraceOptions, Traces, profile_traces, read_rows
from spillcast.evidence.selection import NO_FILTER, Filter
from spillcast.profile import Profile, profile, timeline
from spillcast.profile.functions import (
    by_function,
    cpu_text,
    drawn_frames,
    flame,
    has_stacks,
    stacks_of,
)
from spillcast.profile.timeline import READ, WRITE
from spillcast.recording import Recording
from spillcast.recording.capture import SOURCES
from spillcast.recording.derived import with_temp
from spillcast.recording.meta import NO_ENGINE, CaptureAccount, KeptWaits
from spillcast.recording.observed import CpuLimits
from spillcast.redaction import masked_text
from spillcast.report.html.inputs import (
    Fact,
    Functions,
    Histogram,
    Inputs,
    RunContents,
    StatementText,
    StorageLatencies,
)
from spillcast.report.recording import overhead_text, recording_warnings
from spillcast.stats import merged
from spillcast.storage import Group, Storage
from spillcast.storage.observed import observed
from spillcast.tables import Table
from spillcast.units import format_bytes, format_count, format_duration

_STATEMENTS_MAX, _TEXT_MAX, _FUNCTIONS_MAX, _FILES_MAX = 12, 4000, 40, 8


def add_runs(
    inputs: Inputs,
    evidence: EvidenceFiles,
    chosen: Filter = NO_FILTER,
    *,
    temp_dirs: str | Path | Sequence[str | Path] = (),
    lenient: bool,
) -> None:
    """Add a run for each recording, one for all traces and one for all ASH exports.

    If ``temp_dirs`` are given, only files in them are temp files of recordings. ``chosen`` selects
    samples of ASH exports.
    """
    if temp_dirs and not evidence.recordings:
        raise OptionConflict("--temp is for recordings")
    if lenient and not evidence.traces:
        raise OptionConflict("--lenient is for traces")
    for path in evidence.recordings:
        inputs.runs.append(_of_recording(with_temp(Recording.open(path), temp_dirs)))
    # Samples cover the run; if traces are given too, they cover a minute of it.
    if evidence.ash:
        inputs.runs.append(_of_ash(evidence.ash, chosen))
    if evidence.traces:
        inputs.runs.append(_of_traces(evidence.traces, lenient))


def _of_recording(recording: Recording) -> RunContents:
    meta = recording.meta
    groups = observed(recording).groups if meta.captured else []
    time_line = timeline.of_recording(recording)
    query = meta.engine.query or meta.engine.sql
    return RunContents(
        name=recording.path.name,
        kind="recording",
        capture=meta.capture.method,
        elapsed_s=recording.elapsed_s,
        time_s=_time_s(time_line, recording.elapsed_s),
        sessions_are="threads" if meta.server is None else "processes",
        timeline=time_line,
        latencies=by_op(groups),
        operations=groups,
        events=_events_of_samples(recording),
        functions=_functions(recording),
        statements=[_statement(None, query, None)] if query else [],
        about=_about_recording(recording),
        warnings=recording_warnings(recording),
    )


def _statement(sql_id: str | None, text: str, share: float | None) -> StatementText:
    return StatementText(sql_id, masked_text(text[:_TEXT_MAX]), share)


def _functions(recording: Recording) -> Functions | None:
    if not has_stacks(recording):
        return None
    stacks, result = stacks_of(recording), by_function(recording)
    root = flame(stacks)
    keys = ("function", "module", "total_us", "share", "with_callees_share")
    return Functions(
        samples=stacks.samples,
        drawn_s=root.samples / stacks.samples_per_s,
        words=[cpu_text(recording, stacks), *result.warnings],
        rows=[{key: row[key] for key in keys} for row in result.rows[:_FUNCTIONS_MAX]],
        frames=drawn_frames(root),
    )


def _events_of_samples(recording: Recording) -> Profile | None:
    if not recording.samples.num_rows:
        return None
    # It imports DuckDB, which most recordings do not need.
    from spillcast.profile.other_rows import of_samples

    return of_samples(recording, ["event"], None)


def _of_traces(paths: Sequence[Path], lenient: bool) -> RunContents:
    by_event = profile(*paths, lenient=lenient)
    by_second = profile_traces(paths, ["event", "second"], TraceOptions(lenient=lenient))
    time_line = timeline.of_traces(by_second, by_event.elapsed_s)
    return RunContents(
        name=_names(paths),
        kind="traces",
        elapsed_s=by_event.elapsed_s,
        time_s=_time_s(time_line, by_event.elapsed_s),
        sessions_are="sessions",
        timeline=time_line,
        latencies=by_events(by_event),
        events=by_event,
        statements=_trace_statements(paths, lenient=lenient),
        about=_about_traces(by_second),
        warnings=by_event.warnings,
    )


def _of_ash(paths: Sequence[Path], chosen: Filter) -> RunContents:
    result = profile(*paths, chosen=chosen)
    time_line = timeline.of_ash(paths, chosen)
    return RunContents(
        name=_names(paths),
        kind="ASH",
        elapsed_s=result.elapsed_s,
        time_s=_time_s(time_line, result.elapsed_s),
        sessions_are="sessions",
        timeline=time_line,
        events=result,
        about=_about_ash(paths, result),
        warnings=result.warnings,
    )


def _labelled(values: Mapping[str, str | None]) -> list[Fact]:
    """A fact for each value that is known, without secrets."""
    return [Fact(label, masked_text(value)) for label, value in values.items() if value]


def _about_recording(recording: Recording) -> list[Fact]:
    """Machine, engine, capture with its overhead and loss, and the covered part of the run."""
    meta, engine, machine = recording.meta, recording.meta.engine, recording.meta.machine
    known = known_as(engine.name)
    name = engine.name if known is None else known.label
    settings = {key: engine.settings.get(key) for key in (known.settings if known else ())}
    peak_bytes, sampling = meta.memory.peak_rss_bytes, meta.sampling
    hardware = [format_count(machine.cpus, "CPU")] if machine.cpus else []
    hardware += [f"{format_bytes(machine.memory_bytes)} of memory"] if machine.memory_bytes else []
    samples = None
    if sampling is not None:
        discarded = f"; {sampling.discarded:,} discarded after gaps" if sampling.discarded else ""
        samples = f"{sampling.samples:,}, {sampling.rate_hz} a second{discarded}"
    return _labelled(
        {
            "recorded": (meta.started_at or "")[:19].replace("T", " "),
            "engine": f"{name} {engine.version or ''}".strip() * (engine.name != NO_ENGINE.name),
            "command": shlex.join(engine.command or ()),
            "settings": ", ".join(f"{k} = {value}" for k, value in settings.items() if value),
            "machine": ", ".join(hardware),
            "kernel": machine.kernel,
            "host": machine.host,
            "CPU quota": _quota(meta.cpu_limits),
            "peak memory": None if peak_bytes is None else format_bytes(peak_bytes),
            **_capture(meta.capture, captured=meta.captured),
            "covered": _coverage(meta.raw),
            "samples": samples,
        }
    )


def _quota(limits: CpuLimits) -> str | None:
    if limits.quota_cpus is None:
        return None
    throttled_s = limits.throttled_s
    throttled = "" if throttled_s is None else f", throttled {format_duration(throttled_s)}"
    return f"{limits.quota_cpus:g} CPUs{throttled}"


def _capture(capture: CaptureAccount, *, captured: bool) -> dict[str, str]:
    title = SOURCES[capture.method].title if capture.method in SOURCES else capture.method
    if not captured:
        none = f"none: {capture.absent_because}"
        return {"capture": none if capture.method == "none" else title}
    dropped = f", {format_count(capture.dropped, 'single wait')}" if capture.dropped else ""
    delay, others_s = format_duration(capture.run_queue_delay_s), capture.run_queue_others_s
    if others_s is not None:
        delay += f", up to {format_duration(others_s)} of it because of other programs"
    return {
        "capture": title,
        "lost": f"{format_count(capture.lost, 'report')}{dropped}",
        "overhead of recording": overhead_text(capture),
        "runnable but not scheduled": delay,
    }


def _coverage(raw: KeptWaits) -> str | None:
    if not raw.rows_seen:
        return None
    if raw.slices_s is None:
        return f"the entire run: all {format_count(raw.rows, 'wait')}"
    seen, slices = format_count(raw.rows_seen, "single wait"), len(raw.slices_s)
    return f"the entire run by second; {raw.rows:,} of {seen}, in {format_count(slices, 'slice')}"


def _about_traces(traces: Traces) -> list[Fact]:
    lines = sum(file.get("lines", 0) for file in traces.files)
    return _labelled(
        {
            "evidence": f"{format_count(len(traces.paths), 'extended SQL trace')} (10046)",
            "files": _listed_files(traces.paths),
            "sessions": f"{len(traces.sessions()):,}",
            "lines": f"{lines:,}, {traces.total('damaged'):,} of them damaged" if lines else None,
        }
    )


def _about_ash(paths: Sequence[Path], samples: Profile) -> list[Fact]:
    count = sum(row["count"] for row in samples.rows)
    return _labelled(
        {
            "evidence": "samples of active sessions (ASH)",
            "files": _listed_files(paths),
            "samples": f"{count:,}, standing for {format_duration(samples.elapsed_s)}",
            "damaged rows": f"{len(samples.damaged):,}" if samples.damaged else None,
        }
    )


def _listed_files(paths: Sequence[Path]) -> str:
    return ", ".join([*map(str, paths[:_FILES_MAX]), *["..."] * (len(paths) > _FILES_MAX)])


def _trace_statements(paths: Sequence[Path], *, lenient: bool) -> list[StatementText]:
    """The longest statements of traces, with their texts and shares of the time."""
    texts: dict[str, str] = {}

    def take(*tables: Any) -> None:
        for row in Table.from_arrow(tables[2]).select(["sql_id", "text"]).to_pylist():
            texts.setdefault(row["sql_id"], row["text"])

    read_rows(paths, take, lenient=lenient)
    by_statement = profile(*paths, by=["sql"], lenient=lenient)
    shares = {row["sql"] or "": row["share"] for row in by_statement.rows}
    ranked = sorted(texts, key=lambda sql_id: -(shares.get(sql_id) or 0.0))[:_STATEMENTS_MAX]
    return [_statement(sql_id, texts[sql_id], shares.get(sql_id)) for sql_id in ranked]


def _time_s(time_line: timeline.Timeline, elapsed_s: float) -> float:
    """The time of all sessions, to which shares of states refer.

    It is at least the elapsed time, part of which may be idle or not accounted for.
    """
    return max(sum(time_line.totals_s.values()), elapsed_s)


def _names(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths[:3])
    return names + f" and {len(paths) - 3} more" * (len(paths) > 3)


def by_events(result: Profile) -> list[Histogram]:
    """Histograms of temp events, or without any of the I/O that takes longest."""
    rows = [
        Histogram(row["event"], row["op"], list(latency_ns), list(counts))
        for row, (latency_ns, counts) in zip(result.rows, result.histograms, strict=True)
        if counts and not row["idle"] and row["op"] is not None
    ]
    temp = [row for row in rows if timeline.state_of(row.label) in (READ, WRITE)]
    return (temp or rows)[:4]


def by_op(groups: Sequence[Group]) -> list[Histogram]:
    """One histogram for the reads and one for the writes, over all sizes."""
    histograms = []
    for op, label in (("read", READ), ("write", WRITE)):
        latency_ns, counts = merged((g.latency_ns, g.latency_count) for g in groups if g.op == op)
        if counts:
            histograms.append(Histogram(label, op, latency_ns, counts))
    return histograms


def target_latencies(storage: Storage) -> StorageLatencies:
    """Latencies of a target under this load; empty if its figures are of another load."""
    return StorageLatencies(storage.name, by_op(storage.groups) if storage.source.of_load else [])


def latencies_traced(name: str, word: str, *, lenient: bool) -> StorageLatencies:
    """Latencies of temp events in traces taken on a target."""
    return StorageLatencies(name, by_events(profile(word, lenient=lenient)))
