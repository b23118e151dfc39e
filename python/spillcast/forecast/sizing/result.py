"""What to buy: the rows of a frontier of price and time, and the row to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spillcast.document import key, written
from spillcast.forecast.binding import Binding
from spillcast.forecast.result import Interval

SIZE_SCHEMA = "spillcast.size/1"


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """A storage with its settings, its price and the time that the statements take on it.

    ``elapsed_s`` is one run of each statement, weighted by their runs a day where these are known.
    """

    #: A target of ``forecast``; ``work_mem 512MB`` or ``tmpfs`` where nothing is bought.
    target: str
    provider: str | None
    #: ``size``, ``iops`` and ``throughput`` with their units, or ``memory`` that it takes.
    settings: Mapping[str, str]
    #: None where no price is known.
    cost_per_month: float | None
    elapsed_s: float
    #: Of the statement with the highest upper end.
    interval_s: Interval
    #: Whether the upper end of every statement's interval is within the limit; None without one.
    meets: bool | None
    #: Of all statements; None where their runs a day are not known.
    saved_h_per_month: float | None = key("", signed=True)
    cost_per_saved_h: float | None
    #: Of local disks of instances: ``difference`` to the instance without disks, or ``instance``.
    price_of: str | None = None
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """What a higher setting of the chosen storage saves and costs."""

    setting: str
    value: str
    saved_s: float = key("", signed=True)
    cost_per_month: float | None = key("", signed=True)


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """What to buy: the chosen row, the frontier, and what no storage does."""

    baseline_s: float
    #: The time on zero-latency storage, and of a single statement its interval.
    ceiling_s: float
    ceiling_interval_s: Interval | None
    within_s: float | None
    confidence: float
    currency: str
    #: The row to buy; None where none meets the limit or none has a price.
    chosen: SizeRow | None
    #: The cheapest first; each is faster than all cheaper ones.
    frontier: Sequence[SizeRow]
    knobs: Sequence[Knob]
    binding: Binding | None
    #: Faster than the frontier allows, without a known price.
    unpriced: Sequence[SizeRow]
    notes: Sequence[str]
    #: Dates and regions of the prices.
    prices: Sequence[str]
    statements: int = 1
    #: Whether only bounds of the time of temp I/O are known; times between them are no forecasts.
    bounds_only: bool = False
    #: Forecasts that the search made.
    forecasts: int = field(default=0, compare=False)

    @property
    def suffices(self) -> bool:
        """Whether a single statement meets the limit on today's storage."""
        within_s = self.within_s
        return within_s is not None and self.statements == 1 and self.baseline_s <= within_s

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": SIZE_SCHEMA, **written(self)}
