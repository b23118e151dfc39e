"""A JSON plan whose values are not of PostgreSQL's types is reported as damage, without a crash."""

import copy
import html
import json
import re
from contextlib import nullcontext, suppress

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnknown,
    InputError,
    NoTempIo,
)
from spillcast.evidence.postgres.document import read_documents
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.selection import Selection
from text_plan import TEXT_PLAN

PLAN = {
    "Plan": {
        "Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, "Sort Method": "external merge",
        "Workers": [{"Worker Number": 0, "Sort Space Used": 4}],
        "Plans": [{"Node Type": "Seq Scan", "Actual Rows": 9, "Actual Loops": 1}],
    },
    "Execution Time": 9.5,
    "Settings": {"work_mem": "64kB"},
}  # fmt: skip


def test_segments_of_greenplum_that_spill_are_named(plan_of):
    memory = {"Used": 855261, "Segments": 3, "Workfile Spilling": 3}
    sort = {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, "work_mem": memory}
    with pytest.raises(EvidenceUnknown, match=r"segments spill.*Sort: \"Workfile Spilling\": 3"):
        plan_of(json.dumps([{"Plan": sort, "Execution Time": 1540.3}], indent=2))
    top = "Limit  (cost=1.0..2.0 rows=1 width=8) (actual rows=1 loops=1)"
    scan = "->  Shared Scan (share slice:id 1:0)  (cost=1.0..2.0 rows=1 width=8)"
    with pytest.raises(EvidenceUnknown, match=r"segments spill.*Shared Scan: Workfile"):
        plan_of(f"{top}\n  {scan}\n        Workfile: (2 spilling)\n")


@cases("line", [
    "Extra Text: (seg0)   hash table(s): 1; 9 groups total in 4 batches, 5 spill partitions;",
    "Extra Text: (seg2)   9 groups total in 4 batches; 1 overflows; 9 spill groups.",
    "* (slice1)    Executor memory: 9K bytes.  Work_mem: 24K bytes max, 99K bytes wanted.",
])  # fmt: skip
def test_spills_are_recognised_in_each_version_of_greenplum(tmp_path, line):
    top = "HashAggregate  (cost=1.0..2.0 rows=9 width=8) (actual rows=9 loops=1)"
    (path := tmp_path / "plan.txt").write_text(f"{top}\n  {line}\n")
    for read in (read_plan, read_logs):
        with pytest.raises(EvidenceUnknown):
            read(path)


def test_quoted_nodes_are_not_a_plan_beside_one_in_json(plan_of):
    sizes = {"Sort Method": "external merge", "Sort Space Type": "Disk", "Sort Space Used": 8000}
    sort = {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, **sizes}
    blocks = {"Temp Read Blocks": 1001, "Temp Written Blocks": 1003}
    text = json.dumps([{"Plan": {**sort, **blocks}, "Execution Time": 950.0}], indent=2)
    quoted = (
        "Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=1)\n"
        "  Sort Method: external merge  Disk: 8000kB\n"
        "  ->  Seq Scan on t  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..9.0 rows=9)\n"
    )
    counts = plan_of(f"This is slow:\n{quoted}\n{text}")
    assert (counts.reads.count, counts.writes.count) == (1001, 1003)


@cases("shown, rows, error", [
    ({"Sort Space Type": "Disk", "Sort Space Used": 9000}, 500, EvidenceIncomplete),
    ({"Disk Usage": 9000}, 500, EvidenceIncomplete),
    ({"Hash Batches": 16}, 100_000, EvidenceIncomplete),
    ({"Hash Batches": 16}, 500, NoTempIo),
    ({"Hash Batches": 1}, 100_000, NoTempIo),
])  # fmt: skip
def test_a_node_on_disk_contradicts_a_plan_without_temp_blocks(plan_of, shown, rows, error):
    node = {"Node Type": "Hash", "Actual Rows": rows, "Actual Loops": 1, "Plan Width": 9, **shown}
    join = {"Node Type": "Hash Join", "Actual Rows": 9, "Actual Loops": 1, "Plans": [node]}
    plan = {"Plan": {**join, "Temp Read Blocks": 0, "Temp Written Blocks": 0}}
    with pytest.raises(error):
        plan_of(json.dumps([{**plan, "Execution Time": 1540.3}]))


