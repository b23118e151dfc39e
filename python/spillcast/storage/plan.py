"""The temp I/O of a recording as steps that a probe issues again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast.columns import TEXT, Column, fields_of
from spillcast.errors import NoTempIo
from spillcast.evidence.counts import Counts
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.recording.spill import codes
from spillcast.recording.thread_trace import NONE, thread_trace
from spillcast.tables import Table

Array = NDArray[np.int64]


def moved_waits(recording: Recording) -> Table:
    """The temp waits that moved bytes, by start. InputError if there are none."""
    waits = recording.temp_waits
    waits = waits.filter(waits["bytes"].filled(0) > 0)
    if waits.num_rows == 0:
        raise NoTempIo(f"{recording.path}: holds no temp I/O to replay")
    return waits


def _acting_waits(recording: Recording) -> Table:
    """The temp waits that moved bytes or changed a file, by start."""
    waits = recording.waits
    acting = (waits["bytes"].filled(0) > 0) | (waits["op"].is_null() & waits["file"].is_valid())
    return waits.filter(waits["temp"].values & acting)


def _changes(waits: Table) -> Column:
    """By row, the call where it changes a file; null where it reads or writes, or only waits."""
    event, changes = waits["event"].cast(TEXT), waits["op"].is_null() & waits["file"].is_valid()
    return replace(event, values=np.where(changes, event.values, -1))


def plan(recording: Recording, *, with_changes: bool = False) -> Table:
    """The temp I/O of a recording as steps: who, which file, where, how much, after what pause.

    With the calls that change files where they are asked for.
    """
    waits = moved_waits(recording)
    if with_changes:
        waits = _acting_waits(recording)
    start = waits["start_ns"].values
    end = start + waits["elapsed_ns"].values
    size, op = waits["bytes"].filled(0), waits["op"]
    threads, thread = np.unique(waits["session"].values, return_inverse=True)
    file = codes(waits["file"])
    offset, known = waits["offset"].filled(0), waits["offset"].is_valid()
    columns = {
        "thread": thread,
        "file": file,
        "write": Column("bool", op.equals("write"), op.is_valid()),
        "offset": offsets(offset, known, file, size),
        "bytes": size,
        "delay_ns": _pauses(start, end, thread, len(threads)),
        "change": _changes(waits),
    }
    return steps_of(columns)


#: The types of a plan's columns for the core, and what may lack or be null.
_STEPS = fields_of(
    {
        "thread": "uint32", "file": "uint32", "write": "bool", "offset": "uint64",
        "bytes": "uint32", "delay_ns": "uint64", "cpu_ns": "uint64", "after": "uint32",
        "after_cpu_ns": "uint64", "change": TEXT,
    }
)  # fmt: skip


def steps_of(columns: Mapping[str, Any]) -> Table:
    """Steps of these columns, as the core takes them."""
    return Table(columns).cast(field for field in _STEPS if field.name in columns)


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


#: More steps than these are thinned out: 3 GiB of I/O say what a storage is like.
STEPS_MAX = 400_000


def plan_of_counts(counts: Counts, steps_max: int = STEPS_MAX) -> Table:
    """At most ``steps_max`` steps in the proportions of the counts, in as many threads."""
    reads, writes = counts.reads.count, counts.writes.count
    read_bytes, write_bytes = _mean_bytes(counts)
    threads = max(1, round(counts.processes))
    kept = min(1.0, steps_max / counts.operations)
    each_read, each_write = (max(1, round(n * kept / threads)) if n else 0 for n in (reads, writes))
    held_bytes = counts.held_bytes
    passes = max(1, round(writes * write_bytes / held_bytes)) if held_bytes else 1
    # A file holds so many blocks of a read's size.
    ratio = write_bytes / read_bytes
    write, file, block = _process_plan(each_read, each_write, passes, counts.files, ratio)
    size = np.where(write, write_bytes, read_bytes)
    # What a process does between its operations, in equal parts.
    think_s = counts.elapsed_s - counts.total_s / counts.processes
    think_ns = round(max(0.0, think_s) * kept * 1e9 / len(write))
    # Threads take turns, so that a stretch of the steps is a stretch of the run.
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
    means = {op: its.bytes // its.count for op, its in counts.by_op}
    read, write = (max(1, means.get(op, any_bytes)) for op in OPS)
    return read, write


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


def waits_known(recording: Recording) -> bool:
    """Whether the recording contains waits outside of I/O."""
    waits = recording.waits
    return not (waits["op"].is_valid() | waits["file"].is_valid()).all()


def plan_of_trace(recording: Recording) -> Table:
    """A step for each row of the trace; those that act on no temp file are waits alone."""
    done = thread_trace(recording)
    io = done.temp & (done.bytes > 0)
    acts = io | done.change
    tied = done.after != NONE
    cpu_ns = done.cpu_ns + np.where(done.on_core & ~acts, done.wait_ns, 0)
    delay_ns = np.where(acts | done.on_core | tied, 0, done.wait_ns)
    if not recording.meta.raw.whole:
        # The time before the first slice is not a pause.
        begins = (done.source == NONE) & ~tied
        delay_ns[begins] -= delay_ns[begins].min(initial=np.iinfo(np.int64).max)
    offset = offsets(done.offset, done.offset != NONE, done.file, done.bytes)
    calls = _changes(recording.waits.take(done.source[done.change]))
    call = np.full(len(done.change), -1, dtype=np.int32)
    call[done.change] = calls.values
    return steps_of(
        {
            "thread": done.thread,
            "file": done.file,
            "write": Column("bool", done.write, io),
            "offset": np.where(acts, offset, 0),
            "bytes": done.bytes,
            "cpu_ns": np.maximum(cpu_ns, 0),
            "after": Column("int64", np.where(tied, done.after, 0), tied),
            "after_cpu_ns": np.maximum(done.after_cpu_ns, 0),
            "delay_ns": np.maximum(delay_ns, 0),
            "change": replace(calls, values=call),
        }
    )
