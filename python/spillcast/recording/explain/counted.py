"""Counts and times of temp I/O as a recording in memory: the whole run, and no single waits."""

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from spillcast import _core
from spillcast.recording.explain.nodes import BLOCK_BYTES, TempIO
from spillcast.recording.meta import CaptureAccount, KeptWaits, Meta, ObservedEngine, Temp
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.recording import Recording
from spillcast.recording.schema import SECONDS_SCHEMA, WAITS_SCHEMA
from spillcast.recording.shared_by import SharedBy


@dataclass(frozen=True)
class Counted:
    """What PostgreSQL counted of one query.

    ``processes`` is all I/O over that of the process that did most; it need not be whole. Where
    ``shared_by`` has bounds of it alone, it is their middle.
    ``held_bytes`` is what the temp files held at most, None where that is not known; ``files`` is
    how many were written by turns.
    """

    path: Path
    elapsed_s: float
    temp: TempIO
    processes: float
    held_bytes: int | None
    files: int
    engine: ObservedEngine
    shared_by: SharedBy | None = None
    statement: Statement | None = None


def recording_of(counted: Counted) -> Recording:
    """A recording that is nowhere on disk: rows of ``seconds``, and empty ``waits``."""
    temp, shared_by = counted.temp, counted.shared_by
    meta = Meta(
        elapsed_s=counted.elapsed_s,
        recorded_s=counted.elapsed_s,
        engine=counted.engine,
        temp=Temp(
            temp.read,
            temp.written,
            temp.blocks * BLOCK_BYTES,
            temp.total_s,
            processes=counted.processes,
            shared_by=None if shared_by is None or shared_by.known else shared_by,
            held_bytes=counted.held_bytes or temp.written * BLOCK_BYTES,
            files=counted.files,
        ),
        capture=CaptureAccount("explain"),
        statement=counted.statement,
        raw=KeptWaits(0, temp.blocks, []),
    )
    recording = Recording(counted.path, meta)
    recording.seconds = _seconds(temp)
    recording.waits = WAITS_SCHEMA.empty_table()
    return recording


def shared_among(recording: Recording, processes: float) -> Recording:
    """The same counts where so many processes are known to have shared them."""
    temp = replace(recording.meta.temp, processes=processes, shared_by=None)
    found = Recording(recording.path, replace(recording.meta, temp=temp))
    found.seconds, found.waits = recording.seconds, recording.waits
    return found


def _seconds(temp: TempIO) -> pa.Table:
    """One row for each op, as if all had been in the first second and equally long."""
    rows = []
    for op, count, total_s in (
        ("read", temp.read, temp.read_s),
        ("write", temp.written, temp.write_s),
    ):
        total_ns = round((total_s or 0.0) * 1e9)
        if count:
            rows.append(
                {
                    "second": 0,
                    "op": op,
                    "temp": True,
                    "size_class_bytes": _core.size_class_bytes(BLOCK_BYTES),
                    "count": count,
                    "bytes": count * BLOCK_BYTES,
                    "total_ns": total_ns,
                    "latency_ns": [total_ns // count],
                    "latency_count": [count],
                }
            )
    return pa.Table.from_pylist(rows, SECONDS_SCHEMA)
