"""Queries on traces, some of them answered while rows are read, equal those on stored rows."""

import gzip

import duckdb
import pyarrow as pa
import pytest

from cases import cases
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast import _core
from spillcast.errors import EvidenceDamaged
from spillcast.evidence.oracle.trace import TABLES
from spillcast.profile.sql import requested, run_sql

WAITS = [(READ, 100 + n % 700, blocks(n % 32)) for n in range(800)] + [
    (WRITE, 7, blocks(31, 203))
] * 40
QUERIES = [
    "select event, count(*), sum(elapsed_ns) from waits group by all order by 1",
    "select count(*) from waits",
    "select count(*) from waits where temp and op = 'read' and not idle",
    "select file, sql_id, session, max(p3 + blocks), min(line) from waits group by all order by 1",
    "select * from waits order by line limit 5",
    "select sum(b) from (select p3 as b, p1 from waits) where b > 3",
    "select w.event, count(*), min(text) from waits w join statements using (sql_id) group by 1",
    "select count(*) from waits a join waits b on a.line = b.line",
    "with x as (select object from waits) select count(*), max(object) from x, (select 1)",
    "select text, sql_id, len from statements",
    "select count(*), sum(dep) from calls",
    "select count(*) from call_tree",
    "select 1 as one",
    "select event, count(*), sum(elapsed_ns) from waits group by all order by 1",
    "select count(*), count(), min(event), max(op), count(distinct event) from waits",
    "select count(*), sum(p1), avg(p1), min(p1), max(p1), count(object), sum(bytes) from waits "
    "where event = 'none'",
    "select event, file, avg(elapsed_ns), min(elapsed_ns), max(line), count(bytes), sum(start_ns) "
    "from waits where elapsed_ns between 2e5 and 5e5 and event like '%path%' group by all "
    "order by all",
    "select w.op as what, sum(w.elapsed_ns) / 1e9 as s, count(*) filter (blocks > 3) as some, "
    "max(elapsed_ns) filter (not temp) from waits w where w.temp and lower(event) like 'direct%' "
    "group by w.op having count(*) > 1 order by s desc, what limit 3",
    "select blocks // 4 as b, count(*), avg(blocks), bool_or(idle) from waits group by 1 "
    "order by 1",
    "select temp, p3 % 5, count(*) n from waits group by all order by n desc, 1, 2 limit 4",
    "select if(blocks > 10, 'large', 'small') as size, sum(blocks) from waits group by size "
    "order by size",
    "SELECT DISTINCT EVENT, COUNT(*) FROM WAITS WHERE ELAPSED_NS > 200000 GROUP BY ALL ORDER BY 1",
    "select op, event from waits group by all order by all",
    "select min(elapsed_ns) as elapsed_ns from waits group by event order by 1",
    "select event, op, count(*) from waits group by rollup (event, op) order by all",
    "select session, sql_id, source, sum(session) is null, count(*) from waits "
    "where op in ('read', 'write') and op is not null group by all order by all",
    "select sum(elapsed_ns / 1000) from waits where temp",
    "select median(elapsed_ns) from waits where elapsed_ns > 200000",
    "select elapsed_ns, count(*) from waits group by all order by all",
    "select count(distinct elapsed_ns), sum(distinct blocks) from waits",
    "select event from waits where op = 'write' order by line limit 3",
    "select line, sum(elapsed_ns) over (order by line) from waits where line < 20 order by 1",
    "select count(*) from waits where line in (select 7)",
    "select string_agg(event, ',' order by line) from waits where line < 12",
    "select event, 1 as one from waits where line < 9 and elapsed_ns // 1000 > 3",
    "select count(*) from waits where elapsed_ns > blocks * 300",
    "select count(*) from (from waits where temp) where op = 'read'",
]


@pytest.fixture
def trace(tmp_path):
    path = write_trace(tmp_path / "x.trc", WAITS)
    with path.open("a") as file:
        file.write("FETCH #7:c=9,e=90,p=1,cr=1,cu=0,mis=0,r=1,dep=0,og=4,plh=1,tim=9000000\n")
    return path


@pytest.fixture
def held(trace):
    """A database with all rows of the trace."""
    batches = []
    _core.TraceReader([str(trace)]).rows(lambda *tables: batches.append(tables))
    connection = duckdb.connect()
    for name, result in zip(TABLES, zip(*batches, strict=True), strict=True):
        table = pa.Table.from_batches([pa.record_batch(item) for item in result])
        connection.register(name, table)
    return connection


@cases("query", QUERIES)
def test_queries_equal_those_on_stored_rows(trace, held, query):
    titles, rows = run_sql(query, [str(trace)])[:2]
    if query.endswith("call_tree"):
        assert rows == [[1]]
    else:
        expected = held.execute(query)
        assert titles == [column[0] for column in expected.description]
        assert rows == [list(map(near, row)) for row in expected.fetchall()]


def near(value):
    return pytest.approx(value, rel=1e-15) if isinstance(value, float) else value


def test_only_columns_that_a_query_needs_are_read():
    query = "select event, sum(elapsed_ns) from waits where op = 'read' group by all"
    columns, scans = requested(query)
    assert scans == 1
    assert set(columns) == {("waits", name) for name in ("event", "elapsed_ns", "op", "")}


@cases("query", ["select nope from waits", "select 1 from nowhere, waits"])
def test_names_are_checked_before_the_trace_is_read(query):
    with pytest.raises(duckdb.Error, match=r"nope|nowhere"):
        requested(query)


def test_a_query_with_a_limit_ends_the_reading(trace):
    assert len(run_sql("from waits limit 2", [str(trace)])[1]) == 2


def test_a_compressed_copy_counts_once(trace, tmp_path):
    copy = tmp_path / "copy.trc.gz"
    copy.write_bytes(gzip.compress(trace.read_bytes()))
    matches = []
    paths = [str(trace), str(copy)]
    assert run_sql("select count(*) from waits", paths, notify=matches.append)[1] == [[len(WAITS)]]
    assert len(matches) == 1


def test_damage_of_a_file_is_reported(tmp_path):
    path = tmp_path / "x.trc"
    path.write_text("Trace file /u01/x.trc\nnothing\n")
    with pytest.raises(EvidenceDamaged):
        run_sql("select count(*) from waits", [str(path)])
