"""Text around the figures of a plan: times of its parts, remarks, quotations, separators."""

import json
import re

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    TimesContradictory,
)
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.selection import Selection
from spillcast.forecast import forecast
from spillcast.forecast.previous_runs import read_history
from spillcast.storage.target import resolve

CITUS = """\
Custom Scan (Citus Adaptive)  (cost=0.0..0.0 rows=0 width=0) (actual time=9.7..95.7 rows=6 loops=1)
  Buffers: shared hit=10, temp read=100 written=100
  ->  Distributed Subplan 23_1
        Subplan Duration: 56.57 ms
        ->  Seq Scan on c  (cost=0.0..6.0 rows=5 width=44) (actual time=0.1..6.9 rows=5 loops=1)
        Planning Time: 0.1 ms
        Execution Time: 8.7 ms
  Task Count: 1
  ->  Task
        ->  Seq Scan on d  (cost=0.0..6.0 rows=5 width=44) (actual time=0.1..6.9 rows=5 loops=1)
            Execution Time: 91.7 ms
Execution Time: 95.9 ms
"""


def test_the_time_of_a_part_is_not_the_time_of_the_run(plan_of):
    counts = plan_of(CITUS)
    assert (counts.elapsed_s, counts.reads.count) == (0.0959, 100)


def test_each_task_of_a_plan_without_a_total_time_is_listed(tmp_path):
    task = CITUS.split("Task Count: 1\n")[1].split("  Execution Time: 91.7")[0].rstrip()
    spilling = f"{task}\n            Buffers: shared hit=1, temp read=100 written=100\n"
    top = CITUS.split("\n")[0]
    (path := tmp_path / "plan.txt").write_text(f"{top}\n  Task Count: 2\n{spilling * 2}")
    with pytest.raises(EvidenceAmbiguous):
        read_plan(path)
    assert read_plan(path, Selection(item=2)).elapsed_s == pytest.approx(0.0069)


def test_without_times_zero_latency_storage_may_leave_nothing(plan_of):
    # The sort takes almost all of the time.
    counts = plan_of(REMARKED.format(remark="").replace("1,602.3", "3,355.8"))
    limit = forecast(counts, resolve("latency:0us", counts))
    assert limit.refused is None
    assert limit.interval_s[0] == 0


def test_older_json_plans_have_a_total_runtime(plan_of):
    top = {
        "Node Type": "Sort",
        "Actual Rows": 9,
        "Temp Read Blocks": 300,
        "Actual Total Time": 86.5,
    }
    plan = {"Plan": {**top, "Temp Written Blocks": 300}, "Total Runtime": 102.3}
    assert plan_of(json.dumps([plan])).elapsed_s == 0.1023


@cases("ran", ["", "Execution Time: 99.5 ms\n", "       Batches: 5  Disk Usage: 720kB\n"])
def test_a_sketch_of_a_plan_is_refused_and_names_what_is_missing(plan_of, ran):
    words = "its first node has no actual rows" if ran else "a plan without ANALYZE"
    text = "Limit (cost=19.8..19.9 rows=20)\n  -> Sort (cost=19.8..19.9 rows=20003)\n"
    with pytest.raises(EvidenceIncomplete, match=words):
        plan_of(text + ran)


REMARKED = """\
Aggregate (actual time=3355.9..3356.0 rows=1 loops=1)
  Buffers: shared hit=240574, temp read=102909 written=144959
  ->  Sort  (cost=80,000.00..81,500.00 rows=6 width=7) (actual time=1,403.2..1,602.3 rows=6 loops=1)
        Sort Method: external merge  Disk: 453456kB
        Buffers: shared hit=240574, temp read=102909 written=144959
        ->  Hash Join (actual time=8.9..1592.6 rows=60000 loops=1)   {remark}
Execution time : 3,458.1 ms
"""


@cases("remark", ["← fan-out", "-- 60 000 rows", "..."])
def test_remarks_behind_a_node_are_not_figures(plan_of, remark):
    counts = plan_of(REMARKED.format(remark=remark))
    assert (counts.elapsed_s, counts.reads.count) == (3.4581, 102909)


