"""Which processes did the temp I/O of a plan, and what a plan shows besides its spill."""

import json
import re

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnknown,
    NoTempIo,
)
from spillcast.evidence.postgres.document import read_documents
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import counts_of_plan, read_plan
from spillcast.evidence.postgres.spills import spills_of
from spillcast.evidence.selection import Selection
from spillcast.forecast import forecast
from spillcast.forecast.verdict import verdict
from spillcast.report.forecast import details, targets_table
from spillcast.storage.target import resolve


def node(kind, written, *below, loops=1, ms=None, **values):
    ms = written / 10 if ms is None else ms
    return {
        "Node Type": kind, "Actual Rows": 1000, "Actual Loops": loops, "Temp Read Blocks": written,
        "Temp Written Blocks": written, "Temp I/O Read Time": ms, "Temp I/O Write Time": ms,
        "Plan Rows": 1000, "Plan Width": 97, "Plans": list(below), **values,
    }  # fmt: skip


def gather(*below):
    written = sum(item["Temp Written Blocks"] for item in below)
    return node("Gather", written, *below, **{"Workers Launched": 2})


def temp(plan):
    return counts_of_plan({"Plan": plan, "Execution Time": 1e4})


def disk(kind, kb):
    return {"Sort Space Type": kind, "Sort Space Used": kb, "Sort Method": "x"}


def test_a_node_that_one_process_ran_counts_as_one():
    alone, idle = node("Sort", 300), node("Sort", 0)
    parallel = {"loops": 3, "Parallel Aware": True}
    append = node("Append", 300, alone, idle, **parallel)
    assert temp(gather(append)).processes == 1
    # Two nodes that may have run concurrently, or one after the other.
    append = node("Append", 600, alone, node("Sort", 300), **parallel)
    shared = temp(gather(append)).processes_bounds
    assert (shared.lower, shared.upper) == (1, 2)


def test_the_statement_is_taken_from_auto_explain(plan_of):
    """Its text and identifier; without them, a single node that spills stands for the plan."""

    def statement(**named):
        document = {"Plan": node("Sort", 300), "Execution Time": 1e4, **named}
        return plan_of(json.dumps([document])).statement

    text = "select 1 order by 1"
    result = statement(**{"Query Text": text, "Query Identifier": -42})
    assert (result.queryid, result.query) == ("-42", text)
    assert statement(**{"Query Text": text}).queryid is None
    assert statement() is None


def test_a_process_that_sorts_in_memory_does_no_temp_io():
    worker = {"Worker Number": 0, **disk("Memory", 900)}
    sort = node("Sort", 300, loops=2, Workers=[worker], **disk("Disk", 1000))
    assert temp(gather(sort)).processes == 1
    quiet = {"Worker Number": 0, "Temp Read Blocks": 0, "Temp Written Blocks": 0}
    assert temp(gather(node("Hash Join", 300, loops=2, Workers=[quiet]))).processes == 1


def test_a_sort_inside_grouping_sets_is_a_sort():
    sets = {"HashAgg Batches": 1, "Peak Memory Usage": 4505, "Grouping Sets": [{"Sort Key": ["a"]}]}
    [spill] = spills_of(nodes_of(node("Aggregate", 300, node("Seq Scan", 0), **sets)), 2.0)
    assert spill.kind == "sort"
    assert 1000 * 97 < spill.needed_bytes < 3 * 1000 * 97


def test_temp_tables_are_named_where_no_node_spills():
    local = {"Local Read Blocks": 9, "Local I/O Read Time": 2000.0}
    with pytest.raises(NoTempIo, match=r"temp tables \(2 s\).*temp_tablespaces"):
        temp(node("Seq Scan", 0, **local))


PAGE = """\
Sort (cost=1.00..2.00 rows=9 width=9) (actual time=1.5..28.1 rows=9 loops=1)
  Sort Method: external merge  Disk: 24kB
  Buffers: temp read=3 written=4
  ->  Seq Scan on t (cost=1.00..2.00 rows=9 width=9) (actual time=1.0..2.0 rows=9 loops=1)
Execution Time: 29.301 ms

And this is the scan{again}:
  ->  Seq Scan on t (cost=1.00..2.00 rows=9 width=9) (actual time={ms}..2.0 rows=9 loops=1)
{end}
"""


