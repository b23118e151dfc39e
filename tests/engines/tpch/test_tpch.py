"""TPC-H at a small scale: engines agree, cold tables are cold, and what is missing is named."""

import ctypes
import json
import mmap
from dataclasses import replace
from datetime import date

import pytest

from spillcast.engines.engine import Workload
from spillcast.errors import ProgramMissing, SpaceInsufficient
from spillcast.workspace import workspace
from spillcast_lab.tpch import data
from spillcast_lab.tpch.data import chill, cold, text, warm
from spillcast_lab.tpch.duckdb import DuckDbTpch

#: Scale factor 0.01.
ROWS = 60_000
#: Whose order leaves nothing to chance, and which have rows at this scale.
AGREEING = (4, 7, 13, 16, 21)


@pytest.fixture(scope="module")
def room():
    if data.generator() is None:
        pytest.skip("tpchgen-cli is not installed")
    with workspace() as room:
        yield room


@pytest.fixture(scope="module")
def duckdb(room):
    return built(DuckDbTpch(room))


def built(lab):
    lab.build(ROWS)
    return lab


def ran(lab, number, temp):
    """A query's rows, alike for engines that write numbers and padded texts their own way."""
    memory = {"memory": "200MB"} if isinstance(lab, DuckDbTpch) else {"memory": "4MB"}
    query = Workload(f"Q{number}", text(number), ROWS, **memory)
    with lab.hold(query, temp, {}) as held:
        held.start()
        rows = json.loads(held.result().rows)
    return [[plain(value) for value in row] for row in rows]


def plain(value):
    try:
        return round(float(value), 4)
    except ValueError:
        return value.rstrip()


def test_tables_are_as_the_specification_has_them(duckdb, tmp_path):
    count = replace(
        Workload("", "", ROWS, "200MB"), sql="select count(*), min(o_orderdate) from orders"
    )
    with duckdb.hold(count, tmp_path, {}) as held:
        held.start()
        # 1,500,000 orders at scale factor 1, from 1992 on.
        assert json.loads(held.result().rows) == [[15_000, str(date(1992, 1, 1))]]


def test_duckdb_and_postgresql_agree(room, duckdb):
    pytest.importorskip("psycopg")
    from spillcast_lab.tpch.postgres import PostgresTpch

    temp = room / "temp"
    temp.mkdir()
    postgres = built(PostgresTpch(room))
    for number in AGREEING:
        found = ran(duckdb, number, temp)
        assert found
        assert ran(postgres, number, temp) == found, number


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_engine_has_queries_that_are_asked_for_by_one_word(threads):
    pytest.importorskip("psycopg")
    from spillcast_lab.tpch.postgres import DebianTpch, PostgresTpch

    for lab in (DuckDbTpch, PostgresTpch, DebianTpch):
        queries = lab.verified(threads)
        assert {one.suite for one in queries} == {"tpch"}
        assert sum(one.cold for one in queries) == len(queries) / 2 == 10
        assert len({one.kind for one in queries}) == 10


def cached_pages(path):
    """How many pages of a file the page cache holds, as the kernel says."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        told = (ctypes.c_ubyte * pages)()
        start = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(start))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mincore(address, ctypes.c_size_t(len(mapped)), told) == 0
        del start
        return sum(page & 1 for page in told), pages


def on_disk(path):
    """Whether the kernel can drop a file from the page cache."""
    chill([path])
    return cached_pages(path)[0] == 0


def test_tables_are_dropped_and_read_before_each_run(duckdb, room, tmp_path):
    [file] = room.glob("*.db")
    if not on_disk(file):
        pytest.skip("the tests' directory is in memory")
    query = Workload("", "select 1", ROWS, "200MB")
    for _ in range(2):
        with duckdb.hold(query, tmp_path, {}):
            held, pages = cached_pages(file)
            assert held == pages
        with duckdb.hold(cold(query), tmp_path, {}):
            assert cached_pages(file)[0] < pages / 10


def test_what_was_just_written_is_dropped_too(tmp_path):
    file = tmp_path / "written"
    file.write_bytes(bytes(1 << 20))
    if not on_disk(file):
        pytest.skip("the tests' directory is in memory")
    warm([file])
    assert cached_pages(file) == (256, 256)


def test_a_missing_generator_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "generator", lambda: None)
    with pytest.raises(ProgramMissing) as told:
        data.made(tmp_path, ROWS)
    assert told.value.hint == "pip install 'spillcast[lab]'"


def test_without_space_nothing_is_made(room):
    with pytest.raises(SpaceInsufficient, match=r"TPC-H needs .* of free space"):
        data.made(room, ROWS * 10**6)
