"""A thread trace where only counts are known: each thread does its part, writes before reads."""

from collections.abc import Sequence

import numpy as np

from spillcast.forecast.load import Load, operations
from spillcast.recording.thread_trace import NONE, ThreadTrace

#: So many steps say what a storage's limits and servers make of all.
STEPS_MAX = 100_000
#: Fewer do for many threads, of which a simulation looks at each in each step.
LOOKS_MAX = 6_400_000


def counted_trace(loads: Sequence[Load], threads: int, think_s: float) -> ThreadTrace:
    """Operations one after the other in a file of each thread, with equal CPU time between them.

    ``think_s`` is all the CPU time of one thread.
    """
    total = operations(loads)
    kept = min(1.0, STEPS_MAX / total, LOOKS_MAX / threads / total) / threads
    ordered = sorted(loads, key=lambda load: load.op == "read")
    counts = [max(1, round(load.count * kept)) for load in ordered]
    size = np.repeat([round(load.mean_bytes) for load in ordered], counts).astype(np.int64)
    write = np.repeat([load.op == "write" for load in ordered], counts)
    # Reads begin where writes did.
    offset = np.where(write, np.cumsum(size), np.cumsum(np.where(write, 0, size))) - size
    each = len(size)
    cpu_ns = round(think_s * threads * kept * 1e9 / each)
    nothing = np.zeros(each * threads, dtype=np.int64)
    no, yes = np.zeros(each * threads, dtype=bool), np.ones(each * threads, dtype=bool)
    thread = np.tile(np.arange(threads, dtype=np.int32), each)
    return ThreadTrace(
        thread=thread,
        start_ns=nothing,
        cpu_ns=np.full(each * threads, cpu_ns),
        ready_ns=nothing,
        wait_ns=nothing,
        on_core=no,
        after=np.full(each * threads, NONE, dtype=np.int32),
        after_cpu_ns=nothing,
        temp=yes,
        change=no,
        io=yes,
        source=np.zeros(each * threads, dtype=np.int32),
        file=thread,
        offset=np.repeat(offset, threads),
        bytes=np.repeat(size, threads),
        write=np.repeat(write, threads),
        cpu_known=False,
    )
