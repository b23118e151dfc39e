"""PostgreSQL in experiments: generated data, and a new server on it for each query.

Only a server of its own gives each query its own environment (the preload library, its ring and
its delay, where neither perf events nor FUSE work). Nothing of one run remains in the next.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from spillcast.engines.engine import Calibrates, Explains, Lab
from spillcast.engines.held import HeldQuery, Ran
from spillcast.engines.postgres import calibrating, queries
from spillcast.engines.postgres.processes import WORKER_TITLE
from spillcast.engines.postgres.server import Installation, PrivateServer, make_cluster, serve
from spillcast.engines.workload import Workload
from spillcast.evidence.postgres import recording_of_plan
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.forecast.more_memory import Spill
from spillcast.forecast.work_memory.spills import HASH_MEM_MULTIPLIER, spills_of
from spillcast.recording import Recording
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


class PostgresLab(Lab, Calibrates, Explains):
    """PostgreSQL with its data in a directory. InputError where the packages are missing."""

    demo: ClassVar[Workload] = queries.DEMO
    compresses_writes: ClassVar[bool] = False
    #: Of the server.
    settings: ClassVar[Mapping[str, object]] = SETTINGS

    def __init__(self, room: Path, installation: Installation | None = None) -> None:
        self._cluster = make_cluster(room, installation)
        self._rows: int | None = None

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
        return f"PostgreSQL {self._cluster.installation.version}"

    def build(self, rows: int) -> None:
        """Make the table, in place of one of another size."""
        if self._rows == rows:
            return
        with serve(self._cluster, self.settings) as server, server.connect() as connection:
            for statement in (
                "drop table if exists t",
                "drop function if exists hash",
                queries.HASH,
            ):
                connection.execute(statement)
            connection.execute(queries.TABLE.format(rows=rows).encode())
            connection.execute("vacuum (analyze, freeze) t")
        self._rows = rows

    def before(self, workload: Workload) -> Sequence[str]:  # noqa: ARG002
        """Statements that bring the table into the server's memory."""
        return [READ_ALL]

    @contextmanager
    def hold(
        self, workload: Workload, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[HeldQuery]:
        """A query in a backend of a server of its own, which has the table in memory."""
        with serve(self._cluster, self.settings, environment) as server:
            with server.connect() as connection:
                tablespace = _tablespace(server, connection, temp)
            settings = {"work_mem": workload.memory, "temp_tablespaces": tablespace}
            before = self.before(workload)
            with held_in(server, workload.sql, {**settings, **workload.settings}, before) as held:
                yield held

    def explaining(self, workload: Workload) -> Workload:
        """EXPLAIN of a query, without the times of nodes, which would take some."""
        settings = {**workload.settings, "track_io_timing": "on"}
        return replace(workload, sql=EXPLAIN + workload.sql, settings=settings)

    def plan_of(self, ran: Ran) -> Recording:
        """What the plan counts that such a run returned."""
        [[document]] = json.loads(ran.rows)
        return recording_of_plan(document)

    def spills(self, workload: Workload, plan: Recording) -> Sequence[Spill]:
        """The nodes of such a plan that spill."""
        multiplier = float(workload.settings.get("hash_mem_multiplier", HASH_MEM_MULTIPLIER))
        document = plan.meta.engine.document or {}
        return spills_of(nodes_of(document["Plan"]), multiplier)

    def describe(self, workload: Workload) -> ObservedEngine:
        """As a recording's meta.json keeps it."""
        return ObservedEngine(
            name="postgres",
            version=self._cluster.installation.version,
            sql=workload.sql.strip(),
            settings={
                "work_mem": workload.memory,
                "threads": workload.threads,
                "settings": dict(workload.settings),
            },
        )


@contextmanager
def held_in(
    server: PrivateServer, sql: str, settings: Mapping[str, str], before: Sequence[str] = ()
) -> Iterator[HeldQuery]:
    """A query in a backend of ``server``, after the statements ``before``, held at a gate."""
    query = {
        "dsn": server.dsn,
        "postmaster": server.pid,
        "sql": sql,
        "settings": dict(settings),
        "before": list(before),
    }
    module = "spillcast.engines.postgres.process"
    with closing(HeldQuery("PostgreSQL", module, query)) as held:
        # Parallel workers are started by the postmaster.
        held.helpers = (server.pid, WORKER_TITLE.format(pid=held.pid))
        yield held


def _tablespace(
    server: PrivateServer, connection: "psycopg.Connection[tuple[Any, ...]]", directory: Path
) -> str:
    """The tablespace in a directory, made if it is not there."""
    spaces = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
    record = connection.execute(spaces, (str(directory),)).fetchone()
    if record is not None:
        return str(record[0])
    server.give(directory)
    counted = connection.execute("select count(*) from pg_tablespace").fetchone()
    assert counted is not None
    name = f"spill{counted[0]}"
    # A directory is no parameter in PostgreSQL's grammar.
    from psycopg.sql import SQL, Literal

    make = SQL("create tablespace {} location {}").format(SQL(name), Literal(str(directory)))
    connection.execute(make)
    return name
