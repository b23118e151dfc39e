"""TPC-H and TPC-DS at a small scale: engines agree, cold tables are cold, needs are named."""

import ctypes
import json
import mmap
from dataclasses import replace
from datetime import date

import pytest

from spillcast.engines import LabQuery
from spillcast.errors import ProgramMissing, SpaceInsufficient
from spillcast.workspace import workspace
from spillcast_lab.tpc import suite
from spillcast_lab.tpc.labs import DebianTpch, DuckDbTpcds, DuckDbTpch, PostgresTpcds, PostgresTpch
from spillcast_lab.tpc.suite import TPCH, cold, drop_from_page_cache, warm

#: Scale factor 0.01.
ROWS = 60_000
#: Queries with deterministic order, and with rows at this scale.
AGREEING = {
    "tpch": ("Q4", "Q7", "Q13", "Q16", "Q21"),
    "tpcds": ("Q67", "Q78", "union", "self-join", "wide-group", "string-keys"),
}


@pytest.fixture(scope="module")
def room():
    if suite.generator() is None:
        pytest.skip("tpcgen-cli is not installed")
    with workspace() as room:
        yield room


@pytest.fixture(scope="module")
def duckdb(room):
    return built(DuckDbTpch(room))


def built(lab):
    lab.build(ROWS)
    return lab


def ran(lab, query, temp):
    """A query's rows, normalised across engines that format numbers and padded text differently."""
    memory = {"memory": "200MB"} if isinstance(lab, DuckDbTpch) else {"memory": "4MB"}
    workload = LabQuery(query, lab.suite.text(query), ROWS, **memory)
    with lab.hold(workload, temp, {}) as held:
        held.start()
        rows = json.loads(held.result().rows)
    return [[plain(value) for value in row] for row in rows]


def plain(value):
    try:
        return round(float(value), 4)
    except (TypeError, ValueError):
        return value and value.rstrip()


def test_tables_match_the_specification(duckdb, tmp_path):
    count = replace(
        LabQuery("", "", ROWS, "200MB"), sql="select count(*), min(o_orderdate) from orders"
    )
    with duckdb.hold(count, tmp_path, {}) as held:
        held.start()
        # 1,500,000 orders at scale factor 1, beginning in 1992.
        assert json.loads(held.result().rows) == [[15_000, str(date(1992, 1, 1))]]


@pytest.mark.parametrize("name", AGREEING)
def test_duckdb_and_postgresql_agree(room, name):
    pytest.importorskip("psycopg")
    temp = room / f"temp-{name}"
    temp.mkdir()
    labs = {"tpch": (DuckDbTpch, PostgresTpch), "tpcds": (DuckDbTpcds, PostgresTpcds)}
    duckdb, postgres = (built(lab(room)) for lab in labs[name])
    for query in AGREEING[name]:
        rows = ran(duckdb, query, temp)
        assert rows
        assert ran(postgres, query, temp) == rows, query


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_engine_has_queries_selected_by_a_keyword(threads):
    for lab in (DuckDbTpch, DuckDbTpcds, PostgresTpch, PostgresTpcds, DebianTpch):
        queries = lab.verified(threads)
        assert {item.suite for item in queries} == {lab.suite.name}
        assert sum(item.cold for item in queries) == len(queries) / 2 == 10
        assert len({item.kind for item in queries}) == 10


def cached_pages(path):
    """Pages of a file in the page cache, by the kernel."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        reported = (ctypes.c_ubyte * pages)()
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mincore(address, ctypes.c_size_t(len(mapped)), reported) == 0
        del start
        return sum(page & 1 for page in reported), pages


def on_disk(path):
    """Whether the kernel can drop a file from the page cache."""
    drop_from_page_cache([path])
    return cached_pages(path)[0] == 0


def test_tables_are_dropped_and_read_before_each_run(duckdb, room, tmp_path):
    [file] = room.glob("tpch*.db")
    if not on_disk(file):
        pytest.skip("the tests' directory is in memory")
    query = LabQuery("", "select 1", ROWS, "200MB")
    for _ in range(2):
        with duckdb.hold(query, tmp_path, {}):
            held, pages = cached_pages(file)
            assert held == pages
        with duckdb.hold(cold(query), tmp_path, {}):
            assert cached_pages(file)[0] < pages / 10


def test_recently_written_pages_are_dropped_too(tmp_path):
    file = tmp_path / "written"
    file.write_bytes(bytes(1 << 20))
    if not on_disk(file):
        pytest.skip("the tests' directory is in memory")
    warm([file])
    assert cached_pages(file) == (256, 256)


def test_a_missing_data_generator_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "generator", lambda: None)
    with pytest.raises(ProgramMissing) as reported:
        TPCH.generate(tmp_path, ROWS)
    assert reported.value.hint == "pip install 'spillcast[lab]'"


def test_without_free_space_nothing_is_created(room):
    with pytest.raises(SpaceInsufficient, match=r"TPC-H needs .* of free space"):
        TPCH.generate(room, ROWS * 10**6)
