"""DuckDB in experiments: a database file for each size of table, a process for each query."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar, Self

from spillcast.engines.duckdb import calibrating, queries
from spillcast.engines.engine import Calibrates, Lab, OpensOwn
from spillcast.engines.held import HeldQuery
from spillcast.engines.workload import Workload
from spillcast.errors import PathMissing
from spillcast.recording.meta import ObservedEngine


class DuckDbLab(Lab, Calibrates, OpensOwn):
    """DuckDB with its databases in a directory, or with one that somebody has."""

    demo: ClassVar[Workload] = queries.DEMO
    compresses_writes: ClassVar[bool] = True

    def __init__(self, room: Path, database: Path | None = None) -> None:
        import duckdb

        self._room = room
        self._given = database
        self._version = duckdb.__version__

    @classmethod
    def on(cls, room: Path, database: Path | None) -> Self:
        """With a database of the user's; without one, with an empty one."""
        import duckdb

        if database is None:
            database = room / "empty.db"
            duckdb.connect(str(database)).close()
        elif not database.is_file():
            raise PathMissing(f"--database {database}: there is no such file")
        return cls(room, database)

    @staticmethod
    def verified(threads: int) -> Sequence[Workload]:
        """The queries of a verification."""
        return queries.verified(threads)

    @staticmethod
    def calibrating() -> Sequence[Workload]:
        """The queries that measure a machine."""
        return calibrating.QUERIES

    @property
    def label(self) -> str:
        """Name and version."""
        return f"DuckDB {self._version}"

    def build(self, rows: int) -> None:
        """Make the table in a new database file, if it is not there."""
        import duckdb

        if self._given or self._database(rows).exists():
            return
        with duckdb.connect(str(self._database(rows))) as connection:
            connection.execute("set threads = 2")
            # It would go to stdout, which is for data.
            connection.execute("set enable_progress_bar = false")
            connection.execute(queries.TABLE.format(rows=rows))

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a process of its own."""
        settings = {
            "temp_directory": str(temp),
            "memory_limit": workload.memory,
            "threads": workload.threads,
            **workload.settings,
        }
        query = {
            "sql": workload.sql,
            "database": str(self._database(workload.rows)),
            "settings": settings,
        }
        module = "spillcast.engines.duckdb.process"
        with closing(HeldQuery("DuckDB", module, query, environment)) as held:
            yield held

    def describe(self, workload: Workload) -> ObservedEngine:
        """As a recording's meta.json keeps it."""
        return ObservedEngine(
            name="duckdb",
            version=self._version,
            sql=workload.sql.strip(),
            settings={"memory_limit": workload.memory, "threads": workload.threads},
        )

    def _database(self, rows: int) -> Path:
        return self._given or self._room / f"{rows}.db"
