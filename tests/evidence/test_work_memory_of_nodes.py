"""What PostgreSQL's nodes spill at a given work_mem, against loops that simulate the server."""

from dataclasses import replace

import numpy as np
import pytest

from cases import cases
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.postgres.spills import spills_of
from spillcast.evidence.postgres.work_memory import (
    NodeSpill,
    PlanSpills,
    enough_bytes,
    hash_batches,
    hash_bytes,
    io_share,
    sort_passes,
    state_with,
)
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.work_memory import more_work_memory

K, BLOCK, SLOT, POINTER = 1024, 8192, 24, 8


def merged(rows, tuple_bytes, work_mem_bytes):
    """Times that tuplesort.c writes each row: once in runs, and in each merge but the last."""
    in_memory = work_mem_bytes / (SLOT + tuple_bytes)
    if rows <= in_memory:
        return 0
    # Each tape has a block to read, one to write and 32 to read ahead.
    tapes = sorted((6, work_mem_bytes // (34 * BLOCK), 500))[1]
    # The array of slots has 1,024 at least.
    tuples_bytes = work_mem_bytes - SLOT * max(in_memory, 1024)
    if tapes * BLOCK < tuples_bytes:
        tuples_bytes -= tapes * BLOCK
    # The last row of a run exceeds the memory.
    in_run = -int(-max(tuples_bytes, 1) // tuple_bytes) if tuple_bytes else -int(-in_memory // 1)
    runs, passes = -int(-rows // in_run), 1
    while runs > tapes:
        runs, passes = -(-runs // tapes), passes + 1
    return passes


def test_the_number_of_times_that_a_sort_writes_its_rows():
    draws = np.random.default_rng(43)
    passes = set()
    for _ in range(2000):
        work_mem_bytes = int(2 ** draws.uniform(6, 17)) * K
        # None for numbers, which are in their slots; a few rows fill the memory by themselves.
        tuple_bytes = int(draws.choice([0, 16, 2 ** draws.uniform(4, 10), work_mem_bytes / 3]))
        # Around the size that fits, up to a thousand times as much.
        rows = work_mem_bytes / (SLOT + tuple_bytes) * 10 ** draws.uniform(-0.3, 3)
        wanted = merged(rows, tuple_bytes, work_mem_bytes)
        assert sort_passes(rows, tuple_bytes, work_mem_bytes) == wanted, (rows, tuple_bytes)
        passes.add(wanted)
    assert passes >= {0, 1, 2, 3}


def test_wide_rows_are_sorted_in_runs_of_two_as_servers_did():
    """Temp blocks of PostgreSQL 15.18 and 18.6, work_mem 64 kB, rows of 25,000 bytes."""
    passes = {2: 0, 3: 1, 7: 1, 12: 1, 13: 2, 36: 2, 37: 2, 72: 2, 73: 3, 216: 3, 217: 3, 1000: 4}
    assert {rows: sort_passes(rows, 25_000, 64 * K) for rows in passes} == passes


def test_at_most_500_runs_are_merged_at_once():
    # 1 GiB has room for the blocks of 3,855 tapes; rows of 1,000 bytes fill it beside 500.
    work_mem_bytes, width = 1 << 30, 1000
    in_run = work_mem_bytes / (SLOT + width) - 500 * BLOCK / width
    assert [sort_passes(runs * in_run - 1, width, work_mem_bytes) for runs in (500, 501)] == [1, 2]


def batches(rows, tuple_bytes, memory_bytes, balanced):
    """Batches by nodeHash.c: doubled until one fits beside its buckets."""
    buckets = 1024
    while buckets < rows:
        buckets *= 2
    if rows * tuple_bytes + buckets * POINTER <= memory_bytes:
        return 1
    buckets, number = 1, 2
    while buckets < memory_bytes / (tuple_bytes + POINTER):
        buckets *= 2
    while rows * tuple_bytes > number * (memory_bytes - buckets * POINTER):
        number *= 2
    # Each batch has a buffer of a block for either file.
    while balanced and number * BLOCK >= memory_bytes:
        number, memory_bytes = number // 2, memory_bytes * 2
    return number


@cases("balanced", [False, True])
def test_a_hash_is_divided_until_a_batch_fits(balanced):
    draws, seen = np.random.default_rng(44), set()
    for _ in range(2000):
        memory_bytes = int(2 ** draws.uniform(7, 17)) * K
        tuple_bytes = 8 * int(2 ** draws.uniform(2, 8))
        rows = int(memory_bytes / tuple_bytes * 10 ** draws.uniform(-1, 3.5))
        wanted = batches(rows, tuple_bytes, memory_bytes, balanced)
        assert hash_batches(rows, tuple_bytes, memory_bytes, balanced=balanced) == wanted
        assert (hash_bytes(rows, tuple_bytes) <= memory_bytes) == (wanted == 1)
        seen.add(wanted)
    assert seen >= {1, 2, 4, 8, 16}


SORT = NodeSpill(
    kind="sort", processes=1, needed_bytes=100_000_000, passes=1, rows=1e6, tuple_bytes=76.0,
    weight=3.0,
)  # fmt: skip
HASH = NodeSpill(
    kind="hash", processes=2, needed_bytes=40_000_000, batches=8, rows=5e5, tuple_bytes=64.0,
    hash_multiplier=2.0, weight=4.0,
)  # fmt: skip
STORE = NodeSpill(kind="store", processes=1, needed_bytes=20_000_000, weight=1.0)


@cases("work_mem_bytes", [64 * K, 4 << 20, 16 << 20, 32 << 20, 128 << 20])
def test_the_temp_io_of_a_plan_is_the_sum_of_its_nodes(work_mem_bytes):
    passes = merged(1e6, 76, work_mem_bytes)
    number = batches(500_000, 64, 2 * work_mem_bytes, balanced=False)
    # A hash writes all batches but the first; a store is written once, or not at all.
    shares = {
        SORT: passes,
        HASH: (1 - 1 / number) / (1 - 1 / 8),
        STORE: int(work_mem_bytes < 20_000_000),
    }
    for spill, share in shares.items():
        assert spill.share_with(work_mem_bytes) == pytest.approx(share)
    # Each of the hash's two processes has half of its seconds.
    whole = 3.0 * shares[SORT] + 4.0 / 2 * shares[HASH] + 1.0 * shares[STORE]
    assert io_share(list(shares), work_mem_bytes) == pytest.approx(whole / 6.0)
    state = "multi-pass" if passes > 1 else "one-pass" if whole else "none"
    assert state_with(list(shares), work_mem_bytes) == state
    assert (SORT.passes_with(work_mem_bytes), HASH.passes_with(work_mem_bytes)) == (passes, None)
    assert STORE.batches_with(work_mem_bytes) is None
    assert replace(SORT, passes=2).share_with(work_mem_bytes) == passes / 2
    of_two = replace(HASH, batches=2)
    assert of_two.share_with(work_mem_bytes) == pytest.approx((1 - 1 / number) / (1 - 1 / 2))


def sorted_rows(above, *, rows, loops):
    """A plan of one process that sorts on disk, 100 bytes a row."""
    scan = {"Node Type": "Seq Scan", "Actual Rows": rows, "Actual Loops": loops, "Plan Width": 90}
    blocks = rows * 100 // BLOCK
    sort = scan | {
        "Node Type": "Sort", "Sort Space Type": "Disk", "Sort Space Used": rows * 100 // K,
        "Temp Written Blocks": blocks, "Temp Read Blocks": blocks, "Plans": [scan],
    }  # fmt: skip
    top = {"Node Type": above, "Actual Rows": 1, "Actual Loops": 1, "Plans": [sort]}
    return spills_of(nodes_of({**top, "Temp Written Blocks": blocks, "Temp Read Blocks": blocks}))


def test_a_sort_needs_the_memory_of_its_largest_execution():
    (once,) = sorted_rows("Aggregate", rows=100_000, loops=1)
    # A slot of 24 bytes is beside each row of 100, which takes more in memory.
    assert 1 <= once.needed_bytes / (100_000 * (100 + SLOT)) < 1.3
    assert (once.rows, once.passes, once.processes) == (pytest.approx(100_000), 1, 1)
    (each,) = sorted_rows("Nested Loop", rows=100_000, loops=3)
    assert each.needed_bytes == once.needed_bytes
    # Below a Limit, rows are freed separately, so their sizes are rounded up to powers of two.
    (limited,) = sorted_rows("Limit", rows=100_000, loops=1)
    assert limited.needed_bytes > 1.05 * once.needed_bytes


#: Rows of a store, how often it was read, rows that it removed; blocks read and written; the least
#: work_mem (kB) with which PostgreSQL 15 wrote no file, by bisection.
STORES = {
    "a CTE and a filter": ("CTE Scan", 30_000, 1, 270_000, 0, 1977, 26_087),
    "a CTE that is read again": ("CTE Scan", 59_999, 40, 0, 15_444, 396, 5243),
    "a function and a filter": ("Function Scan", 50_000, 1, 450_000, 855, 855, 27_622),
    "a function that is read again": ("Function Scan", 300_000, 40, 0, 20_520, 513, 16_624),
    "a function that is called again": ("Function Scan", 300_020, 40, 0, 20_520, 20_520, 16_624),
    "rows that are read again": ("Materialize", 59_999, 40, 0, 5148, 132, 3325),
}


@cases("name", STORES)
def test_a_store_holds_repeated_and_removed_rows_once(name):
    kind, rows, loops, removed, read, written, least_kb = STORES[name]
    node = {
        "Node Type": kind, "Actual Rows": rows, "Actual Loops": loops, "Plan Width": 4,
        "Rows Removed by Filter": removed, "Temp Read Blocks": read, "Temp Written Blocks": written,
    }  # fmt: skip
    if kind == "Materialize":
        node["Plans"] = [{"Node Type": "Seq Scan", "Actual Rows": rows, "Actual Loops": 1}]
    (store,) = spills_of(nodes_of(node))
    assert 1 <= store.needed_bytes / (least_kb * K) < 1.25


@cases(("builds", "reads"), [(1, 1), (1, 3), (3, 1), (3, 40)])
def test_a_store_that_is_rebuilt_or_in_several_processes_holds_its_rows_once(builds, reads):
    kind, rows, _, _, _, written, least_kb = STORES["rows that are read again"]
    below = {"Node Type": "Seq Scan", "Actual Rows": rows, "Actual Loops": builds}
    subplan = {"Node Type": "Result", "Subplan Name": "InitPlan 1", "Actual Rows": 1}
    node = {
        "Node Type": kind, "Actual Rows": rows, "Actual Loops": builds * reads, "Plan Width": 4,
        "Temp Read Blocks": written * builds * reads, "Temp Written Blocks": written * builds,
        "Plans": [subplan, below],
    }  # fmt: skip
    (store,) = spills_of(nodes_of(node))
    assert 1 <= store.needed_bytes / (least_kb * K) < 1.25


#: A hash join of 300,000 rows with itself, by PostgreSQL 14.19 with a work_mem of 1 MB, and what
#: other versions print beside it.
JOINED = """Aggregate  (cost=24921.00..24921.01 rows=1 width=8) (actual time=269.3..269.4 rows=1{rows} loops=1)
  Buffers: shared hit=5608, temp read=1658 written=1658{times}
  ->  Hash Join  (cost=10726.00..24171.00 rows=300000 width=0) (actual time=84.7..253.4 rows=300000{rows} loops=1)
        Hash Cond: (x.b = y.b)
        Buffers: shared hit=5608, temp read=1658 written=1658{times}
        ->  Seq Scan on t x  (cost=0.00..5804.00 rows=300000 width=4) (actual time=0.0..23.7 rows=300000{rows} loops=1)
              Buffers: shared hit=2804
        ->  Hash  (cost=5804.00..5804.00 rows=300000 width=4) (actual time=84.4..84.4 rows=300000{rows} loops=1)
              Buckets: 32768  Batches: 16  Memory Usage: 916kB
              Buffers: shared hit=2804, temp written=829{times}
              ->  Seq Scan on t y  (cost=0.00..5804.00 rows=300000 width=4) (actual time=0.0..23.9 rows=300000{rows} loops=1)
                    Buffers: shared hit=2804
Execution Time: 270.1 ms
"""  # noqa: E501
TIMES = "\n        I/O Timings: temp read=2.9 write=18.5"


@cases(
    ("rows", "times", "settings", "enough_mib"),
    [
        ("", "", "", 24),
        ("", TIMES, "", 12),
        (".00", "", "", 12),
        ("", "", "Settings: hash_mem_multiplier = '2'\n", 12),
    ],
)
def test_the_memory_that_a_hash_needs_depends_on_the_default_of_each_version(
    plan_of, rows, times, settings, enough_mib
):
    """Versions 13 and 14 spilled with 12 MB but not with 24; 15 to 18 with 6 but not with 12."""
    plan = plan_of(JOINED.format(rows=rows, times=times) + settings).plan
    assert enough_bytes(plan) == enough_mib << 20
    assert enough_bytes(plan, least=True) == 12 << 20


def test_enough_memory_is_a_round_setting_above_the_largest_need():
    plan = PlanSpills([SORT, STORE], current_bytes=4 << 20)
    # A hundred million bytes and an eighth are 106.8 MiB; the next common setting is 128 MiB.
    assert enough_bytes(plan) == 128 << 20
    # The query spilled with 128 MiB.
    assert enough_bytes(replace(plan, current_bytes=128 << 20)) == 192 << 20
    assert enough_bytes(replace(plan, current_bytes=None)) == 128 << 20


def test_where_spilling_nodes_are_omitted_the_memory_is_unknown(plan_of):
    """A Limit keeps no rows: a node below it wrote the files."""
    counts = plan_of(
        "Limit  (cost=1.0..2.0 rows=5 width=9) (actual time=900.0..900.1 rows=0 loops=1)\n"
        "  Buffers: shared hit=5, temp read=4000 written=4000\n"
        "Execution Time: 901.0 ms\n"
    )
    assert counts.plan is None
    # The Limit's time is that of the nodes below.
    assert counts.time_bounds.upper > 0.8


def test_a_sort_in_memory_with_files_of_omitted_nodes_has_no_spill_plan(tmp_path):
    (path := tmp_path / "plan.txt").write_text(
        "Sort  (cost=1.0..2.0 rows=5 width=9) (actual time=900.0..900.1 rows=9 loops=1)\n"
        "  Sort Method: quicksort  Memory: 607kB\n"
        "  Buffers: shared hit=5, temp read=4000 written=4000\n"
        "Execution Time: 901.0 ms\n"
    )
    assert read_plan(path).plan is None
    text = path.read_text()
    path.write_text(text.replace("quicksort  Memory", "external merge  Disk"))
    assert read_plan(path).plan is not None
    # The line that shows whether the sort spilled is omitted.
    path.write_text(text.replace("  Sort Method: quicksort  Memory: 607kB\n", ""))
    assert read_plan(path).plan is None


def test_one_pass_is_not_a_memory_with_which_other_sorts_write_more():
    # The two passes of one sort are two executions, which need less than 1 MiB.
    often = NodeSpill(kind="sort", processes=1, needed_bytes=400 * K, passes=2, weight=1.0,
                  rows=4000.0, tuple_bytes=80.0)  # fmt: skip
    large = replace(often, needed_bytes=40 << 20, passes=1, rows=400_000.0, weight=9.0)
    zeros = [Uncertainty(s, "plan", "slow to fast", 1.0, 0.1, 0.1) for s in (0.0, 6.0)]
    memory = more_work_memory(PlanSpills([often, large], None), 6.0, zeros, 0.9)
    assert state_with([large], 1 << 20) == "multi-pass"
    setting = memory.one_pass
    assert setting is None or state_with([often, large], setting.work_mem_bytes) != "multi-pass"
    assert setting is None or setting.interval_s[0] <= setting.interval_s[1]
