"""How long an operation takes on a storage: any op, size, depth and pattern, measured or between.

docs/method.md explains the method and the test of the stated error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast import histogram
from spillcast.errors import FiguresMissing
from spillcast.storage import ceilings
from spillcast.storage.cells import Cell, Cells
from spillcast.storage.storage import Group, Storage

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Latency of an operation.

    ``mean_s`` is its mean. ``blocks`` holds count and mean (s) of consecutive stretches of the
    measurement it comes from, scaled to it. ``error`` is the relative standard error of taking it
    from other sizes and depths: 0 where ``measured``, which says that the storage has a figure for
    this very cell. ``extrapolated`` says that it lies outside of what was measured, or is of
    another pattern.
    """

    mean_s: float
    blocks: Array
    error: float
    measured: bool
    extrapolated: bool
    #: The histogram it comes from, scaled to it: latencies (s), ascending, and operations.
    latency_s: Array
    latency_count: Array

    def quantile_s(self, quantile: float) -> float:
        """Latency below which this share of the operations lies."""
        return histogram.quantile(self.latency_s.tolist(), self.latency_count.tolist(), quantile)


class Model:
    """Latencies of a storage. ``access`` is preferred where both were measured."""

    def __init__(self, storage: Storage, *, access: str = "buffered") -> None:
        self.storage = storage
        self._access = access
        self._cells: dict[tuple[str, bool | None], tuple[Cells, bool]] = {}

    def latency(
        self,
        op: str,
        size_bytes: int,
        *,
        depth: float = 1.0,
        sequential: bool | None = None,
        lasting: bool = False,
    ) -> Estimate:
        """Latency of ``op`` (``read`` or ``write``) with ``depth`` operations under way.

        ``sequential`` None is taken as random where both were measured apart. What was measured
        with the I/O of a recording serves any pattern and has that recording's depth. Stated
        servers and limits hold where no depth was measured but 1: see ``ceilings.queued_s``.
        With ``lasting`` short bursts are used up.
        Refusal where the storage has no figures for the op.
        """
        if size_bytes <= 0:
            raise ValueError(f"an operation of {size_bytes} bytes")
        cells, fits = self.cells(op, sequential)
        recorded = cells.cells[0].depth == 0
        stated = self._stated(cells)
        at = 0.0 if recorded else float(cells.cells[0].depth) if stated else max(depth, 1.0)
        estimate = cells.between(size_bytes, at)
        mean_s = estimate.mean_s
        if stated:
            mean_s = ceilings.queued_s(
                self.storage,
                op,
                size_bytes,
                mean_s,
                max(depth, 1.0),
                sequential=bool(sequential),
                lasting=lasting,
            )
        nearest = cells.nearest(size_bytes, at)
        measured = estimate.measured and fits and cells.cell(size_bytes, at) is not None
        return _scaled(nearest, mean_s, estimate.error, measured, estimate.outside or not fits)

    def servers(self, op: str) -> float | None:
        """The number of operations that the storage serves at once; None if unknown."""
        shown = ceilings.measured_servers(self.cells(op, False)[0])
        return shown if shown is not None else self.storage.servers

    def bandwidth_bytes_per_s(self, op: str) -> float | None:
        """Bytes per second that larger sizes and depths do not raise; None where none is shown."""
        cells = self.cells(op, True)[0]
        shown = ceilings.measured_bandwidth(cells)
        if shown is None and self._stated(cells):
            return ceilings.stated_bandwidth(self.storage, op)
        return shown

    def operations_per_s(self, op: str) -> float | None:
        """Small operations per second that depth does not raise; None where none is shown."""
        cells = self.cells(op, False)[0]
        shown = ceilings.measured_operations(cells)
        if shown is None and self._stated(cells):
            size = cells.sizes[0]
            idle_s = float(cells.row(size)[1][0])
            return ceilings.stated_operations(self.storage, op, size, idle_s)
        return shown

    def left_out(self, op: str) -> list[float]:
        """The errors of interpolation, as ratios less 1: each inner cell predicted from the others.

        Of random operations where they were measured apart; empty where there is no inner cell.
        """
        return self.cells(op, None)[0].left_out()

    def cells(self, op: str, sequential: bool | None) -> tuple[Cells, bool]:
        """The cells to use for an op and pattern, and whether they have that pattern."""
        key = op, sequential
        if key not in self._cells:
            groups = [g for g in self.storage.of(op) if g.count]
            if not groups:
                raise FiguresMissing(f"{self.storage.name} has no figures for {op}s")
            groups = _of(groups, "access", (self._access,))
            patterns = ("sequential", "recorded") if sequential else ("random", "recorded")
            groups = _of(
                groups, "pattern", ("recorded", *patterns) if sequential is None else patterns
            )
            pattern = groups[0].pattern
            by_depth = pattern != "recorded"
            fits = sequential is None or pattern in patterns
            counted = not self.storage.source.stated
            self._cells[key] = Cells(groups, by_depth=by_depth, counted=counted), fits
        return self._cells[key]

    def _stated(self, cells: Cells) -> bool:
        """Whether servers and limits as stated say how latency grows with depth."""
        is_limited = self.storage.servers is not None or bool(self.storage.limits)
        return cells.single_depth and (is_limited or self.storage.source.stated)


def _of(groups: Sequence[Group], key: str, wanted: Sequence[str]) -> list[Group]:
    """The groups with the first wanted value that occurs, else those of the first group."""
    values = [getattr(g, key) for g in groups]
    value = next((v for v in wanted if v in values), values[0])
    return [g for g in groups if getattr(g, key) == value]


def _scaled(
    cell: Cell, mean_s: float, error: float, measured: bool, extrapolated: bool
) -> Estimate:
    factor = mean_s / cell.mean_s if cell.mean_s else 1.0
    latency_s, count = cell.histogram
    blocks = cell.blocks
    blocks[:, 1] *= factor
    finite = error if math.isfinite(error) else 1.0
    return Estimate(mean_s, blocks, finite, measured, extrapolated, latency_s * factor, count)
