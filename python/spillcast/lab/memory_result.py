"""The result of a sweep of work memory: measured and forecast points, and turning points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from spillcast.forecast.result import Warned
from spillcast.forecast.work_memory import State
from spillcast.forecast.work_memory.advice import Advice, Cell
from spillcast.forecast.work_memory.curve import Between, MemoryRun

SWEEP_SCHEMA = "spillcast.sweep/1"


@dataclass(frozen=True)
class SpillState:
    """What is known of a size of memory on every storage."""

    state: State
    #: How often the rows of a sort were written, or all that was spilled; None where that is not
    #: known.
    passes: int | None
    #: Batches of a hash join of PostgreSQL.
    batches: int | None
    #: Whether a run says so, and not arithmetic or its neighbours.
    measured: bool


@dataclass(frozen=True)
class Point:
    """A size of memory on a storage: measured, or forecast and perhaps measured to check."""

    storage: str
    memory_bytes: int
    state: SpillState
    run: MemoryRun | None
    between: Between | None

    @property
    def estimate(self) -> MemoryRun | Between:
        """What was forecast, or else measured."""
        answer = self.between or self.run
        assert answer is not None
        return answer

    @property
    def elapsed_s(self) -> float:
        """As forecast, or else measured."""
        return self.estimate.elapsed_s

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """The interval of a forecast; None if measured."""
        return None if self.between is None else self.between.interval_s

    @property
    def error(self) -> float | None:
        """Forecast over measured, less 1; None where only one of them is there."""
        if self.run is None or self.between is None:
            return None
        return self.between.elapsed_s / self.run.elapsed_s - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was measured."""
        low_s, high_s = self.interval_s or (0.0, 0.0)
        return self.run is not None and low_s <= self.run.elapsed_s <= high_s

    def count(self, op: str) -> int:
        """Temp operations of an op, as forecast where it was."""
        if self.between is not None:
            return round(self.between.counts.get(op, 0.0))
        assert self.run is not None
        return self.run.ops[op].count if op in self.run.ops else 0

    @property
    def spilled_bytes(self) -> int:
        """Bytes written, as forecast where they were."""
        return round(self.estimate.spilled_bytes)

    @property
    def cell(self) -> Cell:
        """As the advice takes it."""
        return Cell(self.storage, self.memory_bytes, self.elapsed_s, self.interval_s)


@dataclass(frozen=True)
class Turn:
    """The least memory from which on a query spills less."""

    memory_bytes: int
    before: State
    after: State


def turns_of(forecasts: Mapping[int, SpillState]) -> list[Turn]:
    """Where it spills less than with the size before."""
    return [
        Turn(size, before.state, after.state)
        for (_, before), (size, after) in pairwise(forecasts.items())
        if before.state != after.state
    ]


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep."""

    engine: str
    workload: str
    confidence: float
    storages: Sequence[str]
    sizes: Sequence[int]
    points: Sequence[Point]
    turns: Sequence[Turn]
    warnings: Sequence[Warned] = ()

    @property
    def checked(self) -> list[Point]:
        """Forecasts that were measured afterwards."""
        return [point for point in self.points if point.error is not None]

    @property
    def median_error(self) -> float | None:
        """The median absolute error of the forecasts that were measured."""
        return median(abs(p.error or 0.0) for p in self.checked) if self.checked else None


def sweep_document(sweep: Sweep, advice: Advice | None = None) -> Mapping[str, Any]:
    """The document of docs/schema.md, with what to take where a time was asked for."""
    return {
        "schema": SWEEP_SCHEMA,
        "kind": "memory",
        "engine": sweep.engine,
        "workload": sweep.workload,
        "confidence": sweep.confidence,
        "points": [_point_json(point) for point in sweep.points],
        "turns": [
            {"storage": None, "memory_bytes": at.memory_bytes, "from": at.before, "to": at.after}
            for at in sweep.turns
        ],
        "errors": [
            {
                "storage": point.storage,
                "memory_bytes": point.memory_bytes,
                "forecast_s": point.elapsed_s,
                "interval_s": list(point.interval_s or ()),
                "measured_s": point.run.elapsed_s,
                "error": point.error,
                "covered": point.covered,
            }
            for point in sweep.checked
            if point.run is not None
        ],
        "median_error": sweep.median_error,
        "advice": None if advice is None else advice.to_json(),
        "warnings": [{"code": w.code, "message": w.message} for w in sweep.warnings],
    }


def _point_json(point: Point) -> dict[str, object]:
    run = point.run if point.between is None else None
    return {
        "storage": point.storage,
        "memory_bytes": point.memory_bytes,
        "measured": run is not None,
        "elapsed_s": point.elapsed_s,
        "interval_s": None if point.interval_s is None else list(point.interval_s),
        "reads": point.count("read"),
        "writes": point.count("write"),
        "state": point.state.state,
        "passes": point.state.passes,
        "batches": point.state.batches,
        "spilled_bytes": point.spilled_bytes,
        "histograms": None
        if run is None
        else {
            op: {"latency_ns": list(done.latency_ns), "latency_count": list(done.latency_count)}
            for op, done in run.ops.items()
        },
    }
