"""Forecasts of a dataset's evidence, each by the function that ``spillcast forecast`` calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spillcast.errors import InputError, Refusal
from spillcast.fleet.evidence import Statement
from spillcast.fleet.runs import unpacked
from spillcast.forecast import forecast as estimate
from spillcast.forecast.oracle.evidence import OracleEvidence
from spillcast.forecast.oracle.forecast import forecast_events
from spillcast.forecast.oracle.parts import Target
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast
from spillcast.storage.target import resolve


@dataclass(frozen=True)
class Outcome:
    """Holds one forecast in seconds, or the reason for its absence."""

    elapsed_s: float
    temp_s: float
    forecast_s: float | None = None
    interval_s: tuple[float, float] | None = None
    refused: str | None = None


def of_statement(
    statement: Statement, target: Target, temp_events: str, temp_s: float, confidence: float
) -> Outcome:
    """The forecast of a statement from traces and ASH."""
    elapsed_s = statement.elapsed_us / 1e6
    try:
        evidence = OracleEvidence(traces=statement.traces(), ash=statement.ash())
        question = Question(temp_events=temp_events, elapsed_s=elapsed_s, confidence=confidence)
        forecast = forecast_events(target, evidence, question)
    except (InputError, Refusal) as error:
        return Outcome(elapsed_s, temp_s, refused=error.message)
    return _outcome(forecast, temp_s)


def of_run(row: Mapping[str, Any], to: str, confidence: float) -> Outcome:
    """The forecast of a recording or a plan, a row of RUNS."""
    try:
        with unpacked(dict(row)) as recording:
            storage = resolve(to, recording)
            forecast = estimate(recording, storage, confidence=confidence)
    except (InputError, Refusal) as error:
        return Outcome(0.0, 0.0, refused=error.message.rpartition("/spillcast-")[2])
    temp_s = sum(term.baseline_s for term in forecast.terms if term.count is not None)
    return _outcome(forecast, temp_s)


def of_runs(
    rows: Iterable[Mapping[str, Any]], to: str, confidence: float
) -> Iterator[dict[str, Any]]:
    """The forecasts of many rows, as rows that any engine can pass on."""
    for row in rows:
        outcome = of_run(row, to, confidence)
        low, high = outcome.interval_s or (None, None)
        yield {
            "database": row["database"],
            "host": row["host"],
            "day": row["day"],
            "sql_id": row["sql_id"],
            "kind": row["kind"],
            "source": row["source"],
            "elapsed_s": outcome.elapsed_s,
            "temp_s": outcome.temp_s,
            "forecast_s": outcome.forecast_s,
            "low_s": low,
            "high_s": high,
            "refused": outcome.refused,
        }


def _outcome(forecast: Forecast, temp_s: float) -> Outcome:
    return Outcome(
        forecast.baseline_s, temp_s, forecast.forecast_s, forecast.interval_s, forecast.refused
    )
