"""Interpolates latencies between measured sizes and depths, with their error."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.storage.storage import Group

Array = NDArray[np.float64]

#: Replaces 0 in logarithms: a thousandth of a nanosecond.
_NOTHING_S = 1e-12
#: Standard deviation of what lies anywhere between nothing and one, about its middle and its end.
_ABOUT_MIDDLE, _ABOUT_END = 1 / math.sqrt(12), 1 / math.sqrt(3)
#: Median of the absolute values of a normal distribution to its standard deviation.
_OF_MEDIAN = 1.4826


@dataclass(frozen=True)
class Between:
    """Holds a latency in seconds; ``error`` is its relative standard error, 0 if measured."""

    mean_s: float
    error: float
    measured: bool
    outside: bool


def between(x: Array, mean_s: Array, at: float, *, power: bool) -> Between:
    """Latency at ``at`` from those at the ascending ``x``.

    With ``power`` a power law holds from point to point (queue depth), else a straight line (size:
    base + size/bandwidth). Outside of ``x`` the nearest slope goes on, but latency never falls with
    size or depth and never grows faster than they do.

    The error within is that of measured points predicted from their neighbours: of the two next to
    ``at``, or what is usual along the axis where that is more. With two points alone nothing
    can be left out: it is then what a latency may do that never falls nor grows faster than ``x``.
    The error outside is that of the last point predicted from those before it, grown with the
    distance, and what a slope that changes there would do.
    """
    index = int(np.searchsorted(x, at))
    if index < len(x) and x[index] == at:
        return Between(float(mean_s[index]), 0.0, True, False)
    if len(x) == 1:
        return Between(float(mean_s[0]), abs(math.log(at / x[0])) * _ABOUT_END, False, True)
    if 0 < index < len(x):
        value_s = _line(x[index - 1 : index + 1], mean_s[index - 1 : index + 1], at, power)
        return Between(value_s, _error_within(x, mean_s, index, power), False, False)
    if index == 0:
        return _beyond(x, mean_s, at, power)
    return _beyond(x[::-1], mean_s[::-1], at, power)


def _line(x: Array, mean_s: Array, at: float, power: bool) -> float:
    """Interpolate between two points."""
    if not power:
        share = (at - x[0]) / (x[1] - x[0])
        return float(mean_s[0] + share * (mean_s[1] - mean_s[0]))
    share = math.log(at / x[0]) / math.log(x[1] / x[0])
    return math.exp((1 - share) * _log(mean_s[0]) + share * _log(mean_s[1]))


def _beyond(x: Array, mean_s: Array, at: float, power: bool) -> Between:
    """Extrapolate; ``x`` begins with the nearest point."""
    distance = abs(math.log(at / x[0]))
    value_s, exponent = _extended(x[0], x[1], mean_s[0], mean_s[1], at, power)
    # Above, latency may come to grow with x; below, it may stop to depend on x.
    turn = (1 - exponent if at > x[0] else exponent) * distance * _ABOUT_END
    seen = 0.0
    if len(x) > 2:
        again_s, _ = _extended(x[1], x[2], mean_s[1], mean_s[2], x[0], power)
        off = max(abs(_log(again_s) - _log(mean_s[0])), _usual_miss(x, mean_s, power))
        seen = off * distance / abs(math.log(x[0] / x[1]))
    return Between(value_s, math.hypot(turn, seen), False, True)


def _extended(
    x: float, x_next: float, mean_s: float, next_s: float, at: float, power: bool
) -> tuple[float, float]:
    """The line through two points, further on: latency, and the power by which it grows there."""
    if power:
        slope = (_log(mean_s) - _log(next_s)) / math.log(x / x_next)
        exponent = min(max(slope, 0.0), 1.0)
        return mean_s * (at / x) ** exponent, exponent
    per_x = min(max((mean_s - next_s) / (x - x_next), 0.0), mean_s / x)
    value_s = mean_s + per_x * (at - x)
    return value_s, per_x * at / value_s if value_s else 0.0


def _error_within(x: Array, mean_s: Array, index: int, power: bool) -> float:
    """Error between the points ``here - 1`` and ``here``."""
    if len(x) == 2:
        rise = _log(mean_s[1]) - _log(mean_s[0])
        reach = math.log(x[1] / x[0])
        return min(abs(rise), abs(reach - rise)) * _ABOUT_MIDDLE
    near = (point for point in (index - 1, index) if 0 < point < len(x) - 1)
    missed = [_missed(x, mean_s, point, power) for point in near]
    return max(*missed, _usual_miss(x, mean_s, power))


def _usual_miss(x: Array, mean_s: Array, power: bool) -> float:
    missed = [_missed(x, mean_s, point, power) for point in range(1, len(x) - 1)]
    return float(np.median(missed)) * _OF_MEDIAN


def _missed(x: Array, mean_s: Array, point: int, power: bool) -> float:
    """The error of the line through its neighbours at a measured point."""
    ends = [point - 1, point + 1]
    return abs(_log(_line(x[ends], mean_s[ends], x[point], power)) - _log(mean_s[point]))


def _log(seconds: float) -> float:
    return math.log(max(seconds, _NOTHING_S))


#: Below this many operations a cell's mean is not used where others can tell.
COUNT_MIN = 8


@dataclass(frozen=True)
class Cell:
    """Holds the measurement at one size and depth. ``depth`` 0 is that of a recording."""

    size_bytes: int
    depth: int
    groups: tuple[Group, ...]

    @property
    def count(self) -> int:
        """The number of operations."""
        return sum(g.count for g in self.groups)

    @property
    def mean_s(self) -> float:
        """Their mean latency."""
        return sum(g.total_ns for g in self.groups) / self.count / 1e9

    @property
    def blocks(self) -> Array:
        """Count and mean latency (s) of consecutive stretches, in the order of time."""
        count = [n for g in self.groups for n in g.block_count]
        mean_s = [ns / 1e9 for g in self.groups for ns in g.block_mean_ns]
        return np.column_stack([np.asarray(count, dtype=float), np.asarray(mean_s, dtype=float)])

    @property
    def histogram(self) -> tuple[Array, Array]:
        """Latencies in seconds, ascending, and how many operations took each."""
        latency_s = np.concatenate([np.asarray(g.latency_ns, dtype=float) for g in self.groups])
        count = np.concatenate([np.asarray(g.latency_count, dtype=float) for g in self.groups])
        order = np.argsort(latency_s, kind="stable")
        return latency_s[order] / 1e9, count[order]


class Cells:
    """Interpolates latencies between the cells of one op, pattern and access.

    ``counted`` says that they were measured, so that few operations are little evidence.
    """

    def __init__(self, groups: Sequence[Group], *, by_depth: bool, counted: bool) -> None:
        by_size_depth: dict[tuple[int, int], list[Group]] = defaultdict(list)
        for group in groups:
            if group.count:
                by_size_depth[group.size_class_bytes, group.depth if by_depth else 0].append(group)
        cells = [
            Cell(size, depth, tuple(by_size_depth[size, depth]))
            for size, depth in sorted(by_size_depth)
        ]
        self.cells = _reliable(cells) if counted else cells
        self._count_min = COUNT_MIN if counted and len(self.cells) > 1 else 0
        rows: dict[int, list[Cell]] = defaultdict(list)
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

    def row(self, size_bytes: int) -> tuple[Array, Array]:
        """Depths of a measured size, ascending, and mean latencies (s)."""
        return self._rows[size_bytes]

    @property
    def single_depth(self) -> bool:
        """Whether the cells have one depth only, so growth with depth is unknown."""
        return len({c.depth for c in self.cells}) == 1

    def cell(self, size_bytes: int, depth: float) -> Cell | None:
        """The measurement at a size and depth, if it has enough operations."""
        for cell in self.cells:
            if (cell.size_bytes, cell.depth) == (size_bytes, depth):
                return cell if cell.count >= self._count_min else None
        return None

    def nearest(self, size_bytes: int, depth: float) -> Cell:
        """The cell next to a size and depth."""

        def distance(cell: Cell) -> float:
            far = abs(math.log(cell.size_bytes / size_bytes))
            return far + (abs(math.log(cell.depth / depth)) if depth else 0.0)

        return min(self.cells, key=distance)

    def between(self, size_bytes: int, depth: float) -> Between:
        """Latency at a size and depth: along depth for each measured size, then along size.

        Sizes that were measured at this very depth do alone where they lie about the size.
        """
        rows = {size: self._at_depth(size, depth) for size in self.sizes}
        exact = [size for size, row in rows.items() if row.measured]
        if exact and exact[0] <= size_bytes <= exact[-1]:
            rows = {size: rows[size] for size in exact}
        sizes = np.array(list(rows), dtype=float)
        along = between(sizes, np.array([r.mean_s for r in rows.values()]), size_bytes, power=False)
        near = [rows[size] for size in _next_to(list(rows), size_bytes)]
        return Between(
            along.mean_s,
            math.hypot(along.error, max(r.error for r in near), self._few(size_bytes, depth)),
            along.measured and all(r.measured for r in near),
            along.outside or any(r.outside for r in near),
        )

    def left_out(self) -> list[float]:
        """The error of each inner cell when the others predict it, as a ratio less 1."""
        return [miss for cell in self.cells if (miss := self._missed(cell)) is not None]

    def _missed(self, cell: Cell) -> float | None:
        groups = [g for other in self.cells if other is not cell for g in other.groups]
        if not groups or not cell.mean_s:
            return None
        others = Cells(groups, by_depth=cell.depth > 0, counted=self._count_min > 0)
        estimate = others.between(cell.size_bytes, cell.depth)
        if estimate.outside or not estimate.mean_s:
            return None
        return abs(max(estimate.mean_s / cell.mean_s, cell.mean_s / estimate.mean_s) - 1)

    def _at_depth(self, size_bytes: int, depth: float) -> Between:
        depths, mean_s = self._rows[size_bytes]
        if not depth:
            return Between(float(mean_s[0]), 0.0, True, False)
        if len(depths) > 1 or depth == depths[0] or self.single_depth:
            return between(depths, mean_s, depth, power=True)
        return self._as_the_next(size_bytes, depth)

    def _as_the_next(self, size_bytes: int, depth: float) -> Between:
        """A size of one depth among sizes of several grows with depth as the nearest of those."""
        several = [size for size, (depths, _) in self._rows.items() if len(depths) > 1]
        (known_depth,), (known_s,) = self._rows[size_bytes]
        if not several:
            return between(*self._rows[size_bytes], depth, power=True)
        like = min(several, key=lambda size: abs(math.log(size / size_bytes)))
        at_depth = between(*self._rows[like], depth, power=True)
        at_known_depth = between(*self._rows[like], known_depth, power=True)
        growth = at_depth.mean_s / at_known_depth.mean_s if at_known_depth.mean_s else 1.0
        error = math.hypot(
            at_depth.error, at_known_depth.error, math.log(max(growth, 1e-9)) / math.sqrt(12)
        )
        return Between(
            float(known_s) * growth, error, False, at_depth.outside or at_known_depth.outside
        )

    def _few(self, size_bytes: int, depth: float) -> float:
        """The error of a mean of few operations, for a spread as large as the mean."""
        count = self.nearest(size_bytes, depth).count
        return 1 / math.sqrt(count) if count < self._count_min else 0.0


def _next_to(sizes: list[int], size_bytes: int) -> list[int]:
    """The position among ascending sizes from which a latency is taken."""
    at = bisect_left(sizes, size_bytes)
    if at < len(sizes) and sizes[at] == size_bytes:
        return [size_bytes]
    return sizes[max(at - 1, 0) : at + 1]


def _reliable(cells: list[Cell]) -> list[Cell]:
    """Without the cells of few operations, but where only they reach to a size or depth."""
    enough = [cell for cell in cells if cell.count >= COUNT_MIN]
    if not enough:
        return cells
    sizes, depths = [c.size_bytes for c in enough], [c.depth for c in enough]

    def inside(cell: Cell) -> bool:
        return min(sizes) <= cell.size_bytes <= max(sizes) and min(depths) <= cell.depth <= max(
            depths
        )

    return [cell for cell in cells if cell.count >= COUNT_MIN or not inside(cell)]