def test_an_ambiguous_comma_in_a_node_is_refused(plan_of):
    text = REMARKED.format(remark="").replace("3355.9..3356.0", "355,912..356,013")
    with pytest.raises(EvidenceDamaged):
        plan_of(text)


@cases("name", ['public."Order Line"', '"Sales-24"."Order:Line"', "public.order$line"])
def test_names_of_relations_may_have_quotes_and_signs(plan_of, name):
    node = f'->  Index Scan using "Order_pkey" on {name} o'
    text = REMARKED.format(remark="").replace("->  Hash Join", node)
    assert plan_of(text).reads.count == 102909


def test_another_node_behind_a_node_is_refused(plan_of):
    text = REMARKED.format(remark="-- Sort (actual time=8.9..1592.6 rows=1 loops=1)")
    with pytest.raises(EvidenceDamaged):
        plan_of(text)


@cases(
    "line",
    [
        "`Sort Method: external merge  Disk: 453456kB` is a spill",
        "- `Disk: 453456kB`: on disk, and **temp read=102909** blocks of it",
        "`Disk: 7kB` is small",
    ],
)
def test_text_may_quote_a_line_of_the_plan(tmp_path, line):
    text = REMARKED.format(remark="").replace("Execution", f"\n{line}\nExecution")
    (path := tmp_path / "plan.txt").write_text(text)
    if "453456" in line:
        assert read_plan(path).reads.count == 102909
    else:
        with pytest.raises(EvidenceDamaged):
            read_plan(path)


def test_the_time_of_psql_replaces_a_missing_time_of_the_plan(plan_of):
    for_plan = REMARKED.format(remark="")
    untimed = for_plan.replace(
        "Execution time : 3,458.1 ms", "(6 rows)\n\nTime: 3471.2 ms (00:03.471)"
    )
    assert plan_of(f"SET\nTime: 0.21 ms\n{untimed}").elapsed_s == pytest.approx(3.4712)
    assert plan_of(f"{for_plan}\nTime: 3471.2 ms (00:03.471)\n").elapsed_s == pytest.approx(3.4581)


def test_the_time_of_psql_for_the_next_statement_is_not_that_of_the_plan(plan_of):
    """The author wrote that time above the plan of the next statement."""
    untimed = REMARKED.format(remark="").replace("Execution time : 3,458.1 ms\n", "")
    text = f"{untimed}\n\nSELECT sum(n)\nFROM daily\nTime: 129438.5 ms (02:09.439)\n"
    assert plan_of(text).elapsed_s == pytest.approx(3.356)


def test_a_plan_without_analyze_is_ignored_beside_a_run(plan_of):
    ran = REMARKED.format(remark="")
    plain = (
        "Sort  (cost=1.0..2.0 rows=9 width=8)\n  ->  Seq Scan on t  (cost=0.0..1.0 rows=9 width=8)"
    )
    assert plan_of(f"before:\n\n{plain}\n\nafter:\n\n{ran}").reads.count == 102909
    with pytest.raises(EvidenceIncomplete, match="without ANALYZE"):
        plan_of(f"{plain}\n\n{plain}\n")


def test_a_plan_without_its_first_node_is_damaged(tmp_path):
    (path := tmp_path / "plan.txt").write_text(
        "   Buffers: shared hit=10, temp read=8750 written=8765\n"
        "   ->  Seq Scan on t  (actual time=0.1..200.5 rows=10 loops=1)\n"
        "         Buffers: shared hit=10\n Execution Time: 1310.250 ms\n"
    )
    with pytest.raises(EvidenceDamaged, match="missing"):
        read_plan(path)


def test_processes_of_a_gather_without_worker_lines(plan_of):
    counts = plan_of(
        "Gather Merge  (actual time=116.1..158.7 rows=144843 loops=1)\n"
        "  Buffers: temp read=3262 written=3269\n  I/O Timings: temp read=40.6 write=125.0\n"
        "  ->  Sort  (actual time=112.5..124.7 rows=72421 loops=3)\n"
        "        Sort Method: external merge  Disk: 16704kB\nExecution Time: 166.9 ms\n"
    )
    assert (counts.processes, round(counts.total_s, 4)) == (3, 0.1656)


