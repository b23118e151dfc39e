"""Steps for a probe where it is known what threads did between their temp I/O: a closed loop.

Each thread burns the CPU time that it burned, waits for the thread that it waited for, and pauses
for what nothing tells to depend on others.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.recording import Recording
from spillcast.recording.thread_trace import NONE, Array, Flags, thread_trace
from spillcast.storage.plan import codes, offsets


def waits_known(recording: Recording) -> bool:
    """Whether it was recorded when threads waited outside of their I/O."""
    return bool(recording.waits["op"].null_count)


def plan_of_trace(recording: Recording) -> pa.RecordBatch:
    """A step for each row of the program; those that read or write no temp file are waits alone."""
    done = thread_trace(recording)
    waits = recording.waits
    moved = np.asarray(waits["bytes"].fill_null(0)) > 0
    io = done.temp & (done.source != NONE) & moved[done.source]
    rows = waits.take(done.source[io])
    size = rows["bytes"].to_numpy()
    file = codes(rows["file"])
    tied = done.after != NONE
    cpu_ns = done.cpu_ns + np.where(done.on_core & ~io, done.wait_ns, 0)
    delay_ns = np.where(io | done.on_core | tied, 0, done.wait_ns)
    if not recording.meta.raw.whole:
        # The time before the first slice is no pause of anybody.
        begins = (done.source == NONE) & ~tied
        delay_ns[begins] -= delay_ns[begins].min(initial=np.iinfo(np.int64).max)
    return pa.record_batch(
        {
            "thread": pa.array(done.thread, pa.uint32()),
            "file": pa.array(_at(io, file), pa.uint32()),
            "write": pa.array(
                _at(io, np.asarray(pa.compute.equal(rows["op"].cast(pa.string()), "write"))),
                pa.bool_(),
                mask=~io,
            ),
            "offset": pa.array(_at(io, offsets(rows["offset"], file, size)), pa.uint64()),
            "bytes": pa.array(_at(io, size), pa.uint32()),
            "cpu_ns": pa.array(np.maximum(cpu_ns, 0), pa.uint64()),
            "after": pa.array(np.where(tied, done.after, 0), pa.uint32(), mask=~tied),
            "after_cpu_ns": pa.array(np.maximum(done.after_cpu_ns, 0), pa.uint64()),
            "delay_ns": pa.array(np.maximum(delay_ns, 0), pa.uint64()),
        }
    )


def _at(io: Flags, values: Array) -> Array:
    """The values of the steps that do I/O, zero for the others."""
    spread = np.zeros(len(io), dtype=values.dtype)
    spread[io] = values
    return spread
