"""The executors of a Spark application, and what binds its simulated stages."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from statistics import fmean

from spillcast import _core
from spillcast.errors import EvidenceUnsuited
from spillcast.evidence.spark import Application, Stage
from spillcast.forecast.question import Question
from spillcast.forecast.result import Executors, StageForecast

#: The part of a heap that Spark reserves, and its default for the share of the rest that sorts,
#: joins, aggregates and cached blocks may use (spark.memory.fraction).
RESERVED_BYTES, MEMORY_FRACTION = 300 << 20, 0.6
#: The default of spark.executor.memory, and of spark.driver.memory in local mode.
HEAP_BYTES = 1 << 30
#: An executor with less memory for tasks does not start.
POOL_BYTES_MIN = 1 << 20
#: A node whose executors take all of its memory still caches some pages.
CACHE_BYTES_MIN = 64 << 20
#: A size of Spark: a number and a unit, such as ``k`` or ``kb``.
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(?:(b)|([kmgtp])b?)?", re.ASCII)


@dataclass(frozen=True)
class Resources:
    """The executors of a log and of a question, with the memory of tasks and nodes."""

    today: Executors
    supposed: Executors
    #: Executors per node, cores per task, memory outside the heap, share of the heap for tasks.
    by_node: int
    task_cpus: int
    off_heap_bytes: int
    fraction: float

    @classmethod
    def of(cls, application: Application, question: Question, measured_s: float) -> "Resources":
        """The executors of a log, and those that a question assumes.

        InputError if they leave no memory for tasks.
        """
        properties, executors = application.log.properties, application.log.executors
        local = properties.get("spark.master", "").startswith("local")
        heap = properties.get("spark.driver.memory" if local else "spark.executor.memory")
        off_heap = properties.get("spark.memory.offHeap.enabled") == "true"
        nodes = len({executor.host for executor in executors})
        today = Executors(
            executors=_max_concurrent_executors(application),
            cores=max((executor.cores for executor in executors), default=1),
            memory_bytes=java_bytes(heap, HEAP_BYTES),
            measured_s=measured_s,
        )
        supposed = replace(
            today,
            executors=question.executors or today.executors,
            cores=question.cores or today.cores,
            memory_bytes=question.memory_bytes or today.memory_bytes,
        )
        resources = cls(
            today,
            supposed,
            by_node=ceil(len(executors) / max(nodes, 1)),
            task_cpus=application.task_cpus,
            off_heap_bytes=off_heap * java_bytes(properties.get("spark.memory.offHeap.size"), 0, 1),
            fraction=_memory_fraction(properties),
        )
        if question.memory_bytes and resources.pool_bytes(supposed) <= POOL_BYTES_MIN:
            problem = f"--memory: {question.memory_bytes >> 20} MiB leaves no memory for tasks"
            raise EvidenceUnsuited(problem, "Spark keeps 300 MiB of a heap for itself")
        return resources

    @property
    def changed(self) -> bool:
        """Whether the question assumes other executors."""
        return self.supposed != self.today

    def slots(self, executors: Executors) -> int:
        """Number of tasks that an executor runs concurrently."""
        return max(executors.cores // self.task_cpus, 1)

    def pool_bytes(self, executors: Executors) -> float:
        """Memory of an executor for sorts, joins, aggregates and cached blocks."""
        heap_bytes = (executors.memory_bytes - RESERVED_BYTES) * self.fraction
        return max(heap_bytes + self.off_heap_bytes, POOL_BYTES_MIN)

    @property
    def task_bytes(self) -> float:
        """Memory of a task today, if all slots are taken and no blocks are cached."""
        return self.pool_bytes(self.today) / self.slots(self.today)

    def suppose(self, core: _core.SparkApplication) -> _core.SparkApplication:
        """The application with the assumed executors."""
        if not self.changed:
            return core
        today, supposed = self.today, self.supposed
        factor = self.pool_bytes(supposed) / self.slots(supposed) / self.task_bytes
        return core.with_resources(
            supposed.executors if supposed.executors != today.executors else None,
            supposed.cores if supposed.cores != today.cores else None,
            (self.task_bytes, factor) if factor != 1 else None,
        )

    def memory_without_spills(self, core: _core.SparkApplication) -> int | None:
        """The heap of today's executors with which no task spills; None if none spills today."""
        factor = core.memory_factor_without_spills(self.task_bytes)
        if factor is None:
            return None
        pool_bytes = factor * self.pool_bytes(self.today)
        heap_bytes = (pool_bytes - self.off_heap_bytes) / self.fraction + RESERVED_BYTES
        return ceil(heap_bytes / (1 << 28)) << 28

    def cache_bytes(self, cache_bytes: float) -> float:
        """The page cache of a node with the assumed executors, which take memory from it."""
        more_bytes = (self.supposed.memory_bytes - self.today.memory_bytes) * self.by_node
        return max(cache_bytes - more_bytes, min(cache_bytes, CACHE_BYTES_MIN))


def java_bytes(text: str | None, default: int, unit_bytes: int = 1 << 20) -> int:
    """Bytes from a size of Spark's properties, such as ``4g``; ``512`` is in ``unit_bytes``."""
    if (match := _SIZE.fullmatch((text or "").strip().lower())) is None:
        return default
    number, is_bytes, prefix = match.groups()
    if prefix is not None:
        unit_bytes = 1 << 10 * (1 + "kmgtp".index(prefix))
    return round(float(number) * (1 if is_bytes else unit_bytes))


