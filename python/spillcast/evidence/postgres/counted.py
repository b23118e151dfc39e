"""Counts and times of temp I/O as a recording in memory: the whole run, and no single waits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from spillcast.evidence.postgres.nodes import BLOCK_BYTES, TempIO
from spillcast.recording.even_rows import even_seconds
from spillcast.recording.meta import CaptureAccount, KeptWaits, Meta, ObservedEngine, Temp
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.recording import Recording
from spillcast.recording.schema import WAITS_SCHEMA
from spillcast.recording.shared_by import SharedBy
from spillcast.recording.timed_within import TimedWithin


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
    within: TimedWithin | None = None
    untold: Sequence[str] = ()
    #: Elapsed time of reads of tables.
    data_read_s: float = 0.0


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
            within=counted.within,
            untold=tuple(counted.untold),
            data_read_s=counted.data_read_s or None,
        ),
        capture=CaptureAccount("explain"),
        statement=counted.statement,
        raw=KeptWaits(0, temp.blocks, []),
    )
    recording = Recording(counted.path, meta)
    if counted.within is not None:
        middle_s = counted.within.middle_s
        each_s = middle_s / temp.blocks
        temp = TempIO(temp.read, temp.written, temp.read * each_s, temp.written * each_s)
        recording.meta = replace(meta, temp=replace(meta.temp, total_s=middle_s))
    recording.seconds = _seconds(temp)
    recording.waits = WAITS_SCHEMA.empty_table()
    return recording


def _seconds(temp: TempIO) -> pa.Table:
    read, written = temp.read * BLOCK_BYTES, temp.written * BLOCK_BYTES
    return even_seconds(
        [
            ("read", temp.read, read, temp.read_s or 0.0),
            ("write", temp.written, written, temp.write_s or 0.0),
        ]
    )
