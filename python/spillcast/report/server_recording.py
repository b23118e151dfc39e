"""The recordings of a whole server as a table, one line a query."""

from typing import Any

from spillcast.recording.server_recording import QueryRecording, ServerRecording
from spillcast.report.table import Column, Table
from spillcast.units import format_count, format_duration
from spillcast.visible import shell_word

_COLUMNS = (
    Column("recording", "recording"),
    Column("whose", "whose"),
    Column("query", "query", spare=1),
    Column("elapsed", "elapsed_s", "s"),
    Column("read", "read_bytes", "bytes"),
    Column("written", "written_bytes", "bytes"),
    Column("temp I/O", "temp_share", "percent"),
)
#: Of a query in a table.
QUERY_MAX = 40


def server_recording_text(recording: ServerRecording, width: int) -> str:
    """What was recorded, of which queries nothing was kept, and what to do next.

    The table is ``width`` columns wide at most; paths are never broken.
    """
    took = format_duration(recording.recorded_s)
    if not recording.recordings:
        return "\n".join([f"no query did temp I/O in {took}", *_notes(recording)])
    count = len(recording.recordings)
    recordings = format_count(count, "recording")
    table = Table.of(_COLUMNS, [_record(query) for query in recording.recordings])
    largest = max(recording.recordings, key=lambda query: query.temp_s)
    return "\n".join(
        [
            f"{recording.path}: {recordings} of queries that spilled, in {took}",
            "",
            table.text(width),
            "",
            *_notes(recording),
            f"  next       spillcast forecast {shell_word(largest.path)} --to DIRECTORY",
        ]
    )


def _record(recording: QueryRecording) -> dict[str, Any]:
    return {
        "recording": recording.path.name,
        "whose": f"{recording.user}@{recording.database}"
        if recording.user or recording.database
        else None,
        "query": _short(recording.query),
        "elapsed_s": recording.elapsed_s,
        "read_bytes": recording.read_bytes,
        "written_bytes": recording.written_bytes,
        "temp_share": recording.temp_share,
    }


def _notes(recording: ServerRecording) -> list[str]:
    notes = [
        f"  warning    of process {query.pid} nothing was kept, {query.because}: "
        f"{_short(query.query)}"
        for query in recording.unkept
    ]
    if recording.unassigned:
        notes.append(
            f"  warning    {format_count(recording.unassigned, 'temp operation')} in none of them"
        )
    if recording.lost:
        notes.append(
            f"  warning    {recording.method} lost {format_count(recording.lost, 'report')} "
            "of all sessions"
        )
    if recording.failure is not None:
        notes.append(f"  warning    {recording.failure}")
    return notes


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= QUERY_MAX else f"{text[:QUERY_MAX]}..."
