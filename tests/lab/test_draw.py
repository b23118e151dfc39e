"""The draw of cells for a time: balanced, reproducible by seed, and within the budget."""

from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest
from cells import ALL, ENGINES, EVERYWHERE, FAST, MADE_UP, TPCDS, TPCH

from cases import cases
from spillcast.engines.registry import lab_of
from spillcast.errors import ChoiceUnknown, OptionInvalid, OptionMissing, TargetUnknown
from spillcast_lab import matrix
from spillcast_lab.draw import MAX_RUN, OVERDRAFT_FACTOR, SHORT_RUN_S, draw
from spillcast_lab.kernel_slowed import KernelSlowed
from spillcast_lab.matrix import (
    STORAGES,
    THREADS,
    all_cells,
    cell_s,
    choose_storages,
    random_storages,
    run_s,
)
from spillcast_lab.spark.runs import VOLUMES

KERNEL = {item.name for item in EVERYWHERE if isinstance(item, KernelSlowed)}


@pytest.fixture(autouse=True)
def _all_can_be_made(monkeypatch):
    monkeypatch.setattr(matrix, "unsupported_reason", lambda: None)


def drawn(minutes, repeat=3, seed=0, storages=STORAGES, cells=ALL):
    return draw(cells, storages, budget_s=60 * minutes, repeat=repeat, seed=seed)


def test_a_draw_respects_its_time_and_its_seed():
    cost = {storage.name: storage for storage in STORAGES}
    for minutes in (1, 5, 20, 40, 120):
        result = drawn(minutes)
        spent_s = sum(cell_s(cell, cost, 3) for cell in result.cells)
        loads_s = {cell.lab: cell.workload.load_s for cell in result.cells}
        assert result.expected_s == pytest.approx(spent_s + sum(loads_s.values()))
        assert result.expected_s <= 60 * minutes
        assert len(result.cells) + len(result.without_time) == len(ALL)
        assert result == drawn(minutes)
    assert drawn(40) != drawn(40, seed=1)


def test_fifty_two_minutes_include_everything():
    result = drawn(52)
    assert {cell.engine for cell in result.cells} == set(ENGINES)
    assert {cell.workload.threads for cell in result.cells} == set(THREADS)
    assert {cell.workload.suite for cell in result.cells} == {"", "tpch", "tpcds"}
    used = Counter(name for cell in result.cells for name in cell.storages)
    assert set(used) == {storage.name for storage in STORAGES}


def test_a_hundred_minutes_draw_all_queries_and_storages_about_equally_often():
    result = drawn(100, storages=EVERYWHERE, cells=MADE_UP)
    assert len(result.cells) == 36
    slow = Counter(name for cell in result.cells for name in cell.storages if name not in FAST)
    # One is so slow that each run would take half a minute.
    assert len(slow) == len(EVERYWHERE) - len(FAST) - 1
    assert max(slow.values()) <= 2 * min(slow.values())
    fast = Counter(name for cell in result.cells for name in cell.storages if name in FAST)
    # Storage that the kernel slows is paired only with memory.
    assert max(fast.values()) <= 3 * min(fast.values())


def test_half_an_hour_has_enough_cases_per_engine_and_thread_count():
    """At least 24 from slow to fast storage per engine, and six per thread count."""
    for seed in range(3):
        storages = [*STORAGES, *random_storages(seed)]
        result = draw([*TPCDS, *TPCH], storages, budget_s=1800, repeat=2, seed=seed, parts=False)
        counts = Counter(
            (cell.engine, cell.workload.threads)
            for cell in result.cells
            for pair in cell.pairs
            if kind(pair) == ("slow", "fast")
        )
        assert min(counts[engine, threads] for engine in ENGINES for threads in THREADS) >= 6
        for engine in ENGINES:
            assert sum(counts[engine, threads] for threads in THREADS) >= 24


def kind(pair):
    return tuple("fast" if name in FAST else "slow" for name in pair)


@cases("minutes", [5, 20, 52, 100, 300])
def test_at_least_half_of_the_forecasts_are_from_slow_to_fast(minutes):
    """Also forecasts from a part of a recording: the first pair of each source."""
    for seed in range(3):
        cells = drawn(minutes, seed=seed, storages=EVERYWHERE, cells=MADE_UP).cells
        whole = Counter(kind(pair) for cell in cells for pair in cell.pairs)
        assert whole["slow", "fast"] * 2 >= whole.total()
        firsts = [{a: (a, b) for a, b in reversed(cell.pairs)} for cell in cells]
        parts = Counter(kind(pair) for first in firsts for pair in first.values())
        assert parts["slow", "fast"] * 2 >= parts.total()
        assert whole["fast", "slow"]
        if minutes >= 100:
            assert whole["slow", "slow"] >= whole.total() // 8


def test_slow_to_fast_is_balanced_over_engines_and_threads():
    cells = drawn(100, storages=EVERYWHERE, cells=MADE_UP).cells
    pairs = [
        (cell, pair) for cell in cells for pair in cell.pairs if kind(pair) == ("slow", "fast")
    ]
    for of in (lambda cell: cell.engine, lambda cell: cell.workload.threads):
        counts = Counter(of(cell) for cell, _ in pairs)
        assert max(counts.values()) <= 1.35 * min(counts.values())


def test_pairs_use_all_storages_of_the_cell_as_sources():
    for cell in drawn(300, storages=EVERYWHERE, cells=MADE_UP).cells:
        assert len(set(cell.pairs)) == len(cell.pairs)
        assert {name for pair in cell.pairs for name in pair} == set(cell.storages)
        if not KERNEL & {*cell.storages}:
            assert {source for source, _ in cell.pairs} == set(cell.storages)