def test_quoted_nodes_are_not_another_run_but_changed_nodes_are(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE.format(again=" again", ms="1.0", end="Any ideas?"))
    counts = read_plan(path)
    assert (counts.operations, counts.elapsed_s) == (7, pytest.approx(0.029301))
    path.write_text(PAGE.format(again=" without an index", ms="6.9", end="Execution Time: 84.5 ms"))
    with pytest.raises(EvidenceAmbiguous):
        read_plan(path)
    assert read_plan(path, Selection(item=1)).elapsed_s == pytest.approx(0.029301)


def test_reads_of_tables_are_counted():
    shared = {"Shared I/O Read Time": 8000.0}
    counts = counts_of_plan(
        {"Plan": node("Sort", 9, node("Seq Scan", 0, **shared), **shared), "Execution Time": 1e4}
    )
    assert counts.data_read_s == pytest.approx(8.0)


def test_a_node_with_more_blocks_than_its_parent_is_contradictory():
    with pytest.raises(EvidenceContradictory, match=r"300.*children-of-parent"):
        temp(node("Sort", 0, node("Sort", 150)))


def test_without_times_less_temp_io_is_never_slower_than_today():
    """600 temp blocks of unknown time in 0.1 s: they took anything from 0 s to 0.1 s."""
    counts = counts_of_plan({"Plan": node("CTE Scan", 300, ms=0.0), "Execution Time": 100.0})
    given = forecast(counts, resolve("latency:100us", counts))
    for low_s, high_s in (given.ceiling_interval_s, given.work_memory.enough.interval_s):
        assert (low_s, high_s) == (pytest.approx(0.0, abs=1e-3), pytest.approx(0.1))
    assert "little-io" not in {warning.code for warning in given.warnings}
    assert "% to 100 %" in verdict([given]).text
    # Only bounds are shown: their middle is not a forecast.
    rows = {row[0]: row for row in targets_table([given]).rows}
    assert [rows[name][1] for name in ("latency:100us", "today")] == [None, pytest.approx(0.1)]
    assert "speed-up" not in str(details([given]))


NESTED = """\
2026-11-23 10:00:01.100 UTC [42] LOG:  duration: 160.0 ms  plan:
\tQuery Text: select id from orders order by id
\tSort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=9 loops=1)
\t  Sort Method: external merge  Disk: 800kB
\t  Buffers: temp read=100 written=100
\t  I/O Timings: temp read=5.0 write=5.0
2026-11-23 10:00:01.100 UTC [42] CONTEXT:  SQL statement "select id from orders order by id"
2026-11-23 10:00:01.100 UTC [42] LOG:  duration: 170.0 ms  plan:
\tQuery Text: select f()
\tResult  (cost=0.00..0.26 rows=1 width=4) (actual time=1.0..2.0 rows=1 loops=1)
\t  Buffers: temp read=100 written=100
\t  I/O Timings: temp read=5.0 write=5.0
"""


