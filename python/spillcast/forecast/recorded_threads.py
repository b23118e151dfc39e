"""The loads of a recording's temp I/O, and what its threads did, by its rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast.columns import covered_s
from spillcast.forecast.counted import counted_trace
from spillcast.forecast.load import Load
from spillcast.forecast.threads.cpus import PERIOD_S, Cpus
from spillcast.forecast.threads.overlap import RecordedThreads
from spillcast.recording import Recording
from spillcast.recording.cached_reads import COLUMN
from spillcast.recording.meta import Meta
from spillcast.recording.spill import sequential_share
from spillcast.recording.thread_trace import NONE, ThreadTrace, thread_trace
from spillcast.storage.memory import engine_cache_bytes

#: More CPU time than so many times what a quota allows is no error of the clocks.
QUOTA_EXCEEDED = 1.1


def temp_load(recording: Recording) -> list[Load]:
    """One load per op and size class, from the per-second rows, which cover the whole run.

    Calls that moved no byte, such as reads at the end of a file, reach no storage and are no load.
    Where no offset is known, I/O is taken to be sequential, as the probe does.
    """
    seconds = recording.temp_seconds
    seconds = seconds.filter(pc.greater(seconds["size_class_bytes"], 0))
    sums = seconds.group_by(["op", "size_class_bytes"], use_threads=False).aggregate(
        [("count", "sum"), ("bytes", "sum"), ("total_ns", "sum")]
    )
    shares = sequential_share(recording)
    loads = [
        Load(
            row["op"],
            row["size_class_bytes"],
            row["count_sum"],
            row["bytes_sum"],
            row["total_ns_sum"] / 1e9,
            shares.get((row["op"], row["size_class_bytes"]), 1.0),
        )
        for row in sums.to_pylist()
    ]
    return sorted(loads, key=lambda load: load.kind)


def recorded_threads(recording: Recording, target: Cpus | None = None) -> RecordedThreads:
    """What the threads of a recording did, by its single waits, or by its counts without any."""
    source, at_once, threads = recorded_cpus(recording.meta), in_flight(recording), 1
    if recording.temp_columns("start_ns").num_rows:
        trace, threads = thread_trace(recording), sessions(recording)
    else:
        loads = temp_load(recording)
        io_s = sum(load.total_s for load in loads)
        trace = counted_trace(loads, threads, max(recording.elapsed_s - io_s, 0.0))
    missing_bytes = _missing_bytes(recording, trace)
    # Of a sample nothing tells what a page cache held, unless each read does.
    tells_cache = recording.sample is None or missing_bytes is not None
    counted = pc.sum(recording.temp_seconds["count"]).as_py()
    return RecordedThreads(
        trace=trace,
        elapsed_s=recording.elapsed_s,
        threads=threads,
        in_flight=at_once,
        operations=counted or 0,
        source=source,
        target=source if target is None else target,
        cache_bytes=engine_cache_bytes(recording) if tells_cache else None,
        missing_bytes=missing_bytes,
        change_events=_change_events(recording, trace),
        sampled=recording.meta.capture.spun_s is not None,
    )


def _missing_bytes(recording: Recording, trace: ThreadTrace) -> NDArray[np.int64] | None:
    if COLUMN not in recording.waits.column_names:
        return None
    missing = np.full(len(trace.temp), NONE, dtype=np.int64)
    missing[trace.temp] = recording.waits[COLUMN].to_numpy()[trace.source[trace.temp]]
    return missing


def _change_events(recording: Recording, trace: ThreadTrace) -> Sequence[str]:
    if not trace.change.any():
        return ()
    events: list[str] = (
        recording.waits["event"].take(pa.array(trace.source[trace.change])).to_pylist()
    )
    return events


def in_flight(recording: Recording) -> float:
    """Mean number of temp operations under way while at least one is: at least 1."""
    waits = recording.temp_columns("start_ns", "elapsed_ns")
    if waits.num_rows == 0:
        return 1.0
    start, elapsed = waits["start_ns"].to_numpy(), waits["elapsed_ns"].to_numpy()
    return max(1.0, float(elapsed.sum()) / 1e9 / max(covered_s(start, start + elapsed), 1e-9))


def sessions(recording: Recording) -> int:
    """How many threads did temp I/O."""
    return max(1, len(pc.unique(recording.temp_columns("session")["session"])))


def recorded_cpus(meta: Meta) -> Cpus:
    """The CPUs that the run had."""
    machine, limits = meta.machine.cpus, meta.cpu_limits
    cores = min((known for known in (machine, limits.cpus) if known), default=None)
    quota_cpus = None if quota_exceeded(meta) else limits.quota_cpus
    return Cpus.limited(cores, quota_cpus, limits.period_s or PERIOD_S)


def quota_exceeded(meta: Meta) -> bool:
    """Whether the threads had more CPU time than their quota allows: it was not in force so long.

    A process may have been moved into its group while it was recorded.
    """
    limits = meta.cpu_limits
    if limits.quota_cpus is None or meta.cpu_s is None:
        return False
    max_s = limits.quota_cpus * (meta.elapsed_s + (limits.period_s or PERIOD_S))
    return meta.cpu_s > QUOTA_EXCEEDED * max_s
