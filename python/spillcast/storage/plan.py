"""The temp I/O of a recording as steps that a probe issues again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import fields_of
from spillcast.errors import NoTempIo
from spillcast.evidence.counts import Counts
from spillcast.recording import OPS, Recording
from spillcast.tables import Table

Array = NDArray[np.int64]


def moved_waits(recording: Recording) -> Table:
    """The temp waits that moved bytes, by start. InputError if there are none."""
    waits = recording.temp_waits
    return waits.filter(_moved(waits, recording))


def _moved(temp_waits: Table, recording: Recording) -> NDArray[np.bool_]:
    """Whether each wait moved bytes. InputError if none did."""
    moved = temp_waits["bytes"].filled(0) > 0
    if not moved.any():
        raise NoTempIo(f"{recording.path}: holds no temp I/O to replay")
    return moved


def plan(recording: Recording) -> Table:
    """The reads and writes of temp files as steps, each after a pause of its thread."""
    return _steps(moved_waits(recording), recording, moves_only=True)[0]


def replay_plan(recording: Recording) -> tuple[Table, bool]:
    """All operations on temp files as steps, and whether they include waits between threads.

    They do if the recording shows the waits of threads outside of I/O.
    """
    _moved(recording.temp_columns("bytes"), recording)
    return _steps(recording.waits, recording)


def _steps(waits: Table, recording: Recording, *, moves_only: bool = False) -> tuple[Table, bool]:
    rows, closed_loop = _core.replay_plan(waits, recording.slices_ns, moves_only=moves_only)
    return Table.from_arrow(rows), closed_loop


#: The columns of steps that read or write after a pause, with the types of the core.
_STEPS = fields_of(
    {
        "thread": "uint32", "file": "uint32", "write": "bool", "offset": "uint64",
        "bytes": "uint32", "delay_ns": "uint64",
    }
)  # fmt: skip


def steps_of(columns: Mapping[str, Any]) -> Table:
    """Steps that read or write after a pause."""
    return Table(columns).cast(_STEPS)


#: At most this many steps are made: some 3 GiB of I/O are enough to measure a storage.
STEPS_MAX = 400_000


def plan_of_counts(counts: Counts, steps_max: int = STEPS_MAX) -> Table:
    """At most ``steps_max`` steps in the proportions of the counts, in as many threads."""
    reads, writes = counts.reads.count, counts.writes.count
    read_bytes, write_bytes = _mean_bytes(counts)
    threads = max(1, round(counts.processes))
    kept = min(1.0, steps_max / counts.operations)
    reads_each, writes_each = (
        max(1, round(n * kept / threads)) if n else 0 for n in (reads, writes)
    )
    held_bytes = counts.held_bytes
    passes = max(1, round(writes * write_bytes / held_bytes)) if held_bytes else 1
    ratio = write_bytes / read_bytes
    write, file, block = _process_plan(reads_each, writes_each, passes, counts.files, ratio)
    size = np.where(write, write_bytes, read_bytes)
    # The time outside temp I/O is divided equally between the operations.
    think_s = counts.elapsed_s - counts.total_s / counts.processes
    think_ns = round(max(0.0, think_s) * kept * 1e9 / len(write))
    # Threads alternate, so that every prefix of the steps is a prefix of the run.
    thread = np.tile(np.arange(threads), len(write))
    return steps_of(
        {
            "thread": thread,
            "file": np.repeat(file, threads) * threads + thread,
            "write": np.repeat(write, threads),
            "offset": np.repeat(block * size, threads),
            "bytes": np.repeat(size, threads),
            "delay_ns": np.full(len(thread), think_ns),
        }
    )


def _mean_bytes(counts: Counts) -> tuple[int, int]:
    """The sizes of a read and of a write; a missing op has the size of the other."""
    any_bytes = counts.bytes // counts.operations
    means = {op: of_op.bytes // of_op.count for op, of_op in counts.by_op}
    read, write = (max(1, means.get(op, any_bytes)) for op in OPS)
    return read, write


def _process_plan(
    reads: int, writes: int, passes: int, files: int, ratio: float
) -> tuple[NDArray[np.bool_], Array, Array]:
    """By step: whether it writes, its file, and its block of a write's size or a read's."""
    parts = []
    for at in range(passes):
        pass_writes, pass_reads = (
            count * (at + 1) // passes - count * at // passes for count in (writes, reads)
        )
        written, read = np.arange(pass_writes), np.arange(pass_reads)
        parts.append((np.ones(pass_writes, dtype=bool), written % files, written // files))
        # Files are read one after the other; reads beyond the written blocks begin again.
        file_reads = max(1, int(-(-(pass_writes * ratio or pass_reads) // files)))
        file = read // file_reads % files
        parts.append((np.zeros(pass_reads, dtype=bool), file, read % file_reads))
    write, file, block = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return write, file, block