def test_a_text_plan_beside_a_json_plan_is_ambiguous(tmp_path):
    fast = {"Node Type": "Result", "Actual Rows": 9, "Actual Loops": 1, "Temp Written Blocks": 0}
    document = json.dumps([{"Plan": fast, "Execution Time": 12.5}], indent=2)
    text = f"{REMARKED.format(remark='')}\nWith the index:\n\n{document}\n"
    (path := tmp_path / "plans.txt").write_text(text)
    with pytest.raises(EvidenceAmbiguous):
        read_plan(path)
    runs = [read_plan(path, Selection(item=2)), read_plan(path, Selection(item=2, elapsed_s=9.0))]
    assert [counts.reads.count for counts in runs] == [102909, 102909]


@cases("io_ms", [3400, 3530, 3600, 9000])
def test_io_that_exceeds_the_run_is_refused(tmp_path, io_ms):
    """A single process, in a run of 3458.1 ms, whose times may be rounded."""
    timings = f"I/O Timings: temp read={io_ms / 2} write={io_ms / 2}"
    text = REMARKED.format(remark="").replace("  ->  Sort", f"  {timings}\n  ->  Sort")
    (path := tmp_path / "plan.txt").write_text(text)
    if io_ms < 1.02 * 3458:
        assert read_plan(path).total_s == pytest.approx(io_ms / 1e3)
    else:
        with pytest.raises(TimesContradictory):
            read_plan(path)


UNEVEN = """\
Gather Merge  (actual time=900.000..1990.000 rows=100 loops=1)
  Workers Launched: 2
  Buffers: temp read=25600 written=25600
  I/O Timings: temp read={0} write={0}
  ->  Sort  (actual time=800.000..1900.000 rows=33 loops=3)
        Sort Method: external merge  Disk: 102400kB
        Buffers: temp read=25600 written=25600
        I/O Timings: temp read={0} write={0}
        Worker 0:  Sort Method: external merge  Disk: 51200kB
        Worker 1:  Sort Method: external merge  Disk: 51200kB
Execution Time: 2000.000 ms
"""


def test_processes_with_unequal_sorts_may_wait_equally_long(plan_of):
    """On a busy device, 50 MB beside 100 take as long as 50 of the 100.

    The leader waits for all of the 2 s, each worker for 1.5 s. The three cannot wait for 7 s.
    """
    counts = plan_of(UNEVEN.format("2500.000"))
    assert (counts.processes, counts.total_s) == (2.5, 5.0)
    assert plan_of(UNEVEN.format("1500.000")).processes == 2
    with pytest.raises(TimesContradictory):
        plan_of(UNEVEN.format("3500.000"))


#: Without BUFFERS and the line of a worker: the two shown wrote 15,000 blocks.
LACKS_WORKER = re.sub(r" *(Buffers|I/O|Worker 1).*\n", "", UNEVEN).replace("51200", "17600")


def test_a_process_without_its_line_has_bounds(plan_of):
    """The leader and a worker wrote 15,000 blocks; the other none, or up to 15,000."""
    bounds = plan_of(LACKS_WORKER).io_bounds
    of_two = plan_of(LACKS_WORKER.replace("loops=3", "loops=2")).io_bounds
    assert bounds.lower.writes.bytes == of_two.lower.writes.bytes == 15000 * 8192
    assert bounds.upper.reads.bytes >= 2 * of_two.upper.reads.bytes


def test_the_time_of_psql_below_a_plan_that_was_not_run(tmp_path):
    (path := tmp_path / "plan.txt").write_text(
        " Sort  (cost=1.0..2.0 rows=9 width=8)\n"
        "   ->  Seq Scan on t  (cost=0.0..1.0 rows=9 width=8)\n(2 rows)\n\nTime: 0.512 ms\n"
    )
    assert "Execution Time" not in read_history(path).plan


