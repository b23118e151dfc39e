"""Reads of data files that memory did not answer: time that a run on warm data would not take."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.columns import covered_by_stretch_s
from spillcast.forecast.workload import DataReads
from spillcast.recording import Recording
from spillcast.recording.completeness import unrecognised
from spillcast.recording.event_names import DATA_READ_BY_OTHERS

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
