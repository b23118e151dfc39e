"""Runs of a query with several sizes of work memory: the time between them, and the sweep's result.

    T(M, S) = R(M, S) + w * sum over op of N(M) * L(S)

N, the number of operations, is the same on every storage. R, the time outside temp I/O, and L, the
latency of an operation, come from runs on S with less and with more memory. w is the elapsed time
that a second of latency adds (docs/guides/work-memory.md).
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from spillcast.document import Note, internal, key, written
from spillcast.evidence.postgres.work_memory import State
from spillcast.forecast.interval import DRAWS, MeasuredTerm, Uncertainty, direction, drawn_totals
from spillcast.forecast.work_memory import MemoryAdvice, MemoryCell
from spillcast.forecast.workload.recorded import recorded_loads, recorded_threads
from spillcast.lab import SWEEP_SCHEMA
from spillcast.recording import OPS, Recording
from spillcast.stats import merged
from spillcast.storage.interpolation import MeasuredCell
from spillcast.storage.observed import observed
from spillcast.storage.source import LATENCY_NOISE

#: Error of a count between two measured ones, as a share of their difference.
BETWEEN = 0.25
#: Relative error of a count that is computed by the engine's own formula.
COMPUTED = 0.05
#: Counts with a smaller relative difference are treated as equal.
RELATIVE_TOLERANCE = 0.05


@dataclass(frozen=True)
class MemoryRun:
    """A run with a given work memory on a storage."""

    storage: str
    memory_bytes: int
    elapsed_s: float
    #: Time in which the run was runnable but not scheduled.
    delay_s: float
    #: Temp I/O of all sizes by op; empty if the run did not spill.
    ops: Mapping[str, MeasuredCell]
    #: Seconds of elapsed time per second of latency: below 1 if threads overlap.
    io_weight: float = 1.0

    @property
    def remainder_s(self) -> float:
        """Time outside temp I/O."""
        waits_s = self.io_weight * sum(cell.count * cell.mean_s for cell in self.ops.values())
        return max(self.elapsed_s - waits_s, 0.0)

    @property
    def spilled_bytes(self) -> int:
        """Bytes written."""
        return self.ops["write"].bytes if "write" in self.ops else 0


@dataclass(frozen=True)
class Interpolated:
    """A forecast for memory that was not measured on a storage."""

    elapsed_s: float
    interval_s: tuple[float, float]
    #: Operations by op, and bytes written.
    counts: Mapping[str, float]
    spilled_bytes: float


def memory_run(
    storage: str, memory_bytes: int, elapsed_s: float, delay_s: float, recording: Recording | None
) -> MemoryRun:
    """A run with its temp I/O from a recording, which is None if the run did not spill."""
    if recording is None:
        return MemoryRun(storage, memory_bytes, elapsed_s, delay_s, {})
    weight = recorded_threads(recording, recorded_loads(recording)).recorded.io_weight
    return MemoryRun(storage, memory_bytes, elapsed_s, delay_s, _ops(recording), weight)


class MemoryCurve:
    """Times of one query with any work memory between the smallest and largest of its runs.

    ``io_share`` is the engine's own formula: temp I/O, in any unit, by bytes of memory. Without
    it counts are interpolated linearly between measured ones, down to 0 at ``enough_bytes``, with
    which nothing spills.
    """

    def __init__(
        self,
        runs: Sequence[MemoryRun],
        *,
        io_share: Callable[[int], float] | None = None,
        enough_bytes: int | None = None,
        confidence: float = 0.9,
    ) -> None:
        self._runs = sorted(runs, key=lambda run: run.memory_bytes)
        self._io_share = io_share
        fits = [run.memory_bytes for run in self._runs if not run.ops]
        enough = [*fits, *([enough_bytes] if enough_bytes is not None else [])]
        spilled = [run.memory_bytes + 1 for run in self._runs if run.ops]
        self._enough_bytes = max(min(enough), max(spilled, default=0)) if enough else None
        self._confidence = confidence

    def spills(self, memory_bytes: int) -> bool:
        """Whether anything is spilled with this memory."""
        if self._enough_bytes is not None and memory_bytes >= self._enough_bytes:
            return False
        return self._io_share is None or self._io_share(memory_bytes) > 0

    def at(self, storage: str, memory_bytes: int) -> Interpolated:
        """Elapsed time on a storage with memory between measured sizes."""
        runs = [run for run in self._runs if run.storage == storage or not run.ops]
        rest_s, min_s, max_s = self._remainder(runs, memory_bytes)
        width_s = max_s - min_s
        terms, counts, spilled = list[MeasuredTerm](), dict[str, float](), 0.0
        io_s = 0.0
        if self.spills(memory_bytes):
            with_io = [run for run in runs if run.ops]
            weight = _on_line(with_io, [run.io_weight for run in with_io], memory_bytes)
            for op in OPS:
                count, error = self._count(op, memory_bytes)
                having = [run for run in with_io if op in run.ops]
                if not count or not having:
                    continue
                means_s = [run.ops[op].mean_s for run in having]
                mean_s = weight * _on_line(having, means_s, memory_bytes)
                near = _nearest(having, memory_bytes).ops[op]
                counts[op] = count
                if op == "write":
                    spilled = count * near.bytes / near.count
                # Counts within the error are equally likely.
                min_count = max(count - error, 0.0)
                terms.append(MeasuredTerm(op, 0.0, min_count * mean_s, near.blocks))
                width_s += (count + error - min_count) * mean_s
                io_s += count * mean_s
        elapsed_s = rest_s + io_s
        rng = np.random.default_rng(0)
        delay_s = min(min(run.delay_s for run in _around(runs, memory_bytes)), min_s)
        times_s = min_s + width_s * rng.uniform(0, 1, DRAWS)
        times_s -= delay_s * rng.uniform(0, 1, DRAWS)
        noise = LATENCY_NOISE if terms else 0.0
        drawn_s = drawn_totals(times_s, terms, rng, noise=noise)
        spread = Uncertainty.of(elapsed_s, rest_s, drawn_s, "recording", _direction(runs))
        return Interpolated(elapsed_s, spread.bounds_s(self._confidence), counts, spilled)

    def _remainder(
        self, runs: Sequence[MemoryRun], memory_bytes: int
    ) -> tuple[float, float, float]:
        """Time outside temp I/O, and its lower and upper bound.

        Spilling takes CPU time, too. Between two runs the time is interpolated by the number of
        operations, or if these are equal by the logarithm of memory. With memory that avoids all
        spills, the time is that of the runs that did not spill.
        """
        if not self.spills(memory_bytes) and any(not run.ops for run in runs):
            runs = [run for run in runs if not run.ops]
        around = _around(runs, memory_bytes)
        times_s = [run.remainder_s for run in around]
        low, high = around[0].memory_bytes, around[-1].memory_bytes
        counts = {
            size: sum(self._count(op, size)[0] for op in OPS) if self.spills(size) else 0.0
            for size in (low, high, memory_bytes)
        }
        if abs(counts[low] - counts[high]) > RELATIVE_TOLERANCE * max(counts.values()):
            position = (counts[low] - counts[memory_bytes]) / (counts[low] - counts[high])
            _, ends_s = _means(around, times_s)
            rest_s = float(np.interp(position, [0.0, 1.0], ends_s))
        else:
            rest_s = _on_line(runs, [run.remainder_s for run in runs], memory_bytes)
        return rest_s, min(times_s), max(times_s)

    def _count(self, op: str, memory_bytes: int) -> tuple[float, float]:
        """Operations with this memory, and the error of that number."""
        spilled = [run for run in self._runs if op in run.ops]
        if not spilled:
            return 0.0, 0.0
        if self._io_share is not None:
            near = _nearest(spilled, memory_bytes)
            io_share = self._io_share(near.memory_bytes)
            if io_share:
                count = near.ops[op].count * self._io_share(memory_bytes) / io_share
                return count, 0.0 if near.memory_bytes == memory_bytes else COMPUTED * count
        sizes, counts = _means(spilled, [run.ops[op].count for run in spilled])
        if self._enough_bytes is not None:
            sizes, counts = [*sizes, self._enough_bytes], [*counts, 0.0]
        count = float(np.interp(memory_bytes, sizes, counts))
        if memory_bytes in sizes or len(sizes) < 2:
            return count, 0.0
        at = int(np.clip(np.searchsorted(sizes, memory_bytes), 1, len(sizes) - 1))
        return count, float(BETWEEN * abs(counts[at] - counts[at - 1]))


def _means(runs: Sequence[MemoryRun], figures: Sequence[float]) -> tuple[list[int], list[float]]:
    """Sizes of memory, and the mean of the figures of the runs with each."""
    by_size = dict[int, list[float]]()
    for run, figure in zip(runs, figures, strict=True):
        by_size.setdefault(run.memory_bytes, []).append(figure)
    return list(by_size), [float(np.mean(alike)) for alike in by_size.values()]


def _on_line(runs: Sequence[MemoryRun], figures: Sequence[float], memory_bytes: int) -> float:
    """A figure of runs, interpolated over the logarithm of memory; constant beyond the ends."""
    sizes, means = _means(runs, figures)
    return float(np.interp(log(memory_bytes), np.log(sizes), means))


def _around(runs: Sequence[MemoryRun], memory_bytes: int) -> list[MemoryRun]:
    """The runs with exactly this memory, else those with the next smaller and the next larger."""
    sizes = sorted({run.memory_bytes for run in runs})
    if memory_bytes in sizes:
        return [run for run in runs if run.memory_bytes == memory_bytes]
    at = bisect_left(sizes, memory_bytes)
    return [run for run in runs if run.memory_bytes in sizes[max(at - 1, 0) : at + 1]]


def _direction(runs: Sequence[MemoryRun]) -> str:
    """The direction of a forecast from a storage to itself."""
    cells = [cell for run in runs for cell in run.ops.values()]
    count = max(sum(cell.count for cell in cells), 1)
    mean_s = sum(cell.count * cell.mean_s for cell in cells) / count
    return direction(mean_s, mean_s, sum(cell.bytes for cell in cells) / count)


def _nearest(runs: Sequence[MemoryRun], memory_bytes: int) -> MemoryRun:
    return min(runs, key=lambda run: abs(log(run.memory_bytes / memory_bytes)))


def _ops(recording: Recording) -> dict[str, MeasuredCell]:
    storage = observed(recording)
    groups = {op: tuple(group for group in storage.of(op) if group.count) for op in OPS}
    return {op: MeasuredCell(0, 0, of_op) for op, of_op in groups.items() if of_op}


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
