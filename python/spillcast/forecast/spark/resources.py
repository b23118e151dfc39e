"""Executors of an application: those of its log, and those that a question supposes instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from spillcast import _core
from spillcast.errors import EvidenceUnsuited
from spillcast.evidence.spark import Application
from spillcast.forecast.question import Question

#: What Spark keeps of the heap for itself, and its default for the share of the rest that sorts,
#: joins, aggregates and cached blocks may take (spark.memory.fraction).
RESERVED_BYTES, MEMORY_FRACTION = 300 << 20, 0.6
#: The default of spark.executor.memory, and of spark.driver.memory in local mode.
HEAP_BYTES = 1 << 30
#: A heap of which Spark leaves less to tasks does not start.
POOL_BYTES_MIN = 1 << 20
#: A node whose executors take all of its memory still caches some pages.
CACHE_BYTES_MIN = 64 << 20
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True)
class Executors:
    """How many executors an application has, and the cores and the heap of each."""

    number: int
    cores: int
    memory_bytes: int


@dataclass(frozen=True)
class Resources:
    """The executors of a log, and the node memory and task memory that follow from others."""

    today: Executors
    supposed: Executors
    #: Executors on a node, cores of a task, memory beside the heap, share of the heap for tasks.
    by_node: int
    task_cpus: int
    off_heap_bytes: int
    fraction: float

    @classmethod
    def of(cls, application: Application, question: Question) -> "Resources":
        """Those of a log, with what a question supposes. InputError if tasks would not fit."""
        properties, executors = application.log.properties, application.log.executors
        local = properties.get("spark.master", "").startswith("local")
        heap = properties.get("spark.driver.memory" if local else "spark.executor.memory")
        off_heap = properties.get("spark.memory.offHeap.enabled") == "true"
        nodes = len({executor.host for executor in executors})
        today = Executors(
            _most_at_once(application),
            max((executor.cores for executor in executors), default=1),
            java_bytes(heap, HEAP_BYTES),
        )
        supposed = Executors(
            question.executors or today.number,
            question.cores or today.cores,
            question.memory_bytes or today.memory_bytes,
        )
        resources = cls(
            today,
            supposed,
            by_node=ceil(len(executors) / max(nodes, 1)),
            task_cpus=application.task_cpus,
            off_heap_bytes=java_bytes(properties.get("spark.memory.offHeap.size"), 0) * off_heap,
            fraction=_number(properties, "spark.memory.fraction", MEMORY_FRACTION),
        )
        if question.memory_bytes and resources.pool_bytes(supposed) <= POOL_BYTES_MIN:
            problem = f"--memory: {question.memory_bytes >> 20} MiB leaves no memory for tasks"
            raise EvidenceUnsuited(problem, "Spark keeps 300 MiB of a heap for itself")
        return resources

    @property
    def changed(self) -> bool:
        """Whether the question supposes other executors."""
        return self.supposed != self.today

    def slots(self, executors: Executors) -> int:
        """Tasks that an executor runs at once."""
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
        """The application with the supposed executors."""
        if not self.changed:
            return core
        today, supposed = self.today, self.supposed
        factor = self.pool_bytes(supposed) / self.slots(supposed) / self.task_bytes
        return core.with_resources(
            supposed.number if supposed.number != today.number else None,
            supposed.cores if supposed.cores != today.cores else None,
            (self.task_bytes, factor) if factor != 1 else None,
        )

    def memory_without_spills(self, core: _core.SparkApplication) -> int | None:
        """The heap of today's executors with which no task spills; None where none does."""
        factor = core.memory_factor_without_spills(self.task_bytes)
        if factor is None:
            return None
        pool_bytes = factor * self.pool_bytes(self.today)
        heap_bytes = (pool_bytes - self.off_heap_bytes) / self.fraction + RESERVED_BYTES
        return ceil(heap_bytes / (1 << 28)) << 28

    def cache_bytes(self, cache_bytes: float, memory_bytes: int) -> float:
        """The page cache of a node of today's memory whose executors have another heap."""
        more_bytes = (memory_bytes - self.today.memory_bytes) * self.by_node
        return max(cache_bytes - more_bytes, min(cache_bytes, CACHE_BYTES_MIN))


def java_bytes(text: str | None, default: int) -> int:
    """Bytes from a size of Spark's properties, such as ``4g`` or ``512`` (MiB)."""
    text = (text or "").strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (text, "") if text[-1:].isdigit() else (text[:-1], text[-1:])
    try:
        return round(float(number) * _UNITS[unit])
    except (KeyError, ValueError):
        return default


def _number(properties: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(properties.get(name, default))
    except ValueError:
        return default


def _most_at_once(application: Application) -> int:
    """The most executors that the application had at a time."""
    changes = []
    for executor in application.log.executors:
        changes.append((executor.added_ms, 1))
        if executor.removed_ms is not None:
            changes.append((executor.removed_ms, -1))
    number = most = 0
    for _, change in sorted(changes):
        number += change
        most = max(most, number)
    return max(most, 1)
