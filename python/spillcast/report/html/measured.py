"""How evidence was measured, as labels and values; its statements; what of it is secret."""

import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spillcast.engines.registry import known_as
from spillcast.profile import Profile, profile
from spillcast.recording import Recording
from spillcast.recording.source import SOURCES
from spillcast.recording.trace import ReadFailures, Traces, open_reader
from spillcast.report.recording import query_of
from spillcast.units import format_bytes, format_duration

About = list[dict[str, str]]
_STATEMENTS_MAX = 12
_TEXT_MAX = 4000


def _labelled(pairs: Sequence[tuple[str, str | None]]) -> About:
    return [{"label": label, "value": value} for label, value in pairs if value]


def about_recording(recording: Recording) -> About:
    """Machine, engine, capture with its cost and loss, and what of the run it covers."""
    meta = recording.meta
    capture, machine, engine = meta["capture"], meta["machine"], meta.get("engine", {})
    name = str(engine.get("name", "process"))
    known = known_as(name)
    label = None if name == "process" else name if known is None else known.label
    settings = () if known is None else known.settings
    return _labelled(
        [
            ("recorded", str(meta.get("started_at", ""))[:19].replace("T", " ")),
            ("engine", label and f"{label} {engine.get('version') or ''}".strip()),
            ("command", shlex.join(engine["command"]) if engine.get("command") else None),
            ("settings", ", ".join(f"{k} = {engine[k]}" for k in settings if engine.get(k))),
            ("machine", _machine(machine)),
            ("host", machine.get("host")),
            ("memory held at most", _size(meta.get("memory", {}).get("peak_rss_bytes"))),
            ("capture", _capture(capture)),
            ("lost", _lost(capture)),
            ("cost of recording", _cost(capture)),
            ("ready without a CPU", _duration(capture.get("run_queue_delay_s"))),
            ("covered", _coverage(meta)),
            ("samples", _samples(meta.get("sampling"))),
        ]
    )


def _machine(machine: Mapping[str, Any]) -> str:
    cpus, memory, kernel = (machine.get(key) for key in ("cpus", "memory_bytes", "kernel"))
    parts = [f"{cpus} CPUs" if cpus else "", f"{_size(memory)} of memory" if memory else ""]
    parts.append(f"kernel {kernel}" if kernel else "")
    return ", ".join(part for part in parts if part)


def _capture(capture: Mapping[str, Any]) -> str:
    method: str = capture["method"]
    if method == "none":
        return f"none: {capture.get('absent_because')}"
    return SOURCES[method].title if method in SOURCES else method


def _lost(capture: Mapping[str, Any]) -> str | None:
    if "lost" not in capture:
        return None
    lost = f"{capture['lost']:,} reports"
    dropped = capture.get("dropped", 0)
    return lost + (f", {dropped:,} single waits" if dropped else "")


def _cost(capture: Mapping[str, Any]) -> str | None:
    if "overhead_s" not in capture:
        return None
    theirs, ours = (_duration(capture.get(key, 0.0)) for key in ("overhead_s", "tracer_cpu_s"))
    return f"about {theirs} of CPU time of the query, {ours} of another CPU"


def _coverage(meta: Mapping[str, Any]) -> str | None:
    raw = meta["raw"]
    if not raw["rows_seen"]:
        return None
    if raw["slices_s"] is None:
        return f"the whole run: all {raw['rows']:,} waits"
    kept = f"{raw['rows']:,} of {raw['rows_seen']:,} single waits, in {len(raw['slices_s'])} slices"
    return f"the whole run by the second; {kept}"


def _samples(sampling: Mapping[str, Any] | None) -> str | None:
    if not sampling:
        return None
    text = f"{sampling['samples']:,}, {sampling['rate_hz']} a second"
    discarded = sampling.get("discarded")
    return text + (f"; {discarded:,} discarded after gaps" if discarded else "")


def _size(count: float | None) -> str | None:
    return None if count is None else format_bytes(count)


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(seconds)


def statements_of(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The query, where the recording is of one that is known."""
    engine = meta.get("engine", {})
    text = engine.get("query") or engine.get("sql")
    return [{"sql_id": None, "text": str(text)[:_TEXT_MAX], "share": None}] if text else []


def secrets_of(meta: Mapping[str, Any]) -> dict[str, list[str]]:
    """What meta.json knows of hosts, paths and statements, for a page that must not."""
    engine, machine = meta.get("engine", {}), meta.get("machine", {})
    server = engine.get("server") or {}
    command = engine.get("command") or []
    asked = meta.get("asked") or {}
    hosts = [machine.get("host"), socket.gethostname(), server.get("host")]
    paths = [*asked.get("temp_dirs", ()), *(word for word in command if "/" in word)]
    failure = query_of(meta).get("failure")
    # A single word of a command may be any word; what holds a space is a statement.
    long = [word for word in command if " " in word.strip()]
    sql = [shlex.join(command), *long, engine.get("query"), engine.get("sql"), failure]
    return {
        kind: [str(text) for text in texts if text and text != "localhost"]
        for kind, texts in (("host", hosts), ("path", paths), ("sql", sql))
    }


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


def about_ash(paths: Sequence[Path], found: Profile) -> About:
    """Files and samples."""
    count = sum(row["count"] for row in found.rows)
    return _labelled(
        [
            ("evidence", "samples of active sessions (ASH)"),
            ("files", ", ".join(map(str, paths[:8]))),
            ("samples", f"{count:,}, standing for {format_duration(found.elapsed_s)}"),
            ("damaged rows", f"{len(found.damaged):,}" if found.damaged else None),
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
