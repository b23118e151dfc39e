"""Queries on traces, of which some are answered while rows are read: all as if rows were kept."""

import gzip

import duckdb
import pyarrow as pa
import pytest

from oracle_files import READ, WRITE, blocks, write_trace
from spillcast import _core
from spillcast.errors import InputError
from spillcast.profile.sql import run_sql
from spillcast.recording.trace_spool import TABLES

WAITS = [(READ, 100 + n % 700, blocks(n % 32)) for n in range(4_000)] + [
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
]


@pytest.fixture
def trace(tmp_path):
    path = write_trace(tmp_path / "x.trc", WAITS)
    with path.open("a") as file:
        file.write("FETCH #7:c=9,e=90,p=1,cr=1,cu=0,mis=0,r=1,dep=0,og=4,plh=1,tim=9000000\n")
    return path


def kept(path, query):
    """The answer of a database that holds all rows."""
    batches = []
    _core.TraceReader([str(path)]).rows(lambda *tables: batches.append(tables))
    with duckdb.connect() as connection:
        for name, found in zip(TABLES, zip(*batches, strict=True), strict=True):
            table = pa.Table.from_batches([pa.record_batch(one) for one in found])
            connection.register(name, table)
        return [list(row) for row in connection.execute(query).fetchall()]


@pytest.mark.parametrize("query", QUERIES)
def test_as_if_all_rows_were_kept(trace, query):
    if query.endswith("call_tree"):
        assert run_sql(query, [str(trace)])[1] == [[1]]
    else:
        assert run_sql(query, [str(trace)])[1] == kept(trace, query)


def test_a_query_that_has_enough_ends_the_reading(trace):
    assert len(run_sql("from waits limit 2", [str(trace)])[1]) == 2


def test_a_compressed_copy_counts_once(trace, tmp_path):
    copy = tmp_path / "copy.trc.gz"
    copy.write_bytes(gzip.compress(trace.read_bytes()))
    said = []
    paths = [str(trace), str(copy)]
    assert run_sql("select count(*) from waits", paths, say=said.append)[1] == [[len(WAITS)]]
    assert len(said) == 1


def test_what_is_wrong_with_a_file_is_told(tmp_path):
    path = tmp_path / "x.trc"
    path.write_text("Trace file /u01/x.trc\nnothing\n")
    with pytest.raises(InputError, match="no extended SQL trace lines"):
        run_sql("select count(*) from waits", [str(path)])
