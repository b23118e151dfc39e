"""Times of a plan's nodes bound its temp I/O where that is not timed."""

from textwrap import indent

import pytest

from cases import cases
from spillcast.errors import EvidenceContradictory, EvidenceIncomplete, NoTempIo
from spillcast.evidence.postgres.plan import read_plan
from spillcast.forecast.ask import ask
from spillcast.forecast.question import Question
from text_plan import TEXT_PLAN

SCANNED = """\
{top}  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..1000.0 rows=9 loops=1)
{workers}  Buffers: shared hit=900, temp read=500 written=500
  ->  Nested Loop  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops={processes})
        Buffers: shared hit=900, temp read=500 written=500
        ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..700.0 rows=9 loops={processes})
              Sort Key: a
              {sorted}
              Buffers: shared hit=500, temp read=500 written=500
              ->  Hash Join (actual time=1.0..{join_ms} loops={loops})
                    {buffers}
        ->  Index Scan on i (actual time={index_ms})
              Buffers: shared hit=400
Execution Time: 1000.0 ms
"""
SERIAL = {
    "top": "Aggregate",
    "workers": "",
    "index_ms": "0.001..0.002 rows=1 loops=50000",
    "processes": 1,
    "sorted": "Sort Method: external merge  Disk: 4000kB",
    "join_ms": "400.001 rows=9",
    "loops": 1,
    "buffers": "Buffers: shared hit=500",
}
TWO = {
    **SERIAL,
    "top": "Gather",
    "workers": "  Workers Planned: 1\n  Workers Launched: 1\n",
    "processes": 2,
    "loops": 2,
}
#: Upper bound of temp I/O in a run of 1 s, of all its processes. The index scan took at least
#: 50,000 times 1.5 us, the join 0.4 s in each process. In one process, the loop itself took its
#: 0.9 s less the 0.7 s of the sort and at most 50,000 times 2.5 us of the index scan, all rounded
#: to 1 ms; the aggregate, which has no temp blocks of its own, took its 1 s less these 0.9 s.
OUTSIDE = {
    "all but the sort do none": (SERIAL, 1 - 0.4 - 0.075 - 0.074 - 0.099),
    "an author left out what the join did": ({**SERIAL, "buffers": ""}, 1 - 0.075 - 0.074 - 0.099),
    "in two processes": (TWO, 2 - 0.8 - 0.075),
    # The index scan's process may be the one without temp I/O: it had 1 s for such nodes.
    "of two, one did it": (
        {**TWO, "sorted": "Sort Method: external merge  Disk: 4000kB\n"
         "              Worker 0:  Sort Method: quicksort  Memory: 25kB"}, 1.0),
    # Each of 150 scans took at least half a millisecond.
    "whole milliseconds": (
        {**SERIAL, "index_ms": "0..1 rows=1 loops=150"}, 1 - 0.4 - 0.075 - 0.099),
    "times that do not fit into the run": ({**SERIAL, "join_ms": "1400.001 rows=9"}, 1.0),
}  # fmt: skip


@cases("name", OUTSIDE)
def test_time_of_nodes_without_temp_io_is_excluded(plan_of, name):
    values, upper_s = OUTSIDE[name]
    assert plan_of(SCANNED.format(**values)).time_bounds.upper == pytest.approx(upper_s, abs=1e-4)


