"""A storage: latencies by op, size and depth as histograms, rate limits, and other facts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import stats
from spillcast.document import internal, key, read, written
from spillcast.errors import SchemaUnsupported
from spillcast.gate import json_of, reading, text_of
from spillcast.public import checked
from spillcast.recording import OPS
from spillcast.storage.source import ASSUMED, Provenance, StorageSource, source_of
from spillcast.tabular import Column, Display, Tabular
from spillcast.workspace import whole_file

if TYPE_CHECKING:
    from spillcast.tables import Table


@dataclass(frozen=True)
class Limit:
    """A token bucket of device time that operations consume; it fills in real time.

    An operation of n bytes costs ``base + n * ns_per_byte``; above ``operation_bytes`` it counts as
    several. It starts as soon as the bucket covers its cost. With ``burst_ns`` 0 every operation
    first waits for its own cost, as on a bus or a disk. With a larger value, operations wait only
    once the burst is used up, as on a rented volume.
    """

    name: str = key("its name", example="iops")
    read_random_ns: float = key(
        "device time of an operation", unit="ns", example=333333.3, default=0.0, later=True
    )
    read_sequential_ns: float = key("the same", unit="ns", default=0.0, later=True)
    write_random_ns: float = key("the same", unit="ns", default=0.0, later=True)
    write_sequential_ns: float = key("the same", unit="ns", default=0.0, later=True)
    read_ns_per_byte: float = key(
        "device time of a byte", unit="ns", example=7.63, default=0.0, later=True
    )
    write_ns_per_byte: float = key("the same", unit="ns", default=0.0, later=True)
    operation_bytes: int | None = key(
        "larger operations count as several; null: never", unit="bytes", example=262144, later=True
    )
    burst_ns: float = key("capacity of the bucket", unit="ns", default=0.0, later=True)

    def __post_init__(self) -> None:
        if self.operation_bytes == 0:
            raise ValueError(f"operations of limit '{self.name}' count by 0 bytes")

    def cost_ns(self, op: str, size_bytes: int, *, sequential: bool) -> float:
        """Device time of one operation."""
        read, pattern = op == "read", "sequential" if sequential else "random"
        base_ns: float = getattr(self, f"{op}_{pattern}_ns")
        if self.operation_bytes is not None:
            base_ns *= -(-size_bytes // self.operation_bytes)
        return base_ns + size_bytes * (self.read_ns_per_byte if read else self.write_ns_per_byte)

    def scaled(self, read: float, write: float) -> "Limit":
        """The limit with the device time of reads and of writes multiplied by these factors."""
        costs = {
            field.name: factor * getattr(self, field.name)
            for op, factor in (("read", read), ("write", write))
            for field in fields(self)
            if field.name.startswith(f"{op}_")
        }
        return replace(self, **costs)


#: Burst of a rate, in seconds at that rate, so that single operations are not delayed. Products do
#: not document it; it is too short to affect a run.
BURST_S = 0.1


def operations_limit(per_s: float, *, burst: float = 0.0) -> Limit:
    """A limit of ``per_s`` operations per second, reads plus writes, with a burst of operations."""
    ns = 1e9 / per_s
    return Limit("iops", ns, ns, ns, ns, burst_ns=burst * ns)


def bytes_limit(name: str, per_s: float, *, burst: float = 0.0) -> Limit:
    """A limit of ``per_s`` bytes per second, reads plus writes, with a burst of bytes."""
    ns = 1e9 / per_s
    return Limit(name, read_ns_per_byte=ns, write_ns_per_byte=ns, burst_ns=burst * ns)


def write_cache_limit(cache_bytes: float, bytes_per_s: float) -> Limit:
    """A write cache: writes are limited to ``bytes_per_s`` after a burst of ``cache_bytes``."""
    ns = 1e9 / bytes_per_s
    return Limit("write cache", write_ns_per_byte=ns, burst_ns=cache_bytes * ns)


@dataclass(frozen=True)
class Sustained:
    """The result of sustained writing."""

    bytes: int
    reached: bool
    burst_bytes_per_s: float
    dirty_limit_bytes: int | None = None
    burst_bytes: int | None = None
    sustained_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.reached and None in (self.burst_bytes, self.sustained_bytes_per_s):
            raise ValueError("sustained lacks burst_bytes or sustained_bytes_per_s")


@dataclass(frozen=True)
class CachePart:
    """A device of a simulated cache."""

    name: str
    source: str
    facts: Mapping[str, Any]
    error: float = 0.0


@dataclass(frozen=True)
class StorageFacts:
    """The facts that code reads, with the keys of docs/schema.md; all are optional."""

    directory: str | None = None
    filesystem: str | None = None
    network: bool | None = None
    free_bytes: int | None = None
    quota_free_bytes: int | None = None
    quota_of: str | None = None
    elapsed_ns: int | None = None
    floor_ns: int | None = None
    like: str | None = None
    threads: int | None = None
    in_flight: float | None = None
    closed_loop: bool | None = None
    think_scale: float | None = None
    #: Of a replay: how often it was repeated because others used the CPUs, the time its threads
    #: were runnable without a CPU within operations and elsewhere, and the parts due to others.
    repeated: int | None = None
    run_queue_io_ns: int | None = None
    run_queue_ns: int | None = None
    run_queue_others_ns: int | None = None
    others_cpu_share: float | None = None
    steps_replayed: int | None = None
    steps_skipped: int | None = None
    prefilled_bytes: int | None = None
    working_set_bytes: int | None = None
    byte_share: float | None = None
    page_cache_bytes: int | None = None
    memory_bound: int | None = None
    memory_bound_reason: str | None = None
    direct_refusal: str | None = None
    io_uring_refusal: str | None = None
    cells: int | None = None
    cells_without_time: int | None = None
    cells_without_room: int | None = None
    sustained: Sustained | None = None
    description: str | None = None
    advice: Sequence[str] = ()
    parts: Sequence[CachePart] = ()


def nonnull_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without keys that are null in a document."""
    return {name: fact for name, fact in facts.items() if fact is not None}


