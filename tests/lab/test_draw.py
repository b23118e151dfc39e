"""What is drawn for a time: balanced, the same for a seed, within the budget."""

from collections import Counter
from itertools import permutations

import pytest
from cells import ALL, ENGINES, EVERYWHERE, FAST, MADE_UP, TPCDS, TPCH

from cases import cases
from spillcast_lab import matrix
from spillcast_lab.draw import MAX_RUN, OVERDRAWN, SHORT_RUN_S, draw
from spillcast_lab.kernel_slowed import KernelSlowed
from spillcast_lab.matrix import (
    STORAGES,
    THREADS,
    cell_s,
    random_storages,
    run_s,
)

KERNEL = {item.name for item in EVERYWHERE if isinstance(item, KernelSlowed)}


@pytest.fixture(autouse=True)
def _all_can_be_made(monkeypatch):
    monkeypatch.setattr(matrix, "why_not", lambda: None)


def drawn(minutes, repeat=3, seed=0, storages=STORAGES, cells=ALL):
    return draw(cells, storages, budget_s=60 * minutes, repeat=repeat, seed=seed)


def test_a_draw_keeps_to_its_time_and_its_seed():
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


def test_fifty_two_minutes_draw_of_everything():
    result = drawn(52)
    assert {cell.engine for cell in result.cells} == set(ENGINES)
    assert {cell.workload.threads for cell in result.cells} == set(THREADS)
    assert {cell.workload.suite for cell in result.cells} == {"", "tpch", "tpcds"}
    used = Counter(name for cell in result.cells for name in cell.storages)
    assert set(used) == {storage.name for storage in STORAGES}


def test_a_hundred_minutes_draw_every_query_and_every_storage_about_as_often():
    result = drawn(100, storages=EVERYWHERE, cells=MADE_UP)
    assert len(result.cells) == 36
    slow = Counter(name for cell in result.cells for name in cell.storages if name not in FAST)
    # One is so slow that each run would take half a minute.
    assert len(slow) == len(EVERYWHERE) - len(FAST) - 1
    assert max(slow.values()) <= 2 * min(slow.values())
    fast = Counter(name for cell in result.cells for name in cell.storages if name in FAST)
    # Storage that the kernel slows goes with memory alone.
    assert max(fast.values()) <= 3 * min(fast.values())


def test_half_an_hour_draws_enough_cases_of_each_engine_and_thread_count():
    """At least 24 from slow to fast storage an engine, six of each thread count."""
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
def test_half_of_the_forecasts_at_least_are_from_slow_to_fast(minutes):
    """Also of those from a part of a recording: the first pair of each source."""
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


def test_pairs_are_of_the_cells_storages_and_each_is_a_source():
    for cell in drawn(300, storages=EVERYWHERE, cells=MADE_UP).cells:
        assert len(set(cell.pairs)) == len(cell.pairs)
        assert {name for pair in cell.pairs for name in pair} == set(cell.storages)
        if not KERNEL & {*cell.storages}:
            assert {source for source, _ in cell.pairs} == set(cell.storages)


def test_without_a_fast_storage_all_pairs_are_drawn():
    slow = [item for item in STORAGES if item.name not in FAST]
    for cell in drawn(30, storages=slow).cells:
        assert set(cell.pairs) == set(permutations(cell.storages, 2))


def test_what_cannot_be_made_here_is_not_drawn(monkeypatch):
    monkeypatch.setattr(matrix, "why_not", lambda: "only root can")
    names = {
        name
        for cell in drawn(100, storages=EVERYWHERE, cells=MADE_UP).cells
        for name in cell.storages
    }
    assert names == {item.name for item in EVERYWHERE if not isinstance(item, KernelSlowed)}


def test_five_minutes_draw_something_of_both_engines():
    result = drawn(5, repeat=1)
    assert {cell.engine for cell in result.cells} == set(ENGINES)
    assert len({cell.workload.suite for cell in result.cells}) > 1
    assert len({cell.workload.threads for cell in result.cells}) > 1


def test_memory_is_the_same_where_it_bears_on_latency():
    """What the kernel slows has a bounded page cache: for cold tables, too, and for a disk."""
    chosen = drawn(2000, storages=EVERYWHERE, cells=TPCH)
    bounded = [cell for cell in chosen.cells if KERNEL & {*cell.storages}]
    assert len(bounded) > 10
    assert not any(cell.workload.cold or "disk" in cell.storages for cell in bounded)
    assert all(source in KERNEL for cell in bounded for source, to in cell.pairs if to in KERNEL)


def test_long_runs_are_drawn_where_all_are_long():
    """15,000 operations of 5 ms take over a minute."""
    storages = [item for item in STORAGES if item.name in ("5 ms", "tmpfs")]
    long = [cell for cell in TPCDS if cell.workload.operations > 15_000][:1]
    [cell] = drawn(30, repeat=1, storages=storages, cells=long).cells
    assert {*cell.storages} == {"5 ms", "tmpfs"}


def test_a_cell_that_has_nothing_to_be_forecast_between_gets_no_storages():
    some = [item for item in EVERYWHERE if item.name in ("kernel 1", "tmpfs")]
    chosen = drawn(10_000, storages=some, cells=TPCH)
    assert not any(cell.workload.cold for cell in chosen.cells)
    assert all(cell.workload.cold for cell in chosen.without_time)
    assert len(chosen.cells) + len(chosen.without_time) == len(TPCH)


def test_more_is_drawn_than_careful_estimates_have_time_for():
    cells_drawn = draw(ALL, STORAGES, budget_s=300, repeat=3, seed=0, overdrawn=OVERDRAWN)
    assert 300 < cells_drawn.expected_s <= OVERDRAWN * 300
    # A single run takes no larger part of the time.
    cost = {storage.name: storage for storage in STORAGES}
    longest_s = max(
        run_s(cost[n], cell.workload) for cell in cells_drawn.cells for n in cell.storages
    )
    assert longest_s <= max(MAX_RUN * 300, SHORT_RUN_S)