@cases(
    "words",
    [
        "Slow: Sort (actual time=1.2..800.0 rows=10 loops=1)",
        "The node Sort  (actual time=1.2..800.0 rows=10 loops=1) spills.",
        "Sort  (actual time=1.2..800.0 rows=10 loops=1)",
    ],
)
def test_text_beside_a_json_plan_may_quote_a_node(plan_of, words):
    sort = {"Node Type": "Sort", "Actual Rows": 10, "Actual Loops": 1, "Temp Read Blocks": 300}
    document = [{"Plan": {**sort, "Temp Written Blocks": 300}, "Execution Time": 810.0}]
    assert plan_of(f"{words}\n\n{json.dumps(document, indent=2)}\n").reads.count == 300


def test_a_mail_wrapped_at_words_of_one_width(plan_of):
    """Its longest lines are equally long, as those of a terminal are."""
    nodes = (
        "Limit (cost=7.6..7.7 rows=10 width=16)",
        "-> Seq Scan on t (cost=0.0..9.0 rows=9 width=16)",
    )
    first, second = (f"{node:<72}(actual" for node in nodes)
    text = (
        f"{first}\ntime=211.5..211.6 rows=10 loops=1)\nBuffers: temp read=10 written=10\n"
        f"{second}\ntime=0.1..107.5 rows=10 loops=1)\nExecution time: 211.650 ms\n"
    )
    assert plan_of(text).elapsed_s == 0.21165


def test_an_ide_quotes_lines_with_a_comma_below_other_text(plan_of):
    """Text with a comma is above the plan; a blank may follow a quote."""
    counts = plan_of(
        "Hi, this is slow:\n\n"
        "Sort  (cost=9.00..9.50 rows=900 width=8) (actual time=90.000..99.000 rows=900 loops=1)\n"
        "  Sort Method: external merge  Disk: 48kB\n"
        '"  Buffers: shared hit=1, temp read=5 written=6" \n'
        "  ->  Seq Scan on t  (cost=0.00..1.00 rows=900 width=8) "
        "(actual time=0.010..9.000 rows=900 loops=1)\n"
        "Planning Time: 0.1 ms\nExecution Time: 100.0 ms\n"
    )
    assert (counts.reads.count, counts.writes.count) == (5, 6)


#: Up to version 10, VERBOSE shows the times of workers, but only the leader's sort.
LEADERS_SORT = """\
Gather Merge  (cost=1.0..2.0 rows=9 width=4) (actual time=9.0..980.0 rows=900000 loops=1)
  Workers Planned: 2
  Workers Launched: 2
  ->  Sort  (cost=1.0..2.0 rows=9 width=4) (actual time=9.0..700.0 rows=300000 loops=3)
        Sort Key: a
        Sort Method: external sort  Disk: 8000kB
        Worker 0: actual time=9.0..690.0 rows=300000 loops=1
        Worker 1: actual time=9.0..680.0 rows=300000 loops=1
        ->  Parallel Seq Scan on t  (actual time=0.1..90.0 rows=300000 loops=3)
Execution time: 990.000 ms
"""


def test_sorts_that_a_plan_does_not_show_resemble_the_one_shown(plan_of):
    counts = plan_of(LEADERS_SORT)
    assert (counts.writes.bytes, counts.processes) == (3 * 8000 * 1024, 3.0)
    others = LEADERS_SORT.replace("rows=300000 loops=1\n", "rows=300000 loops=1\n{}", 2)
    memory = "          Sort Method: quicksort  Memory: 900kB\n"
    counts = plan_of(others.format(memory, memory))
    assert (counts.writes.bytes, counts.processes) == (8000 * 1024, 1.0)


def test_another_plan_that_is_cut_is_ignored_with_a_note(plan_of):
    cut = '[\n  {\n    "Plan": {\n      "Node Type": "Sort",\n      "Total Cost": 167232.59,\n'
    counts = plan_of(f"{CITUS}\nThe same in JSON:\n{cut}")
    assert (counts.elapsed_s, counts.reads.count) == (0.0959, 100)
    assert any("cut" in note for note in counts.notes)
    with pytest.raises(EvidenceDamaged):
        plan_of(cut)


