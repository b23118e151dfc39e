"""Evidence -> a document of the run: where its time went, its latencies, how it was measured."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from spillcast.errors import OptionConflict
from spillcast.evidence.find import Evidence
from spillcast.evidence.oracle.ash import ALL, Chosen
from spillcast.profile import Profile, profile, timeline
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.recording.relabelled import with_temp
from spillcast.redaction import struck_document
from spillcast.report.html import measured
from spillcast.report.html.inputs import Document, Inputs
from spillcast.report.recording import recording_warnings
from spillcast.stats import merged
from spillcast.storage import Group, Storage
from spillcast.storage.observed import observed

#: Share of the time of all temp I/O below which sizes are not told apart.
_SMALL = 0.01


def add_runs(
    inputs: Inputs,
    evidence: Evidence,
    chosen: Chosen = ALL,
    *,
    temp_dirs: Sequence[Path] = (),
    lenient: bool,
) -> None:
    """A run for each recording, one for all traces and one for all ASH exports.

    Of recordings, the files under ``temp_dirs`` are temp files, where any is given; of ASH exports,
    only what is ``chosen`` counts.
    """
    if temp_dirs and not evidence.recordings:
        raise OptionConflict("--temp is for recordings")
    for path in evidence.recordings:
        inputs.runs.append(_of_recording(with_temp(Recording.open(path), temp_dirs)))
    # Samples cover the run; traces, where both are given, a minute of it.
    if evidence.ash:
        inputs.runs.append(_of_ash(evidence.ash, chosen))
    if evidence.traces:
        inputs.runs.append(_of_traces(evidence.traces, lenient))


def _of_recording(recording: Recording) -> Document:
    meta = recording.meta
    groups = observed(recording).groups if meta.captured else []
    line, server = timeline.of_recording(recording), meta.server_query is not None
    return {
        "name": recording.path.name,
        "kind": "recording",
        "capture": meta.capture.method,
        "elapsed_s": recording.elapsed_s,
        "time_s": _time_s(line, recording.elapsed_s),
        "sessions_are": "processes" if server else "threads",
        "timeline": asdict(line),
        "latencies": by_op(groups),
        "operations": [_operation(group) for group in _distinguished(groups)],
        "events": _events_of_samples(recording),
        "statements": struck_document(measured.statements_of(meta.engine)),
        "about": struck_document(measured.about_recording(recording)),
        "warnings": recording_warnings(recording),
    }


def _events_of_samples(recording: Recording) -> list[dict[str, Any]]:
    if not recording.samples.num_rows:
        return []
    # It asks DuckDB, which most recordings need not.
    from spillcast.profile.ash import of_samples

    return _events(of_samples(recording, ["event"], None))


def _of_traces(paths: Sequence[Path], lenient: bool) -> Document:
    from spillcast.evidence.oracle.trace import profile_traces

    by_event = profile(*paths, lenient=lenient)
    read = profile_traces(paths, ["event", "second"], lenient=lenient)
    line = timeline.of_traces(read, by_event.elapsed_s)
    statements = struck_document(measured.trace_statements(paths, lenient=lenient))
    return {
        "name": _names(paths),
        "kind": "traces",
        "elapsed_s": by_event.elapsed_s,
        "time_s": _time_s(line, by_event.elapsed_s),
        "sessions_are": "sessions",
        "timeline": asdict(line),
        "latencies": by_events(by_event),
        "operations": [],
        "events": _events(by_event),
        "statements": statements,
        "about": measured.about_traces(read.paths, read),
        "warnings": by_event.warnings,
    }


def _of_ash(paths: Sequence[Path], chosen: Chosen) -> Document:
    result = profile(*paths, chosen=chosen)
    line, by_event = timeline.of_ash(paths, chosen)
    return {
        "name": _names(paths),
        "kind": "ASH",
        "events_over_time": asdict(by_event),
        "elapsed_s": result.elapsed_s,
        "time_s": _time_s(line, result.elapsed_s),
        "sessions_are": "sessions",
        "timeline": asdict(line),
        "latencies": [],
        "operations": [],
        "events": _events(result),
        "statements": [],
        "about": measured.about_ash(paths, result),
        "warnings": result.warnings,
    }


def _time_s(line: timeline.Timeline, elapsed_s: float) -> float:
    """The time of all sessions, to which shares of states refer.

    No less than the elapsed time, of which a part may be idle or not accounted for.
    """
    return max(sum(line.totals_s.values()), elapsed_s)


def _names(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths[:3])
    return names + f" and {len(paths) - 3} more" * (len(paths) > 3)


def _events(result: Profile) -> list[dict[str, Any]]:
    keys = ("event", "sql", "op", "idle", "count", "total_us", "share", "mean_us", "p50_us")
    more = ("p95_us", "p99_us", "max_us", "latency_us")
    return [{key: row.get(key) for key in (*keys, *more)} for row in result.rows]


def by_events(result: Profile) -> list[Document]:
    """Histograms of temp events; where there are none, those of the I/O that takes longest."""
    rows = [
        {"label": row["event"], "op": row["op"], "latency_ns": list(ns), "latency_count": list(n)}
        for row, (ns, n) in zip(result.rows, result.histograms, strict=True)
        if n and not row["idle"] and row["op"] is not None
    ]
    temp = [
        row for row in rows if timeline.state_of(row["label"]) in (timeline.READ, timeline.WRITE)
    ]
    return (temp or rows)[:4]


def by_op(groups: Sequence[Group]) -> list[Document]:
    """One histogram for the reads and one for the writes, over all sizes."""
    histograms = []
    for op, label in (("read", timeline.READ), ("write", timeline.WRITE)):
        latency_ns, counts = merged((g.latency_ns, g.latency_count) for g in groups if g.op == op)
        if counts:
            histograms.append(
                {"label": label, "op": op, "latency_ns": latency_ns, "latency_count": counts}
            )
    return histograms


def target_latencies(name: str, storage: Storage) -> Document:
    """Latencies of a target under this load; none where its figures are of another one."""
    groups = by_op(storage.groups) if storage.source.of_load else []
    return {"name": name, "groups": groups}


def latencies_traced(name: str, word: str, *, lenient: bool) -> Document:
    """Latencies of temp events in traces taken on a target."""
    return {"name": name, "groups": by_events(profile(word, lenient=lenient))}


def _distinguished(groups: Sequence[Group]) -> list[Group]:
    """Groups that take a hundredth of the time or more; the others of an op together, size 0."""
    least_ns = _SMALL * sum(group.total_ns for group in groups)
    kept = [group for group in groups if group.total_ns >= least_ns]
    for op in OPS:
        small = [group for group in groups if group.op == op and group.total_ns < least_ns]
        if len(small) > 1:
            kept.append(_together(small))
        else:
            kept += small
    return kept


def _together(groups: Sequence[Group]) -> Group:
    [histogram] = by_op(groups)
    return replace(
        groups[0],
        size_class_bytes=0,
        count=sum(group.count for group in groups),
        bytes=sum(group.bytes for group in groups),
        total_ns=sum(group.total_ns for group in groups),
        latency_ns=histogram["latency_ns"],
        latency_count=histogram["latency_count"],
    )


def _operation(group: Group) -> Document:
    return {
        "op": group.op,
        "size_class_bytes": group.size_class_bytes,
        "count": group.count,
        "bytes": group.bytes,
        "total_s": group.total_ns / 1e9,
        "mean_us": group.total_ns / group.count / 1e3,
        "p50_us": 1e6 * group.quantile_s(0.5),
        "p95_us": 1e6 * group.quantile_s(0.95),
        "p99_us": 1e6 * group.quantile_s(0.99),
        "max_us": 1e6 * group.quantile_s(1),
    }