@cases("written, is_read", [(1125, True), (1124, False)])
def test_each_block_of_a_sort_was_written(plan_of, written, is_read):
    text = f"""\
Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
  Sort Method: external merge  Disk: 9000kB
  Buffers: temp read=1000 written={written}
Execution Time: 902.4 ms
"""
    if is_read:
        assert plan_of(text).writes.count == written
    else:
        with pytest.raises(EvidenceIncomplete):
            plan_of(text)


def places(value, at=()):
    """The path to each value of a document."""
    yield at
    if isinstance(value, dict | list):
        for name, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(below, (*at, name))


@cases("wrong", [None, "text", 7, [], [7], {}])
def test_a_malformed_plan_is_refused_or_read(tmp_path, wrong):
    path = tmp_path / "plan.json"
    for way in places(PLAN):
        document = copy.deepcopy([PLAN])
        holder, name = document, 0
        for step in way:
            holder, name = holder[name], step
        holder[name] = wrong
        path.write_text(json.dumps(document))
        # Any other exception is a bug.
        with suppress(InputError):
            assert read_documents(path)


@cases("name", ["Filter", "Join Filter", "One-Time Filter", "Conflict Filter"])
def test_conditions_are_text_and_removed_rows_are_numbers(tmp_path, name):
    """PostgreSQL writes an expression in the former key, and a row count in the latter."""
    document = copy.deepcopy([PLAN])
    document[0]["Plan"]["Plans"][0] |= {name: "(a <> b)", f"Rows Removed by {name}": 4}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    [plan] = read_documents(tmp_path / "plan.json")
    assert plan["Plan"]["Plans"][0][name] == "(a <> b)"
    document[0]["Plan"]["Plans"][0]["Rows Removed by Filter"] = "some"
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(EvidenceDamaged):
        read_documents(tmp_path / "plan.json")


@cases(
    "below",
    [1, {"Actual Rows": 1}, {"Node Type": ["Sort"]}, {"Node Type": "Sort", "Actual Loops": "x"}],
)
def test_damage_below_a_gather_is_named(tmp_path, below):
    plan = {"Node Type": "Gather", "Actual Rows": 1, "Temp Written Blocks": 9, "Plans": [below]}
    (tmp_path / "plan.json").write_text(json.dumps([{"Plan": plan, "Execution Time": 9.0}]))
    with pytest.raises(EvidenceDamaged):
        read_plan(tmp_path / "plan.json")


def test_details_in_brackets_belong_to_their_node(plan_of):
    """openGauss writes Buffers in brackets."""
    lines = [
        "Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)",
        "  Sort Method: external merge  Disk: 808kB",
        "  (Buffers: shared hit=96 read=4, temp read=100 written=101)",
        "  ->  Seq Scan on t  (cost=0.0..1.0 rows=1 width=8) (actual time=0.1..9.0 rows=6 loops=1)",
        "        (Buffers: shared hit=96 read=4)",
        "Total runtime: 990.5 ms",
    ]
    counts = plan_of("\n".join(lines))
    assert (counts.reads.count, counts.writes.count, counts.elapsed_s) == (100, 101, 0.9905)


def test_a_page_with_figures_above_nodes_and_details_in_a_list(plan_of):
    """As explain.depesz.com shows it, without the indentation of nodes."""
    lines = [
        "Settings",
        "# exclusive inclusive rows x rows loops node",
        "1. 635.315 6,878.749 \u2193 1.4 378,373 1",
        "",
        "Sort (cost=1,303.32..1,303.86 rows=2,713 width=8) "
        "(actual time=6,738.962..6,878.749 rows=378,373 loops=1)",
        "",
        "  \u2022 Sort Key: a, (lower(b))",
        "  \u2022 Sort Method: external merge Disk: 808kB",
        "  \u2022 Buffers: shared hit=9, temp read=300 written=301",
        "2. 6,243.434 6,243.434 \u2191 1.4 126,124 3 / 3",
        "",
        "Sort (cost=1.00..2.00 rows=2,713 width=8) "
        "(actual time=2,994.049..6,243.434 rows=378,373 loops=1)",
        "",
        "  \u2022 Sort Method: external merge Disk: 1600kB",
        "  \u2022 Buffers: shared hit=9, temp read=200 written=200",
        "Planning time : 1.520 ms",
        "Execution time : 6,912.031 ms",
    ]
    counts = plan_of("\n".join(lines))
    assert (counts.reads.count, counts.writes.count, counts.elapsed_s) == (300, 301, 6.912031)