def test_a_plan_that_is_cut_at_its_end_took_as_long_as_its_first_node(plan_of):
    text = "Limit  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)\n"
    text += "  ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..890.1 rows=9 loops=1)\n"
    text += "        Sort Method: external merge  Disk: 8000kB\n"
    counts = plan_of(text)
    assert (counts.elapsed_s, counts.writes.count) == (0.9002, 1000)
    assert any("cut" in note for note in counts.notes)


def test_a_plan_that_is_cut_at_its_top_may_have_spilled_there(plan_of):
    text = """\
        ->  Index Scan using a on t
              (actual rows=6 loops=1402)     <- slow
  Buffers: shared hit=48204 read=8912
Execution Time: 12105.1 ms
"""
    with pytest.raises(EvidenceIncomplete, match="cut"):
        plan_of(text)


#: Two parts that spill, each with its own blocks.
PARTS = """\
Nested Loop (actual time=5360.2..5360.4 rows=1 loops=1)
  Buffers: shared hit=766, temp read=3174 written=3174
  ->  Aggregate (actual time=2683.1..2683.1 rows=1 loops=1)
        Buffers: shared hit=256, temp read=1465 written=1465
        ->  Function Scan on a (actual time=885.7..1663.1 rows=1000000 loops=1)
              Buffers: shared hit=255, temp read=1465 written=1465
  ->  Aggregate (actual time=2677.0..2677.1 rows=1 loops=1)
        Buffers: shared hit=510, temp read=1709 written=1709
        ->  Function Scan on b (actual time=886.4..1660.1 rows=1000000 loops=1)
              Buffers: shared hit=509, temp read=1709 written=1709
Execution Time: 5361.1 ms
"""


