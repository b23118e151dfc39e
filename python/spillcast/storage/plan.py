"""The temp I/O of a recording as steps that can be issued again."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast.errors import NoTempIo
from spillcast.recording import Recording
from spillcast.recording.spill import codes
from spillcast.storage.plan_of_counts import plan_of_counts

Array = NDArray[np.int64]


def moved_waits(recording: Recording) -> pa.Table:
    """The temp waits that moved bytes, by start. InputError if there are none."""
    waits = recording.temp_waits
    waits = waits.filter(pa.compute.greater(waits["bytes"], 0))
    if waits.num_rows == 0:
        raise NoTempIo(f"{recording.path}: holds no temp I/O to replay")
    return waits


def _acting_waits(recording: Recording) -> pa.Table:
    """The temp waits that moved bytes or changed a file, by start."""
    waits = recording.waits
    acting = pa.compute.or_(
        pa.compute.fill_null(pa.compute.greater(waits["bytes"], 0), False), waits["op"].is_null()
    )
    return waits.filter(pa.compute.and_(waits["temp"], acting))


def changes(waits: pa.Table) -> pa.Array:
    """By row, the call where it changes a file; null where it reads or writes."""
    event = waits["event"].combine_chunks().cast(pa.string())
    none = pa.scalar(None, pa.string())
    return pa.compute.if_else(waits["op"].combine_chunks().is_null(), event, none)


def plan(recording: Recording, *, with_changes: bool = False) -> pa.RecordBatch:
    """The temp I/O of a recording as steps: who, which file, where, how much, after what pause.

    With the calls that change files where they are asked for; counts tell of none.
    """
    if recording.meta.only_counts:
        return plan_of_counts(recording)
    waits = moved_waits(recording)
    if with_changes:
        waits = _acting_waits(recording)
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    session = waits["session"].to_numpy()
    size = waits["bytes"].fill_null(0).to_numpy()
    threads, thread = np.unique(session, return_inverse=True)
    file = codes(waits["file"])
    offset, known = waits["offset"].fill_null(0).to_numpy(), waits["offset"].is_valid().to_numpy()
    return pa.record_batch(
        {
            "thread": pa.array(thread, pa.uint32()),
            "file": pa.array(file, pa.uint32()),
            "write": pa.compute.equal(waits["op"].combine_chunks().cast(pa.string()), "write"),
            "offset": pa.array(offsets(offset, known, file, size), pa.uint64()),
            "bytes": pa.array(size, pa.uint32()),
            "delay_ns": pa.array(_pauses(start, end, thread, len(threads)), pa.uint64()),
            "change": changes(waits),
        }
    )


def offsets(offset: Array, known: NDArray[np.bool_], file: NDArray[np.int32], size: Array) -> Array:
    """Offsets as recorded; without them, the I/O of a file counts as sequential."""
    given = offset.copy()
    if known.all():
        return given
    for code in np.unique(file[~known]):
        rows = np.flatnonzero((file == code) & ~known)
        given[rows] = np.cumsum(size[rows]) - size[rows]
    return given


def _pauses(start: Array, end: Array, thread: Array, threads: int) -> Array:
    """Time between the end of a thread's I/O and its next."""
    pauses = np.zeros(len(start), dtype=np.int64)
    for code in range(threads):
        rows = np.flatnonzero(thread == code)
        pauses[rows[1:]] = np.maximum(0, start[rows[1:]] - end[rows[:-1]])
    return pauses