def test_keywords_that_a_highlighter_capitalised_are_read(plan_of):
    plan = """\
 Limit  (cost=1.00..2.00 rows=9 width=8) (actual time=1.000..900.000 rows=9 loops=1)
   Buffers: shared hit=9 read=8, temp read=700 written=703
   I/O Timings: shared read=4.5, temp read=31.25 write=40.5
   ->  Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.000..890.000 rows=9 loops=1)
         Sort Key: a.k
         Sort Method: external merge  Disk: 1600kB
         Buffers: shared hit=9 read=8, temp read=700 written=703
         I/O Timings: shared read=4.5, temp read=31.25 write=40.5
         ->  Hash Left Join  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..8.0 rows=9 loops=1)
               Hash Cond: (a.k = b.k)
               Buffers: shared hit=9 read=8, temp read=500 written=503
               ->  Seq Scan on a  (cost=1.0..2.0 rows=9 width=8) (actual rows=9 loops=1)
               ->  Hash  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..3.0 rows=9 loops=1)
                     Buckets: 1024  Batches: 16  Memory Usage: 5300kB
                     ->  Seq Scan on b  (cost=1.0..2.0 rows=9 width=8) (actual rows=9 loops=1)
 Planning Time: 0.112 ms
 Execution Time: 990.500 ms
"""
    words = "rows=|time=|(?<!shared )read=|write=|Key:|external|\\bon\\b|Left Join|Limit|Time:"
    capitals = re.sub(words, lambda word: word[0].upper(), plan)
    plain = plan_of(plan)
    assert plan_of(capitals) == plain
    assert (plain.writes.count, plain.writes.total_ns, plain.elapsed_s) == (703, 40_500_000, 0.9905)


SORTED = """\
Aggregate  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..940.0 rows=1 loops=1)
  Buffers: shared hit=9, temp read={blocks} written={blocks}
  ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=1)
        Sort Method: external merge  Disk: 98760kB
        Buffers: shared hit=9, temp read={blocks} written={blocks}
        ->  Seq Scan on t  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..9.0 rows=9 loops=1)
Execution Time: 950.0 ms
"""
TEMP_FILE = """\
2026-11-23 10:00:01.100 UTC [42] app@dw LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp42.0", \
size {size}
2026-11-23 10:00:01.100 UTC [42] app@dw STATEMENT:  select a from t order by b
2026-11-23 10:00:01.200 UTC [42] app@dw LOG:  duration: 950.000 ms  statement: select a from t \
order by b
"""


@cases("blocks", ["12,345", "12'345", "12\u2019345", "12 345", "12_345", "12.345"])
def test_a_count_with_separators_is_read_completely_or_refused(tmp_path, blocks):
    (path := tmp_path / "plan.txt").write_text(SORTED.format(blocks=blocks))
    sign = blocks[2]
    with nullcontext() if sign in ",'\u2019 " else pytest.raises(InputError):
        assert read_plan(path).reads.count == 12345
    # A remark behind a count is not part of it.
    for size in ("96 MiB", "101 MB"):
        remark = SORTED.format(blocks=12345).replace("written=12345", f"written=12345 {size}")
        path.write_text(remark)
        assert read_plan(path).writes.count == 12345
    path.write_text(TEMP_FILE.format(size=f"12{sign}582{sign}912"))
    with nullcontext() if sign in ",'\u2019 " else pytest.raises(InputError):
        # Blocks of 8 KiB of 12,582,912 bytes.
        assert read_plan(path).writes.count == 1536


