"""Made-up recordings and storages for tests, with known latencies."""

import json
from dataclasses import replace
from itertools import count

from spillcast.recording.meta import CaptureAccount, Meta, Temp
from spillcast.recording.schema import SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.storage import Group, Storage
from spillcast.storage.source import source_of
from spillcast.tables import Table

CAPTURE = CaptureAccount("perf")
GAP_NS = 1000


def recording(path, loads, *, elapsed_s, cpu_s=None, sessions=1, **capture):
    """A recording of ``loads``: (op, bytes, count, latency in ns), in sequence.

    Each of several sessions does all of them, concurrently. The machine's caches are unknown.
    """
    writer = RecordingWriter(path, force=True)
    rows = []
    for session in range(sessions):
        start_ns = 0
        for op, size, times, latency_ns in loads:
            for _ in range(times):
                rows.append((session, op, size, start_ns, latency_ns))
                start_ns += latency_ns + GAP_NS
    writer.add_waits(waits(rows))
    writer.add_seconds(seconds(loads, sessions))
    reads, writes = (sessions * sum(load[2] for load in loads if load[0] == op)
                     for op in ("read", "write"))  # fmt: skip
    return writer.finish(known(elapsed_s, reads, writes, cpu_s=cpu_s, **capture))


def known(elapsed_s, reads, writes, *, cpu_s=None, **capture):
    """Meta of a recording that lost nothing; nothing is known of its machine."""
    account = replace(CAPTURE, **capture)
    return Meta(elapsed_s=elapsed_s, cpu_s=cpu_s, temp=Temp(reads, writes), capture=account)


def change(recording, **parts):
    """Replaces fields of a recording's Meta."""
    recording.meta = replace(recording.meta, **parts)


def change_on_disk(recording, **keys):
    """Replaces keys of a recording's meta.json."""
    path = recording.path / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def waits(rows):
    offsets = count(0, 1 << 20)
    columns = [
        {
            "start_ns": start_ns, "elapsed_ns": latency_ns, "session": session,
            "event": f"p{op}64", "op": op, "temp": True, "file": "/t/spill",
            "offset": next(offsets), "bytes": size,
        }
        for session, op, size, start_ns, latency_ns in rows
    ]  # fmt: skip
    return table(columns, WAITS)


def seconds(loads, sessions):
    columns = [
        {
            "second": 0, "op": op, "temp": True, "size_class_bytes": size,
            "count": times * sessions, "bytes": size * times * sessions,
            "total_ns": latency_ns * times * sessions,
            "latency_ns": [latency_ns], "latency_count": [times * sessions],
        }
        for op, size, times, latency_ns in loads
    ]  # fmt: skip
    return table(columns, SECONDS)


def table(rows, schema):
    return Table.from_rows(rows, schema)


def storage(latencies, *, name="target", source="probe", times=1000):
    """A storage from a mapping of (op, bytes) to latency in ns."""
    groups = [
        Group(
            op=op, size_class_bytes=size, depth=1, count=times, bytes=size * times,
            total_ns=latency_ns * times, latency_ns=[latency_ns], latency_count=[times],
            block_count=[times], block_mean_ns=[latency_ns],
        )
        for (op, size), latency_ns in latencies.items()
    ]  # fmt: skip
    return Storage(name, source_of(source, {}), groups)


def warned(answer):
    """The messages of a forecast's warnings by code."""
    return {warning.code: warning.message for warning in answer.warnings}