@dataclass(frozen=True)
class _WithFacts:
    """The document key by which an error names a fact."""

    facts: StorageFacts = key("")


def check_facts(facts: Mapping[str, Any]) -> None:
    """EvidenceDamaged if a fact of the storage or of one of its parts has a wrong type."""
    for part in read(_WithFacts, {"facts": dict(facts)}).facts.parts:
        check_facts(part.facts)


STORAGE_SCHEMA = "spillcast.storage/1"


def uniform(latency_ns: int, count: int) -> dict[str, Any]:
    """The histogram and stretches of a ``Group`` whose operations all take ``latency_ns``."""
    return {
        "latency_ns": [latency_ns],
        "latency_count": [count],
        "block_count": [count],
        "block_mean_ns": [latency_ns],
    }


@dataclass(frozen=True)
class Group:
    """The measured operations of one op, size class and pattern at one depth."""

    op: str = key("`read` or `write`", example="read")
    size_class_bytes: int = key(
        "size, rounded up to an eighth of its power of two", unit="bytes", example=262144
    )
    depth: int = key("operations in flight; for a replay, threads that did I/O", example=1)
    count: int = key("operations", example=1145)
    bytes: int = key("bytes moved", unit="bytes", example=300154880)
    total_ns: int = key("sum of latencies", unit="ns", example=84890431)
    latency_ns: Sequence[int] = key(
        "histogram: middle of each bucket, to within 1 %", unit="ns", example=[73984]
    )
    latency_count: Sequence[int] = key("histogram: operations in each bucket", example=[1145])
    block_count: Sequence[int] = key(
        "operations in consecutive stretches of the measurement", example=[58]
    )
    block_mean_ns: Sequence[int] = key("mean latency in each stretch", unit="ns", example=[74140])
    pattern: str = key(
        "`recorded` if the offsets are those of a recording, else `sequential` or `random`",
        example="recorded", default="recorded", later=True,
    )  # fmt: skip
    access: str = key(
        "`buffered` through the page cache, or `direct`",
        example="buffered", default="buffered", later=True,
    )  # fmt: skip
    elapsed_ns: int | None = key(
        "time in which they were done at this depth, so that `count` divided by it is their rate; "
        "null if other operations were done in between",
        unit="ns",
        example=1030211841,
        later=True,
    )

    def scaled(self, factor: float) -> "Group":
        """The same operations, each of which takes ``factor`` times as long."""
        return replace(
            self,
            total_ns=round(self.total_ns * factor),
            latency_ns=[round(ns * factor) for ns in self.latency_ns],
            block_mean_ns=[round(ns * factor) for ns in self.block_mean_ns],
            elapsed_ns=None,
        )

    def taking(self, mean_ns: int) -> "Group":
        """The same operations, each of which takes ``mean_ns``."""
        total_ns = mean_ns * self.count
        return replace(self, total_ns=total_ns, elapsed_ns=None, **uniform(mean_ns, self.count))

    @property
    def kind(self) -> tuple[str, int]:
        """Op and size class."""
        return self.op, self.size_class_bytes

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.total_ns / self.count / 1e9 if self.count else float("nan")

    def quantile_s(self, quantile: float) -> float:
        """Latency (s) below which the share ``quantile`` of the operations lies."""
        return stats.quantile(self.latency_ns, self.latency_count, quantile) / 1e9


