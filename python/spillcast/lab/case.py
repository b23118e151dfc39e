"""One verified forecast: what was said, what was measured."""

from dataclasses import dataclass
from typing import Any

from spillcast.forecast import Forecast

VERIFY_SCHEMA = "spillcast.verify/1"


@dataclass(frozen=True)
class Case:
    """A forecast from one storage to another, and the measured elapsed times.

    ``evidence`` is what it was made from: a ``recording``, or a ``plan`` of EXPLAIN. From a plan
    there is no formula of the seed, which wants samples.
    """

    engine: str
    workload: str
    threads: int
    source: str
    target: str
    measured_from_s: float
    measured_to_s: float
    forecast: Forecast
    seed_formula_s: float | None
    evidence: str = "recording"

    @property
    def error(self) -> float | None:
        """Forecast over measured, minus 1; None where the forecast was refused."""
        forecast_s = self.forecast.forecast_s
        return None if forecast_s is None else forecast_s / self.measured_to_s - 1

    @property
    def seed_error(self) -> float | None:
        """The seed's formula over measured, minus 1; None where there is none."""
        seed_s = self.seed_formula_s
        return None if seed_s is None else seed_s / self.measured_to_s - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured time."""
        bounds = self.forecast.interval_s
        return bounds is not None and bounds[0] <= self.measured_to_s <= bounds[1]

    def to_json(self) -> dict[str, Any]:
        """The entry of docs/schema.md."""
        return {
            "engine": self.engine,
            "workload": self.workload,
            "threads": self.threads,
            "evidence": self.evidence,
            "from": self.source,
            "to": self.target,
            "measured_from_s": self.measured_from_s,
            "measured_to_s": self.measured_to_s,
            "forecast": self.forecast.to_json(),
            "seed_formula_s": self.seed_formula_s,
        }


def document(cases: list[Case]) -> dict[str, Any]:
    """The document of a demo or a verification."""
    return {"schema": VERIFY_SCHEMA, "cases": [case.to_json() for case in cases]}
