"""What a forecast says: the number, how sure it is, the terms it is the sum of."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

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

    @property
    def speedup(self) -> float | None:
        """Baseline over forecast: below 1 the query gets slower."""
        return None if self.forecast_s is None else self.baseline_s / self.forecast_s

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
            "terms": [asdict(term) for term in self.terms],
            "method": self.method,
            "warnings": [asdict(warning) for warning in self.warnings],
            "refused": self.refused,
        }
