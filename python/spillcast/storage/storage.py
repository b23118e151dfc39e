"""A storage: measured latencies by op, size and depth, kept as histograms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spillcast.errors import InputError
from spillcast.storage.limit import Limit, limit_of
from spillcast.tabular import Tabular, html_paragraph, html_table
from spillcast.units import format_bytes, format_duration
from spillcast.workspace import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

STORAGE_SCHEMA = "spillcast.storage/1"


def histogram_quantile_s(
    latency_ns: Sequence[float], latency_count: Sequence[int], quantile: float
) -> float:
    """Latency below which this share of a histogram lies, which holds something."""
    counts = np.cumsum(latency_count)
    at = int(np.searchsorted(counts, quantile * counts[-1]))
    return latency_ns[min(at, len(latency_ns) - 1)] / 1e9


@dataclass(frozen=True)
class Group:
    """The operations of one op, size class and pattern at one depth."""

    op: str
    size_class_bytes: int
    depth: int
    count: int
    bytes: int
    total_ns: int
    #: Histogram: middle of each bucket and number of operations in it.
    latency_ns: Sequence[int]
    latency_count: Sequence[int]
    #: Count and mean latency of consecutive stretches of the measurement, in the order of time.
    block_count: Sequence[int]
    block_mean_ns: Sequence[int]
    #: ``recorded`` where the offsets are those of a recording, else ``sequential`` or ``random``.
    pattern: str = "recorded"
    #: ``buffered`` through the page cache, or ``direct``.
    access: str = "buffered"
    #: In which the operations were done, one after the other or ``depth`` at once: their count over
    #: it is their rate. None where others were done in between.
    elapsed_ns: int | None = None

    @property
    def mean_s(self) -> float:
        """Mean latency."""
        return self.total_ns / self.count / 1e9 if self.count else float("nan")

    def quantile_s(self, quantile: float) -> float:
        """Latency below which this share of the operations lies."""
        return histogram_quantile_s(self.latency_ns, self.latency_count, quantile)


@dataclass(frozen=True)
class Storage(Tabular):
    """Latencies of one storage and where they come from.

    ``source`` is ``probe`` (measured with the I/O of a recording), ``grid`` (measured without one),
    ``recording`` (seen by an engine), ``catalogue`` (looked up) or ``asked`` (somebody's wish).
    ``limits`` and ``servers`` (operations served at once; None for all) are stated, not measured:
    latencies are those of an operation that finds the storage idle. ``facts`` holds what else is
    known: file system, replayed and skipped steps, where figures come from.
    """

    name: str
    source: str
    groups: Sequence[Group]
    facts: Mapping[str, Any] = field(default_factory=dict)
    limits: Sequence[Limit] = ()
    servers: int | None = None

    def of(self, op: str) -> list[Group]:
        """The groups of an op, smallest size first."""
        return sorted((g for g in self.groups if g.op == op), key=lambda g: g.size_class_bytes)

    def to_arrow(self) -> "pa.Table":
        """A row for each group, with the keys of a group in docs/schema.md."""
        import pyarrow as pa

        types = {"op": pa.string(), "pattern": pa.string(), "access": pa.string()}
        lists = ("latency_ns", "latency_count", "block_count", "block_mean_ns")
        types |= dict.fromkeys(lists, pa.list_(pa.int64()))
        schema = pa.schema({key.name: types.get(key.name, pa.int64()) for key in fields(Group)})
        rows = [{key: _plain(value) for key, value in asdict(g).items()} for g in self.groups]
        return pa.Table.from_pylist(rows, schema)

    def _repr_html_(self) -> str:
        """A row for each op and size."""
        rows = [
            [
                *(group.op, format_bytes(group.size_class_bytes), group.pattern, f"{group.depth}"),
                *(f"{group.count:,}", format_duration(group.mean_s)),
                *(format_duration(group.quantile_s(q)) for q in (0.5, 0.99)),
            ]
            for op in ("read", "write")
            for group in self.of(op)
            if group.count
        ]
        header = ["op", "size", "pattern", "depth", "count", "mean", "p50", "p99"]
        return html_paragraph(f"{self.name} ({self.source})") + html_table(header, rows, (0, 2))

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        groups = [{key: _plain(value) for key, value in asdict(g).items()} for g in self.groups]
        return {
            "schema": STORAGE_SCHEMA,
            "name": self.name,
            "source": self.source,
            "groups": groups,
            "limits": [limit.to_json() for limit in self.limits],
            "servers": self.servers,
            "facts": dict(self.facts),
        }

    def save(self, path: Path) -> None:
        """Write the document, whole or not at all."""
        with whole_file(path) as partial:
            partial.write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Storage":
        """Read a document. InputError says what is wrong with it."""
        try:
            document = json.loads(path.read_text())
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise InputError(f"{path}: not JSON, or cut: {error}", "probe again") from error
        return cls.from_json(document, str(path))

    @classmethod
    def from_json(cls, document: Any, where: str) -> "Storage":
        """The storage of a document. InputError says what is wrong with it, and ``where``."""
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != STORAGE_SCHEMA:
            raise InputError(
                f"{where}: schema is {schema!r}, this spillcast reads {STORAGE_SCHEMA!r}",
                "make it with: spillcast probe DIR --grid -o storage.json",
            )
        try:
            return cls(
                document["name"],
                document["source"],
                [_group_of(group) for group in document["groups"]],
                document["facts"],
                [limit_of(limit) for limit in document.get("limits", ())],
                document.get("servers"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: damaged: {error}", "probe again") from error

    def scaled(self, factor: float, name: str) -> "Storage":
        """The same storage with every latency multiplied by ``factor``."""
        groups = [
            replace(
                g,
                total_ns=round(g.total_ns * factor),
                latency_ns=[round(ns * factor) for ns in g.latency_ns],
                block_mean_ns=[round(ns * factor) for ns in g.block_mean_ns],
                elapsed_ns=None,
            )
            for g in self.groups
        ]
        return Storage(name, "asked", groups, dict(self.facts))


def _group_of(document: Mapping[str, Any]) -> Group:
    """A group from its document. TypeError or ValueError where its figures do not go together."""
    group = Group(**document)
    for middles, counts in (
        (group.latency_ns, group.latency_count),
        (group.block_mean_ns, group.block_count),
    ):
        numbers = np.asarray([middles, counts], dtype=float)
        if numbers.min(initial=0) < 0 or round(numbers[1].sum()) != group.count:
            raise ValueError(f"a group of {group.op}s does not add up to its count")
    if group.op not in ("read", "write") or min(group.size_class_bytes, group.depth) < 1:
        raise ValueError("a group of no op, size or depth")
    return group


def _plain(value: Any) -> Any:
    return [int(v) for v in value] if isinstance(value, list | tuple | np.ndarray) else value


def name_of(directory: Path) -> str:
    """What a measured directory is called: as it was given, unless that is ``.`` or ``..``."""
    return str(directory if directory.name.strip(".") else directory.resolve())
