"""The bounds of nodes in plans without BUFFERS hold what PostgreSQL 15 and 18 counted for them."""

import json

import pytest

from cases import cases
from spillcast.evidence.postgres.plan import read_plan


def node(kind, *below, rows=60000, width=45, loops=1, **values):
    names = {name.replace("_", " "): value for name, value in values.items()}
    return {
        "Node Type": kind, "Actual Rows": rows, "Actual Loops": loops, "Plan Rows": rows,
        "Plan Width": width, "Plans": list(below), **names,
    }  # fmt: skip


def sort(kib, *below, **values):
    figures = {"Sort_Space_Used": kib, "Sort_Space_Type": "Disk", "Sort_Method": "external merge"}
    return node("Sort", *(below or [node("Seq Scan")]), **{**figures, **values})


def hashed(batches, original, peak_kib, *below, **values):
    figures = {"Hash_Batches": batches, "Original_Hash_Batches": original}
    return node("Hash", *below, Peak_Memory_Usage=peak_kib, Hash_Buckets=1024, **figures, **values)


SMALL = {"work_mem": "64kB"}
GROUPS = {"Group Count": 1408, "Sort Space Memory": {"Average Sort Space Used": 30}}
LARGE = {"Group Count": 1, "Sort Space Disk": dict.fromkeys(
    ("Average Sort Space Used", "Peak Sort Space Used"), 744)}  # fmt: skip
#: A plan, its settings, and the blocks that the server read and wrote.
MEASURED = {
    "merges": (sort(3496), SMALL, 1302, 1442),
    "merges with unknown memory": (sort(3496), {}, 1302, 1442),
    "a last merge that ends early": (
        node("Merge Join", sort(2744, node("Seq Scan", width=34), rows=1, width=34), rows=1),
        SMALL, 687, 1135,
    ),
    "groups": (
        node("Append", sort(8, rows=9), node("Incremental Sort", node("Index Scan"),
             **{"Full-sort Groups": GROUPS, "Pre-sorted Groups": LARGE})), {}, 182, 211,
    ),
    "partitions that are split again": (
        node("Aggregate", node("Seq Scan", width=44), Strategy="Hashed", HashAgg_Batches=50815,
             Disk_Usage=3728), SMALL, 52210, 52563,
    ),
    "partitions": (
        node("Aggregate", node("Seq Scan", rows=90000), rows=90000, Strategy="Hashed",
             HashAgg_Batches=17, Disk_Usage=7056), {"work_mem": "1MB"}, 697, 1513,
    ),
    "a hash": (
        node("Hash Join", node("Seq Scan", width=10),
             hashed(64, 64, 244, rows=90000, width=114), rows=90000), {}, 1774, 1774,
    ),
    "a hash that is split": (
        node("Hash Join", node("Seq Scan", rows=30000, width=4),
             hashed(32, 1, 369, rows=20000, width=38)), SMALL, 494, 494,
    ),
    "a shared hash": (
        node("Gather", node("Hash Join", node("Seq Scan", rows=12000, width=37, loops=5),
             hashed(32, 32, 352, rows=12000, width=12, loops=5, Parallel_Aware=True),
             rows=12000, loops=5), Workers_Launched=4), {"work_mem": "256kB"}, 884, 1664,
    ),
    "a hash join below a limit": (
        node("Limit", node("Hash Join", node("Seq Scan", rows=501, width=37),
             hashed(64, 64, 81, node("Seq Scan", width=37), width=37), rows=5, width=74), rows=5),
        SMALL, 0, 379,
    ),
    "a merge join that goes back": (
        node("Merge Join", sort(56, node("Seq Scan", rows=4000, width=4), rows=4000, width=4),
             node("Materialize", sort(56, node("Seq Scan", rows=4000, width=4), rows=4000, width=4),
                  rows=7998001, width=4), rows=8000000, width=0), SMALL, 16006, 24,
    ),
    "a window that goes back": (
        node("WindowAgg", node("Sort", width=41), Storage="Disk", Maximum_Storage=645),
        SMALL, 180795, 405,
    ),
    "a recursion": (
        node("Recursive Union", node("Seq Scan", rows=9999, width=49),
             node("Subquery Scan", node("WorkTable Scan", rows=6666, width=8, loops=3),
                  rows=4999.67, width=49, loops=3),
             rows=24998, width=49, Storage="Disk", Maximum_Storage=1153), SMALL, 183, 183,
    ),
}  # fmt: skip


@pytest.fixture
def bounds_of(tmp_path):
    def of(plan, settings):
        path = tmp_path / "plan.json"
        top = {"Actual Total Time": 9000.0, **plan}
        path.write_text(json.dumps({"Plan": top, "Settings": settings, "Execution Time": 9001.0}))
        counts = read_plan(path)
        bounds = counts.io_bounds
        return (bounds.lower, counts, bounds.upper)

    return of


