"""Sums of facts, and packed runs -> a forecast for each statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spillcast.errors import InputError, Refusal
from spillcast.fleet.dataset import ACTIVE, WAIT
from spillcast.fleet.facts import ASH_KINDS, TRACE, unpacked
from spillcast.forecast import forecast as estimate
from spillcast.forecast.oracle.events import AshEvidence, EventLatency, TraceEvidence
from spillcast.forecast.oracle.evidence import OracleEvidence
from spillcast.forecast.oracle.forecast import forecast_events
from spillcast.forecast.oracle.parts import Target
from spillcast.forecast.question import Question
from spillcast.forecast.result import Forecast
from spillcast.storage.target import resolve

_MEMORY, _HISTORY = ASH_KINDS["V$"], ASH_KINDS["DBA_HIST"]
Rows = list[Mapping[str, Any]]


@dataclass
class Statement:
    """Sums up all facts about one statement of one database."""

    database: str
    sql_id: str
    #: Rows of ``Sums.totals`` by kind of evidence.
    rows: dict[str, Rows] = field(default_factory=dict)

    @property
    def ash_kind(self) -> str | None:
        """The ASH to use: that of memory, of which DBA_HIST repeats one sample in ten."""
        return next((kind for kind in (_MEMORY, _HISTORY) if kind in self.rows), None)

    @property
    def timed_by(self) -> str:
        """The kind of evidence for the statement's time: ASH, which covers whole runs."""
        return self.ash_kind or TRACE

    @property
    def elapsed_us(self) -> int:
        """CPU and waits of traces, or the time in which ASH saw the statement active."""
        rows = self.rows[self.timed_by]
        if self.ash_kind is not None:
            return sum(row["total_us"] for row in rows if row["measure"] == ACTIVE)
        return sum(row["total_us"] for row in rows if not row["idle"])

    def events(self) -> set[str]:
        """The names of its wait events."""
        rows = self.rows[self.timed_by]
        return {row["event"] for row in rows if row["measure"] == WAIT}

    def traces(self) -> TraceEvidence | None:
        """The sums of its traces."""
        rows = self.rows.get(TRACE)
        if rows is None:
            return None
        events = {row["event"]: _latency(row) for row in rows if row["measure"] == WAIT}
        elapsed_s = sum(row["total_us"] for row in rows if not row["idle"]) / 1e6
        return TraceEvidence("the traces", elapsed_s, elapsed_s, events, 0)

    def ash(self) -> AshEvidence | None:
        """The sums of its ASH samples."""
        if self.ash_kind is None:
            return None
        rows = self.rows[self.ash_kind]
        waits = [row for row in rows if row["measure"] == WAIT]
        instants = sum(row["count"] for row in rows if row["measure"] == ACTIVE)
        active_us = self.elapsed_us
        share = {row["event"]: row["total_us"] / active_us for row in waits}
        latency_s = {
            row["event"]: row["sampled_us"] / row["waits_e6"]
            for row in waits
            if row["waits_e6"] > 0
        }
        return AshEvidence(active_us / 1e6, instants, share, latency_s)


def statements(totals: Iterable[Mapping[str, Any]]) -> list[Statement]:
    """The rows of ``Sums.totals`` by database and statement, in their order."""
    statements: dict[tuple[str, str], Statement] = {}
    for row in totals:
        key = row["label"], row["sql_id"]
        statement = statements.setdefault(key, Statement(*key))
        statement.rows.setdefault(row["kind"], []).append(row)
    return [statements[key] for key in sorted(statements)]


def _latency(row: Mapping[str, Any]) -> EventLatency:
    """One event; its waits form a single interval, because their order is not kept."""
    count, total_s = row["count"], row["total_us"] / 1e6
    blocks = row["blocks"] / row["blocks_count"] if row["blocks_count"] else None
    return EventLatency(
        event=row["event"],
        op=row["op"],
        idle=row["idle"],
        count=count,
        total_s=total_s,
        blocks=blocks,
        stretches=np.array([[count, total_s / count]], dtype=float),
    )


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


def _outcome(forecast: Forecast, temp_s: float) -> Outcome:
    return Outcome(
        forecast.baseline_s, temp_s, forecast.forecast_s, forecast.interval_s, forecast.refused
    )
