"""The loads of a recording's temp I/O, and what its threads did, by its rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.columns import covered_by_stretch_s, covered_s
from spillcast.forecast.counted import counted_trace
from spillcast.forecast.load import Load
from spillcast.forecast.threads.cpus import PERIOD_S, Cpus
from spillcast.forecast.threads.overlap import RecordedThreads
from spillcast.forecast.workload import DataReads
from spillcast.recording import Recording
from spillcast.recording.cached_reads import COLUMN
from spillcast.recording.completeness import unrecognised
from spillcast.recording.event_names import DATA_READ_BY_OTHERS
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


Floats = NDArray[np.float64]
#: The run is cut into so many stretches; in each, as many threads worked side by side as did.
STRETCHES = 10


def data_reads(recording: Recording) -> DataReads | None:
    """What of a run was cold data; None where nothing was, or it cannot be told from a spill."""
    if unrecognised(recording) is not None:
        return None
    work = _Work(recording)
    called = _by_calls(recording, work)
    waited_s = recording.elapsed_s * _share_read_by_others(recording)
    waited_s += (recording.meta.capture.file_fault_s or 0.0) / work.threads_at_once
    elapsed_s = min((called.elapsed_s if called else 0.0) + waited_s, recording.elapsed_s)
    if not elapsed_s:
        return None
    if called is None:
        return DataReads(None, None, elapsed_s)
    return replace(called, elapsed_s=elapsed_s)


def _by_calls(recording: Recording, work: "_Work") -> DataReads | None:
    """Calls of the observed threads that took longer than memory does and left the CPU.

    Single waits tell which those are, the seconds how many there were in the whole run.
    """
    waits = recording.waits
    at = _data_reads(waits)
    if not len(at):
        return None
    reads = waits.take(pa.array(at))
    elapsed_s = reads["elapsed_ns"].to_numpy() / 1e9
    size = reads["bytes"].fill_null(0).to_numpy()
    known = calibrated()
    longer = elapsed_s > known.memory_s + size / known.memory_bytes_per_s
    cold = longer & reads["blocked"].fill_null(True).to_numpy()
    if not cold.any():
        return None
    seconds = recording.seconds.take(pa.array(_data_reads(recording.seconds)))
    whole_s = (pa.compute.sum(seconds["total_ns"]).as_py() or 0) / 1e9
    times = max(whole_s / elapsed_s.sum(), 1.0)
    return DataReads(
        round(times * int(cold.sum())),
        round(times * int(size[cold].sum())),
        times * work.elapsed_s(at[cold], elapsed_s[cold]),
    )


class _Work:
    """When the threads of a recording were at work: on a CPU, or with I/O under way."""

    def __init__(self, recording: Recording) -> None:
        waits = recording.waits
        session = waits["session"].to_numpy()
        self._alone = not len(session) or bool((session == session[0]).all())
        if self._alone:
            return
        start_ns = waits["start_ns"].to_numpy()
        on_file = pa.compute.or_(waits["op"].is_valid(), waits["file"].is_valid()).to_numpy()
        begin_ns = start_ns - waits["cpu_before_ns"].fill_null(0).to_numpy()
        end_ns = start_ns + np.where(on_file, waits["elapsed_ns"].to_numpy(), 0)
        edges_s = np.linspace(0, recording.elapsed_s, STRETCHES + 1)
        stretch = np.searchsorted(edges_s, start_ns / 1e9, side="right") - 1
        self._stretch = np.clip(stretch, 0, STRETCHES - 1)
        self._worked_s = np.bincount(self._stretch, (end_ns - begin_ns) / 1e9, STRETCHES)
        self._covered_s = covered_by_stretch_s(begin_ns, end_ns, recording.elapsed_s, STRETCHES)

    def elapsed_s(self, rows: NDArray[np.int64], waited_s: Floats) -> float:
        """Elapsed time of what rows waited: of a stretch's, divided by the threads at work."""
        if self._alone:
            return float(waited_s.sum())
        threads = np.maximum(self._worked_s / np.maximum(self._covered_s, 1e-9), 1.0)
        return float((np.bincount(self._stretch[rows], waited_s, STRETCHES) / threads).sum())

    @property
    def threads_at_once(self) -> float:
        """Threads at work while any was, over the whole run: at least 1."""
        if self._alone:
            return 1.0
        return max(float(self._worked_s.sum() / max(self._covered_s.sum(), 1e-9)), 1.0)


def _data_reads(rows: pa.Table) -> NDArray[np.int64]:
    """The numbers of the rows that are reads of files that are no temp files."""
    other = pa.compute.and_(pa.compute.invert(rows["temp"]), rows["op"].is_valid())
    at = np.flatnonzero(other.to_numpy())
    ops = rows["op"].filter(other).cast(pa.string())
    reads: NDArray[np.int64] = at[pa.compute.equal(ops, "read").to_numpy()]
    return reads


def _share_read_by_others(recording: Recording) -> float:
    """Of the time sampled, that in which sessions waited for what others read for them."""
    if recording.meta.sampling is None:
        return 0.0
    samples = recording.samples
    whole_us = pa.compute.sum(samples["weight_us"]).as_py()
    if not whole_us:
        return 0.0
    waited = pa.compute.is_in(samples["event"].cast(pa.string()), pa.array(DATA_READ_BY_OTHERS))
    waited_us = pa.compute.sum(samples.filter(waited)["weight_us"]).as_py() or 0
    return float(waited_us / whole_us)