PATTERNS = ("sequential", "random")
#: 4 KiB to 1 MiB.
SIZES_BYTES = tuple(4096 << doubling for doubling in range(9))


def unloaded_groups(base_ns: Mapping[tuple[str, str], float], ns_per_byte: float) -> list[Group]:
    """Groups of one operation for each op, pattern and size: ``base_ns`` plus ``ns_per_byte``."""

    def group(op: str, pattern: str, size: int) -> Group:
        ns = round(base_ns[op, pattern] + size * ns_per_byte)
        return Group(
            op=op,
            size_class_bytes=size,
            depth=1,
            count=1,
            bytes=size,
            total_ns=ns,
            pattern=pattern,
            access="direct",
            **uniform(ns, 1),
        )

    return [group(op, each, size) for op in OPS for each in PATTERNS for size in SIZES_BYTES]


@dataclass(frozen=True)
class Changes:
    """Calls of one kind that create, resize, sync, remove or look up files."""

    event: str = key("system call", example="ftruncate")
    count: int = key("calls", example=212)
    total_ns: int = key("sum of latencies", unit="ns", example=8127364)
    latency_ns: Sequence[int] = key(
        "histogram: middle of each bucket, to within 1 %", unit="ns", example=[38144]
    )
    latency_count: Sequence[int] = key("histogram: calls in each bucket", example=[212])

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.total_ns / self.count / 1e9 if self.count else float("nan")


