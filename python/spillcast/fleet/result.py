"""The gains of a fleet by statement, by database and by day."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FLEET_SCHEMA = "spillcast.fleet/1"
#: The share of all savings that the sentence about the first statements names.
MOST = 0.8
#: Prices are for a month of so many days.
MONTH_DAYS = 30


@dataclass(frozen=True)
class Row:
    """Holds one statement of one database. Times are sums over all its evidence, in seconds."""

    database: str
    sql: str
    evidence: str
    sources: int
    elapsed_s: float
    temp_s: float
    #: None where the evidence carries no number.
    forecast_s: float | None
    interval_s: tuple[float, float] | None
    saved_s: float | None
    saved_interval_s: tuple[float, float] | None
    #: Quantiles of the latency of what would change; None where no histogram was kept.
    p50_us: float | None
    p95_us: float | None
    refused: str | None = None
    #: Of all savings: its own share, and that of all statements down to it.
    share: float = 0.0
    cumulative_share: float = 0.0


@dataclass(frozen=True)
class DatabaseRow:
    """Sums up all statements of one database. ``elapsed_s`` includes those that do not spill."""

    database: str
    statements: int
    elapsed_s: float
    temp_s: float
    saved_s: float
    saved_interval_s: tuple[float, float]
    share: float


@dataclass(frozen=True)
class DayRow:
    """Sums up all statements of one day; ``day`` is a date, or ``unknown``."""

    day: str
    temp_s: float
    saved_s: float


@dataclass(frozen=True)
class Fleet:
    """The result for a fleet, the largest savings first."""

    dataset: str
    to: str
    boost: str
    confidence: float
    rows: list[Row]
    databases: list[DatabaseRow]
    days: list[DayRow]
    sources: int
    set_aside: int
    #: For a month of 30 days; None where no price was given.
    cost: float | None = None
    warnings: Sequence[str] = field(default_factory=list)

    @property
    def saved_s(self) -> float:
        """The sum of all savings."""
        return sum(row.saved_s for row in self.databases)

    @property
    def saved_interval_s(self) -> tuple[float, float]:
        """The sums of the bounds: an error about the storage affects all statements alike."""
        return (
            sum(row.saved_interval_s[0] for row in self.databases),
            sum(row.saved_interval_s[1] for row in self.databases),
        )

    @property
    def statements_for_most(self) -> int:
        """The number of statements that bring ``MOST`` of all savings."""
        before = 0.0
        for number, row in enumerate(self.rows):
            if before >= MOST or row.share <= 0:
                return number
            before = row.cumulative_share
        return len(self.rows)

    @property
    def cost_per_saved_hour(self) -> float | None:
        """Price of the observed days per hour saved on them; None if nothing is saved."""
        days = sum(1 for row in self.days if row.day[:1].isdigit())
        if self.cost is None or not days or self.saved_s <= 0:
            return None
        return self.cost * days / MONTH_DAYS / (self.saved_s / 3600)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": FLEET_SCHEMA,
            "dataset": self.dataset,
            "target": self.to,
            "boost": self.boost,
            "confidence": self.confidence,
            "elapsed_s": sum(row.elapsed_s for row in self.databases),
            "temp_s": sum(row.temp_s for row in self.databases),
            "saved_s": self.saved_s,
            "saved_interval_s": list(self.saved_interval_s),
            "statements_for_most": self.statements_for_most,
            "most": MOST,
            "cost": self.cost,
            "cost_per_saved_hour": self.cost_per_saved_hour,
            "sources": self.sources,
            "set_aside": self.set_aside,
            "statements": [asdict(row) for row in self.rows],
            "databases": [asdict(row) for row in self.databases],
            "days": [asdict(row) for row in self.days],
            "warnings": list(self.warnings),
        }