def test_a_count_of_blocks_in_json_must_be_an_integer(plan_of):
    blocks = {"Temp Read Blocks": 12.345, "Temp Written Blocks": 12.345}
    sort = {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, **blocks}
    with pytest.raises(EvidenceDamaged, match=r"12\.345"):
        plan_of(json.dumps([{"Plan": sort, "Execution Time": 9.5}]))


def test_two_different_sorts_of_a_node_are_lost_indentation(tmp_path):
    path, sized = tmp_path / "plan.txt", SORTED.format(blocks=12345)
    method = "        Sort Method: external merge  Disk: 98760kB\n"
    path.write_text(sized.replace(method, 2 * method))
    assert read_plan(path).reads.count == 12345
    for other in (method.replace("98760", "760"), method.replace("Disk", "Memory")):
        path.write_text(sized.replace(method, method + other))
        with pytest.raises(EvidenceDamaged):
            read_plan(path)


@cases("begin, end", [
    ("\x1b[1m", "\x1b(B\x1b[m"), ("\x1b]0;psql\x07", ""), ("\x1b[?2004l", "\x1b[K"), ("B\b", ""),
    ("\x1b]8;;file:///a\x1b\\", ""),
])  # fmt: skip
def test_terminal_control_sequences_are_removed(plan_of, begin, end):
    text = SORTED.format(blocks=12345)
    lines = [f"{begin}{line}{end}" if line.strip() else line for line in text.splitlines()]
    counts = plan_of("\n".join(lines))
    assert (counts.reads.count, counts.elapsed_s) == (12345, 0.95)