#: Without buffers: the scan of t calls the init plan, so its time includes that of the sort.
INIT_PLAN = """\
Hash Join  (cost=1.0..2.0 rows=9 width=8) (actual time=990.001..995.001 rows=9 loops=1)
  InitPlan 1 (returns $0)
    ->  Unique  (cost=1.0..2.0 rows=9 width=8) (actual time=900.001..970.001 rows=1 loops=1)
          ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=900.001..960.001 rows=9 loops=1)
                Sort Method: external merge  Disk: 80000kB
  ->  Seq Scan on t  (cost=1.0..2.0 rows=9 width=8) (actual time=970.001..980.001 rows=9 loops=1)
        Filter: (x > $0)
  ->  Hash  (cost=1.0..2.0 rows=9 width=8) (actual time=1.001..1.001 rows=9 loops=1)
        ->  Seq Scan on u  (cost=1.0..2.0 rows=9 width=8) (actual time=0.001..0.501 rows=9 loops=1)
Execution Time: 1000.0 ms
"""
SORTED = """\
{arrow}Gather Merge  (actual time=200.001..{ms} rows=9 loops=1)
{arrow}  Workers Launched: 4
{arrow}  Buffers: shared hit=9, temp read=500 written=500
{arrow}  ->  Sort  (actual time=200.001..490.001 rows=9 loops=5)
{arrow}        Sort Method: external merge  Disk: 4000kB
{arrow}        Buffers: shared hit=9, temp read=500 written=500
{arrow}        ->  Parallel Seq Scan on t  (actual time=0.001..{scan_ms} rows=9 loops=5)
{arrow}              Buffers: shared hit=9
"""
EACH = SORTED.format(arrow="  ->  ", ms="490.001", scan_ms="190.001").replace(
    "\n  ->  ", "\n      "
)
#: Nine processes: at least 300 ms of the leader and of each worker remain for the sorts.
TWO_GATHERS = f"""\
Merge Join  (actual time=400.001..990.001 rows=9 loops=1)
  Buffers: shared hit=18, temp read=1000 written=1000
{EACH}{EACH}Execution Time: 1000.0 ms
"""
#: The line of Gather is missing: five processes ran what the node above seems to have run.
NO_GATHER = (
    "Aggregate  (actual time=990.001..990.001 rows=1 loops=1)\n"
    "  Buffers: shared hit=9, temp read=500 written=500\n"
    + "\n".join(EACH.splitlines()[3:])
    + "\nExecution Time: 1000.0 ms\n"
)
#: Its inputs run on other nodes, concurrently with the join.
EXCHANGED = """\
PX Coordinator 4:1  (slice1; segments: 4)  (actual time=9.001..990.001 rows=9 loops=1)
  Buffers: shared hit=9, temp read=500 written=500
  ->  Hash Join  (actual time=9.001..980.001 rows=9 loops=1)
        Buffers: shared hit=9, temp read=500 written=500
        ->  PX Hash 4:4  (slice2; segments: 4)  (actual time=9.001..900.001 rows=9 loops=1)
              Buffers: shared hit=9
Execution Time: 1000.0 ms
"""
#: The first scan made the first part of c, which is a scan; the second scan made the rest. The
#: append took 0.07 s more than its parts.
IN_PARTS = """\
Nested Loop  (actual time=1.001..990.001 rows=9 loops=1)
  Buffers: shared hit=9, temp read=500 written=500
  CTE c
    ->  Append  (actual time=0.001..970.001 rows=9 loops=1)
          Buffers: shared hit=9, temp read=500 written=500
          ->  Seq Scan on t  (actual time=0.001..300.001 rows=9 loops=1)
                Buffers: shared hit=9
          ->  Sort  (actual time=500.001..600.001 rows=9 loops=1)
                Sort Method: external merge  Disk: 4000kB
                Buffers: temp read=500 written=500
  ->  Limit  (actual time=0.001..300.001 rows=9 loops=1)
        Buffers: shared hit=9
        ->  CTE Scan on c  (actual time=0.001..300.001 rows=9 loops=1)
              Buffers: shared hit=9
  ->  CTE Scan on c d  (actual time=0.001..680.001 rows=9 loops=1)
        Buffers: temp read=500 written=500
Execution Time: 1000.0 ms
"""
WITHIN = {
    "an init plan without buffers": (INIT_PLAN, 1.0),
    "two gathers at the same time": (TWO_GATHERS, 5.0),
    "no gather": (NO_GATHER, 1.0),
    "a node of a fork": (EXCHANGED, 1.0),
    "a common table expression made in parts": (IN_PARTS, 1 - 0.3 - 0.07),
}


@cases("name", WITHIN)
def test_time_in_which_temp_io_is_possible_is_not_excluded(plan_of, name):
    text, upper_s = WITHIN[name]
    assert plan_of(text).time_bounds.upper == pytest.approx(upper_s, abs=1e-4)


def test_node_times_of_another_run_set_no_bound(plan_of):
    counts = plan_of(SCANNED.format(**SERIAL), elapsed_s=0.6)
    assert counts.time_bounds.upper == pytest.approx(0.6)


VERBOSE = """\
Gather  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..1000.0 rows=9 loops=1)
  Workers Planned: 2
  Workers Launched: 2
  Buffers: shared hit=900, temp read=300 written=300
  ->  Hash Join  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops={loops})
        Buffers: shared hit=900, temp read=300 written=300
        Worker 0:  actual time=1.0..900.0 rows=3 loops=1
          Buffers: shared hit=300, temp read=100 written=100
{worker}Execution Time: 1000.0 ms
"""
WORKER = """\
        Worker 1:  actual time=1.0..900.0 rows=3 loops=1
          Buffers: shared hit=300, temp read=100 written=100
"""
#: PostgreSQL prints no buffers where their count is 0.
IDLE = "        Worker 1:  actual time=1.0..2.0 rows=0 loops=1\n"


