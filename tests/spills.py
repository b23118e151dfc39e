"""Made-up recordings of spills for tests, of known sessions, places and times."""

import numpy as np

from spillcast.recording.meta import CaptureAccount, Machine, Memory, Meta, Temp
from spillcast.recording.schema import SECONDS, WAITS
from spillcast.recording.writer import RecordingWriter
from spillcast.tables import Table

MIB = 1 << 20
NO_LIMIT = Memory()


def written_and_read(file_bytes, *, size=256 << 10, times=1, files=1):
    """Operations that write files in order and read them back: (op, file, offset, size)."""
    offsets = range(0, file_bytes, size)
    writes = [("write", f, at, size) for f in range(files) for at in offsets]
    return writes + times * [("read", f, at, size) for f in range(files) for at in offsets]


def recording(
    path, operations, *, gap_ns=100_000, latency_ns=50_000, memory=NO_LIMIT, available=None
):
    """A recording of operations in sequence.

    ``memory`` is that of meta.json, ``available`` the memory that was free when it began.
    """
    writer = RecordingWriter(path)
    rows = [
        {
            "start_ns": number * (gap_ns + latency_ns), "elapsed_ns": latency_ns, "session": 1,
            "event": f"p{op}64", "op": op, "temp": True, "file": f"/t/{file}",
            "offset": offset, "bytes": size,
        }
        for number, (op, file, offset, size) in enumerate(operations)
    ]  # fmt: skip
    writer.add_waits(_table(rows, WAITS))
    writer.add_seconds(_table(list(_seconds(operations, latency_ns)), SECONDS))
    counts = {op: sum(o[0] == op for o in operations) for op in ("read", "write")}
    total_bytes = sum(o[3] for o in operations)
    total_s = len(operations) * latency_ns / 1e9
    meta = Meta(
        elapsed_s=max(1.0, 2 * len(operations) * (gap_ns + latency_ns) / 1e9),
        machine=Machine(memory_available_bytes=available),
        memory=memory,
        temp=Temp(counts["read"], counts["write"], total_bytes, total_s),
        capture=CaptureAccount("perf"),
    )
    return writer.finish(meta)


def _seconds(operations, latency_ns):
    for op in ("read", "write"):
        sizes, counts = np.unique([o[3] for o in operations if o[0] == op], return_counts=True)
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            yield {
                "second": 0, "op": op, "temp": True, "size_class_bytes": size, "count": count,
                "bytes": size * count, "total_ns": latency_ns * count,
                "latency_ns": [latency_ns], "latency_count": [count],
            }  # fmt: skip


def _table(rows, schema):
    return Table.from_rows(rows, schema)
