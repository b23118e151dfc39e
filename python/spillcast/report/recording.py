"""Recordings as text: the status line, the summary at the end, and the recordings of a server."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spillcast.recording import Recording
from spillcast.recording.calibration import is_old
from spillcast.recording.completeness import (
    RecordedPart,
    contradictions_of,
    unrecognised,
    unspilled,
)
from spillcast.recording.meta import CaptureAccount, Meta
from spillcast.recording.observed import IN_MEMORY, RecordedQuery, Sampling
from spillcast.tabular import Column, PrintedTable
from spillcast.text import one_line, shell_word
from spillcast.units import format_bytes, format_count, format_duration, format_estimate

if TYPE_CHECKING:
    from spillcast import tables
    from spillcast.recording.server import QueryRecording, ServerRecording

#: Maximum number of wait events in the summary of samples.
WAITS_MAX = 4


def status_line(status: Mapping[str, Any]) -> str:
    """The line of a recording in progress: rate, share of time, latency, size, loss."""
    elapsed_s, temp_s = max(status["elapsed_ns"], 1) / 1e9, status["temp_ns"] / 1e9
    ran, size = format_duration(elapsed_s), format_bytes(status["temp_bytes"])
    if status.get("waiting"):
        return f"attached for {ran}, waiting for the query"
    if "active" in status:
        sessions = f"{format_count(status['active'], 'session')} active"
        recordings = format_count(status["recordings"], "recording")
        text = f"{sessions}, {status['spilling']} spilling  temp I/O {size}  {recordings}"
    else:
        count = status["temp_reads"] + status["temp_writes"]
        mean = format_duration(temp_s / count) if count else "-"
        rate = f"{count / elapsed_s:,.0f}/s  {temp_s / elapsed_s:.0%} of the time"
        text = f"temp I/O {rate}  mean {mean}  {size}"
        if "samples" in status:
            text += f"  {format_count(status['samples'], 'sample')} of {status['processes']}"
    lost = f"  lost {status['lost']:,}" if status["lost"] else ""
    return f"recording {ran}  {text}{lost}"


#: A label and a text; a row without a label continues the previous row.
Row = tuple[str, str]


def recording_text(recording: Recording) -> str:
    """The contents of a recording, its overhead, warnings, and the next step."""
    meta, capture, unseen = recording.meta, recording.meta.capture, recording.meta.unseen
    rows: list[Row] = []
    if meta.server is not None:
        rows += _query_rows(meta.engine.query or "", meta.server)
    elif (part := RecordedPart.of(meta)) is not None and part.before_s is not None:
        rows.append(("process", f"ran for {format_duration(part.before_s)} before"))
    if meta.captured:
        rows.append(("temp I/O", _temp_io(meta)))
        rows += _kind_rows(meta)
        rows += _place_rows(meta)
        rows.append(("capture", f"{capture.method}: {capture.lost:,} lost"))
        if unseen.causes and not unseen.notable:
            rows.append(("", unseen.text))
        rows.append(("overhead", overhead_text(capture)))
    if faults := capture.file_faults:
        rows.append(("faults", f"{format_count(faults, 'page fault')} read from a file"))
    if meta.sampling is not None:
        rows += _sample_rows(recording.samples, meta.sampling)
    if meta.raw.slices_s is not None:
        waits, slices = format_count(meta.raw.rows, "wait"), len(meta.raw.slices_s)
        rows.append(("kept", f"{waits} in {format_count(slices, 'slice')}"))
    rows += [("warning", text) for text in recording_warnings(recording)]
    command = f"profile {shell_word(recording.path)}" + " --by file" * meta.captured
    if meta.temp.operations or recording.plan_alone is not None:
        command = f"forecast {shell_word(recording.path)}"
    rows.append(("next", f"spillcast {command}"))
    head = f"{recording.path}: {format_duration(recording.elapsed_s)} recorded"
    return "\n".join([head, *_lines(rows)])


def _lines(rows: Iterable[Row]) -> list[str]:
    return [f"  {label:<11}{text}" for label, text in rows]


#: The advice for a machine without a calibration.
PROPOSAL = "run `spillcast calibrate` (three minutes) for narrower forecasts"


def calibration_wanted(meta: Meta) -> str | None:
    """Advice to calibrate the machine; None if it is calibrated or calibration would not help."""
    calibration = meta.machine.calibration
    if not meta.captured or not meta.temp.operations:
        return None
    if calibration is None:
        return PROPOSAL
    if is_old(calibration.measured_at_s):
        return "the machine was calibrated over 30 days ago: run `spillcast calibrate` again"
    return None


def _temp_io(meta: Meta) -> str:
    temp = meta.temp
    if not temp.operations:
        return f"none: {unspilled(meta)}"
    return (
        f"{format_count(temp.reads, 'read')}, {format_count(temp.writes, 'write')}, "
        f"{format_bytes(temp.bytes)}; {format_duration(temp.total_s)} in all, "
        f"mean {format_duration(temp.total_s / temp.operations)}"
    )


def _kind_rows(meta: Meta) -> list[Row]:
    """The temp I/O by kind of file, if the names of the files show several kinds."""
    texts = []
    for kind in meta.temp_kinds if len(meta.temp_kinds) > 1 else []:
        written = f"{format_count(kind.writes, 'write')}, {format_bytes(kind.written_bytes)}"
        read = f"{format_count(kind.reads, 'read')}, {format_bytes(kind.read_bytes)}"
        if kind.written_bytes and not kind.reads:
            read = "reads unknown, because mapped memory is read without calls"
        texts.append(f"{kind.kind}: {written}; {read}")
    return _labelled("by kind", texts)


def _place_rows(meta: Meta) -> list[Row]:
    texts = []
    for place in meta.temp_places if meta.temp.operations else []:
        device = "memory" if place.filesystem in IN_MEMORY else place.device_name
        on = f"{place.filesystem} on {device}" if device else place.filesystem
        texts.append(f"in {place.directory} ({on})")
    return _labelled("temp files", texts)


def _labelled(label: str, texts: Sequence[str]) -> list[Row]:
    return [("" if index else label, text) for index, text in enumerate(texts)]


def _query_rows(statement: str, query: RecordedQuery) -> list[Row]:
    texts = [one_line(statement, 67)]
    if query.before_recording_s:
        before, total = query.before_recording_s, query.query_elapsed_s or 0.0
        texts.append(f"ran for {format_duration(before)} before, {format_duration(total)} in all")
    rows = _labelled("query", texts)
    if workers := len({worker.pid for worker in query.workers}):
        late = len({worker.pid for worker in query.workers if worker.late})
        attached = f"{late:,} of them late" if late else "attached on arrival"
        rows.append(("workers", f"{format_count(workers, 'parallel worker')}, {attached}"))
    return rows


def _sample_rows(samples: "tables.Table", sampling: Sampling) -> list[Row]:
    totals = Counter[str]()
    events = samples["event"].to_pylist()
    for event, weight_us in zip(events, samples["weight_us"].to_pylist(), strict=True):
        totals[event or "on CPU"] += weight_us
    total_us = totals.total() or 1
    ranked = totals.most_common(WAITS_MAX)
    shares = ", ".join(f"{name} {us / total_us:.0%}" for name, us in ranked)
    cost = f"{format_duration(sampling.client_cpu_s)} here"
    if sampling.server_cpu_s is not None:
        cost += f" and {format_duration(sampling.server_cpu_s)} in the server"
    count = format_count(sampling.samples, "sample")
    rows = [
        ("waits", shares or "none seen"),
        ("sampling", f"{count}, {sampling.rate_hz} a second; cost {cost}"),
    ]
    if sampling.discarded:
        gap = format_duration(sampling.gap_s)
        rows.append(("", f"{sampling.discarded:,} more discarded, after gaps of {gap} in all"))
    return rows


def recording_warnings(recording: Recording) -> list[str]:
    """The weaknesses of a recording, a sentence each, without remedies, which a forecast shows."""
    meta = recording.meta
    capture, texts = meta.capture, list[str]()
    failed = [meta.server.failure] if meta.server is not None and meta.server.failure else []
    if not meta.captured:
        return [*failed, f"waits only, no I/O: {capture.absent_because}"]
    if capture.io_uring_depth > 1:
        texts.append(
            f"temp files are read or written through io_uring, up to {capture.io_uring_depth:,} at "
            "once: their times overlap, and there is no forecast"
        )
    if meta.unseen.notable:
        texts.append(f"{meta.unseen.text}; {meta.unseen.remedy}")
    if capture.dropped:
        dropped = format_count(capture.dropped, "single wait")
        texts.append(f"{dropped} dropped; the totals by second are complete")
    planned: Mapping[str, int] = {}
    if meta.engine.plan_file is not None:
        from spillcast.evidence.postgres.spills import recorded_plan

        planned, _ = recorded_plan(recording)
    texts += [check.text for check in contradictions_of(recording, planned)]
    hidden = unrecognised(recording) if meta.temp.operations else None
    return [*texts, *([] if hidden is None else [hidden]), *failed]


def overhead_text(capture: CaptureAccount) -> str:
    """The time that the observed threads lost, and CPU time and memory of the recorder."""
    used = f"{format_duration(capture.tracer_cpu_s)} of CPU"
    if capture.recorder_memory_bytes is not None:
        used += f" and {format_bytes(capture.recorder_memory_bytes)} of memory"
    if capture.overhead_s is None:
        return f"not measured for the query; the recorder used {used}"
    bounds_s = None
    if capture.overhead_low_s is not None and capture.overhead_high_s is not None:
        bounds_s = capture.overhead_low_s, capture.overhead_high_s
    overhead = format_estimate(capture.overhead_s, bounds_s)
    return f"the query ran about {overhead} longer; the recorder used {used}"


_QUERIES = (
    Column("recording", None),
    Column("whose", None),
    Column("query", None, spare=1),
    Column("elapsed", None, "s"),
    Column("read", None, "bytes"),
    Column("written", None, "bytes"),
    Column("temp I/O", None, "percent"),
)
#: Maximum length of a query in the table, in characters.
QUERY_MAX = 43


def server_recording_text(recording: "ServerRecording", width: int) -> str:
    """The recordings in a table of at most ``width`` columns, warnings, and the next step."""
    elapsed, rows = format_duration(recording.recorded_s), _warnings(recording)
    if not recording.recordings:
        return "\n".join([f"no query did temp I/O in {elapsed}", *_lines(rows)])
    recordings = format_count(len(recording.recordings), "recording")
    table = PrintedTable(_QUERIES, [_cells(query) for query in recording.recordings])
    largest = max(recording.recordings, key=lambda query: query.temp_s)
    rows.append(("next", f"spillcast forecast {shell_word(largest.path)}"))
    head = f"{recording.path}: {recordings} of queries that spilled, in {elapsed}"
    return "\n".join([head, "", table.text(width), "", *_lines(rows)])


def _cells(recording: "QueryRecording") -> list[Any]:
    is_known = recording.user or recording.database
    owner = f"{recording.user}@{recording.database}" if is_known else None
    texts = recording.path.name, owner, one_line(recording.query, QUERY_MAX)
    moved = recording.read_bytes, recording.written_bytes
    return [*texts, recording.elapsed_s, *moved, recording.temp_share]


def _warnings(recording: "ServerRecording") -> list[Row]:
    texts = [
        f"nothing kept of process {query.pid}, {query.because}: {one_line(query.query, QUERY_MAX)}"
        for query in recording.unkept
    ]
    if count := recording.unassigned:
        texts.append(f"{format_count(count, 'temp operation')} of no observed query")
    if lost := recording.lost:
        texts.append(f"{recording.method} lost {format_count(lost, 'report')} of all sessions")
    if recording.failure is not None:
        texts.append(recording.failure)
    return [("warning", text) for text in texts]
