"""The temp I/O of a recording as a load: how many operations of which size, how many at once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.spill import sequential_share

Nanoseconds = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """The temp operations of one op and size class over the whole run."""

    op: str
    size_class_bytes: int
    count: int
    bytes: int
    total_s: float
    #: Share of the operations that begin where the last on their file ended.
    sequential: float = 1.0

    @property
    def mean_bytes(self) -> float:
        """Mean size."""
        return self.bytes / self.count

    @property
    def mean_s(self) -> float:
        """Mean latency seen."""
        return self.total_s / self.count


def temp_load(recording: Recording) -> list[Load]:
    """One load per op and size class, from the per-second rows, which cover the whole run.

    Calls that moved no byte, such as reads at the end of a file, reach no storage and are no load.
    Where no offset is known, I/O is taken to be sequential, as the probe does.
    """
    seconds = recording.temp_seconds
    seconds = seconds.filter(pa.compute.greater(seconds["size_class_bytes"], 0))
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
    return sorted(loads, key=lambda load: (load.op, load.size_class_bytes))


def in_flight(recording: Recording) -> float:
    """Mean number of temp operations under way while at least one is: at least 1.

    A recording without single waits says how many processes shared the I/O.
    """
    if (shared := recording.meta.temp.processes) is not None:
        return shared
    waits = recording.temp_columns("start_ns", "elapsed_ns")
    if waits.num_rows == 0:
        return 1.0
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    all_s = float(waits["elapsed_ns"].to_numpy().sum()) / 1e9
    return max(1.0, all_s / max(covered_s(start, end), 1e-9))


def sessions(recording: Recording) -> int:
    """How many threads did temp I/O."""
    if (shared := recording.meta.temp.processes) is not None:
        return round(shared)
    return max(1, len(pa.compute.unique(recording.temp_columns("session")["session"])))


def covered_s(start_ns: Nanoseconds, end_ns: Nanoseconds) -> float:
    """Seconds that at least one of the intervals covers."""
    [ns] = _core.covered_ns(_intervals(start_ns, end_ns))
    return ns / 1e9


def covered_by_stretch_s(
    start_ns: Nanoseconds, end_ns: Nanoseconds, elapsed_s: float, stretches: int
) -> NDArray[np.float64]:
    """The same by stretch of a run that takes ``elapsed_s``, all of equal length."""
    wide_ns = elapsed_s * 1e9 / stretches
    return np.array(_core.covered_ns(_intervals(start_ns, end_ns), wide_ns, stretches)) / 1e9


def _intervals(start_ns: Nanoseconds, end_ns: Nanoseconds) -> pa.RecordBatch:
    return pa.record_batch({"begin_ns": _column(start_ns), "end_ns": _column(end_ns)})


def _column(values: Nanoseconds) -> pa.Array:
    """Without a copy; ``pa.array`` would import numpy.ma to ask whether some are masked."""
    whole = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])
