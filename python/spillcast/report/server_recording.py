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


def server_recording_text(found: ServerRecording, width: int) -> str:
    """What was recorded, of which queries nothing was kept, and what to do next.

    The table is ``width`` columns wide at most; paths are never broken.
    """
    took = format_duration(found.recorded_s)
    if not found.recordings:
        return "\n".join([f"no query did temp I/O in {took}", *_notes(found)])
    count = len(found.recordings)
    recordings = format_count(count, "recording")
    table = Table.of(_COLUMNS, [_record(one) for one in found.recordings])
    largest = max(found.recordings, key=lambda one: one.temp_s)
    return "\n".join(
        [
            f"{found.path}: {recordings} of queries that spilled, in {took}",
            "",
            table.text(width),
            "",
            *_notes(found),
            f"  next       spillcast forecast {shell_word(largest.path)} --to DIRECTORY",
        ]
    )


def _record(one: QueryRecording) -> dict[str, Any]:
    return {
        "recording": one.path.name,
        "whose": f"{one.user}@{one.database}" if one.user or one.database else None,
        "query": _short(one.query),
        "elapsed_s": one.elapsed_s,
        "read_bytes": one.read_bytes,
        "written_bytes": one.written_bytes,
        "temp_share": one.temp_share,
    }


def _notes(found: ServerRecording) -> list[str]:
    notes = [
        f"  warning    of process {one.pid} nothing was kept, {one.because}: {_short(one.query)}"
        for one in found.unkept
    ]
    if found.unassigned:
        notes.append(
            f"  warning    {format_count(found.unassigned, 'temp operation')} in none of them"
        )
    if found.lost:
        notes.append(
            f"  warning    {found.method} lost {format_count(found.lost, 'report')} of all sessions"
        )
    if found.failure is not None:
        notes.append(f"  warning    {found.failure}")
    return notes


def _short(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= QUERY_MAX else f"{text[:QUERY_MAX]}..."
