"""TPC-H on DuckDB: ten queries that spill."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spillcast.engines.duckdb.lab import DuckDbLab
from spillcast.engines.engine import Workload
from spillcast.engines.held import HeldQuery
from spillcast_lab.tpch.data import Spilling, chill, copies, definitions, made, warm, workloads

#: Optimizers that keep hash tables small, without which these queries spill at this size.
SMALLER = (
    "join_filter_pushdown,compressed_materialization,late_materialization,statistics_propagation"
)
WRITTEN_ORDER = {"disabled_optimizers": f"build_side_probe_side,join_order,{SMALLER}"}
LARGE_SIDE = {"disabled_optimizers": f"build_side_probe_side,{SMALLER}"}
SPILLING = (
    Spilling(3, 25_000, 0.8, 500, WRITTEN_ORDER),
    Spilling(4, 30_000, 0.5, 300, WRITTEN_ORDER),
    Spilling(5, 65_000, 1.1, 1400, WRITTEN_ORDER),
    Spilling(7, 65_000, 1.3, 900, WRITTEN_ORDER),
    Spilling(8, 120_000, 2.5, 4200, WRITTEN_ORDER),
    Spilling(9, 100_000, 2.0, 2000, LARGE_SIDE),
    Spilling(10, 40_000, 0.7, 370, WRITTEN_ORDER),
    Spilling(13, 20_000, 0.5, 130, WRITTEN_ORDER),
    Spilling(18, 80_000, 2.4, 1800, WRITTEN_ORDER),
    Spilling(21, 110_000, 3.2, 3700, WRITTEN_ORDER),
)
#: Each thread after the first holds blocks of its own, so much; in some queries more.
THREAD_KB = 8_000
MORE_THREAD_KB = {4: 16_000, 10: 18_000}
#: Tables generated and loaded.
LOAD_S = 60.0


class DuckDbTpch(DuckDbLab):
    """DuckDB on a database file of TPC-H's tables."""

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """The queries of a verification."""
        given = [
            replace(query, memory_kb=query.memory_kb + (threads - 1) * _thread_kb(query.number))
            for query in SPILLING
        ]
        return workloads(given, threads, "{}kB", {}, LOAD_S)

    def build(self, rows: int) -> None:
        """Load the tables with so many rows of lineitem, if they are not there."""
        import duckdb

        database = self._database(rows)
        if database.exists():
            return
        folder = made(self._room, rows)
        with duckdb.connect(str(database)) as connection:
            connection.execute("set enable_progress_bar = false")
            for statement in definitions():
                connection.execute(statement)
            for _, statement in copies(folder, ""):
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
        return self._room / f"tpch-{rows}.db"


def _thread_kb(number: int) -> int:
    return MORE_THREAD_KB.get(number, THREAD_KB)