def _memory_fraction(properties: Mapping[str, str]) -> float:
    """The property spark.memory.fraction, or its default if it is not in (0, 1]."""
    with suppress(ValueError):
        fraction = float(properties.get("spark.memory.fraction", MEMORY_FRACTION))
        return fraction if 0 < fraction <= 1 else MEMORY_FRACTION
    return MEMORY_FRACTION


def _max_concurrent_executors(application: Application) -> int:
    """Maximum number of concurrent executors of the application."""
    executors = application.log.executors
    changes = [(executor.added_ms, 1) for executor in executors]
    removed_ms = (executor.removed_ms for executor in executors)
    changes += [(time_ms, -1) for time_ms in removed_ms if time_ms is not None]
    return max([1, *accumulate(change for _, change in sorted(changes))])


#: Idle slots bind a stage if at least this share of the slots is idle, not CPU or storage.
IDLE = 0.4
FEW_TASKS, STRAGGLERS = "too few tasks", "stragglers"
#: The possible bounds of a stage, in the order of a chart's legend.
BOUNDS = (
    "CPU", "GC", "storage reads", "storage writes", "network", STRAGGLERS, FEW_TASKS, "other waits",
)  # fmt: skip
#: Start, end, and sums over tasks of work and of waits for reads and writes (s).
StageRow = tuple[float, float, float, float, float]
#: A stage's part of the elapsed time, its start and its end (s).
StageTimes = tuple[float, float, float]


@dataclass(frozen=True)
class SimulatedRun:
    """A simulated run that started at ``begin_s``, with its stages by position in the log."""

    begin_s: float
    elapsed_s: float
    stages: Mapping[int, StageRow]
    #: Number of concurrent tasks.
    slots: int

    def times_s(self) -> dict[int, StageTimes]:
        """Times by position. The time in which several stages run counts for the first of them."""
        times, reached_s = {}, 0.0
        for place, (begin_s, end_s, *_) in sorted(self.stages.items(), key=lambda row: row[1][0]):
            span_s = max(end_s - max(begin_s, reached_s), 0.0)
            times[place] = span_s, begin_s - self.begin_s, end_s - self.begin_s
            reached_s = max(reached_s, end_s)
        return times

    def bound_by(self, place: int, stage: Stage) -> str:
        """The bound of a stage: idle slots, or the activity that its tasks spend most time on."""
        begin_s, end_s, work_s, read_s, write_s = self.stages[place]
        slots_s = self.slots * (end_s - begin_s)
        if slots_s > 0 and self._busy_s(begin_s, end_s) < (1 - IDLE) * slots_s:
            return FEW_TASKS if stage.task_count < self.slots else STRAGGLERS
        cpu_s, gc_s = stage.cpu_ns / 1e9, stage.gc_ms / 1e3
        remote = stage.shuffle_read_remote_bytes / max(stage.shuffle_read_bytes, 1)
        network_s = remote * stage.fetch_wait_ms / 1e3
        parts = {
            "storage reads": read_s,
            "storage writes": write_s,
            "CPU": min(cpu_s, work_s),
            "GC": min(gc_s, work_s),
            "network": min(network_s, work_s),
            "other waits": max(work_s - cpu_s - gc_s - network_s, 0.0),
        }
        return max(parts, key=lambda part: parts[part])

    def _busy_s(self, begin_s: float, end_s: float) -> float:
        """Time (s) of the tasks of all stages within a span."""
        busy_s = 0.0
        for first_s, last_s, *tasks_s in self.stages.values():
            overlap_s = min(end_s, last_s) - max(begin_s, first_s)
            if overlap_s > 0:
                busy_s += sum(tasks_s) * overlap_s / (last_s - first_s)
        return busy_s


#: The ratio of measured to simulated time, and a run.
ScaledRun = tuple[float, SimulatedRun]


def stage_forecasts(
    application: Application,
    today: Sequence[ScaledRun],
    on_target: Sequence[ScaledRun],
    spill_bytes: Mapping[int, int],
) -> list[StageForecast]:
    """The stages in the order of the log, each midway between two runs."""
    baseline, forecast = (
        [(scale, run.times_s()) for scale, run in runs] for runs in (today, on_target)
    )
    (_, now), (_, then) = today[-1], on_target[-1]
    forecasts = []
    for place in sorted(spill_bytes):
        stage = application.log.stages[place]
        baseline_s, baseline_at_s = _midway(baseline, place)
        forecast_s, forecast_at_s = _midway(forecast, place)
        forecasts.append(
            StageForecast(
                id=stage.id,
                name=stage.name,
                tasks=stage.task_count,
                shuffle_read_bytes=stage.shuffle_read_bytes,
                shuffle_write_bytes=stage.shuffle_write_bytes,
                spill_bytes=spill_bytes[place],
                baseline_s=baseline_s,
                forecast_s=forecast_s,
                baseline_at_s=baseline_at_s,
                forecast_at_s=forecast_at_s,
                baseline_bound_by=now.bound_by(place, stage),
                bound_by=then.bound_by(place, stage),
            )
        )
    return forecasts


def _midway(
    runs: Sequence[tuple[float, Mapping[int, StageTimes]]], place: int
) -> tuple[float, tuple[float, float]]:
    span_s, begin_s, end_s = (
        fmean(scale * times[place][number] for scale, times in runs) for number in range(3)
    )
    return span_s, (begin_s, end_s)
