"""What is verified of each engine: which queries, from which storages to which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spillcast.lab import duckdb_queries, postgres_queries
from spillcast.lab.engine import EngineName
from spillcast.lab.storages import Emulated
from spillcast.lab.workload import Workload


@dataclass(frozen=True)
class Matrix:
    """Queries of an engine, emulated storages, and a plain one: shared memory or the disk."""

    engine: EngineName
    workloads: Sequence[Workload]
    storages: Sequence[Emulated]
    plain: Literal["tmpfs", "disk"]
    #: The names of the storages that are forecast from; None for every one.
    sources: Sequence[str] | None = None


EVEN = (
    Emulated("0.3 ms", 0.0003, 0.0003),
    Emulated("1 ms", 0.001, 0.001),
    Emulated("5 ms", 0.005, 0.005),
)
UNEVEN = (
    Emulated("reads 1.5, writes 0.2 ms", 0.0015, 0.0002),
    Emulated("reads 0.2, writes 1.5 ms", 0.0002, 0.0015),
    Emulated("0.1 ms, 100 MB/s", 0.0001, 0.0001, bytes_per_s=100e6),
)

MATRICES: dict[EngineName, Matrix] = {
    "duckdb": Matrix("duckdb", duckdb_queries.VERIFIED, EVEN, "tmpfs"),
    "postgres": Matrix(
        "postgres", postgres_queries.VERIFIED, (*EVEN, *UNEVEN), "disk", sources=("disk",)
    ),
}
