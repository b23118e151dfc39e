"""What more memory would save instead of other storage: PostgreSQL's work_mem, Oracle's PGA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, Literal

from spillcast.document import internal, later, written
from spillcast.evidence.postgres.work_memory import (
    NodeSpill,
    PlanSpills,
    enough_bytes,
    io_share,
    power_of_two,
    rounded_up,
    state_with,
)
from spillcast.forecast.interval import Uncertainty, around

#: Oracle's parameter for the memory of all work areas.
PGA_TARGET = "pga_aggregate_target"


@dataclass(frozen=True)
class WorkMemorySetting:
    """A work_mem and the elapsed time with it, if the plan stays the same and memory suffices."""

    work_mem_bytes: int
    forecast_s: float
    interval_s: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class WorkMemoryEffect:
    """The effect of more work_mem on a query."""

    #: The work_mem of the run; None if unknown.
    current_bytes: int | None = later()
    #: The setting with which nothing spills.
    enough: WorkMemorySetting
    #: The setting with which no sort needs several passes. None if no sort needs them, or if it is
    #: more than half of ``enough``.
    one_pass: WorkMemorySetting | None = later()
    #: Upper bound of the memory that all nodes in all processes take with ``enough``.
    most_bytes: int
    #: Available memory of this machine; None if the query ran elsewhere.
    available_bytes: int | None = later()
    spills: Sequence[NodeSpill] = later(())

    def io_share(self, work_mem_bytes: int) -> float:
        """Temp I/O of the query with this work memory, relative to that of the run."""
        if work_mem_bytes >= self.enough.work_mem_bytes:
            return 0.0
        return io_share(self.spills, work_mem_bytes)

    @property
    def fits(self) -> bool:
        """Whether the memory for ``enough`` is available, or not known to be missing."""
        return self.available_bytes is None or self.most_bytes < self.available_bytes


@dataclass(frozen=True)
class SpillingLine:
    """A line of the plan, its share (0..1) of the spill, and its passes; None if unknown."""

    sql_id: str | None
    plan_line: int | None
    operation: str
    share: float
    passes: int | None


@dataclass(frozen=True)
class MorePga:
    """The memory of the work areas that spill, and what would keep them in memory.

    ``needed_bytes`` is Oracle's estimate if ``estimated``, else the memory held plus the spill.
    """

    held_bytes: int
    needed_bytes: int
    estimated: bool
    work_areas: int
    pga_target_bytes: int | None
    #: Elapsed time without the waits for temp; None until it is computed.
    forecast_s: float | None = later()
    interval_s: tuple[float, float] | None = later()


@dataclass(frozen=True)
class SpilledLines:
    """Which lines of the plan spill, the largest spill first, and what more PGA would save."""

    lines: Sequence[SpillingLine]
    more_pga: MorePga | None

    def with_fix(self, forecast_s: float, interval_s: tuple[float, float]) -> "SpilledLines":
        """A copy with the elapsed time without temp I/O."""
        if self.more_pga is None:
            return self
        more = replace(self.more_pga, forecast_s=forecast_s, interval_s=interval_s)
        return replace(self, more_pga=more)


#: Standard deviation of the logarithm of a query's work outside temp I/O with other memory: the
#: change of the CPU time of 15 queries of PostgreSQL (0.67 to 1.6 times).
MEMORY_SPREAD = 0.25


def more_work_memory(
    plan: PlanSpills, today_s: float, zeros: Sequence[Uncertainty], confidence: float
) -> WorkMemoryEffect:
    """The effect of more work_mem.

    ``zeros`` are the times on zero-latency storage, and for counts with bounds those at each bound.
    """
    spills, current = plan.spills, plan.current_bytes
    enough = enough_bytes(plan)
    one_pass = _single_pass_bytes(spills, current or 0, enough)
    # Without a spill the time is that on zero-latency storage, but the work changes with memory.
    intervals = [
        replace(
            zero,
            below=hypot(zero.below, MEMORY_SPREAD),
            above=hypot(zero.above, MEMORY_SPREAD),
            max_s=max(zero.max_s, today_s),
        ).bounds_s(confidence)
        for zero in zeros
    ]
    interval_s, zero_s = intervals[0], zeros[0].forecast_s
    if len(intervals) > 1:
        interval_s = around(intervals, max(today_s, zero_s))
    without_spill = WorkMemorySetting(enough, zero_s, interval_s)
    single_pass = None
    if one_pass is not None:
        # The time that temp I/O adds is proportional to its amount.
        share = io_share(spills, one_pass)
        times_s = (zero_s, *interval_s)
        forecast_s, low_s, high_s = (s + share * (today_s - s) for s in times_s)
        single_pass = WorkMemorySetting(one_pass, forecast_s, (low_s, high_s))
    return WorkMemoryEffect(
        current_bytes=current,
        spills=spills,
        enough=without_spill,
        one_pass=single_pass,
        most_bytes=round(enough * sum(spill.taken for spill in spills)),
        available_bytes=plan.available_bytes,
    )


def _single_pass_bytes(spills: Sequence[NodeSpill], current: int, enough: int) -> int | None:
    if not any((spill.passes or 1) > 1 for spill in spills):
        return None
    size = rounded_up(current + 1)
    while state_with(spills, size) == "multi-pass":
        size = rounded_up(size + 1)
    # If the memory of the run is unknown, it may have been larger.
    return size if 2 * size <= enough and io_share(spills, size) < 1 else None


def compared_s(
    elapsed_s: float, interval_s: tuple[float, float] | None, *, bounds_only: bool
) -> float:
    """The time to compare: ``elapsed_s``, or the upper bound if that is no forecast."""
    return interval_s[1] if bounds_only and interval_s is not None else elapsed_s


#: Relative difference of sums of the same terms in another order.
ROUNDING = 1e-9


@dataclass(frozen=True)
class MemoryCell:
    """Elapsed time on a storage with a work memory (``memory_bytes``; None: that of the run)."""

    storage: str
    memory_bytes: int | None
    elapsed_s: float
    interval_s: tuple[float, float] | None = later()
    #: Whether ``elapsed_s`` is the middle of bounds, and not to be shown.
    bounds_only: bool = internal(False)

    @property
    def compared_s(self) -> float:
        """The time to compare with a limit."""
        return compared_s(self.elapsed_s, self.interval_s, bounds_only=self.bounds_only)


@dataclass(frozen=True)
class MemoryAdvice:
    """The cheapest cell that takes at most ``within_s``."""

    within_s: float
    #: None if no cell is fast enough.
    cell: MemoryCell | None
    #: The criterion: the price of the storage and then memory, or memory alone.
    by: Literal["price", "memory"]
    cost: float | None = None
    #: Elapsed time of the run as it is; None if unknown.
    now_s: float | None = None

    @property
    def sure(self) -> bool:
        """Whether the upper end of the cell's interval is fast enough."""
        if self.cell is None:
            return False
        bounds = self.cell.interval_s
        return bounds is None or bounds[1] <= self.within_s

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        cell = None if self.cell is None else written(self.cell) | {"cost": self.cost}
        return {"within_s": self.within_s, "by": self.by, "cell": cell, "sure": self.sure}