def test_json_whose_quotes_are_html_entities_is_read(tmp_path):
    blocks = {"Temp Read Blocks": 1001, "Temp Written Blocks": 1003}
    scan = {"Node Type": "Seq Scan", "Actual Rows": 9, "Actual Loops": 1, "Filter": "(a < '<b>')"}
    sort = {"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1, **blocks, "Plans": [scan]}
    text = json.dumps([{"Plan": sort, "Execution Time": 950.0}], indent=2)
    path = tmp_path / "plan.txt"
    for written in (text, html.escape(text)):
        path.write_text(written)
        counts = read_plan(path)
        assert (counts.reads.count, counts.elapsed_s) == (1001, 0.95)
    # Entities within a value are kept.
    path.write_text(text.replace("<b>", "&quot;,"))
    assert read_plan(path).reads.count == 1001


APPENDED = """\
Append  (cost=0.0..9.0 rows=30 width=8) (actual time=1.0..3.0 rows={rows} loops=1)
  ->  Seq Scan on a  (cost=0.0..4.0 rows=10 width=8) (actual time=0.1..1.0 rows=9 loops=1)
  ->  Seq Scan on b  (cost=0.0..4.0 rows=10 width=8) (actual time=0.1..1.0 rows=9 loops=1)
  ->  Seq Scan on c  (cost=0.0..4.0 rows=10 width=8) (actual time=0.1..1.0 rows={last} loops=1)
Execution Time: 3.1 ms
"""


@cases("last", [0, 9])
def test_an_append_with_missing_children_may_have_spilled(plan_of, last):
    """Its rows are the sum of its children's: both the actual and the planned rows."""
    text = APPENDED.format(rows=18 + last, last=last)
    with pytest.raises(NoTempIo):
        plan_of(text)
    lines = text.splitlines(keepends=True)
    for end in (2, 3):
        with pytest.raises(EvidenceIncomplete):
            plan_of("".join([*lines[:end], lines[-1]]))
    # Subplans removed at startup count in the estimate.
    removed = text.replace("rows=30", "rows=40").replace("  ->", "  Subplans Removed: 1\n  ->", 1)
    with pytest.raises(NoTempIo):
        plan_of(removed)


ON_SEGMENTS = """\
Gather Motion 4:1  (slice1; segments: 4)  (cost=0.0..9.0 rows=9 width=3) (actual rows=9 loops=1)
  ->  Hash Join  (cost=0.0..9.0 rows=9 width=3) (actual time=1.0..2.0 rows=9 loops=1)
        Hash Cond: (a.id = b.id)
        ->  Seq Scan on a  (cost=0.0..4.0 rows=9 width=3) (actual time=0.1..1.0 rows=9 loops=1)
        ->  Hash  (cost=4.0..4.0 rows=9 width=3) (actual time=0.1..1.0 rows=9 loops=1)
              Buckets: 131072  Batches: {batches}  Memory Usage: 2450kB
              ->  Seq Scan on b  (cost=0.0..4.0 rows=9 width=3) (actual time=0.1..1.0 rows=9)
  (slice0)    Executor memory: 44K bytes.
  (slice1)    Executor memory: 912K bytes avg x 4 workers.  Work_mem: 2450K bytes max{wanted}.
Execution Time: 2600.5 ms
"""


@cases(
    ("batches", "wanted", "error"),
    [
        (1, "", NoTempIo),
        (16, "", EvidenceUnknown),
        (1, ", 8000K bytes wanted", EvidenceUnknown),
    ],
)
def test_segments_of_greenplum_show_whether_they_spilled(plan_of, batches, wanted, error):
    with pytest.raises(error):
        plan_of(ON_SEGMENTS.format(batches=batches, wanted=wanted))


SUBPLAN = """\
Custom Scan (Citus Adaptive)  (cost=0.0..0.0 rows=0 width=0) (actual time=9.0..9.1 rows=6 loops=1)
  ->  Distributed Subplan 23_1
        Subplan Duration: 850.60 ms
        ->  Sort  (cost=0.0..6.0 rows=5 width=44) (actual time=500.0..800.0 rows=5 loops=1)
              Sort Key: a
              Sort Method: external merge  Disk: 20000kB
              Buffers: shared hit=10, temp read=2500 written=2510
              ->  Seq Scan on c  (cost=0.0..6.0 rows=5 width=44) (actual time=0.1..6.0 rows=5)
                    Buffers: shared hit=10
        Planning Time: 0.1 ms
        Execution Time: 850.5 ms
  Task Count: 1
  ->  Task
        ->  Seq Scan on d  (cost=0.0..6.0 rows=5 width=44) (actual time=0.1..6.9 rows=5 loops=1)
              Buffers: shared hit=10
            Execution Time: 9.7 ms
  Buffers: shared hit=10
Execution Time: 1800.9 ms
"""


def test_a_subplan_of_citus_that_spills_is_a_run_of_its_own(plan_of):
    counts = plan_of(SUBPLAN)
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (0.8505, 2500, 2510)


def test_io_of_a_node_may_be_below_the_planning_of_its_task(plan_of):
    """The coordinator spilled as well."""
    planning = "        Planning:\n          Buffers: shared hit=9\n        Planning Time: 0.1 ms\n"
    text = SUBPLAN.replace("        Planning Time: 0.1 ms\n", "")
    text = text.replace("            Execution Time: 9.7 ms\n", planning)
    temp = ", temp read=2600 written=2610"
    counts = plan_of(text.replace("hit=10\nExecution", f"hit=10{temp}\nExecution"))
    assert (counts.reads.count, counts.writes.count) == (2600, 2610)


def test_an_excerpt_without_its_first_node_is_cut_with_and_without_elapsed_time(tmp_path):
    """Nodes above it may have spilled, so --elapsed is no remedy."""
    lines = ON_SEGMENTS.format(batches=1, wanted="").splitlines()[1:7]
    (path := tmp_path / "plan.txt").write_text("\n".join(lines).replace("time=0.1", "time=1.5"))
    reasons = set()
    for elapsed_s in (None, 40.0):
        with pytest.raises(EvidenceIncomplete) as cut:
            read_plan(path, Selection(elapsed_s=elapsed_s))
        reasons.add((str(cut.value), cut.value.hint))
    assert len(reasons) == 1


ALONE = {"Node Type": "Sort", "Sort Space Type": "Disk", "Sort Space Used": 800}


@cases("node,elapsed_s,is_read", [
    (ALONE, 2.0, True),
    (ALONE, None, False),
    ({**ALONE, "Actual Rows": 9, "Actual Loops": 1, "Actual Total Time": 9.5}, None, False),
    ({**ALONE, "Parent Relationship": "Outer"}, 2.0, False),
    ({**ALONE, "Sort Space Used": "800 kB"}, 2.0, False),
])  # fmt: skip
def test_a_node_in_json_without_its_plan_needs_the_time_of_the_query(
    plan_of, node, elapsed_s, is_read
):
    """The node may have a parent, which names the relationship."""
    text = f"```json\n{json.dumps(node, indent=2)}\n```\nIt spills.\n"
    if is_read:
        counts = plan_of(text, elapsed_s=elapsed_s)
        assert (counts.elapsed_s, counts.writes.bytes) == (elapsed_s, 800 << 10)
    else:
        with pytest.raises((EvidenceIncomplete, EvidenceDamaged)):
            plan_of(text, elapsed_s=elapsed_s)
    with pytest.raises(InputError):
        plan_of(text[: text.index("Disk")], elapsed_s=2.0)


@cases("plans", [
    json.dumps(ALONE) + "\n" + json.dumps({**ALONE, "Sort Space Used": 9000}),
    "Sort  (cost=1.0..2.0 rows=9 width=8)\n  Sort Method: external merge  Disk: 800kB\n\n" * 2,
])  # fmt: skip
def test_of_two_nodes_with_sizes_none_is_picked(plan_of, plans):
    with pytest.raises(EvidenceAmbiguous):
        plan_of(plans.replace("800kB", "9000kB", 1), elapsed_s=2.0)


def test_temp_blocks_that_a_node_wrote_are_read_without_actual_rows(plan_of):
    node = {"Node Type": "Sort", "Temp Written Blocks": 100}
    assert plan_of(json.dumps([{"Plan": node}]), elapsed_s=2.0).writes.count == 100


def test_a_plan_is_read_beside_one_of_its_nodes_in_json(plan_of):
    node = {"Node Type": "Seq Scan", "Actual Rows": 9, "Actual Loops": 1, "Actual Total Time": 1.0}
    assert plan_of(f"{json.dumps(node)}\n\n{TEXT_PLAN}").writes == plan_of(TEXT_PLAN).writes


@cases("plan", [
    json.dumps([{"Plan": {"Node Type": "Sort"}}]),
    json.dumps({"Node Type": "Hash", "Hash Batches": 16, "Original Hash Batches": 1}),
    json.dumps({**ALONE, "Sort Space Type": "Memory"}),
    "Sort  (cost=1.0..2.0 rows=9 width=8)\n  Sort Key: a\n",
    "Hash\n  Buckets: 65536  Batches: 4  Memory Usage: 3000kB\n",
])  # fmt: skip
def test_a_plan_that_was_not_run_never_looks_as_if_it_did_not_spill(plan_of, plan):
    with pytest.raises(EvidenceIncomplete):
        plan_of(plan, elapsed_s=2.0)


def test_a_text_plan_of_auto_explain_has_its_query_identifier(plan_of):
    lines = ["Query Text: select 1", *TEXT_PLAN.strip("\n").splitlines()[:-2]]
    lines.append(" Query Identifier: -8")
    logged = "2026-11-26 05:03:59.137 UTC [3498] LOG:  duration: 2500.000 ms  plan:\n"
    logged += "".join(f"\t{line}\n" for line in lines)
    assert plan_of(logged).statement.queryid == "-8"


def test_a_window_writes_and_reads_its_rows_in_each_execution(plan_of):
    """PostgreSQL 18 without BUFFERS: 800 kB are 100 blocks."""
    counts = plan_of(
        "WindowAgg  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..1000.0 rows=9 loops=2)\n"
        "  Storage: Disk  Maximum Storage: 800kB\n"
        "  ->  Seq Scan on t  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..9.0 rows=9 loops=2)"
        "\nExecution Time: 2000.0 ms\n"
    )
    assert (counts.reads.count, counts.writes.count) == (200, 200)


def test_temp_io_of_nodes_that_are_left_out_needs_an_unknown_work_memory(plan_of):
    """An author kept the first node; any node below it may have spilled."""
    lines = [
        "Aggregate  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=1 loops=1)",
        "  Buffers: shared hit=96, temp read=100 written=101",
        "Execution Time: 901.000 ms",
    ]
    counts = plan_of("\n".join(lines))
    assert (counts.writes.count, counts.plan) == (101, None)