@cases(
    "worker,loops,processes",
    [(WORKER, 3, 3.0), ("", 3, 3.0), ("        ...\n", 3, 3.0), ("", 2, 1.5), (IDLE, 3, 1.5)],
)
def test_leader_and_missing_workers_share_the_rest_equally(tmp_path, worker, loops, processes):
    """A worker did 200 of 600 blocks; by the loops, three processes ran the join, or two."""
    path = tmp_path / "plan.txt"
    path.write_text(VERBOSE.format(worker=worker, loops=loops))
    assert read_plan(path).processes == processes
    # If the plan is cut there, the buffers of a worker may be missing.
    path.write_text(path.read_text().partition("Execution")[0])
    assert read_plan(path).processes == (3.0 if worker is IDLE else processes)


#: A Limit whose counts are those of the leader, as up to version 10.
ABOVE = """\
Limit  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..1000.0 rows=9 loops=1)
  Buffers: shared hit=300, temp read={read} written=100
  ->  """


@cases("read,worker,is_read", [
    (100, WORKER, True),
    (100, "", False),
    (90, WORKER, False),
    (110, WORKER, False),
])  # fmt: skip
def test_nodes_above_a_gather_may_lack_the_blocks_of_workers(plan_of, read, worker, is_read):
    """The Gather read 300 blocks, and each worker 100: the leader read 100."""
    plan = indent(VERBOSE.format(worker=worker, loops=3), "      ").replace("      Exec", "Exec")
    text = ABOVE.format(read=read) + plan.lstrip()
    if is_read:
        counts = plan_of(text)
        assert (counts.reads.count, counts.writes.count, counts.processes) == (300, 300, 3.0)
    else:
        with pytest.raises(EvidenceContradictory):
            plan_of(text)


@cases("shown", [0, 1, 2])
def test_sorts_of_missing_workers_are_as_large_as_those_shown(plan_of, shown):
    lines = VERBOSE.splitlines()
    workers = "".join(
        f"        Worker {at}:  Sort Method: external merge  Disk: 800kB\n" for at in range(shown)
    )
    sort = "  ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=3)"
    method = "        Sort Method: external merge  Disk: 800kB\n"
    text = "\n".join([*lines[:3], sort, method]) + f"{workers}Execution Time: 1000.0 ms\n"
    assert plan_of(text).writes.count == 300


ON_DISK = "external merge  Average Disk: 48kB  Peak Disk"
FEW_ROWS = "Full-sort Groups: 3  Sort Methods: quicksort, top-N heapsort  Average Memory: 29kB"
#: Groups of few rows, and groups with many rows of the same presorted key.
IN_GROUPS = [
    (f"{FEW_ROWS}  Peak Memory: 29kB", NoTempIo),
    (
        f"{FEW_ROWS}  Peak Memory: 29kB\nPre-sorted Groups: 2  Sort Method: {ON_DISK}: 48kB",
        EvidenceIncomplete,
    ),
    (f"{FEW_ROWS}  Peak Memory: 29kB  Average Disk: 48kB  Peak Disk: 48kB", EvidenceIncomplete),
]


def test_incremental_sorts_show_sizes_of_groups_on_disk(plan_of):
    """PostgreSQL 13 and newer write their mean and their peak, which are not the size of a file."""
    text = """\
Incremental Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
  Sort Key: a, b
  Presorted Key: a
  Full-sort Groups: 3  Sort Method: quicksort  Average Memory: 29kB  Peak Memory: 29kB
  Pre-sorted Groups: 2  Sort Method: external merge  Average Disk: 800kB  Peak Disk: 900kB
  Buffers: shared hit=3, temp read=600 written=610
  ->  Index Scan using a on t  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..9.2 rows=9 loops=1)
Execution Time: 902.4 ms
"""
    for groups in (text, text.replace("quicksort  Average Memory: 29kB  Peak Memory", ON_DISK)):
        counts = plan_of(groups)
        assert (counts.reads.count, counts.writes.count, counts.elapsed_s) == (600, 610, 0.9024)


@cases("groups,error", IN_GROUPS)
def test_incremental_sorts_in_memory_do_not_spill(plan_of, groups, error):
    text = f"""\
Limit  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
  ->  Incremental Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
        Sort Key: a, b
        Presorted Key: a
{indent(groups, " " * 8)}
        ->  Index Scan using a on t  (actual time=1.0..9.2 rows=9 loops=1)
Execution Time: 902.4 ms
"""
    with pytest.raises(error):
        plan_of(text)


