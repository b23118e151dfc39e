"""What a forecast says: the number, how sure it is, the terms it is the sum of."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.forecast.work_memory import WorkMemory

FORECAST_SCHEMA = "spillcast.forecast/1"


@dataclass(frozen=True)
class Term:
    """A part of the elapsed time, on the baseline and on the target."""

    name: str
    op: str | None
    bytes: int | None
    count: int | None
    baseline_s: float
    forecast_s: float


@dataclass(frozen=True)
class Warned:
    """Something that weakens the number; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Forecast:
    """Elapsed time on a target. The numbers are None where the evidence carries none."""

    target: str
    baseline_s: float
    forecast_s: float | None
    interval_s: tuple[float, float] | None
    confidence: float
    ceiling_s: float
    terms: Sequence[Term]
    method: str = "counts"
    warnings: Sequence[Warned] = field(default_factory=list)
    refused: str | None = None
    #: What to do to have this storage, in words.
    advice: Sequence[str] = ()
    #: What more work memory would do, where a plan of PostgreSQL is known.
    work_memory: "WorkMemory | None" = None

    @property
    def speedup(self) -> float | None:
        """Baseline over forecast: below 1 the query gets slower."""
        return None if self.forecast_s is None else self.baseline_s / self.forecast_s

    @property
    def ceiling_share(self) -> float | None:
        """Time saved over the time that storage without any latency would save.

        Below 0 the query gets slower; None where no storage saves anything.
        """
        if self.forecast_s is None or self.ceiling_s >= self.baseline_s:
            return None
        return (self.baseline_s - self.forecast_s) / (self.baseline_s - self.ceiling_s)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": FORECAST_SCHEMA,
            "target": self.target,
            "baseline_s": self.baseline_s,
            "forecast_s": self.forecast_s,
            "interval_s": None if self.interval_s is None else list(self.interval_s),
            "confidence": self.confidence,
            "ceiling_s": self.ceiling_s,
            "speedup": self.speedup,
            "ceiling_share": self.ceiling_share,
            "terms": [asdict(term) for term in self.terms],
            "method": self.method,
            "warnings": [asdict(warning) for warning in self.warnings],
            "refused": self.refused,
            "advice": list(self.advice),
            "work_memory": self.work_memory and self.work_memory.to_json(),
        }
