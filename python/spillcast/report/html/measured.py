"""How evidence was measured, as labels and values; its statements; what of it is secret."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spillcast.engines.registry import known_as
from spillcast.evidence.oracle.trace import ReadFailures, Traces, open_reader
from spillcast.profile import Profile, profile
from spillcast.recording import Recording
from spillcast.recording.meta import (
    NOBODY,
    CaptureAccount,
    KeptWaits,
    Machine,
    ObservedEngine,
)
from spillcast.recording.observed import CpuLimits
from spillcast.recording.postgres_meta import Sampling
from spillcast.recording.source import SOURCES
from spillcast.report.recording import cost_sentence
from spillcast.units import format_bytes, format_count, format_duration

About = list[dict[str, str]]
_STATEMENTS_MAX = 12
_TEXT_MAX = 4000


def _labelled(pairs: Sequence[tuple[str, str | None]]) -> About:
    return [{"label": label, "value": value} for label, value in pairs if value]


def about_recording(recording: Recording) -> About:
    """Machine, engine, capture with its cost and loss, and what of the run it covers."""
    meta, engine = recording.meta, recording.meta.engine
    known = known_as(engine.name)
    name = engine.name if known is None else known.label
    label = None if engine.name == NOBODY.name else name
    settings = () if known is None else known.settings
    given = {key: engine.settings.get(key) for key in settings}
    return _labelled(
        [
            ("recorded", (meta.started_at or "")[:19].replace("T", " ")),
            ("engine", label and f"{label} {engine.version or ''}".strip()),
            ("command", shlex.join(engine.command) if engine.command else None),
            ("settings", ", ".join(f"{k} = {value}" for k, value in given.items() if value)),
            ("machine", _machine(meta.machine)),
            ("kernel", meta.machine.kernel),
            ("host", meta.machine.host),
            ("CPU quota", _quota(meta.cpu_limits)),
            ("peak memory", _size(meta.memory.peak_rss_bytes)),
            ("capture", _capture(meta.capture)),
            *(_loss_and_cost(meta.capture) if meta.captured else ()),
            ("covered", _coverage(meta.raw)),
            ("samples", _samples(meta.sampling)),
        ]
    )


def _machine(machine: Machine) -> str:
    memory = _size(machine.memory_bytes)
    parts = [
        format_count(machine.cpus, "CPU") if machine.cpus else "",
        f"{memory} of memory" if memory else "",
    ]
    return ", ".join(part for part in parts if part)


def _quota(limits: CpuLimits) -> str | None:
    if limits.quota_cpus is None:
        return None
    throttled = limits.throttled_s
    held = "" if throttled is None else f", throttled {format_duration(throttled)}"
    return f"{limits.quota_cpus:g} CPUs{held}"


def _capture(capture: CaptureAccount) -> str:
    if capture.method in SOURCES:
        return SOURCES[capture.method].title
    return f"none: {capture.absent_because}" if capture.method == "none" else capture.method


def _loss_and_cost(capture: CaptureAccount) -> Iterator[tuple[str, str]]:
    dropped = f", {format_count(capture.dropped, 'single wait')}" if capture.dropped else ""
    yield "lost", f"{format_count(capture.lost, 'report')}{dropped}"
    yield "cost of recording", cost_sentence(capture)
    busy = capture.run_queue_others_s
    others = (
        "" if busy is None else f", up to {format_duration(busy)} of it because of other programs"
    )
    yield "runnable but not scheduled", format_duration(capture.run_queue_delay_s) + others


def _coverage(raw: KeptWaits) -> str | None:
    if not raw.rows_seen:
        return None
    if raw.slices_s is None:
        return f"the whole run: all {format_count(raw.rows, 'wait')}"
    seen, slices = format_count(raw.rows_seen, "single wait"), len(raw.slices_s)
    kept = f"{raw.rows:,} of {seen}, in {format_count(slices, 'slice')}"
    return f"the whole run by the second; {kept}"


def _samples(sampling: Sampling | None) -> str | None:
    if sampling is None:
        return None
    text = f"{sampling.samples:,}, {sampling.rate_hz} a second"
    return text + (f"; {sampling.discarded:,} discarded after gaps" * bool(sampling.discarded))


def _size(count: float | None) -> str | None:
    return None if count is None else format_bytes(count)


def statements_of(engine: ObservedEngine) -> list[dict[str, Any]]:
    """The query, where the recording is of one that is known."""
    text = engine.query or engine.sql
    return [{"sql_id": None, "text": text[:_TEXT_MAX], "share": None}] if text else []


def about_traces(paths: Sequence[Path], read: Traces) -> About:
    """Files, sessions and damage."""
    lines = sum(file.get("lines", 0) for file in read.files)
    return _labelled(
        [
            ("evidence", f"{len(paths)} extended SQL trace{'s' * (len(paths) > 1)} (10046)"),
            ("files", ", ".join(map(str, paths[:8])) + (", ..." if len(paths) > 8 else "")),
            ("sessions", f"{len(read.sessions()):,}"),
            ("lines", f"{lines:,}, {read.damaged_count():,} of them damaged" if lines else None),
        ]
    )


def about_ash(paths: Sequence[Path], samples: Profile) -> About:
    """Files and samples."""
    count = sum(row["count"] for row in samples.rows)
    return _labelled(
        [
            ("evidence", "samples of active sessions (ASH)"),
            ("files", ", ".join(map(str, paths[:8]))),
            ("samples", f"{count:,}, standing for {format_duration(samples.elapsed_s)}"),
            ("damaged rows", f"{len(samples.damaged):,}" if samples.damaged else None),
        ]
    )


def trace_statements(paths: Sequence[Path], *, lenient: bool) -> list[dict[str, Any]]:
    """The statements of traces that take the longest, with their texts and shares."""
    from spillcast.interruptible import run_interruptibly

    texts: dict[str, str] = {}
    reader, watch = open_reader(paths, lenient, None)

    def take(*tables: Any) -> None:
        for sql_id, text in _texts(tables[2]):
            texts.setdefault(sql_id, text[:_TEXT_MAX])

    with ReadFailures():
        run_interruptibly(lambda: reader.rows(take), reader.cancel, watch)
    shares: dict[str, float] = {}
    for row in profile(*paths, by=["sql"], lenient=lenient).rows:
        shares[row["sql"] or ""] = row["share"]
    ranked = sorted(texts, key=lambda sql_id: -(shares.get(sql_id) or 0.0))[:_STATEMENTS_MAX]
    return [
        {"sql_id": sql_id, "text": texts[sql_id], "share": shares.get(sql_id)} for sql_id in ranked
    ]


def _texts(statements: Any) -> Iterator[tuple[str, str]]:
    import pyarrow as pa

    for row in pa.record_batch(statements).select(["sql_id", "text"]).to_pylist():
        yield row["sql_id"], row["text"]