@cases("space,error", [("Memory", NoTempIo), ("Disk", EvidenceIncomplete)])
def test_groups_of_an_incremental_sort_in_xml(plan_of, space, error):
    used = (
        f"<Sort-Space-{space}><Peak-Sort-Space-Used>27</Peak-Sort-Space-Used></Sort-Space-{space}>"
    )
    groups = f"<Sort-Methods-Used><Item>any</Item></Sort-Methods-Used>{used}"
    run = "<Actual-Rows>9</Actual-Rows><Actual-Loops>1</Actual-Loops>"
    text = (
        '<explain xmlns="http://www.postgresql.org/2009/explain"><Query><Plan>'
        f"<Node-Type>Incremental Sort</Node-Type>{run}"
        f"<Full-sort-Groups><Group-Count>3</Group-Count>{groups}</Full-sort-Groups>"
        f"<Plans><Plan><Node-Type>Index Scan</Node-Type>{run}</Plan></Plans>"
        "</Plan><Execution-Time>35.9</Execution-Time></Query></explain>"
    )
    with pytest.raises(error):
        plan_of(text)


@cases(
    "target,least_s,most_s",
    [("factor:7", 0.0, 1.001), ("factor:1", 0.0, 1.001), ("factor:0.5", 1.01, 9.0)],
)
def test_storage_with_shorter_latencies_than_now_never_slows_a_run(
    tmp_path, target, least_s, most_s
):
    (path := tmp_path / "plan.txt").write_text(SCANNED.format(**SERIAL))
    [answer] = ask([path], [target], Question())
    assert least_s <= answer[0].interval_s[1] <= most_s
    assert answer[0].ceiling_interval_s[1] <= 1.0


def test_measured_times_of_temp_io_override_a_named_storage(tmp_path):
    """A latency that is not the run's would wrongly make storage the problem."""
    (path := tmp_path / "plan.txt").write_text(TEXT_PLAN)
    [(measured, *_)], [(named, *_)] = (
        ask([path], ["latency:30us"], Question(origin=origin)) for origin in (None, "latency:300us")
    )
    assert named.forecast_s == measured.forecast_s
    assert "assumed" not in {caveat.code for caveat in named.warnings}


PLANNED = """\
Gather  (cost=1.0..2.0 rows=2 width=40) (actual time=1.0..200.0 rows=2 loops=1)
  Output: a
  Workers Planned: 1
  Workers Launched: 1
  Buffers: shared read=40, temp read=30 written=30
  I/O Timings: shared read=80.000, temp read=10.000 write=20.000
  ->  Sort  (cost=1.0..2.0 rows=2 width=40) (actual time=1.0..200.0 rows=1 loops=2)
        Output: a
        Sort Key: t.a
        Sort Method: external merge  Disk: 120kB
        Buffers: shared read=40, temp read=30 written=30
        I/O Timings: shared read=80.000, temp read=10.000 write=20.000
        Worker 0:  actual time=1.0..150.0 rows=1 loops=1
          Sort Method: external merge  Disk: 120kB
          Buffers: shared read=20, temp read=15 written=15
          I/O Timings: shared read=40.000, temp read=5.000 write=10.000
Planning:
  Buffers: shared hit=5 read=3
  I/O Timings: shared read=0.021
Planning Time: 0.1 ms
Execution Time: 210.000 ms
"""


@cases("indented", [True, False])
def test_io_of_planning_is_of_no_node(plan_of, indented):
    text = PLANNED if indented else "\n".join(map(str.strip, PLANNED.splitlines()))
    counts = plan_of(text)
    assert (counts.reads.count, counts.writes.count, counts.processes) == (30, 30, 2)
    # Both processes read tables at the same time.
    assert counts.data_read_s == pytest.approx(0.040)


def test_times_of_the_first_node_are_of_the_nodes_that_did_its_io(plan_of):
    # The two processes of the sort shared 300 ms; the Gather did no temp I/O itself.
    timed = "I/O Timings: temp read=100.0 write=200.0"
    [first, rest] = SCANNED.format(**TWO).split("written=500\n", 1)
    counts = plan_of(f"{first}written=500\n  {timed}\n{rest}")
    assert (counts.reads.total_ns, counts.writes.total_ns) == (100_000_000, 200_000_000)
    assert counts.processes == 2
