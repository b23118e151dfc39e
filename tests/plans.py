"""Real PostgreSQL servers with two small tables, and plans of queries that spill on them."""

import json
from contextlib import contextmanager

from cases import nightly
from postgres_rig import of_debian, private_server
from spillcast.engines.postgres.server import embedded
from spillcast.workspace import workspace

INSTALLATIONS = [embedded(), *of_debian()]
#: The newest one, and nightly the others, for statements that do not depend on the version.
NEWEST = [embedded(), *nightly(*of_debian())]
SETTINGS = {
    "track_io_timing": "on",
    "work_mem": "1MB",
    "max_parallel_workers_per_gather": 0,
    "enable_mergejoin": "off",
}
#: Rows of ``big``.
ROWS = 100_000
TABLES = (
    "create table big as select i as id, md5(i::text) as t, (i * 7919::bigint) % 1000003 as k, "
    "i % 1000 as g from generate_series(1, {big}) i",
    "create table small as select i * 2 as id, (i * 104729::bigint) % 1000003 as k, "
    "i::numeric / 7 as n from generate_series(1, {small}) i",
    "analyze big",
    "analyze small",
)
PARALLEL = (
    "set max_parallel_workers_per_gather = 2",
    "set parallel_setup_cost = 0",
    "set parallel_tuple_cost = 0",
    "set min_parallel_table_scan_size = 0",
)
SORT = "select * from big order by k"
HASH = "select big.*, small.* from big join small on big.id = small.id"
AGGREGATE = "select k, count(*), max(t) from big group by k"
DISTINCT = "select count(distinct t) from big"


def fill(connection, rows=ROWS):
    """Creates the tables."""
    for statement in TABLES:
        connection.execute(statement.format(big=rows, small=rows * 4 // 5))


@contextmanager
def tables(installation, rows=ROWS, **settings):
    """A connection to a server that has the tables; 0.8 of ``rows`` are in ``small``."""
    with (
        workspace() as room,
        private_server(room, SETTINGS | settings, installation) as server,
        server.connect() as connection,
    ):
        fill(connection, rows)
        yield connection


def explain(connection, query, *options, before=()):
    """The document of a plan, or the lines of a text plan, after some statements."""
    connection.execute("reset all")
    for statement in before:
        connection.execute(statement)
    words = ", ".join(("analyze", "buffers", "settings", *options))
    rows = connection.execute(f"explain ({words}) {query}").fetchall()
    if "format json" in options:
        return rows[0][0][0]
    return [row[0] for row in rows]


def psql(lines):
    """Lines as psql prints them: a heading, a rule, and + where a value continues."""
    width = max(map(len, lines)) + 1
    value = [f" {line.ljust(width - 1)}+" for line in lines[:-1]] + [f" {lines[-1]}"]
    return "\n".join(["QUERY PLAN".center(width), "-" * (width + 1), *value, "(1 row)", ""])


def psql_json(document):
    """The same for FORMAT JSON."""
    return psql(json.dumps([document], indent=2).splitlines())
