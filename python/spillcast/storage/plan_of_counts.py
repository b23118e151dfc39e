"""Steps for a probe where only counts are known, as of a plan of EXPLAIN.

Temp files are taken to be written each from its beginning to its end, and then read back. A hash
writes its batches by turns, one file each; a sort that needs several passes does all of it several
times.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast.recording import Recording
from spillcast.recording.event_names import OPS

#: More steps than these are thinned out: 3 GiB of I/O say what a storage is like.
STEPS_MAX = 400_000
Array = NDArray[np.int64]


def plan_of_counts(recording: Recording, steps_max: int = STEPS_MAX) -> pa.RecordBatch:
    """At most ``steps_max`` steps in the proportions of the counts, in as many threads."""
    temp, processes = recording.meta.temp, recording.meta.temp.processes or 1.0
    reads, writes = temp.reads, temp.writes
    read_bytes, write_bytes = _mean_bytes(recording)
    threads = max(1, round(processes))
    kept = min(1.0, steps_max / temp.operations)
    each_read, each_write = (max(1, round(n * kept / threads)) if n else 0 for n in (reads, writes))
    passes = max(1, round(writes * write_bytes / temp.held_bytes)) if temp.held_bytes else 1
    # A file holds so many blocks of a read's size.
    ratio = write_bytes / read_bytes
    write, file, block = _process_plan(each_read, each_write, passes, temp.files or 1, ratio)
    size = np.where(write, write_bytes, read_bytes)
    # What a process does between its operations, in equal parts.
    think_s = recording.elapsed_s - temp.total_s / processes
    think_ns = round(max(0.0, think_s) * kept * 1e9 / len(write))
    # Threads take turns, so that a stretch of the steps is a stretch of the run.
    thread = np.tile(np.arange(threads), len(write))
    return pa.record_batch(
        {
            "thread": pa.array(thread, pa.uint32()),
            "file": pa.array(np.repeat(file, threads) * threads + thread, pa.uint32()),
            "write": pa.array(np.repeat(write, threads), pa.bool_()),
            "offset": pa.array(np.repeat(block * size, threads), pa.uint64()),
            "bytes": pa.array(np.repeat(size, threads), pa.uint32()),
            "delay_ns": pa.array(np.full(len(thread), think_ns), pa.uint64()),
        }
    )


def _mean_bytes(recording: Recording) -> tuple[int, int]:
    """The sizes of a read and of a write; a missing op has the size of the other."""
    temp = recording.meta.temp
    any_bytes = temp.bytes // temp.operations
    sums = {row["op"]: row["bytes"] // row["count"] for row in recording.temp_seconds.to_pylist()}
    means = (max(1, sums.get(op, any_bytes)) for op in OPS)
    return next(means), next(means)


def _process_plan(
    reads: int, writes: int, passes: int, files: int, ratio: float
) -> tuple[NDArray[np.bool_], Array, Array]:
    """Whether each step writes, its file, and its block there: of a write's size, or a read's."""
    parts = []
    for at in range(passes):
        pass_counts = [writes * (at + 1) // passes - writes * at // passes,
                reads * (at + 1) // passes - reads * at // passes]  # fmt: skip
        written = np.arange(pass_counts[0])
        parts.append((np.ones(pass_counts[0], dtype=bool), written % files, written // files))
        # File by file, each to its end; what is read more often than written begins again.
        held = max(1, int(-(-(pass_counts[0] * ratio or pass_counts[1]) // files)))
        read = np.arange(pass_counts[1])
        parts.append((np.zeros(pass_counts[1], dtype=bool), read // held % files, read % held))
    write, file, block = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return write, file, block
