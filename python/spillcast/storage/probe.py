"""Measuring a directory with the I/O of a recording."""

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.errors import InputError, SpillcastError
from spillcast.interruptible import run_interruptibly
from spillcast.recording import Recording
from spillcast.storage.plan_of_counts import plan_of_counts
from spillcast.storage.storage import Group, Storage

BUDGET_S = 60.0
Array = NDArray[np.int64]
Progress = Callable[[int, int, int], None]


def probe(
    directory: Path,
    like: Recording,
    *,
    budget_s: float = BUDGET_S,
    on_progress: Progress | None = None,
) -> Storage:
    """Replay the temp I/O of ``like`` on ``directory`` and time it.

    ``on_progress`` gets steps done, steps in all and bytes, a few times a second. InputError where
    the directory cannot be used; nothing is left in it, whatever happens.
    """
    if not directory.exists():
        raise InputError(f"{directory}: there is no such directory")
    try:
        replay = _core.Probe(plan(like), str(directory), budget_s, True, False)
        watch = None if on_progress is None else lambda: on_progress(*replay.progress())
        groups, facts = run_interruptibly(replay.run, replay.cancel, watch)
    except ValueError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise _failure(directory, error) from error
    rows = pa.record_batch(groups).to_pylist()
    facts = {**facts, "directory": str(directory), "like": like.path.name}
    if only_counts(like):
        facts["steps_from"] = "counts"
    return Storage(str(directory), "probe", [Group(**row) for row in rows], facts)


def plan(recording: Recording) -> pa.RecordBatch:
    """The temp I/O of a recording as steps: who, which file, where, how much, after what pause."""
    if only_counts(recording):
        return plan_of_counts(recording)
    waits = recording.temp_waits
    moved = pa.compute.greater(waits["bytes"], 0)
    waits = waits.filter(moved)
    if waits.num_rows == 0:
        raise InputError(f"{recording.path}: holds no temp I/O to replay")
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    session = waits["session"].to_numpy()
    size = waits["bytes"].to_numpy()
    threads, thread = np.unique(session, return_inverse=True)
    file = _codes(waits["file"])
    return pa.record_batch(
        {
            "thread": pa.array(thread, pa.uint32()),
            "file": pa.array(file, pa.uint32()),
            "write": pa.compute.equal(waits["op"].combine_chunks().cast(pa.string()), "write"),
            "offset": pa.array(_offsets(waits["offset"], file, size), pa.uint64()),
            "bytes": pa.array(size, pa.uint32()),
            "think_ns": pa.array(_pauses(start, end, thread, len(threads)), pa.uint64()),
        }
    )


def only_counts(recording: Recording) -> bool:
    """Whether nothing is known of single operations."""
    return "processes" in recording.meta["temp"]


def _codes(names: pa.ChunkedArray) -> Array:
    encoded = names.combine_chunks().cast(pa.string()).dictionary_encode()
    return np.asarray(encoded.indices.fill_null(len(encoded.dictionary)), dtype=np.int64)


def _offsets(offsets: pa.ChunkedArray, file: Array, size: Array) -> Array:
    """Offsets as recorded; where there is none, the I/O of a file is taken to be sequential."""
    known = offsets.is_valid().to_numpy()
    given: Array = offsets.fill_null(0).to_numpy().copy()
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


def _failure(directory: Path, error: OSError) -> SpillcastError:
    if error.errno == errno.ENOSPC:
        hint = "free some space, or name a larger directory"
        return SpillcastError(f"{directory}: filled up during the probe", hint)
    return SpillcastError(error.strerror or str(error))
