"""PostgreSQL in experiments: data of our own, and a server on it for each query."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.engines.held import HeldQuery, Ran
from spillcast.engines.postgres_run import PostgresQuery, PostgresRun
from spillcast.engines.postgres_server import (
    Installation,
    PrivateServer,
    embedded,
    make_cluster,
    serve,
)
from spillcast.lab.postgres_queries import HASH, TABLE
from spillcast.lab.storages import Place
from spillcast.lab.workload import Workload
from spillcast.recording import Recording
from spillcast.recording.explain import recording_of_plan
from spillcast.recording.meta import ObservedEngine

if TYPE_CHECKING:
    import psycopg

#: The table stays in the server's memory: what varies between runs is the temp files' storage. It
#: does only when it is smaller than a quarter of the buffers.
SETTINGS = {
    "shared_buffers": "2GB",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": 0,
    "jit": "off",
    # A query whose client was killed ends.
    "client_connection_check_interval": "1s",
}
EXPLAIN = "explain (analyze, buffers, timing off, format json) "
READ_ALL = "select count(*) from t"


class PostgresEngine:
    """PostgreSQL with its data in a directory. InputError where the packages are missing."""

    def __init__(self, room: Path, installation: Installation | None = None) -> None:
        self._installation = installation or embedded()
        self._cluster = make_cluster(room, self._installation)
        self._rows: int | None = None

    @property
    def label(self) -> str:
        """Name and version."""
        return f"PostgreSQL {self._installation.version}"

    def build(self, rows: int) -> None:
        """Make the table, in place of one of another size."""
        if self._rows == rows:
            return
        with serve(self._cluster, SETTINGS) as server, server.connect() as connection:
            for statement in ("drop table if exists t", "drop function if exists hash", HASH):
                connection.execute(statement)
            connection.execute(TABLE.format(rows=rows).encode())
            connection.execute("vacuum (analyze, freeze) t")
        self._rows = rows

    @contextmanager
    def hold(
        self, workload: Workload, place: Place, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a backend of a server of its own, which has the table in memory."""
        surroundings = {**environment, **place.environment}
        with serve(self._cluster, SETTINGS, surroundings) as server:
            with server.connect() as connection:
                tablespace = _tablespace(server, connection, place.directory)
            query = PostgresQuery(
                workload.sql,
                {
                    "work_mem": workload.memory,
                    "temp_tablespaces": tablespace,
                    **workload.settings,
                },
                before=[READ_ALL],
            )
            with closing(PostgresRun(server, query)) as held:
                yield held

    def plan(self, workload: Workload, place: Place) -> tuple[Ran, Recording]:
        """The plan as EXPLAIN tells it, without the times of nodes, which would take some."""
        settings = {**workload.settings, "track_io_timing": "on"}
        explained = replace(workload, sql=EXPLAIN + workload.sql, settings=settings)
        with self.hold(explained, place, {}) as held:
            held.start()
            ran = held.result()
        [[document]] = json.loads(ran.rows)
        return ran, recording_of_plan(document)

    def describe(self, workload: Workload) -> ObservedEngine:
        """As a recording's meta.json keeps it."""
        return ObservedEngine(
            name="postgres",
            version=self._installation.version,
            sql=workload.sql.strip(),
            settings={
                "work_mem": workload.memory,
                "threads": workload.threads,
                "settings": dict(workload.settings),
            },
        )


def _tablespace(
    server: PrivateServer, connection: "psycopg.Connection[tuple[Any, ...]]", directory: Path
) -> str:
    """The tablespace in a directory, made if it is not there."""
    spaces = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
    found = connection.execute(spaces, (str(directory),)).fetchone()
    if found is not None:
        return str(found[0])
    server.give(directory)
    counted = connection.execute("select count(*) from pg_tablespace").fetchone()
    assert counted is not None
    name = f"spill{counted[0]}"
    # A directory is no parameter in PostgreSQL's grammar.
    from psycopg.sql import SQL, Literal

    make = SQL("create tablespace {} location {}").format(SQL(name), Literal(str(directory)))
    connection.execute(make)
    return name
