"""Steps for a probe from a recording with the work between temp I/O: a closed loop.

Each thread burns its recorded CPU time, waits for the thread that it waited for, and pauses for
waits that depend on no other thread.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.recording import Recording
from spillcast.recording.thread_trace import NONE, ThreadTrace, thread_trace
from spillcast.storage.plan import changes, offsets


def waits_known(recording: Recording) -> bool:
    """Whether the recording contains waits outside of I/O."""
    waits = recording.waits
    on_file = pa.compute.or_(waits["op"].is_valid(), waits["file"].is_valid())
    return not pa.compute.all(on_file, min_count=0).as_py()


def plan_of_trace(recording: Recording) -> pa.RecordBatch:
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
    return pa.record_batch(
        {
            "thread": pa.array(done.thread, pa.uint32()),
            "file": pa.array(done.file, pa.uint32()),
            "write": pa.array(done.write, pa.bool_(), mask=~io),
            "offset": pa.array(np.where(acts, offset, 0), pa.uint64()),
            "bytes": pa.array(done.bytes, pa.uint32()),
            "cpu_ns": pa.array(np.maximum(cpu_ns, 0), pa.uint64()),
            "after": pa.array(np.where(tied, done.after, 0), pa.uint32(), mask=~tied),
            "after_cpu_ns": pa.array(np.maximum(done.after_cpu_ns, 0), pa.uint64()),
            "delay_ns": pa.array(np.maximum(delay_ns, 0), pa.uint64()),
            "change": _changes(recording, done),
        }
    )


def _changes(recording: Recording, done: ThreadTrace) -> pa.Array:
    """By row of the trace, the call that changes a temp file; null for any other."""
    names: np.ndarray[Any, Any] = np.full(len(done.change), None, dtype=object)
    names[done.change] = changes(recording.waits.take(pa.array(done.source[done.change])))
    return pa.array(names, pa.string())
