"""TPC-H on DataFusion: the queries that spill. Others fit, end in 0.1 s, or have hash joins."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from spillcast.engines.datafusion import DataFusionLab
from spillcast.engines.engine import Workload
from spillcast.engines.held import HeldQuery
from spillcast_lab.tpc.suite import TPCH, Spilling, chill, warm, workloads

SPILLING = (
    Spilling("Q18", 130_000, 1.0, 1600, thread_kb=220_000),
    Spilling("Q20", 16_000, 0.6, 1100, thread_kb=16_000),
)


class DataFusionTpch(DataFusionLab):
    """DataFusion on TPC-H's tables in Parquet, at scale factor 1."""

    rows: ClassVar[int] = 6_000_000
    #: Tables generated and converted.
    load_s: ClassVar[float] = 30.0

    @classmethod
    def verified(cls, threads: int) -> Sequence[Workload]:
        """The queries of a verification."""
        spilling = [
            replace(query, memory_kb=query.memory_kb + (threads - 1) * (query.thread_kb or 0))
            for query in SPILLING
        ]
        return workloads(TPCH, spilling, threads, {}, cls.rows, cls.load_s)

    def build(self, rows: int) -> None:
        """Convert the tables with so many rows of the largest, if they are not there."""
        import datafusion

        files = self._tables(rows)
        if all(file.exists() for file in files.values()):
            return
        folder = TPCH.generate(self._room, rows)
        context = datafusion.SessionContext()
        for definition, (name, file) in zip(TPCH.definitions, files.items(), strict=True):
            location = f"stored as csv location '{folder / name}.csv'"
            header = "options ('format.has_header' 'true')"
            table = definition.replace("create table", "create external table", 1)
            context.sql(f"{table} {location} {header}")
            context.sql(f"copy {name} to '{file}'").collect()

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a process of its own, its tables cold or warm."""
        with super().hold(workload, temp, environment) as held:
            files = self._tables(workload.rows).values()
            (chill if workload.cold else warm)(files)
            yield held

    def _tables(self, rows: int) -> Mapping[str, Path]:
        return {name: self._room / f"{name}-{rows}.parquet" for name in TPCH.tables}
