"""The temp I/O of a recording as a load: how many operations of which size, how many at once."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute

from spillcast.forecast.threads.covered import covered_s
from spillcast.recording import Recording
from spillcast.recording.spill import sequential_share


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
