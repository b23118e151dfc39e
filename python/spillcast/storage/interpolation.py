"""Interpolates latencies between measured sizes and depths, with their error."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spillcast.columns import Floats
from spillcast.storage.storage import Group

#: Replaces 0 in logarithms: one picosecond.
_LATENCY_MIN_S = 1e-12
#: Root mean square deviation of a uniform distribution on [0, 1] from its middle and from an end.
_STDDEV_ABOUT_MIDDLE, _STDDEV_ABOUT_END = 1 / math.sqrt(12), 1 / math.sqrt(3)
#: Standard deviation of a normal distribution over the median of its absolute values.
_STDDEV_PER_MEDIAN = 1.4826


@dataclass(frozen=True)
class Interpolation:
    """A latency in seconds; ``error`` is its relative standard error, 0 if measured.

    An ``extrapolated`` one is outside the measured range, or from another pattern.
    """

    mean_s: float
    error: float = 0.0
    measured: bool = True
    extrapolated: bool = False


def interpolate(x: Floats, mean_s: Floats, at: float, *, power: bool) -> Interpolation:
    """Latency at ``at`` from the latencies ``mean_s`` at the ascending ``x``.

    With ``power`` a power law connects points (queue depth), else a straight line (size: base +
    size/bandwidth). Outside ``x`` the nearest slope continues, but latency never falls with size or
    depth and never grows faster than they do.

    The error of an interpolation is the error of predicting measured points from their neighbours:
    the larger of the errors at the two points beside ``at`` and the typical error along the axis.
    With only two points it follows from the bounds of the slope. The error of an extrapolation
    combines the error of predicting the last point from the previous points, scaled by distance,
    and the error of a change of slope.
    """
    index = int(np.searchsorted(x, at))
    if index < len(x) and x[index] == at:
        return Interpolation(float(mean_s[index]))
    if len(x) == 1:
        return Interpolation(
            float(mean_s[0]), abs(math.log(at / x[0])) * _STDDEV_ABOUT_END, False, True
        )
    if 0 < index < len(x):
        value_s = _line(x[index - 1 : index + 1], mean_s[index - 1 : index + 1], at, power)
        return Interpolation(value_s, _error_within(x, mean_s, index, power), False, False)
    if index == 0:
        return _extrapolate(x, mean_s, at, power)
    return _extrapolate(x[::-1], mean_s[::-1], at, power)


def _line(x: Floats, mean_s: Floats, at: float, power: bool) -> float:
    """Interpolate between two points."""
    if not power:
        share = (at - x[0]) / (x[1] - x[0])
        return float(mean_s[0] + share * (mean_s[1] - mean_s[0]))
    share = math.log(at / x[0]) / math.log(x[1] / x[0])
    return math.exp((1 - share) * _log(mean_s[0]) + share * _log(mean_s[1]))


def _extrapolate(x: Floats, mean_s: Floats, at: float, power: bool) -> Interpolation:
    """Extrapolate from ``x``, whose first point is the nearest."""
    distance = abs(math.log(at / x[0]))
    value_s, exponent = _extended_line(x[0], x[1], mean_s[0], mean_s[1], at, power)
    # Above the largest x, latency may start to grow with x; below the smallest it may stop.
    turn = (1 - exponent if at > x[0] else exponent) * distance * _STDDEV_ABOUT_END
    predicted = 0.0
    if len(x) > 2:
        again_s, _ = _extended_line(x[1], x[2], mean_s[1], mean_s[2], x[0], power)
        off = max(abs(_log(again_s) - _log(mean_s[0])), _typical_error(x, mean_s, power))
        predicted = off * distance / abs(math.log(x[0] / x[1]))
    return Interpolation(value_s, math.hypot(turn, predicted), False, True)


def _extended_line(
    x: float, x_next: float, mean_s: float, next_s: float, at: float, power: bool
) -> tuple[float, float]:
    """Latency on the line through two points, and its exponent of growth at ``at``."""
    if power:
        slope = (_log(mean_s) - _log(next_s)) / math.log(x / x_next)
        exponent = min(max(slope, 0.0), 1.0)
        return mean_s * (at / x) ** exponent, exponent
    per_x = min(max((mean_s - next_s) / (x - x_next), 0.0), mean_s / x)
    value_s = mean_s + per_x * (at - x)
    return value_s, per_x * at / value_s if value_s else 0.0


def _error_within(x: Floats, mean_s: Floats, index: int, power: bool) -> float:
    """Error between the points ``index - 1`` and ``index``."""
    if len(x) == 2:
        rise = _log(mean_s[1]) - _log(mean_s[0])
        reach = math.log(x[1] / x[0])
        return min(abs(rise), abs(reach - rise)) * _STDDEV_ABOUT_MIDDLE
    near = (point for point in (index - 1, index) if 0 < point < len(x) - 1)
    errors = [_prediction_error(x, mean_s, point, power) for point in near]
    return max(*errors, _typical_error(x, mean_s, power))


def _typical_error(x: Floats, mean_s: Floats, power: bool) -> float:
    errors = [_prediction_error(x, mean_s, point, power) for point in range(1, len(x) - 1)]
    return float(np.median(errors)) * _STDDEV_PER_MEDIAN


def _prediction_error(x: Floats, mean_s: Floats, point: int, power: bool) -> float:
    """Error of the line through its neighbours at a measured point."""
    ends = [point - 1, point + 1]
    return abs(_log(_line(x[ends], mean_s[ends], x[point], power)) - _log(mean_s[point]))


def _log(seconds: float) -> float:
    return math.log(max(seconds, _LATENCY_MIN_S))


#: A cell with fewer operations is used only if it extends the measured range.
COUNT_MIN = 8


@dataclass(frozen=True)
class MeasuredCell:
    """The measurement at one size and depth.

    ``size_bytes`` 0 stands for all sizes, ``depth`` 0 for the depth of a recording.
    """

    size_bytes: int
    depth: int
    groups: tuple[Group, ...]

    @property
    def count(self) -> int:
        """The number of operations."""
        return sum(g.count for g in self.groups)

    @property
    def bytes(self) -> int:
        """The bytes that they moved."""
        return sum(g.bytes for g in self.groups)

    @property
    def mean_s(self) -> float:
        """Their mean latency."""
        return sum(g.total_ns for g in self.groups) / self.count / 1e9

    @property
    def blocks(self) -> Floats:
        """Count and mean latency (s) of consecutive stretches, in the order of time."""
        count = [n for g in self.groups for n in g.block_count]
        mean_s = [ns / 1e9 for g in self.groups for ns in g.block_mean_ns]
        return np.column_stack([np.asarray(count, dtype=float), np.asarray(mean_s, dtype=float)])

    @property
    def histogram(self) -> tuple[Floats, Floats]:
        """Latencies in seconds, ascending, and the number of operations at each."""
        latency_s = np.concatenate([np.asarray(g.latency_ns, dtype=float) for g in self.groups])
        count = np.concatenate([np.asarray(g.latency_count, dtype=float) for g in self.groups])
        order = np.argsort(latency_s, kind="stable")
        return latency_s[order] / 1e9, count[order]


class CellInterpolation:
    """Interpolates latencies between the cells of one op, pattern and access.

    ``counted``: the cells were measured, so the mean of few operations is uncertain.
    """

    def __init__(self, groups: Sequence[Group], *, by_depth: bool, counted: bool) -> None:
        by_size_depth: dict[tuple[int, int], list[Group]] = defaultdict(list)
        for group in groups:
            if group.count:
                by_size_depth[group.size_class_bytes, group.depth if by_depth else 0].append(group)
        cells = [
            MeasuredCell(size, depth, tuple(by_size_depth[size, depth]))
            for size, depth in sorted(by_size_depth)
        ]
        self.cells = _reliable(cells) if counted else cells
        self._count_min = COUNT_MIN if counted and len(self.cells) > 1 else 0
        rows: dict[int, list[MeasuredCell]] = defaultdict(list)
        for cell in self.cells:
            rows[cell.size_bytes].append(cell)
        self._rows = {
            size: (np.array([float(c.depth) for c in row]), np.array([c.mean_s for c in row]))
            for size, row in rows.items()
        }

    @property
    def sizes(self) -> list[int]:
        """Measured sizes, ascending."""
        return list(self._rows)

    def row(self, size_bytes: int) -> tuple[Floats, Floats]:
        """Depths of a measured size, ascending, and mean latencies (s)."""
        return self._rows[size_bytes]

    @property
    def single_depth(self) -> bool:
        """Whether the cells have only one depth, so growth with depth is unknown."""
        return len({c.depth for c in self.cells}) == 1

    def nearest(self, size_bytes: int, depth: float) -> MeasuredCell:
        """The cell next to a size and depth."""

        def distance(cell: MeasuredCell) -> float:
            far = abs(math.log(cell.size_bytes / size_bytes))
            return far + (abs(math.log(cell.depth / depth)) if depth else 0.0)

        return min(self.cells, key=distance)

    def interpolate(self, size_bytes: int, depth: float) -> Interpolation:
        """Latency at a size and depth: along depth for each measured size, then along size.

        If sizes measured at this depth lie on both sides of the size, only these are used.
        """
        rows = {size: self._at_depth(size, depth) for size in self.sizes}
        exact = [size for size, row in rows.items() if row.measured]
        if exact and exact[0] <= size_bytes <= exact[-1]:
            rows = {size: rows[size] for size in exact}
        sizes = np.array(list(rows), dtype=float)
        along = interpolate(
            sizes, np.array([r.mean_s for r in rows.values()]), size_bytes, power=False
        )
        near = [rows[size] for size in _neighbours(list(rows), size_bytes)]
        # The standard error of a mean of few operations, assuming a spread equal to the mean.
        count = self.nearest(size_bytes, depth).count
        sampling_error = 1 / math.sqrt(count) if count < self._count_min else 0.0
        return Interpolation(
            along.mean_s,
            math.hypot(along.error, max(r.error for r in near), sampling_error),
            along.measured and all(r.measured for r in near) and not sampling_error,
            along.extrapolated or any(r.extrapolated for r in near),
        )

    def prediction_errors(self) -> list[float]:
        """The error of each inner cell when predicted from the others, as a ratio minus 1."""
        return [error for cell in self.cells if (error := self._prediction_error(cell)) is not None]

    def _prediction_error(self, cell: MeasuredCell) -> float | None:
        groups = [g for other in self.cells if other is not cell for g in other.groups]
        if not groups or not cell.mean_s:
            return None
        others = CellInterpolation(groups, by_depth=cell.depth > 0, counted=self._count_min > 0)
        estimate = others.interpolate(cell.size_bytes, cell.depth)
        if estimate.extrapolated or not estimate.mean_s:
            return None
        return abs(max(estimate.mean_s / cell.mean_s, cell.mean_s / estimate.mean_s) - 1)

    def _at_depth(self, size_bytes: int, depth: float) -> Interpolation:
        depths, mean_s = self._rows[size_bytes]
        if not depth:
            return Interpolation(float(mean_s[0]))
        if len(depths) > 1 or depth == depths[0] or self.single_depth:
            return interpolate(depths, mean_s, depth, power=True)
        return self._as_nearest_size(size_bytes, depth)

    def _as_nearest_size(self, size_bytes: int, depth: float) -> Interpolation:
        """Take the growth with depth from the nearest size that was measured at several depths."""
        several = [size for size, (depths, _) in self._rows.items() if len(depths) > 1]
        (known_depth,), (known_s,) = self._rows[size_bytes]
        if not several:
            return interpolate(*self._rows[size_bytes], depth, power=True)
        like = min(several, key=lambda size: abs(math.log(size / size_bytes)))
        at_depth = interpolate(*self._rows[like], depth, power=True)
        at_known_depth = interpolate(*self._rows[like], known_depth, power=True)
        growth = at_depth.mean_s / at_known_depth.mean_s if at_known_depth.mean_s else 1.0
        error = math.hypot(
            at_depth.error, at_known_depth.error, math.log(max(growth, 1e-9)) / math.sqrt(12)
        )
        return Interpolation(
            float(known_s) * growth,
            error,
            False,
            at_depth.extrapolated or at_known_depth.extrapolated,
        )


def _neighbours(sizes: list[int], size_bytes: int) -> list[int]:
    """The size itself if it was measured, else the measured neighbours."""
    at = bisect_left(sizes, size_bytes)
    if at < len(sizes) and sizes[at] == size_bytes:
        return [size_bytes]
    return sizes[max(at - 1, 0) : at + 1]


def _reliable(cells: list[MeasuredCell]) -> list[MeasuredCell]:
    """Drop cells with few operations unless they extend the range of sizes or depths."""
    enough = [cell for cell in cells if cell.count >= COUNT_MIN]
    if not enough:
        return cells
    sizes, depths = [c.size_bytes for c in enough], [c.depth for c in enough]

    def inside(cell: MeasuredCell) -> bool:
        return min(sizes) <= cell.size_bytes <= max(sizes) and min(depths) <= cell.depth <= max(
            depths
        )

    return [cell for cell in cells if cell.count >= COUNT_MIN or not inside(cell)]
