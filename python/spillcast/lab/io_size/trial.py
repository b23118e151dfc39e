"""How long the operations of one spill took, reads and writes apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OpTime:
    """The operations of one op. ``mean_us`` is None without any."""

    count: float
    bytes: float
    total_s: float

    @property
    def mean_us(self) -> float | None:
        """Mean latency."""
        return 1e6 * self.total_s / self.count if self.count else None

    def times(self, factor: float) -> "OpTime":
        """So many times as much of it."""
        return OpTime(self.count * factor, self.bytes * factor, self.total_s * factor)

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {
            "count": round(self.count),
            "bytes": round(self.bytes),
            "mean_us": self.mean_us,
            "total_s": self.total_s,
        }


@dataclass(frozen=True)
class Trial:
    """One spill with one size, on a model or on a directory."""

    reads: OpTime
    writes: OpTime
    #: 90 % lie between; None where nothing tells.
    interval_s: tuple[float, float] | None

    @property
    def total_s(self) -> float:
        """Time of all operations, summed."""
        return self.reads.total_s + self.writes.total_s

    @property
    def mean_bytes(self) -> float:
        """Mean size of an operation."""
        return (self.reads.bytes + self.writes.bytes) / (self.reads.count + self.writes.count)

    def times(self, factor: float) -> "Trial":
        """So many times as much of it."""
        bounds = self.interval_s
        scaled = None if bounds is None else (bounds[0] * factor, bounds[1] * factor)
        return Trial(self.reads.times(factor), self.writes.times(factor), scaled)


@dataclass(frozen=True)
class Trials:
    """One trial for each plan, in their order, and what a reader should know."""

    of: Sequence[Trial]
    warnings: Sequence[dict[str, str]]
