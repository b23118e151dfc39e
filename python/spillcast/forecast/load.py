"""The temp I/O of a recording as a load: how many operations of which size, how many at once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spillcast.recording import Recording


@dataclass(frozen=True)
class Load:
    """The temp operations of one op and size class over the whole run."""

    op: str
    size_class_bytes: int
    count: int
    bytes: int
    total_s: float

    @property
    def mean_s(self) -> float:
        """Mean latency seen."""
        return self.total_s / self.count


def temp_load(recording: Recording) -> list[Load]:
    """One load per op and size class, from the per-second rows, which cover the whole run.

    Calls that moved no byte, such as reads at the end of a file, reach no storage and are no load.
    """
    seconds = recording.seconds
    moved = pa.compute.greater(seconds["size_class_bytes"], 0)
    seconds = seconds.filter(pa.compute.and_(seconds["temp"], moved))
    sums = seconds.group_by(["op", "size_class_bytes"], use_threads=False).aggregate(
        [("count", "sum"), ("bytes", "sum"), ("total_ns", "sum")]
    )
    loads = [
        Load(
            r["op"], r["size_class_bytes"], r["count_sum"], r["bytes_sum"], r["total_ns_sum"] / 1e9
        )
        for r in sums.to_pylist()
    ]
    return sorted(loads, key=lambda load: (load.op, load.size_class_bytes))


def in_flight(recording: Recording) -> float:
    """Mean number of temp operations under way while at least one is: at least 1."""
    waits = recording.temp_waits
    if waits.num_rows == 0:
        return 1.0
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    reached = np.maximum.accumulate(end)
    begins = np.maximum(start, np.concatenate([start[:1], reached[:-1]]))
    busy_ns = np.maximum(end - begins, 0).sum()
    return max(1.0, float((end - start).sum() / max(busy_ns, 1)))


def sessions(recording: Recording) -> int:
    """How many threads did temp I/O."""
    return max(1, len(pa.compute.unique(recording.temp_waits["session"])))
