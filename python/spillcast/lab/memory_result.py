"""The result of a sweep of work memory: measured and forecast points, and turning points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from spillcast.document import Note, internal, key, written
from spillcast.evidence.postgres.work_memory import State
from spillcast.forecast.work_memory import MemoryAdvice, MemoryCell
from spillcast.forecast.work_memory.curve import Interpolated, MemoryRun
from spillcast.stats import merged

SWEEP_SCHEMA = "spillcast.sweep/1"


@dataclass(frozen=True)
class SpillState:
    """The spill of a query with a size of memory, on any storage."""

    state: State
    #: Number of times that the rows of a sort, or all spilled data, were written; None if unknown.
    passes: int | None
    #: Batches of a hash join of PostgreSQL.
    batches: int | None
    #: Whether it was observed in a run, not computed.
    measured: bool


@dataclass(frozen=True)
class LatencyHistogram:
    """A histogram of the latencies of one op."""

    latency_ns: Sequence[int] = key("middles of buckets", unit="ns")
    latency_count: Sequence[int] = key("operations in each")


@dataclass(frozen=True, kw_only=True)
class MemoryPoint:
    """A size of memory on a storage: measured, or forecast and optionally measured as a check."""

    storage: str = key("the storage, as in `--on`", example="latency:1ms")
    memory_bytes: int = key("work_mem, or memory_limit", unit="bytes", example=1048576)
    measured: bool = key("whether it was run with, or is forecast", example=True)
    elapsed_s: float = key("elapsed time", unit="s", example=1.1)
    interval_s: tuple[float, float] | None = key(
        "the interval of a forecast; null where measured", unit="s"
    )
    reads: int = key("temp reads", example=3494)
    writes: int = key("temp writes", example=3494)
    state: str = key(
        "`multi-pass`, `one-pass`, `spills` (how often is unknown) or `none`", example="one-pass"
    )
    passes: int | None = key("the most of a sort; null if there is none or it is unknown")
    batches: int | None = key("the most of a hash; null if there is none or it is unknown")
    spilled_bytes: int = key("written to temp files", unit="bytes", example=29360128)
    histograms: Mapping[str, LatencyHistogram] | None = key("latencies by op; null where forecast")
    #: Whether ``state`` was observed in a run.
    state_measured: bool = internal(True)
    #: The run with this size; for a forecast, the run that checks it.
    run: MemoryRun | None = internal()

    @classmethod
    def of(
        cls,
        storage: str,
        memory_bytes: int,
        state: SpillState,
        run: MemoryRun | None,
        between: Interpolated | None,
    ) -> "MemoryPoint":
        """The forecast point if ``between`` is given, else the measured one."""
        estimate = between or run
        assert estimate is not None
        ops = {} if run is None else run.ops
        counts = between.counts if between else {op: done.count for op, done in ops.items()}
        histograms = {
            op: LatencyHistogram(*merged((g.latency_ns, g.latency_count) for g in done.groups))
            for op, done in ops.items()
        }
        return cls(
            storage=storage,
            memory_bytes=memory_bytes,
            measured=between is None,
            elapsed_s=estimate.elapsed_s,
            interval_s=between.interval_s if between else None,
            reads=round(counts.get("read", 0)),
            writes=round(counts.get("write", 0)),
            state=state.state,
            passes=state.passes,
            batches=state.batches,
            spilled_bytes=round(estimate.spilled_bytes),
            histograms=None if between else histograms,
            state_measured=state.measured,
            run=run,
        )

    @property
    def cell(self) -> MemoryCell:
        """The point as input of the advice."""
        return MemoryCell(self.storage, self.memory_bytes, self.elapsed_s, self.interval_s)


@dataclass(frozen=True)
class Turn:
    """The smallest size of memory with which a query spills less than with smaller sizes."""

    memory_bytes: int = key("smallest size in the new state", unit="bytes", example=67108864)
    before: str = key("state with less memory", name="from", example="one-pass")
    after: str = key("state with that size", name="to", example="none")
    storage: str | None = key("null, for all", default=None, later=True, example=None)


def turns_of(forecasts: Mapping[int, SpillState]) -> list[Turn]:
    """The sizes with which the query spills less than with the next smaller one."""
    return [
        Turn(size, before.state, after.state)
        for (_, before), (size, after) in pairwise(forecasts.items())
        if before.state != after.state
    ]


@dataclass(frozen=True, kw_only=True)
class CheckedForecast:
    """A forecast and the time measured afterwards."""

    storage: str = key("the storage, as in `--on`")
    memory_bytes: int = key("size of memory", unit="bytes")
    forecast_s: float = key("as forecast", unit="s")
    interval_s: tuple[float, float] = key("its interval", unit="s")
    measured_s: float = key("as measured then", unit="s")
    error: float = key("forecast over measured, less 1", signed=True, example=0.03)
    covered: bool = key("whether the interval holds what was measured")


@dataclass(frozen=True, kw_only=True)
class MemorySweep:
    """The result of a sweep."""

    engine: str = key("engine with its version", example="DuckDB 1.4.0")
    workload: str = key("the query, or the file that holds it", example="sort")
    confidence: float = key("level of the intervals", example=0.9)
    points: Sequence[MemoryPoint] = key("each storage with each size of memory, the smallest first")
    turns: Sequence[Turn] = key("where it spills less than with the size before")
    errors: Sequence[CheckedForecast] = key("with `--check`, of each forecast")
    median_error: float | None = key(
        "median of the errors without their sign; null without `--check`", example=0.03
    )
    advice: Mapping[str, Any] | None = key(
        "as in a forecast's `memory`", default=None, example=None
    )
    warnings: Sequence[Note] = key("`code` and `message`")

    @property
    def storages(self) -> list[str]:
        """The words of ``--on``, in the order of the points."""
        return list(dict.fromkeys(point.storage for point in self.points))

    @property
    def sizes(self) -> list[int]:
        """Sizes of memory, the smallest first."""
        return sorted({point.memory_bytes for point in self.points})

    def with_advice(self, advice: MemoryAdvice | None) -> "MemorySweep":
        """The sweep with advice, if a time limit was given."""
        return self if advice is None else replace(self, advice=advice.to_json())

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": SWEEP_SCHEMA, "kind": "memory", **written(self)}


def checked(points: Sequence[MemoryPoint]) -> list[CheckedForecast]:
    """The forecasts that were measured afterwards, with their errors."""
    return [
        CheckedForecast(
            storage=point.storage,
            memory_bytes=point.memory_bytes,
            forecast_s=point.elapsed_s,
            interval_s=point.interval_s,
            measured_s=point.run.elapsed_s,
            error=point.elapsed_s / point.run.elapsed_s - 1,
            covered=point.interval_s[0] <= point.run.elapsed_s <= point.interval_s[1],
        )
        for point in points
        if point.interval_s is not None and point.run is not None
    ]