def _with_tabs(text, width):
    lines = [(len(line) - len(line.lstrip()), line.lstrip()) for line in text.split("\n")]
    return "\n".join("\t" * (at // width) + " " * (at % width) + line for at, line in lines)


@cases("damage", ["tabs of 8", "tabs of 4", "narrow", "wide", "colours", "bold", "numbers", "JSON"])
def test_indentation_changed_by_editors_and_terminals(plan_of, damage):
    lines = PARTS.splitlines()
    damaged = {
        **{f"tabs of {width}": _with_tabs(PARTS, width) for width in (4, 8)},
        "narrow": re.sub(" +", " ", PARTS),
        "wide": re.sub(r"(?<=\S) ", "   ", PARTS).replace("5360.2..", "5360. 2.. "),
        "bold": re.sub(r"Buffers.*|temp read=.*|(?<=: )5361.*|Nested Loop", r"**\g<0>**", PARTS),
        "colours": "".join(f"\x1b[32m{line}\x1b[0m\n" for line in lines),
        "JSON": json.dumps({"body": f"Slow:\n```sql\n{PARTS}```\n"}),
        "numbers": "".join(f"{at:3d}  {line}\n" for at, line in enumerate(["", *lines], 1)),
    }
    counts = plan_of(damaged[damage])
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (5.3611, 3174, 3174)


def test_line_numbers_before_a_json_plan(plan_of):
    node = {"Node Type": "Sort", "Actual Rows": 9, "Actual Total Time": 86.5}
    node |= {"Temp Read Blocks": 300, "Temp Written Blocks": 301}
    plan = json.dumps([{"Plan": node, "Execution Time": 99.5}], indent=2)
    lines = ["EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)", "SELECT 1;", "", *plan.splitlines()]
    text = "".join(f"{at:4d}  {line}\n" for at, line in enumerate(lines, 1))
    assert plan_of(text).writes.count == 301


def test_a_part_of_a_plan_does_not_have_all_spills_of_the_run(plan_of):
    lines = PARTS.splitlines()
    with pytest.raises(EvidenceIncomplete, match="cut"):
        plan_of("\n".join(lines[6:]))
    # A node that took the whole run did all its temp I/O.
    assert plan_of("\n".join([*lines[6:-1], "Execution Time: 2690.1 ms"])).reads.count == 1709


def test_batches_in_a_single_line_plan_belong_to_their_node(plan_of):
    """PostgreSQL puts two blanks before them; the level identifies the node."""
    lines = PARTS.splitlines()
    batches = "Planned Partitions: 8  Batches: 41  Memory Usage: 2105kB  Disk Usage: {}kB"
    at = [0, 2, 4, 6, 8]
    kept = [
        lines[i] if i != 4 else lines[4].replace("Function Scan on a", "HashAggregate") for i in at
    ]
    kept[1:1] = [f"  {batches.format(800)}"]
    kept[4:4] = [f"              {batches.format(160)}"]
    assert plan_of("   ".join([*kept, lines[-1]])).writes.count == (800 + 160) // 8


def test_an_omitted_node_does_not_change_the_one_above(plan_of):
    """Without the node below the second Gather, its workers still are the ones that spilled."""
    lines = PARTS.splitlines()
    assert plan_of("\n".join([*lines[:2], "      ...", *lines[5:]])).reads.count == 3174
    gather = "  ->  Gather (actual time=2677.0..2677.1 rows=1 loops=1)\n        Workers Launched: 2"
    text = PARTS.replace(lines[6], gather).replace(f"{lines[8]}\n{lines[9]}\n", "")
    counts = plan_of(text)
    shared = 3174 / (1465 + 1709 / 3)
    assert (counts.reads.count, counts.processes) == (3174, pytest.approx(shared, abs=1e-3))


#: The lines below the first node lost their blanks, the lines further below did not.
DEDENTED = """\
Hash Join  (cost=1.0..2.0 rows=9 width=34) (actual time=9.0..980.0 rows=9 loops=1)
Hash Cond: (a.id = b.id)
->  Nested Loop  (cost=1.0..2.0 rows=9 width=44) (actual time=0.1..500.0 rows=128000 loops=1)
      ->  Seq Scan on a  (cost=1.0..2.0 rows=9 width=21) (actual time=0.1..9.0 rows=9 loops=1)
->  Hash  (cost=1.0..2.0 rows=9 width=44) (actual time=91.0..91.0 rows=64000 loops=1)
      Buckets: 32768  Batches: 8  Memory Usage: 1025kB
Execution time: 990 ms
"""


def test_indentation_lost_in_the_first_level_alone(plan_of):
    """Files hold rows of both sides of the join: 20 bytes of header and the columns each."""
    counts = plan_of(DEDENTED)
    blocks = -(-(128000 + 64000) * (44 + 20) * 7 // 8 // 8192)
    assert (counts.elapsed_s, counts.writes.bytes) == (0.99, blocks * 8192)


#: Without Gather, with a truncated line, and with times in whole ms.
WITHOUT_GATHER = """\
GroupAggregate  (actual time=3267..3813 rows=300001 loops=1)
  Buffers: shared hit=54932, temp read=2100 written=2400
  ->  Sort  (cost=1.0..2.0 rows=9 width=4) (actual time=3253..3409 rows=1613362 loops=3)
        Sort Method: external merge  Disk: 6400kB
        Worker 0:  Sort Method: external merge  Disk: 6400kB
        Worker 1:  Sort Method: external merge  Disk: 6400kB
        ->  Parallel Index Scan using posting_at on posting p  (actual time=1..133 rows=1 lo ...
Execution Time: 3825 ms
"""


def test_workers_give_the_number_of_processes_where_gather_is_omitted(plan_of):
    counts = plan_of(WITHOUT_GATHER)
    assert (counts.elapsed_s, counts.processes, counts.writes.count) == (3.825, 3.0, 2400)


def test_a_remark_beside_a_node_may_name_its_batches(plan_of):
    counts = plan_of(DEDENTED)
    assert (
        plan_of(re.sub("rows=64000.*", r"\g<0>   <-- spills (Batches: 8)!", DEDENTED)).writes
        == counts.writes
    )


def test_a_remark_on_batches_is_not_read_as_a_node_without_spill(plan_of):
    text = """\
Hash Join  (cost=3.8..7.3 rows=10 width=20) (actual time=5.2..45678.9 rows=10 loops=1)
  ->  Hash  (Batches: 8  Memory Usage: 4096kB)
        ->  Seq Scan on orders  (rows=10000000)
              Buffers: shared hit=100 read=45000
Execution Time: 45679 ms
"""
    with pytest.raises(EvidenceDamaged):
        plan_of(text)
