"""Work memory by storage, from one recording: what each pair of them would take.

    T(M, S) = R + share(M) * (T(S) - R)

share(M) is the temp I/O with so much memory over what it was, by PostgreSQL's own arithmetic; T(S)
is the forecast for S. R is the time with enough memory, which is the same on every storage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from spillcast.forecast.more_memory import WorkMemory
from spillcast.forecast.result import Forecast
from spillcast.forecast.work_memory.postgres import power_of_two

#: Sums of the same terms in another order are apart by so much.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Cell:
    """Elapsed time on a storage with so much work memory; None: with what it had."""

    storage: str
    memory_bytes: int | None
    elapsed_s: float
    interval_s: tuple[float, float] | None = None


@dataclass(frozen=True)
class Advice:
    """Which cell to take for a time."""

    within_s: float
    #: None where no cell is fast enough.
    cell: Cell | None
    #: What cheap means: the price of the storage, then memory, or memory alone.
    by: Literal["price", "memory"]
    cost: float | None = None
    #: What it takes as it is, where that is known: nothing slower is told.
    now_s: float | None = None

    @property
    def sure(self) -> bool:
        """Whether even the upper end of its interval is fast enough."""
        if self.cell is None:
            return False
        bounds = self.cell.interval_s
        return bounds is None or bounds[1] <= self.within_s

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        cell = None if self.cell is None else asdict(self.cell) | {"cost": self.cost}
        return {"within_s": self.within_s, "by": self.by, "cell": cell, "sure": self.sure}


def cheapest(
    cells: Sequence[Cell],
    within_s: float,
    costs: Mapping[str, float],
    now_s: float | None = None,
) -> Advice:
    """The cheapest cell that takes no longer: by price of the storage where there are prices.

    Nor longer than ``now_s``, what it takes as it is: nobody pays to wait longer. A storage without
    a price is left out where others have one. Of cells as cheap, the one with less memory counts,
    then the faster one.
    """
    most_s = within_s if now_s is None else min(within_s, now_s * (1 + ROUNDING))
    by: Literal["price", "memory"] = "price" if costs else "memory"
    enough = [
        cell for cell in cells if cell.elapsed_s <= most_s and (not costs or cell.storage in costs)
    ]

    def key(cell: Cell) -> tuple[float, int, float]:
        return costs.get(cell.storage, 0.0), cell.memory_bytes or 0, cell.elapsed_s

    cell = min(enough, key=key, default=None)
    cost = None if cell is None else costs.get(cell.storage)
    return Advice(within_s, cell, by, cost, now_s)


#: The storage that the recording was made on.
NOW = "now"
#: What PostgreSQL takes at least.
WORK_MEM_MIN_BYTES = 64 << 10
#: From so much less than it was.
LESS = 4


def memory_cells(words: Sequence[str], forecasts: Sequence[Forecast]) -> list[Cell]:
    """Cells of the storage as it is and of each target, by its word.

    Where no plan is known there is one size, None: what it was. Refused targets have no cells.
    """
    pairs = [
        (word, answer) for word, answer in zip(words, forecasts, strict=True) if answer.forecast_s
    ]
    if not pairs:
        return []
    baseline = pairs[0][1]
    memory = baseline.work_memory
    if memory is None:
        return [
            Cell(NOW, None, baseline.baseline_s),
            *(_as_it_was(word, answer) for word, answer in pairs),
        ]
    sizes = memory_sizes(memory)
    cells = [_cell(NOW, size, memory, baseline.baseline_s, None) for size in sizes]
    for word, answer in pairs:
        total_s = answer.forecast_s or 0.0
        cells += [_cell(word, size, memory, total_s, answer.interval_s) for size in sizes]
    return cells


def _as_it_was(word: str, forecast: Forecast) -> Cell:
    return Cell(word, None, forecast.forecast_s or 0.0, forecast.interval_s)


def _cell(
    storage: str,
    size: int,
    memory: WorkMemory,
    total_s: float,
    bounds_s: tuple[float, float] | None,
) -> Cell:
    """With so much memory on a storage that takes ``total_s`` with what it was.

    Its bounds lie between those with and without the spill. With less memory than it was, those
    with it are moved apart as the spill grows. None is told of what was recorded itself.
    """
    share, rest_s = memory.io_share(size), memory.enough.forecast_s
    elapsed_s = rest_s + share * (total_s - rest_s)
    if share == 1:
        return Cell(storage, size, elapsed_s, bounds_s)
    low_s, high_s = bounds_s or (total_s, total_s)
    least_s, most_s = memory.enough.interval_s
    if share < 1:
        bounds_s = least_s + share * (low_s - least_s), most_s + share * (high_s - most_s)
    else:
        grown, off = elapsed_s / total_s, (most_s - rest_s) / rest_s if rest_s else 0.0
        off_s = off * (elapsed_s - total_s)
        bounds_s = max(grown * low_s - off_s, 0.0), grown * high_s + off_s
    return Cell(storage, size, elapsed_s, bounds_s)


def memory_document(cells: Sequence[Cell], advice: Advice | None) -> dict[str, Any]:
    """The entry of docs/schema.md."""
    return {
        "cells": [asdict(cell) for cell in cells],
        "advice": None if advice is None else advice.to_json(),
    }


def memory_sizes(memory: WorkMemory) -> list[int]:
    """Powers of two from less than it was to what is enough, and these two."""
    enough = memory.enough.work_mem_bytes
    current = memory.current_bytes or enough // 64
    least = max(power_of_two(current // LESS), WORK_MEM_MIN_BYTES)
    sizes = {least << number for number in range((enough // least).bit_length())}
    known = {memory.current_bytes} if memory.current_bytes else set()
    return sorted({size for size in sizes | known if size < enough} | {enough})
