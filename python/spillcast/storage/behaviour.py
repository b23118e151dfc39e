"""The behaviour of a storage for mounts and simulations: latencies, servers, limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spillcast import histogram
from spillcast.recording.event_names import OPS
from spillcast.storage.limit import Limit
from spillcast.storage.model import Model
from spillcast.storage.storage import Storage
from spillcast.units import format_duration

#: The size at which a latency that holds for all sizes is compared with what a mount takes.
ANY_SIZE_BYTES = 8192


@dataclass(frozen=True)
class Point:
    """Holds latencies of one op, pattern, size and depth as a histogram to resample."""

    op: str
    sequential: bool
    size_bytes: int
    latency_ns: Sequence[float]
    latency_count: Sequence[int]
    depth: int = 1


@dataclass(frozen=True)
class Behaviour:
    """Determines latencies of operations. An op without points takes no time.

    Between points latency is a straight line in bytes and a power of the depth, which is that of
    the operations under way when one arrives.
    """

    name: str
    points: Sequence[Point]
    #: Operations served at once; the others queue. None for all.
    servers: int | None = None
    limits: Sequence[Limit] = ()

    @property
    def idle_points(self) -> list[Point]:
        """Latencies where an operation finds no other, or as few as were measured."""
        least = min((point.depth for point in self.points), default=1)
        return [point for point in self.points if point.depth == least]

    def median_s(self, point: Point) -> float:
        """Median time of an operation of a point that finds no other, with what limits take."""
        costs_ns = (
            limit.cost_ns(point.op, point.size_bytes, sequential=point.sequential)
            for limit in self.limits
            if not limit.burst_ns
        )
        latency_s = histogram.quantile(point.latency_ns, point.latency_count, 0.5) / 1e9
        return latency_s + max(costs_ns, default=0.0) / 1e9

    def for_share(self, share: float) -> "Behaviour":
        """The behaviour for a small share of a query, with the same share of each burst."""
        limits = [replace(limit, burst_ns=limit.burst_ns * share) for limit in self.limits]
        return replace(self, limits=limits)


def behaviour_of(storage: Storage, *, access: str = "direct") -> Behaviour:
    """The behaviour of a storage; what was measured with ``access`` comes before the rest."""
    model = Model(storage, access=access)
    points = [
        point
        for op in OPS
        if any(group.count for group in storage.of(op))
        for sequential in (True, False)
        for point in _points(model, op, sequential)
    ]
    return Behaviour(storage.name, points, storage.servers, storage.limits)


def _points(model: Model, op: str, sequential: bool) -> Iterator[Point]:
    cells, _ = model.cells(op, sequential)
    for cell in cells.cells:
        moved = sum(group.bytes for group in cell.groups)
        latency_s, count = cell.histogram
        # Buckets have a width: their middles are scaled to give the mean.
        middle_s = float(np.dot(latency_s, count)) / cell.count
        latency_ns = latency_s * 1e9 * (cell.mean_s / middle_s if middle_s else 1.0)
        yield Point(
            op,
            sequential,
            round(moved / cell.count) or cell.size_bytes,
            latency_ns.tolist(),
            count.astype(int).tolist(),
            max(cell.depth, 1),
        )


def fixed_behaviour(read_s: float | None, write_s: float | None) -> Behaviour:
    """Every read and write takes the same, whatever its size; None for no time."""
    points = [
        Point(op, sequential, ANY_SIZE_BYTES, [round(seconds * 1e9)], [1])
        for op, seconds in zip(OPS, (read_s, write_s), strict=True)
        if seconds is not None
        for sequential in (True, False)
    ]
    words = [
        f"{op}s {'as fast as can be' if seconds is None else format_duration(seconds)}"
        for op, seconds in zip(OPS, (read_s, write_s), strict=True)
    ]
    return Behaviour(", ".join(words), points)
