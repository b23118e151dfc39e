"""What can be verified: every query, thread count and storage, and what each takes."""

from collections import Counter
from dataclasses import replace

import pytest
from cells import ALL, ENGINES, MADE_UP, TPCDS, TPCH

from cases import cases
from spillcast.engines.registry import lab_of
from spillcast.errors import ChoiceUnknown, OptionInvalid, OptionMissing, TargetUnknown
from spillcast_lab.draw import draw
from spillcast_lab.matrix import (
    STORAGES,
    THREADS,
    all_cells,
    cell_s,
    choose_storages,
    run_s,
)
from spillcast_lab.spark.runs import VOLUMES


def test_the_matrix_is_what_the_issue_names():
    for engine in ENGINES:
        names = {workload.name for workload in lab_of(engine).verified(1)}
        assert names == {"hash join", "merge join", "sort", "group by", "count distinct", "window"}
    assert THREADS == (1, 2, 4)
    by_name = {storage.name: storage for storage in STORAGES}
    assert [by_name[name].read_s for name in ("0.3 ms", "1 ms", "5 ms")] == [0.0003, 0.001, 0.005]
    uneven = {(by_name[n].read_s, by_name[n].write_s) for n in ("r1.5 w0.2", "r0.2 w1.5")}
    assert uneven == {(0.0015, 0.0002), (0.0002, 0.0015)}
    assert by_name["10 us/KiB"].s_per_byte * 1024 == pytest.approx(10e-6)
    assert by_name["one by one"].servers == 1
    assert not by_name["disk"].in_memory
    assert by_name["tmpfs"].in_memory


def test_a_latency_by_size_is_a_straight_line():
    model = next(item for item in STORAGES if item.name == "10 us/KiB").model
    for point in model.points:
        kib = point.size_bytes / 1024
        assert point.latency_ns == [pytest.approx(100_000 + 10_000 * kib)]
    sizes = {(p.op, p.sequential, p.size_bytes) for p in model.points}
    assert len(sizes) == len(model.points) == 8


def test_every_query_comes_with_every_thread_count_once():
    names = [(cell.lab, cell.workload.name, cell.workload.threads) for cell in ALL]
    assert len(set(names)) == len(names)
    assert len(MADE_UP) == 2 * 6 * 3
    # Ten queries, cold and warm, on DuckDB and on two PostgreSQL servers.
    assert len(TPCH) == 10 * 2 * (1 + 2) * 3
    # And on one of the servers.
    assert len(TPCDS) == 10 * 2 * (1 + 1) * 3


@cases("count", [8, 16, 24, 48, 96])
def test_half_of_each_beginning_is_tpcds_and_a_quarter_tpch(count):
    start = ALL[:count]
    assert sum(cell.workload.suite == "tpch" for cell in start) == count / 4
    assert sum(cell.workload.suite == "tpcds" for cell in start) == count / 2
    assert sum(cell.engine == "duckdb" for cell in start) == count / 2


@cases("engine", ENGINES)
def test_each_beginning_of_tpch_is_balanced(engine):
    start = [cell for cell in TPCH if cell.engine == engine][:20]
    assert set(Counter(cell.workload.kind for cell in start).values()) == {2}
    for subject in ("cold", "threads"):
        counts = Counter(getattr(cell.workload, subject) for cell in start).values()
        assert max(counts) - min(counts) <= 2
    labs = Counter(cell.lab for cell in start).values()
    assert max(labs) - min(labs) <= 2


def test_queries_are_asked_for_by_suite_by_kind_and_by_name():
    def requested(name):
        return {cell.workload.name for cell in all_cells(ENGINES, workloads=[name])}

    assert len(requested("tpch")) == len({cell.workload.name for cell in TPCH})
    assert requested("tpch Q13") == {"tpch Q13", "tpch Q13 cold"}
    assert requested("tpch Q13 cold") == {"tpch Q13 cold"}
    assert requested("sort") == {"sort"}


def test_a_query_with_more_operations_takes_longer_and_tables_are_made_once():
    [slow] = choose_storages(["5 ms", "tmpfs"])[:1]
    query = TPCH[0].workload
    more = replace(query, operations=query.operations + 1000)
    # 5 ms each, by one thread.
    assert query.threads == 1
    assert run_s(slow, more) - run_s(slow, query) == pytest.approx(5)
    cells = [replace(cell, other_lab=TPCH[0].lab) for cell in (TPCH[0], TPCH[0])]
    two = choose_storages(["1 ms", "tmpfs"])
    result = draw(cells, two, budget_s=10_000, repeat=1, seed=0)
    spent_s = sum(cell_s(cell, {item.name: item for item in two}, 1) for cell in result.cells)
    assert result.expected_s == pytest.approx(spent_s + query.load_s)


@cases("count", [12, 24, 36])
def test_each_beginning_is_balanced(count):
    start = MADE_UP[:count]
    queries = Counter((cell.engine, cell.workload.name) for cell in start)
    threads = Counter(cell.workload.threads for cell in start)
    assert set(queries.values()) == {count // 12}
    assert set(threads.values()) == {count // 3}
    both = Counter((cell.engine, cell.workload.threads) for cell in start)
    assert set(both.values()) == {count // 6}


def test_what_there_is_not_is_refused_by_name():
    with pytest.raises(TargetUnknown, match=r"--storage floppy: no such storage"):
        choose_storages(["floppy", "1 ms"])
    with pytest.raises(OptionMissing):
        choose_storages(["1 ms", "1 ms"])
    assert choose_storages(["disk", "tmpfs"], VOLUMES) == [VOLUMES[1], VOLUMES[0]]
    with pytest.raises(TargetUnknown):
        choose_storages(["1 ms", "disk"], VOLUMES)
    with pytest.raises(ChoiceUnknown, match=r"--workload tea: no such query"):
        all_cells(ENGINES, workloads=["tea"])
    with pytest.raises(OptionInvalid, match=r"--threads 0"):
        all_cells(ENGINES, threads=[0])


def test_thread_counts_without_a_query_are_left_out():
    assert {cell.workload.threads for cell in all_cells(["mariadb"], (1, 2, 4))} == {1}
    with pytest.raises(OptionInvalid):
        all_cells(["mariadb"], (2,))
