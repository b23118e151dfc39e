"""TPC-H and TPC-DS on DuckDB: ten queries of each that spill."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from spillcast.engines.duckdb.lab import DuckDbLab
from spillcast.engines.engine import Workload
from spillcast.engines.held import HeldQuery
from spillcast_lab.tpc.suite import TPCDS, TPCH, Spilling, Suite, chill, warm, workloads

#: Optimizers that keep hash tables small, without which TPC-H's queries spill at this size.
SMALLER = (
    "join_filter_pushdown,compressed_materialization,late_materialization,statistics_propagation"
)
WRITTEN_ORDER = {"disabled_optimizers": f"build_side_probe_side,join_order,{SMALLER}"}
LARGE_SIDE = {"disabled_optimizers": f"build_side_probe_side,{SMALLER}"}
TPCH_SPILLING = (
    Spilling("Q3", 25_000, 0.8, 500, settings=WRITTEN_ORDER),
    Spilling("Q4", 30_000, 0.5, 300, 16_000, WRITTEN_ORDER),
    Spilling("Q5", 65_000, 1.1, 1400, settings=WRITTEN_ORDER),
    Spilling("Q7", 65_000, 1.3, 900, settings=WRITTEN_ORDER),
    Spilling("Q8", 120_000, 2.5, 4200, settings=WRITTEN_ORDER),
    Spilling("Q9", 100_000, 2.0, 2000, settings=LARGE_SIDE),
    Spilling("Q10", 40_000, 0.7, 370, 18_000, WRITTEN_ORDER),
    Spilling("Q13", 20_000, 0.5, 130, settings=WRITTEN_ORDER),
    Spilling("Q18", 80_000, 2.4, 1800, settings=WRITTEN_ORDER),
    Spilling("Q21", 110_000, 3.2, 3700, settings=WRITTEN_ORDER),
)
TPCDS_SPILLING = (
    Spilling("Q23", 60_000, 1.8, 2700, 24_000),
    Spilling("Q51", 40_000, 1.1, 1600, 24_000),
    Spilling("Q67", 100_000, 2.3, 4400),
    Spilling("Q78", 60_000, 1.1, 4100, 24_000),
    Spilling("sort", 40_000, 1.0, 1500),
    Spilling("window", 40_000, 1.7, 3100),
    Spilling("wide-group", 80_000, 1.1, 2100),
    Spilling("self-join", 50_000, 1.1, 2200),
    Spilling("union", 60_000, 0.9, 1600),
    Spilling("string-keys", 200_000, 3.3, 5700),
)
#: Each thread after the first holds blocks of its own, so much.
THREAD_KB = 8_000


class DuckDbTpch(DuckDbLab):
    """DuckDB on a database file of TPC-H's tables."""

    suite: ClassVar[Suite] = TPCH
    spilling: ClassVar[Sequence[Spilling]] = TPCH_SPILLING
    rows: ClassVar[int] = 6_000_000
    #: Tables generated and loaded.
    load_s: ClassVar[float] = 25.0

    @classmethod
    def verified(cls, threads: int) -> Sequence[Workload]:
        """The queries of a verification."""
        more = threads - 1
        spilling = [
            replace(query, memory_kb=query.memory_kb + more * (query.thread_kb or THREAD_KB))
            for query in cls.spilling
        ]
        return workloads(cls.suite, spilling, threads, {}, cls.rows, cls.load_s)

    def build(self, rows: int) -> None:
        """Load the tables with so many rows of the largest, if they are not there."""
        import duckdb

        database = self._database(rows)
        if database.exists():
            return
        folder = self.suite.generate(self._room, rows)
        with duckdb.connect(str(database)) as connection:
            connection.execute("set enable_progress_bar = false")
            for statement in self.suite.definitions:
                connection.execute(statement)
            for _, statement in self.suite.copies(folder):
                connection.execute(statement)

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a process of its own, its tables cold or warm."""
        with super().hold(workload, temp, environment) as held:
            # It has opened the database by now.
            (chill if workload.cold else warm)([self._database(workload.rows)])
            yield held

    def _database(self, rows: int) -> Path:
        return self._room / f"{self.suite.name}-{rows}.db"


class DuckDbTpcds(DuckDbTpch):
    """DuckDB on a database file of TPC-DS's tables, at scale factor 2 with all optimizers."""

    suite = TPCDS
    spilling = TPCDS_SPILLING
    rows = 5_760_000
    load_s = 25.0