def test_nested_statements_are_counted_once(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(NESTED)
    assert [item["Plan"]["Temp Written Blocks"] for item in read_logs(path).plans] == [100, 0]
    assert read_plan(path).statement.query == "select id from orders order by id"


SEGMENTS = """\
Gather Motion 4:1  (slice1; segments: 4)  (cost=0.0..9.0 rows=9 width=3) (actual rows=9 loops=1)
  ->  Sort  (cost=0.00..9.00 rows=9 width=36) (actual time=1.0..2.0 rows=9 loops=1)
        Sort Key: id
        Sort Method:  external merge  Disk: 71696kB
        Executor Memory: 8192kB  Segments: 4  Max: 2048kB (segment 0)
        Work_mem used:  2048K bytes avg, 2048K bytes max (seg0). Workfile: ({0} spilling)
        ->  Seq Scan on t  (cost=0.00..4.00 rows=9 width=36) (actual time=0.1..1.0 rows=9 loops=1)
 Optimizer: Pivotal Optimizer (GPORCA)
   (slice0)    Executor memory: 44K bytes.
 Execution Time: 2600.500 ms
"""


ROWS_OUT = """\
 Sort  (cost=50.7..53.2 rows=9 width=4)
   Sort Key: a
   Rows out:  Avg 25.0 rows x 4 workers.  Max 28 rows (seg2) with 0.7 ms to first row, 2 ms to end.
   Work_mem used:  49K bytes. Workfile: (0 spilling)
   ->  Seq Scan on t  (cost=0.00..12.50 rows=9 width=4)
         Rows out:  Avg 25.0 rows x 4 workers.  Max 28 rows (seg2) with 0.1 ms to first row.
 Total runtime: 2.986 ms
"""


def test_an_old_greenplum_shows_whether_its_segments_spilled(plan_of):
    with pytest.raises(NoTempIo):
        plan_of(ROWS_OUT)
    with pytest.raises(EvidenceIncomplete):
        plan_of(ROWS_OUT[: ROWS_OUT.index("Total runtime")])
    with pytest.raises(EvidenceUnknown):
        plan_of(ROWS_OUT.replace("(0 spilling)", "(2 spilling)"))


ABRIDGED = """\
Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=9 loops=1)
  Sort Method: top-N heapsort  Memory: 26kB
  Buffers: shared hit=88, temp read=900 written=900
  ->  HashAggregate  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=9 loops=1)
        Batches: 5  Memory Usage: 8241kB  Disk Usage: 1616kB
        ->  Seq Scan on t  (cost=1.00..2.00 rows=9 width=8) (actual time=0.1..0.2 rows=9 loops=1)
Execution Time: 2.343 ms
"""


def test_abridged_lines_do_not_attribute_a_spill_to_a_node_in_memory(documents_of):
    [document] = documents_of(ABRIDGED)
    assert [spill.kind for spill in spills_of(nodes_of(document["Plan"]))] == ["hash aggregate"]


def test_details_joined_by_single_blanks_belong_to_their_nodes(documents_of):
    """A page reduced repeated blanks to one, for labels that are not in a list, too."""
    text = """\
Merge on t  (cost=1.00..2.00 rows=0 width=0) (actual time=9.0..9.0 rows=0 loops=1)
  Tuples: inserted=5175
  ->  Hash Join  (cost=1.00..2.00 rows=9 width=22) (actual time=1.0..2.0 rows=5175 loops=1)
        ->  Hash  (cost=1.00..2.00 rows=9 width=22) (actual time=1.0..2.0 rows=5175 loops=1)
              Buckets: 1024 (originally 512)  Batches: 64 (originally 16)  Memory Usage: 7169kB
              ->  Seq Scan on u  (cost=1..2 rows=9 width=2) (actual time=1.0..1.5 rows=9 loops=1)
Execution Time: 11.515 ms
"""
    top = nodes_of(documents_of(" ".join(text.split()))[0]["Plan"])
    assert [(node.kind, node.values.get("Hash Batches")) for node in top.walk()] == [
        ("Merge", None), ("Hash Join", None), ("Hash", 64), ("Seq Scan", None),
    ]  # fmt: skip


@cases(
    "begin",
    [
        "D, [2026-11-23T10:11:12.{0:06}] DEBUG -- :   ",
        "2026-11-23 10:11:{0:02},123 INFO  [pool-{0:b}] c.e.Repo - ",
        "[2026-11-23 10:11:{0:02}] local.DEBUG: ",
        '+ time=10:11:{0:02}Z level=INFO msg="',
    ],
)
def test_a_logger_prefix_before_each_line_is_removed(tmp_path, documents_of, begin):
    (plain := tmp_path / "plain.txt").write_text(OLD_SORT)
    end = '"' if begin.endswith('"') else ""
    lines = enumerate(OLD_SORT.splitlines())
    logged = "\n".join(f"{begin.format(at)}{line}{end}" for at, line in lines)
    assert documents_of(f"It is slow:\n{logged}\n") == read_documents(plain)


@cases("tags", [("{% highlight sql %}", "{% endhighlight %}"), ("{code:sql}", "{code}")])
def test_markup_tags_around_a_plan_are_removed(tmp_path, documents_of, tags):
    text = OLD_SORT.partition("Execution")[0].rstrip()
    (path := tmp_path / "page.md").write_text("\n".join((tags[0], text, tags[1])))
    assert read_documents(path) == documents_of(text)


def test_counts_and_times_may_have_thousands_separators(documents_of):
    """The form of documents; a figure in an unknown unit is refused, not truncated at its unit."""
    line = "temp read=900 written=900"
    plain, grouped = "temp read=5900 written=6900", "temp read=5,900 written=6,900"
    expected = documents_of(OLD_SORT.replace(line, plain))
    assert documents_of(OLD_SORT.replace(line, grouped).replace(" 2000kB", " 2,000kB")) == expected
    [document] = documents_of(ABRIDGED.replace("1616kB", "1,616kB"))
    assert document["Plan"]["Plans"][0]["Disk Usage"] == 1616
    timings = "\n  I/O Timings: temp read=1,123.500 write=25,010"
    node = documents_of(ABRIDGED.replace(line, line + timings))[0]["Plan"]
    assert (node["Temp I/O Read Time"], node["Temp I/O Write Time"]) == (1123.5, 25.01)
    for unit in (
        ABRIDGED.replace("read=900", "read=7MB"),
        ABRIDGED.replace("read=900", "read=0.9K"),
        ABRIDGED.replace("1616kB", "1.6MB"),
        ABRIDGED.replace(line, f"{line}\n  I/O Timings: temp read=1.1s write=0.2s"),
    ):
        with pytest.raises(EvidenceDamaged):
            documents_of(unit)


def test_a_first_node_that_takes_longer_than_the_run_is_refused(tmp_path):
    """Lines of two runs in one paste: their times differ, and neither is right."""
    (path := tmp_path / "plan.txt").write_text(OLD_SORT.replace("411.343", "1.2"))
    with pytest.raises(EvidenceContradictory):
        read_plan(path)
    assert read_plan(path, Selection(elapsed_s=3.0)).elapsed_s == 3.0


def test_unaligned_line_numbers_do_not_change_the_indentation(tmp_path, documents_of):
    """With numbers of one and two digits, the nodes keep their columns."""
    plain = tmp_path / "plain.txt"
    plain.write_text(OLD_SORT)
    numbered = (f"{at} {line}" for at, line in enumerate(OLD_SORT.splitlines(), 5))
    assert documents_of("\n".join(numbered)) == read_documents(plain)


#: Up to version 12, workers' sorts are above the buffers of the node.
OLD_SORT = """\
Gather Merge  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=9 loops=1)
  Workers Planned: 2
  Workers Launched: 2
  Buffers: shared hit=88, temp read=900 written=900
  ->  Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=3 loops=3)
        Sort Method: external merge  Disk: 2000kB
        Worker 0:  Sort Method: external merge  Disk: 2000kB
        Worker 1:  Sort Method: external merge  Disk: 2000kB
        Buffers: shared hit=88, temp read=900 written=900
        ->  Parallel Seq Scan on t  (cost=1.00..2.00 rows=9 width=8) (actual rows=3 loops=3)
Execution Time: 411.343 ms
"""


@cases(
    "form",
    [
        str,
        lambda text: "\n".join(map(str.strip, text.split("\n"))),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("  Workers Planned", "\n\n  Workers Planned"),
    ],
)
def test_lines_after_the_sort_of_a_worker_belong_to_the_node(tmp_path, form):
    (tmp_path / "plan.txt").write_text(form(OLD_SORT))
    assert read_plan(tmp_path / "plan.txt").processes == 3


@cases("left_out", [" loops=3", r" n?loops=\d+"])
def test_nodes_without_loops_ran_in_every_process(tmp_path, left_out):
    plan = OLD_SORT.replace("(actual rows", "(actual time=0.1..0.9 rows")
    (tmp_path / "plan.txt").write_text(re.sub(left_out, "", plan))
    counts = read_plan(tmp_path / "plan.txt")
    assert counts.processes == 3
    assert any("loops=" in note for note in counts.notes)
    (tmp_path / "plan.txt").write_text(plan)
    whole = read_plan(tmp_path / "plan.txt")
    assert not whole.notes
    assert counts.time_bounds == whole.time_bounds


@cases("before", ["@all look: ```", "what: "])
def test_text_before_a_node_is_not_its_type(tmp_path, before):
    """A plan in a chat is read; with other text before its first line it is refused."""
    (tmp_path / "plan.txt").write_text(
        f"{before}{OLD_SORT}```" if "`" in before else before + OLD_SORT
    )
    if "`" in before:
        assert read_plan(tmp_path / "plan.txt").processes == 3
    else:
        with pytest.raises(EvidenceDamaged, match="not understood"):
            read_plan(tmp_path / "plan.txt")


@cases("aligned", [str.ljust, str.rjust])
def test_rows_of_a_data_frame(tmp_path, aligned):
    lines = OLD_SORT.rstrip().split("\n")
    rows = [f"{at:<2}  {aligned(line, 99)}".rstrip() for at, line in enumerate(lines)]
    (tmp_path / "plan.txt").write_text("\n".join(["QUERY PLAN".rjust(103), *rows]))
    result = read_plan(tmp_path / "plan.txt")
    assert (result.reads.count, result.processes) == (900, 3)


def test_cells_of_a_single_column_without_a_rule(tmp_path):
    cells = "".join(f"|{line}|\n" for line in ["QUERY PLAN", *OLD_SORT.rstrip().split("\n")])
    (tmp_path / "plan.txt").write_text(f"Slow:\n{{noformat}}\n{cells}{{noformat}}\nWhy?\n")
    assert read_plan(tmp_path / "plan.txt").reads.count == 900


def test_a_framed_heading_alone_is_not_a_plan(plan_of):
    with pytest.raises(EvidenceUnknown):
        plan_of("|QUERY PLAN.|\n|.|\n")


def test_segments_that_spill_are_named(plan_of):
    with pytest.raises(EvidenceUnknown, match=r"segments spill.*Sort: .*\(3 spilling\)"):
        plan_of(SEGMENTS.format(3))
    batches = (
        "Extra Text: (seg1)   Initial batch 0:\n(seg1)     Wrote 98K bytes to inner workfile.\n"
    )
    with pytest.raises(EvidenceUnknown, match=r"segments spill.*Hash Join: .*Wrote 98K"):
        plan_of(f"->  Hash Join  (actual time=2.5..702.7 rows=9 loops=1)\n      {batches}")
    with pytest.raises(NoTempIo):
        plan_of(SEGMENTS.format(0).replace("external merge  Disk", "quicksort  Memory"))


@cases("line", ["Sort Mthd: external  Disk: 800kB", "-> (cost=1 (actual rows=1",
                "Sort Method: external sort  Disk: 800kB / Disk: 500kB"])  # fmt: skip
def test_unrecognised_figures_are_refused(plan_of, line):
    text = "Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..2.0 rows=9 loops=1)\n"
    with pytest.raises(EvidenceDamaged):
        plan_of(f"{text}  {line}\n  Buffers: temp read=1 written=1\nExecution Time: 9.0 ms\n")


#: PostgreSQL 17, work_mem 1MB: 2,949,857 rows of 7 bytes joined with 2,111,110 of them in 4 batches
#: wrote 12,515 blocks; a sort of a million integers had a file of 17,576 KiB.
WITHOUT_BUFFERS = {
    "hash join": (
        "Hash Join  (cost=1.0..2.0 rows=5 width=7) (actual time=9.1..900.2 rows=2949857 loops=1)\n"
        "  Hash Cond: (t.ref = b.ref)\n"
        "  ->  Seq Scan on t  (cost=1.0..2.0 rows=5 width=7)"
        " (actual time=0.1..90.2 rows=2949857 loops=1)\n"
        "  ->  Hash  (cost=1.0..2.0 rows=5 width=7) (actual time=8.9..8.9 rows=2111110 loops=1)\n"
        "        Buckets: 1048576  Batches: 4  Memory Usage: 28291kB\n"
        "        ->  Seq Scan on b  (cost=1.0..2.0 rows=5 width=7)"
        " (actual time=0.1..70.2 rows=2111110 loops=1)\n",
        12515,
    ),
    "parallel sort": (
        "Gather  (cost=1.0..2.0 rows=5 width=8) (actual time=6.9..900.2 rows=9 loops=1)\n"
        "  Workers Planned: 1\n  Workers Launched: 1\n"
        "  ->  Sort  (cost=1.0..2.0 rows=5 width=8) (actual time=6.9..8.9 rows=9 loops=2)\n"
        "        Sort Key: a\n        Sort Method: external merge  Disk: 5784kB\n"
        "        Worker 0:  Sort Method: external merge  Disk: 6088kB\n",
        (5784 + 6088) / 8,
    ),
    "aggregate": (
        "HashAggregate  (cost=1.0..2.0 rows=5 width=21) (actual time=3.9..900.2 rows=9 loops=1)\n"
        "  Planned Partitions: 4  Batches: 5  Memory Usage: 8241kB  Disk Usage: 20088kB\n",
        20088 / 8,
    ),
}


@cases("name", WITHOUT_BUFFERS)
def test_without_buffers_temp_io_follows_from_sizes_on_disk(plan_of, name):
    text, blocks = WITHOUT_BUFFERS[name]
    counts = plan_of(f"{text}Execution Time: 902,145 ms\n")
    assert counts.elapsed_s == 0.902145
    assert counts.writes.count == counts.reads.count == pytest.approx(blocks, rel=0.01)
    # The two scans of the hash join took 160.4 ms.
    outside_s = 0.1604 if name == "hash join" else 0.0
    assert counts.time_bounds.upper >= 0.9 - outside_s


def test_without_buffers_rows_that_a_node_stores_are_named_as_uncounted(plan_of):
    """PostgreSQL 16 wrote 573 blocks of such a common table expression, and showed no size."""
    text, _ = WITHOUT_BUFFERS["aggregate"]
    cost, actual = "(cost=1.0..2.0 rows=9 width=4)", "(actual time=0.1..9.2 rows=9 loops=1)"
    scan = f"  ->  CTE Scan on c  {cost} {actual}\n"
    # PostgreSQL 18 shows it.
    shown = f"{scan}        Storage: Memory  Maximum Storage: 17kB\n"
    end = "Execution Time: 902.1 ms\n"
    notes = [plan_of(f"{text}{more}{end}").notes for more in ("", scan, shown)]
    assert len(notes[0]) + 1 == len(notes[1]) == len(notes[2]) + 1
    assert any("CTE Scan" in note for note in notes[1])


def test_an_ide_quotes_lines_with_commas_including_lines_without_figures(tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text(
        "Sort  (cost=1.0..2.0 rows=5 width=8) (actual time=6.9..900.2 rows=9 loops=1)\n"
        '"  Sort Key: a, b"\n  Sort Method: external merge  Disk: 5784kB\n'
        "Execution Time: 902.145 ms\n"
    )
    assert read_plan(path).writes.count == 5784 / 8


JSON_PLAN = (
    '[{ "Plan": {"Node Type": "Sort", "Actual Rows": 9, "Sort Method": "external merge",\n'
    '  "Sort Space Used": 18432, "Sort Space Type": "Disk"}, "Execution Time": 1204.1}]'
)
TEXT_NODE = (
    "Sort  (cost=1.0..2.0 rows=5 width=8) (actual time=6.9..900.2 rows=9 loops=1)\n"
    "  Sort Method: external merge  Disk: 18432kB\nTotal runtime: 1204.100 ms\n"
)


@cases("text", [f"\tplan := []byte(`{JSON_PLAN}`)\n\tcheck(plan)\n",
                f'    text = """{TEXT_NODE}    """\n'])  # fmt: skip
def test_a_string_literal_in_a_program_is_read_as_the_plan(plan_of, text):
    counts = plan_of(text)
    assert (counts.writes.count, counts.elapsed_s) == (18432 / 8, 1.2041)


def test_a_frame_needs_no_margin(tmp_path):
    path = tmp_path / "plan.txt"
    rule = f"+{'-' * 90}+\n"
    rows = "".join(f"|{line:90}|\n" for line in ("QUERY PLAN", *TEXT_NODE.splitlines()))
    path.write_text(rule + rows.replace("\n", "\n" + rule, 1) + rule)
    counts = read_plan(path)
    assert (counts.writes.count, counts.elapsed_s) == (18432 / 8, 1.2041)


def test_held_bytes_are_the_sort_on_disk_and_the_writes_of_other_nodes():
    """A sort of 1,200 KiB wrote 300 blocks of 8 KiB in two passes, the join 500 of its 800."""
    disk = {"Sort Space Type": "Disk", "Sort Space Used": 1200}
    plan = node("Hash Join", 800, node("Sort", 300, **disk))
    counts = counts_of_plan({"Plan": plan, "Execution Time": 1000.0})
    assert counts.held_bytes == 500 * 8192 + 1200 * 1024
    assert counts.processes == 1
