"""DuckDB in experiments: a database file for each size of table, a process for each query."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from spillcast.engines.duckdb import DuckDb, Query, version
from spillcast.engines.held import HeldQuery
from spillcast.lab.duckdb_queries import TABLE
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording.meta import ObservedEngine


class DuckDbEngine:
    """DuckDB with its databases in a directory, or with one that somebody has."""

    def __init__(self, room: Path, database: Path | None = None) -> None:
        self._room = room
        self._given = database

    @property
    def label(self) -> str:
        """Name and version."""
        return f"DuckDB {version()}"

    def build(self, rows: int) -> None:
        """Make the table in a new database file, if it is not there."""
        import duckdb

        if self._given or self._database(rows).exists():
            return
        with duckdb.connect(str(self._database(rows))) as connection:
            connection.execute("set threads = 2")
            # It would go to stdout, which is for data.
            connection.execute("set enable_progress_bar = false")
            connection.execute(TABLE.format(rows=rows))

    @contextmanager
    def hold(
        self, workload: Workload, place: Place, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a process of its own."""
        query = Query(
            workload.sql,
            self._database(workload.rows),
            place.directory,
            workload.memory,
            workload.threads,
            workload.settings,
        )
        with closing(DuckDb(query, {**environment, **place.environment})) as held:
            yield held

    def describe(self, workload: Workload) -> ObservedEngine:
        """As a recording's meta.json keeps it."""
        return ObservedEngine(
            name="duckdb",
            version=version(),
            sql=workload.sql.strip(),
            settings={"memory_limit": workload.memory, "threads": workload.threads},
        )

    def _database(self, rows: int) -> Path:
        return self._given or self._room / f"{rows}.db"


def make_empty(database: Path) -> None:
    """A database without tables, for queries that find their data themselves."""
    import duckdb

    duckdb.connect(str(database)).close()