def cheapest(
    cells: Sequence[MemoryCell],
    within_s: float,
    costs: Mapping[str, float],
    now_s: float | None = None,
) -> MemoryAdvice:
    """The cheapest cell that takes at most ``within_s`` and is no slower than the run, ``now_s``.

    If only bounds of a cell are known, the upper one counts, for their middle is no forecast.

    With ``costs`` (by storage) the cheapest has the lowest price, and storages without a price are
    left out. Of cells with the same price, less memory is preferred, then less time.
    """
    max_s = within_s if now_s is None else min(within_s, now_s * (1 + ROUNDING))
    by: Literal["price", "memory"] = "price" if costs else "memory"
    fast_enough = [
        cell for cell in cells if cell.compared_s <= max_s and (not costs or cell.storage in costs)
    ]
    cell = min(
        fast_enough,
        key=lambda cell: (costs.get(cell.storage, 0.0), cell.memory_bytes or 0, cell.compared_s),
        default=None,
    )
    cost = None if cell is None else costs.get(cell.storage)
    return MemoryAdvice(within_s, cell, by, cost, now_s)


#: The name of the storage that the query ran on.
NOW = "today"
#: The least work_mem that PostgreSQL accepts.
WORK_MEM_MIN_BYTES = 64 << 10
#: The smallest size in a table is the work_mem of the run divided by this.
CURRENT_DIVISOR = 4


def with_memory(cell: MemoryCell, size: int | None, memory: WorkMemoryEffect | None) -> MemoryCell:
    """The cell with ``size`` bytes of work memory instead of the run's; None leaves it unchanged.

    With more memory the bounds lie between those with and without the spill. With less memory they
    move apart as the spill grows. The time of the run itself was measured and may have no bounds.
    """
    if memory is None or size is None or (share := memory.io_share(size)) == 1:
        return replace(cell, memory_bytes=size)
    total_s, bounds_s = cell.elapsed_s, cell.interval_s
    rest_s = memory.enough.forecast_s
    elapsed_s = rest_s + share * (total_s - rest_s)
    low_s, high_s = bounds_s or (total_s, total_s)
    min_s, max_s = memory.enough.interval_s
    if share < 1:
        bounds_s = min_s + share * (low_s - min_s), max_s + share * (high_s - max_s)
    else:
        grown, off = elapsed_s / total_s, (max_s - rest_s) / rest_s if rest_s else 0.0
        off_s = off * (elapsed_s - total_s)
        bounds_s = max(grown * low_s - off_s, 0.0), grown * high_s + off_s
    return replace(cell, memory_bytes=size, elapsed_s=elapsed_s, interval_s=bounds_s)


def memory_document(cells: Sequence[MemoryCell], advice: MemoryAdvice | None) -> dict[str, Any]:
    """The entry of docs/schema.md."""
    return {"cells": written(list(cells)), "advice": advice and advice.to_json()}


def memory_sizes(memory: WorkMemoryEffect) -> list[int]:
    """Powers of two from below the run's work memory to the size that is enough, and both sizes."""
    enough = memory.enough.work_mem_bytes
    current = memory.current_bytes or enough // 64
    min_bytes = max(power_of_two(current // CURRENT_DIVISOR), WORK_MEM_MIN_BYTES)
    sizes = {min_bytes << number for number in range((enough // min_bytes).bit_length())}
    current_sizes = {memory.current_bytes} if memory.current_bytes else set()
    return sorted({size for size in sizes | current_sizes if size < enough} | {enough})