def test_without_a_fast_storage_all_pairs_are_drawn():
    slow = [item for item in STORAGES if item.name not in FAST]
    for cell in drawn(30, storages=slow).cells:
        assert set(cell.pairs) == set(permutations(cell.storages, 2))


def test_storages_that_cannot_be_made_are_not_drawn(monkeypatch):
    monkeypatch.setattr(matrix, "unsupported_reason", lambda: "only root can")
    names = {
        name
        for cell in drawn(100, storages=EVERYWHERE, cells=MADE_UP).cells
        for name in cell.storages
    }
    assert names == {item.name for item in EVERYWHERE if not isinstance(item, KernelSlowed)}


def test_five_minutes_include_both_engines():
    result = drawn(5, repeat=1)
    assert {cell.engine for cell in result.cells} == set(ENGINES)
    assert len({cell.workload.suite for cell in result.cells}) > 1
    assert len({cell.workload.threads for cell in result.cells}) > 1


def test_storage_slowed_by_the_kernel_is_not_paired_with_cold_tables_or_disks():
    """Storage that the kernel slows has a bounded page cache, which would affect both."""
    chosen = drawn(2000, storages=EVERYWHERE, cells=TPCH)
    bounded = [cell for cell in chosen.cells if KERNEL & {*cell.storages}]
    assert len(bounded) > 10
    assert not any(cell.workload.cold or "disk" in cell.storages for cell in bounded)
    assert all(source in KERNEL for cell in bounded for source, to in cell.pairs if to in KERNEL)


def test_long_runs_are_drawn_if_all_are_long():
    """15,000 operations of 5 ms take over a minute."""
    storages = [item for item in STORAGES if item.name in ("5 ms", "tmpfs")]
    long = [cell for cell in TPCDS if cell.workload.operations > 15_000][:1]
    [cell] = drawn(30, repeat=1, storages=storages, cells=long).cells
    assert {*cell.storages} == {"5 ms", "tmpfs"}


def test_a_cell_without_a_pair_of_storages_is_left_out():
    some = [item for item in EVERYWHERE if item.name in ("kernel 1", "tmpfs")]
    chosen = drawn(10_000, storages=some, cells=TPCH)
    assert not any(cell.workload.cold for cell in chosen.cells)
    assert all(cell.workload.cold for cell in chosen.without_time)
    assert len(chosen.cells) + len(chosen.without_time) == len(TPCH)


def test_an_overdrawn_budget_includes_more_cells():
    cells_drawn = draw(
        ALL, STORAGES, budget_s=300, repeat=3, seed=0, overdraft_factor=OVERDRAFT_FACTOR
    )
    assert 300 < cells_drawn.expected_s <= OVERDRAFT_FACTOR * 300
    # A single run takes no larger part of the time.
    cost = {storage.name: storage for storage in STORAGES}
    longest_s = max(
        run_s(cost[n], cell.workload) for cell in cells_drawn.cells for n in cell.storages
    )
    assert longest_s <= max(MAX_RUN * 300, SHORT_RUN_S)


def test_the_matrix_has_the_required_queries_and_storages():
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


def test_every_query_has_each_thread_count_once():
    names = [(cell.lab, cell.workload.name, cell.workload.threads) for cell in ALL]
    assert len(set(names)) == len(names)
    assert len(MADE_UP) == 2 * 6 * 3
    # Ten queries, cold and warm, on DuckDB and on two PostgreSQL servers.
    assert len(TPCH) == 10 * 2 * (1 + 2) * 3
    # And on one of the servers.
    assert len(TPCDS) == 10 * 2 * (1 + 1) * 3


@cases("count", [8, 16, 24, 48, 96])
def test_half_of_each_prefix_is_tpcds_and_a_quarter_tpch(count):
    start = ALL[:count]
    assert sum(cell.workload.suite == "tpch" for cell in start) == count / 4
    assert sum(cell.workload.suite == "tpcds" for cell in start) == count / 2
    assert sum(cell.engine == "duckdb" for cell in start) == count / 2


@cases("engine", ENGINES)
def test_each_prefix_of_tpch_is_balanced(engine):
    start = [cell for cell in TPCH if cell.engine == engine][:20]
    assert set(Counter(cell.workload.kind for cell in start).values()) == {2}
    for subject in ("cold", "threads"):
        counts = Counter(getattr(cell.workload, subject) for cell in start).values()
        assert max(counts) - min(counts) <= 2
    labs = Counter(cell.lab for cell in start).values()
    assert max(labs) - min(labs) <= 2


def test_queries_are_selected_by_suite_kind_and_name():
    def requested(name):
        return {cell.workload.name for cell in all_cells(ENGINES, workloads=[name])}

    assert len(requested("tpch")) == len({cell.workload.name for cell in TPCH})
    assert requested("tpch Q13") == {"tpch Q13", "tpch Q13 cold"}
    assert requested("tpch Q13 cold") == {"tpch Q13 cold"}
    assert requested("sort") == {"sort"}


def test_more_operations_take_longer_and_tables_are_loaded_once():
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
def test_each_prefix_is_balanced(count):
    start = MADE_UP[:count]
    queries = Counter((cell.engine, cell.workload.name) for cell in start)
    threads = Counter(cell.workload.threads for cell in start)
    assert set(queries.values()) == {count // 12}
    assert set(threads.values()) == {count // 3}
    both = Counter((cell.engine, cell.workload.threads) for cell in start)
    assert set(both.values()) == {count // 6}


def test_unknown_storages_and_queries_are_refused():
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
