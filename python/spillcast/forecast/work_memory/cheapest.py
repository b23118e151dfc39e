"""The cheapest pair of work memory and storage that is fast enough."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