@cases("name", MEASURED)
def test_bounds_hold_what_the_server_counted(bounds_of, name):
    plan, settings, read, written = MEASURED[name]
    least, counts, most = bounds_of(plan, settings)
    assert least.reads.count <= read <= most.reads.count
    assert least.writes.count <= written <= most.writes.count
    assert least.operations <= counts.operations <= most.operations


def test_settings_narrow_the_bounds_of_a_sort(bounds_of):
    """60,000 rows of 72 bytes fill 64 kB 65 times; at most 7 runs are merged at once."""
    known, unknown = (bounds_of(sort(3496), each)[0] for each in (SMALL, {}))
    assert unknown.writes.count == 3496 // 8
    # 65 - 7 runs less, of 6 for each merge: 10 merges of 7 runs each.
    assert known.writes.count > 3496 // 8 * (1 + 0.5 * 10 * 7 / 65)


def test_polyphase_merges_of_version_14_are_within_the_bounds(bounds_of):
    """Beside 1024 slots, 64 kB hold 285 rows of 144 bytes: 161 runs, on tapes of 32, 31, 30, 28, 24
    and 16. 16 merges of these are 6 runs long, 8 then 11, 4 then 21, 2 then 41, and the one before
    the last 81.
    """
    most = bounds_of(sort(2668, node("Seq Scan", rows=45800), rows=45800), SMALL)[2]
    written = 161 + 16 * 6 + 8 * 11 + 4 * 21 + 2 * 41 + 81
    assert most.writes.count >= written / 161 * 2668 / 8


@cases("used", (25, 56))
def test_a_hash_aggregate_may_not_use_all_blocks_that_it_reserved(bounds_of, used):
    """Each of 64 tapes reserves 8, 16 and 32 blocks, and uses 25 to 56 of them."""
    size = 64 * 56
    figures = {"HashAgg_Batches": 65, "Disk_Usage": 8 * size, "Strategy": "Hashed"}
    least, _, most = bounds_of(node("Aggregate", node("Seq Scan"), **figures), {})
    assert least.reads.count <= 64 * used <= most.reads.count
    # Blocks before the first that is written are filled with zeros; the last 31 may be unused.
    assert least.writes.count <= size - 31
    assert 64 * used + size <= most.writes.count


def test_rows_of_a_subplan_are_no_input_of_a_hash_join(bounds_of):
    inner, outer = hashed(16, 16, 263), node("Seq Scan")
    unrelated = node("Materialize", rows=10**7, Subplan_Name="SubPlan 1", Storage="Memory")
    plain, other = (
        bounds_of(node("Hash Join", *inputs), SMALL)
        for inputs in ((outer, inner), (unrelated, outer, inner))
    )
    assert [each.operations for each in plain] == [each.operations for each in other]


def test_a_scan_that_never_ran_read_nothing(bounds_of):
    """PostgreSQL 18 shows the size of a common table expression at each of its scans."""
    shown = {"CTE_Name": "c", "Storage": "Disk", "Maximum_Storage": 800}
    never, ran = (node("CTE Scan", loops=loops, rows=9 * loops, **shown) for loops in (0, 1))
    plan = node("Append", never, ran, node("Seq Scan", Subplan_Name="CTE c"))
    _, counts, most = bounds_of(plan, {})
    assert (counts.reads.count, counts.writes.count) == (0, 100)
    assert most.reads.count == 0


@cases(("calls", "sorts"), [(["count(DISTINCT t)"], True), (["count(t)"], False)])
def test_verbose_shows_whether_an_aggregate_sorts_its_input(bounds_of, calls, sorts):
    """PostgreSQL 18, work_mem 256 kB: such a sort wrote 98 blocks of 60,000 rows."""
    above = node("Aggregate", sort(3496), rows=1, Strategy="Plain", Output=calls)
    settings = {"work_mem": "256kB"}
    alone, whole = bounds_of(sort(3496), settings)[2], bounds_of(above, settings)[2]
    assert (whole.writes.count >= alone.writes.count + 98) == sorts


def test_exists_may_leave_batches_of_a_join_unread(bounds_of):
    join = node("Hash Join", node("Seq Scan"), hashed(16, 16, 263), Subplan_Name="SubPlan 1")
    assert bounds_of(node("Result", join, sort(80), rows=1), {})[0].reads.count <= 10


def test_figures_that_no_server_prints_are_no_fault(bounds_of):
    joined = node("Hash Join", node("Seq Scan"), hashed(8, 0, 263))
    grouped = node("Aggregate", sort(800), Grouping_Sets=True)
    for plan in (joined, grouped):
        least, _, most = bounds_of(plan, {})
        assert 0 < least.operations <= most.operations
