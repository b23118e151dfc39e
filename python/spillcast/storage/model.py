"""The latency of an operation on a storage, for any op, size, depth and pattern."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spillcast import stats
from spillcast.columns import Floats
from spillcast.errors import FiguresMissing
from spillcast.recording import OPS
from spillcast.storage.interpolation import CellInterpolation, Interpolation
from spillcast.storage.storage import Group, Limit, Storage
from spillcast.units import format_duration

#: Throughput has stopped growing if twice the depth or size multiplies it by less than this.
GROWTH_MIN = 1.1
#: A bucket that holds more seconds of its rate than this is burst credit.
CREDIT_S = 60.0
#: The largest usual operation.
LARGE_BYTES = 1 << 20


def _bandwidth(cells: CellInterpolation) -> float | None:
    """Bytes per second of the largest size; None if a larger depth or size may raise them."""
    if len(cells.sizes) < 2:
        return None
    smaller, largest = cells.sizes[-2:]
    rates = [_plateau(*cells.row(size)) for size in (smaller, largest)]
    if rates[0] is None or rates[1] is None:
        return None
    before, last = rates[0] * smaller, rates[1] * largest
    return last if _is_flat(smaller, largest, before, last) else None


def _plateau(depths: Floats, mean_s: Floats) -> float | None:
    """Operations per second of a size at its largest depths; None if they still grow."""
    if len(depths) < 2 or depths[0] == 0 or not np.all(mean_s > 0):
        return None
    per_s = depths / mean_s
    if not _is_flat(depths[-2], depths[-1], per_s[-2], per_s[-1]):
        return None
    # The median over all depths without growth, because the first may be in transition.
    at = len(depths) - 2
    while at > 0 and _is_flat(depths[at - 1], depths[at], per_s[at - 1], per_s[at]):
        at -= 1
    return float(np.median(per_s[at:]))


def _is_flat(x: float, x_next: float, rate: float, rate_next: float) -> bool:
    return bool(rate_next / rate < GROWTH_MIN ** math.log2(x_next / x))


def queued_s(
    storage: Storage,
    op: str,
    size_bytes: int,
    idle_s: float,
    depth: float,
    *,
    sequential: bool,
    lasting: bool,
) -> float:
    """Latency with ``depth`` operations always in flight, from the latency of an idle storage.

    With depth q, idle latency L, k servers, and the device time c of an operation by the tightest
    limit without a burst: max(c + L, q * L / k, q * c). Limits with a burst add no time, except
    that for a ``lasting`` load limits with a burst of less than a minute count in q * c.
    """
    costs_ns = [
        (limit.burst_ns, limit.cost_ns(op, size_bytes, sequential=sequential))
        for limit in storage.limits
    ]
    before_s = max((cost for burst, cost in costs_ns if not burst), default=0.0) / 1e9
    burst_max_ns = CREDIT_S * 1e9 if lasting else 0.0
    cost_s = max((cost for burst, cost in costs_ns if burst <= burst_max_ns), default=0.0) / 1e9
    served_s = depth * idle_s / storage.servers if storage.servers else 0.0
    return max(before_s + idle_s, served_s, depth * cost_s)


def _ns_per_byte(limit: Limit, op: str) -> float:
    """Device time per byte of the largest operations."""
    per_byte: float = getattr(limit, f"{op}_ns_per_byte")
    if limit.operation_bytes is not None:
        base_ns: float = getattr(limit, f"{op}_sequential_ns")
        per_byte += base_ns / limit.operation_bytes
    return per_byte


@dataclass(frozen=True)
class Estimate(Interpolation):
    """Latency of an operation, and the nearest measurement, scaled to ``mean_s``."""

    #: Count and mean (s) of consecutive stretches.
    blocks: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    #: Histogram: latencies (s), ascending, and counts.
    latency_s: Floats = field(default_factory=lambda: np.zeros(0))
    latency_count: Floats = field(default_factory=lambda: np.zeros(0))

    def at(self, mean_s: float) -> "Estimate":
        """The estimate scaled to another mean, such as that of queued operations."""
        factor = mean_s / self.mean_s if self.mean_s else 1.0
        blocks, latency_s = self.blocks * [1.0, factor], self.latency_s * factor
        return replace(self, mean_s=mean_s, blocks=blocks, latency_s=latency_s)

    def quantile_s(self, quantile: float) -> float:
        """Latency (s) below which the share ``quantile`` of the operations lies."""
        return stats.quantile(self.latency_s.tolist(), self.latency_count.tolist(), quantile)


class Model:
    """Latencies of a storage. ``access`` is preferred if both kinds were measured."""

    def __init__(self, storage: Storage, *, access: str = "buffered") -> None:
        self.storage = storage
        self._access = access
        self._cells: dict[tuple[str, bool | None], tuple[CellInterpolation, bool]] = {}

    def latency(
        self,
        op: str,
        size_bytes: int,
        *,
        depth: float = 1.0,
        sequential: bool | None = None,
        lasting: bool = False,
    ) -> Estimate:
        """Latency of ``op`` (``read`` or ``write``) with ``depth`` operations in flight.

        If ``sequential`` is None, it is that of random operations if patterns were measured
        separately. Figures from the I/O of a recording apply to any pattern, at the depth of that
        recording. Stated servers and limits apply if only depth 1 was measured (``queued_s``); with
        ``lasting`` short bursts are used up. Refusal if there are no figures for the op.
        """
        if size_bytes <= 0:
            raise ValueError(f"an operation of {size_bytes} bytes")
        cells, fits = self.cells(op, sequential)
        recorded = cells.cells[0].depth == 0
        unloaded = self._is_unloaded(cells)
        at = 0.0 if recorded else float(cells.cells[0].depth) if unloaded else max(depth, 1.0)
        estimate = cells.interpolate(size_bytes, at)
        mean_s = estimate.mean_s
        if unloaded:
            mean_s = queued_s(
                self.storage,
                op,
                size_bytes,
                mean_s,
                max(depth, 1.0),
                sequential=bool(sequential),
                lasting=lasting,
            )
        nearest = cells.nearest(size_bytes, at)
        return Estimate(
            nearest.mean_s,
            estimate.error if math.isfinite(estimate.error) else 1.0,
            estimate.measured and fits,
            estimate.extrapolated or not fits,
            nearest.blocks,
            *nearest.histogram,
        ).at(mean_s)

    def mixed(self, op: str, size_bytes: int, *, depth: float, share: float) -> Estimate:
        """Latency of operations of which the ``share`` is sequential and the rest random."""
        weighted = [
            (weight, self.latency(op, size_bytes, depth=depth, sequential=sequential))
            for sequential, weight in ((True, share), (False, 1 - share))
            if weight > 0
        ]
        mean_s = float(sum(weight * estimate.mean_s for weight, estimate in weighted))
        error_s = math.hypot(*(weight * est.mean_s * est.error for weight, est in weighted))
        _, main = max(weighted, key=lambda pair: pair[0])
        return replace(
            main.at(mean_s),
            error=error_s / mean_s if mean_s else 0.0,
            measured=all(estimate.measured for _, estimate in weighted),
            extrapolated=any(estimate.extrapolated for _, estimate in weighted),
        )

    def servers(self, op: str) -> float | None:
        """The number of operations that the storage serves concurrently; None if unknown.

        For a measured storage it is the rate of the smallest size at the largest depths over the
        rate at depth 1. It may be fractional, because operations share a part of their path.
        """
        cells = self.cells(op, False)[0]
        depths, mean_s = cells.row(cells.sizes[0])
        most = _plateau(depths, mean_s)
        if most is None or depths[0] != 1:
            return self.storage.servers
        return max(1.0, most * float(mean_s[0]))

    def bandwidth_bytes_per_s(self, op: str) -> float | None:
        """Maximum bytes per second at any size and depth; None if unknown."""
        cells = self.cells(op, True)[0]
        shown = _bandwidth(cells)
        if shown is not None or not self._is_unloaded(cells):
            return shown
        slowest_ns = max((_ns_per_byte(limit, op) for limit in self.storage.limits), default=0.0)
        return 1e9 / slowest_ns if slowest_ns else None

    def operations_per_s(self, op: str) -> float | None:
        """Maximum small operations per second at any depth; None if unknown."""
        cells, storage = self.cells(op, False)[0], self.storage
        size = cells.sizes[0]
        depths, mean_s = cells.row(size)
        shown = _plateau(depths, mean_s)
        if shown is not None or not self._is_unloaded(cells):
            return shown
        costs_s = [limit.cost_ns(op, size, sequential=False) / 1e9 for limit in storage.limits]
        if storage.servers:
            costs_s.append(float(mean_s[0]) / storage.servers)
        slowest_s = max(costs_s, default=0.0)
        return 1 / slowest_s if slowest_s else None

    def cells(self, op: str, sequential: bool | None) -> tuple[CellInterpolation, bool]:
        """The cells to use for an op and pattern, and whether they are of that pattern."""
        key = op, sequential
        if key not in self._cells:
            groups = [g for g in self.storage.of(op) if g.count]
            if not groups:
                name = self.storage.name
                raise FiguresMissing(f"{name} has no figures for {op}s: measure {op}s too")
            groups = _of(groups, "access", (self._access,))
            patterns = ("sequential", "recorded") if sequential else ("random", "recorded")
            groups = _of(
                groups, "pattern", ("recorded", *patterns) if sequential is None else patterns
            )
            pattern = groups[0].pattern
            by_depth = pattern != "recorded"
            fits = sequential is None or pattern in patterns
            counted = not self.storage.source.unloaded
            self._cells[key] = CellInterpolation(groups, by_depth=by_depth, counted=counted), fits
        return self._cells[key]

    def _is_unloaded(self, cells: CellInterpolation) -> bool:
        """Whether latency at larger depths follows from stated servers and limits."""
        is_limited = self.storage.servers is not None or bool(self.storage.limits)
        return cells.single_depth and (is_limited or self.storage.source.unloaded)


def _of(groups: Sequence[Group], key: str, wanted: Sequence[str]) -> list[Group]:
    """The groups with the first value of ``wanted`` that occurs, else that of the first group."""
    values = [getattr(g, key) for g in groups]
    value = next((v for v in wanted if v in values), values[0])
    return [g for g in groups if getattr(g, key) == value]


#: The size of a point whose latency applies to all sizes.
ANY_SIZE_BYTES = 8192


@dataclass(frozen=True)
class LatencyResampler:
    """Latencies of one op, pattern, size and depth, as a histogram to resample."""

    op: str
    sequential: bool
    size_bytes: int
    latency_ns: Sequence[float]
    latency_count: Sequence[int]
    depth: int = 1


@dataclass(frozen=True)
class Behaviour:
    """The latencies of operations. An op without points takes no time.

    Between points, latency is linear in bytes and a power law of the depth: the number of
    operations in flight when one arrives.
    """

    name: str
    points: Sequence[LatencyResampler]
    #: Operations served concurrently, beyond which they queue; None for all.
    servers: int | None = None
    limits: Sequence[Limit] = ()

    @property
    def idle_points(self) -> list[LatencyResampler]:
        """The points of the smallest depth."""
        least = min((point.depth for point in self.points), default=1)
        return [point for point in self.points if point.depth == least]

    def median_s(self, point: LatencyResampler) -> float:
        """Median time of a single operation of a point, including the device time of limits."""
        costs_ns = (
            limit.cost_ns(point.op, point.size_bytes, sequential=point.sequential)
            for limit in self.limits
            if not limit.burst_ns
        )
        latency_s = stats.quantile(point.latency_ns, point.latency_count, 0.5) / 1e9
        return latency_s + max(costs_ns, default=0.0) / 1e9

    def slowed(self, factor: float) -> "Behaviour":
        """The behaviour with latencies multiplied by ``factor``, and the same limits."""
        points = [
            replace(point, latency_ns=[factor * ns for ns in point.latency_ns])
            for point in self.points
        ]
        return replace(self, points=points)

    def for_share(self, share: float) -> "Behaviour":
        """The behaviour for a small share of a query, with the same share of each burst.

        A burst still holds a large operation, which would otherwise wait for its own cost.
        """
        limits = [
            replace(limit, burst_ns=max(limit.burst_ns * share, min(limit.burst_ns, large_ns)))
            for limit in self.limits
            for large_ns in [max(limit.cost_ns(op, LARGE_BYTES, sequential=False) for op in OPS)]
        ]
        return replace(self, limits=limits)


def behaviour_of(storage: Storage, *, access: str = "direct") -> Behaviour:
    """The behaviour of a storage; figures of ``access`` are preferred."""
    model = Model(storage, access=access)
    points = [
        point
        for op in OPS
        if any(group.count for group in storage.of(op))
        for sequential in (True, False)
        for point in _points(model, op, sequential)
    ]
    return Behaviour(storage.name, points, storage.servers, storage.limits)


def _points(model: Model, op: str, sequential: bool) -> Iterator[LatencyResampler]:
    cells, _ = model.cells(op, sequential)
    for cell in cells.cells:
        latency_s, count = cell.histogram
        # The middles of buckets are scaled, so that their mean is the measured mean.
        middle_s = float(np.dot(latency_s, count)) / cell.count
        latency_ns = latency_s * 1e9 * (cell.mean_s / middle_s if middle_s else 1.0)
        yield LatencyResampler(
            op,
            sequential,
            round(cell.bytes / cell.count) or cell.size_bytes,
            latency_ns.tolist(),
            count.astype(int).tolist(),
            max(cell.depth, 1),
        )


def fixed_behaviour(read_s: float | None, write_s: float | None) -> Behaviour:
    """A behaviour with one latency for all reads and one for all writes; None for no time."""
    points = [
        LatencyResampler(op, sequential, ANY_SIZE_BYTES, [round(seconds * 1e9)], [1])
        for op, seconds in zip(OPS, (read_s, write_s), strict=True)
        if seconds is not None
        for sequential in (True, False)
    ]
    words = [
        f"{op}s {'as fast as can be' if seconds is None else format_duration(seconds)}"
        for op, seconds in zip(OPS, (read_s, write_s), strict=True)
    ]
    return Behaviour(", ".join(words), points)