@dataclass(frozen=True, repr=False)
class Storage(Tabular):
    """Latencies of one storage, and their source: storage.json.

    ``limits`` and ``servers`` (operations served concurrently; None for all) are stated, not
    measured: latencies are of an operation on the idle storage. ``facts`` contains other facts:
    file system, replayed and skipped steps, sources of figures.
    """

    name: str = key("its name", example="/mnt/nvme")
    source: StorageSource = key(
        "`probe`, `grid`, `recording`, `catalogue`, `asked` (assumed) or `cache` (flash in front "
        "of a disk, simulated)",
        example="probe", form=str,
    )  # fmt: skip
    groups: Sequence[Group] = key("operations of one op, size, depth, pattern and access")
    facts: Mapping[str, Any] = key(
        "other facts; those of a probe are below, other sources have others", default=dict
    )
    limits: Sequence[Limit] = key(
        "token buckets of device time, filled at one second per second",
        default=(), later=True,
    )  # fmt: skip
    servers: int | None = key("operations served at once; null for all", example=None, later=True)
    changes: Sequence[Changes] = key(
        "calls of one kind that create, resize, sync, remove or look up files",
        default=(),
        later=True,
    )
    #: When, where and how it was measured; None if the document lacks it.
    provenance: Provenance | None = key("", optional=True)
    #: The first part of the query as run on the storage, a ``Rehearsal``.
    rehearsal: Any = internal()
    #: If latencies are relative to a run with bounds: the storage at each of the run's bounds.
    at_bounds: "Sequence[Storage]" = internal(())
    #: Whether no operation takes longer on it than today.
    never_slower: bool = internal(default=False)

    def of(self, op: str) -> list[Group]:
        """The groups of an op, smallest size first."""
        return sorted((g for g in self.groups if g.op == op), key=lambda g: g.size_class_bytes)

    def to_arrow(self) -> "Table":
        """A row for each group, with the keys of a group in docs/schema.md."""
        from spillcast.columns import TEXT, Field
        from spillcast.tables import Table

        types = {"op": TEXT, "pattern": TEXT, "access": TEXT}
        lists = ("latency_ns", "latency_count", "block_count", "block_mean_ns")
        types |= dict.fromkeys(lists, "list of int64")
        columns = [Field(field.name, types.get(field.name, "int64")) for field in fields(Group)]
        return Table.from_rows(written(self.groups), columns)

    def display(self) -> Display:
        """A row for each op and size."""
        rows = [
            [
                *(group.op, group.size_class_bytes, group.pattern, group.depth, group.count),
                *(group.mean_s, group.quantile_s(0.5), group.quantile_s(0.99)),
            ]
            for op in OPS
            for group in self.of(op)
            if group.count
        ]
        units = {"size": "bytes", "depth": "count", "count": "count"}
        units |= dict.fromkeys(("mean", "p50", "p99"), "s")
        names = ("op", "size", "pattern", "depth", "count", "mean", "p50", "p99")
        columns = [Column(name, None, units.get(name, "text")) for name in names]
        return Display(f"{self.name} ({self.source.name})", columns, rows)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": STORAGE_SCHEMA, **written(self), "source": self.source.name}

    @checked
    def save(self, path: str | Path) -> None:
        """Write the document, completely or not at all."""
        with whole_file(Path(path)) as partial:
            partial.write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    @checked
    def load(cls, path: str | Path) -> "Storage":
        """Read a document. InputError if it is invalid."""
        path = Path(path)
        with reading(path):
            return cls.from_json(json_of(text_of(path)))

    @classmethod
    @reading(hint="probe again")
    def from_json(cls, document: Any) -> "Storage":
        """The storage of a document. InputError if it is invalid."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != STORAGE_SCHEMA:
            given = "it has no schema" if schema is None else f"its schema is {schema!r}"
            raise SchemaUnsupported(
                f"not a storage: {given}, this spillcast reads {STORAGE_SCHEMA!r}",
                "make it with: spillcast probe DIR --grid -o storage.json",
            )
        stored = read(cls, document)
        check_facts(stored.facts)
        for group in stored.groups:
            _check(group)
        for change in stored.changes:
            _check_histogram(change.event, change)
        return replace(stored, source=source_of(document["source"], stored.facts))

    def scaled(self, factor: float, name: str) -> "Storage":
        """The same storage with every latency multiplied by ``factor``."""
        groups = [group.scaled(factor) for group in self.groups]
        return Storage(name, ASSUMED, groups, dict(self.facts), never_slower=factor <= 1)


def _check(group: Group) -> None:
    """ValueError if the figures of a group contradict each other."""
    group_name = f"a group of {group.op}s"
    _check_histogram(group_name, group)
    _check_counts(group_name, group.count, group.block_mean_ns, group.block_count)
    # Means are rounded to whole nanoseconds, and a factor scales the rounding error.
    apart_ns = abs(sum(map(mul, group.block_count, group.block_mean_ns)) - group.total_ns)
    if apart_ns > max(group.count, group.total_ns // 100):
        raise ValueError(f"{group_name} does not add up to its time")
    if group.op not in OPS or min(group.size_class_bytes, group.depth) < 1:
        raise ValueError("a group of no op, size or depth")


def _check_histogram(name: str, of: Group | Changes) -> None:
    """ValueError if a histogram does not match the operations: wrong count, order or unit."""
    _check_counts(name, of.count, of.latency_ns, of.latency_count)
    if list(of.latency_ns) != sorted(of.latency_ns):
        raise ValueError(f"{name} has latencies that do not ascend")
    # A histogram from percentiles lacks its ends; a wrong unit is a factor of 1000.
    if of.count and not (
        of.latency_ns[0] / 10 - 1 <= of.total_ns / of.count <= 10 * of.latency_ns[-1] + 1
    ):
        raise ValueError(f"{name} has a mean latency far outside of its histogram")


def _check_counts(
    group_name: str, count: int, middles: Sequence[int], counts: Sequence[int]
) -> None:
    if len(middles) != len(counts) or sum(counts) != count:
        raise ValueError(f"{group_name} does not add up to its count")


def name_of(directory: Path) -> str:
    """The name of a measured directory: as given, unless it is ``.`` or ``..``."""
    return str(directory if directory.name.strip(".") else directory.resolve())
