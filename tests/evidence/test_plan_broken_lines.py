"""Plans whose lines a terminal or a form broke or cut, and plans that an author abridged."""

import re
import textwrap
from contextlib import suppress

import pytest
from programs import broken

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, InputError
from spillcast.evidence.postgres.nodes import all_nodes
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.postgres.text import documents_of_text

PLAN = """\
 Unique  (cost=61541.25..65229.75 rows=70247 width=118) (actual time=6331.125..8228.512 rows=70001 loops=1)
   Buffers: shared hit=1612 read=10230 dirtied=4422 written=18821, temp read=22934 written=23145
   I/O Timings: shared/local read=1023.511 write=123.234, temp read=1293.4 write=1206.6
   ->  Sort  (cost=61541.25..61716.5 rows=70247 width=118) (actual time=6331.108..7212.201 rows=70247 loops=1)
         Sort Key: posts.id, posts.uid, posts.document
         Sort Method: external merge  Disk: 183472kB
         Buffers: shared hit=1612 read=10230 dirtied=4422 written=18821, temp read=22934 written=23145
         I/O Timings: shared/local read=1023.511 write=123.234, temp read=1293.4 write=1206.6
         ->  Seq Scan on posts  (cost=0.00..10932.47 rows=70247 width=118) (actual time=0.021..89.332 rows=70247 loops=1)
               Buffers: shared read=10230
 Execution Time: 8312.902 ms
"""  # noqa: E501
#: Without costs, only the line of blocks is longer than most terminals.
NARROW = """\
 Sort (actual time=12.1..8022.212 rows=70001 loops=1)
   Sort Key: id
   Sort Method: external merge  Disk: 183472kB
   Buffers: shared hit=16 read=10230 dirtied=12 written=18, temp read=22934 written=23145
   ->  Seq Scan on posts (actual rows=70001 loops=1)
 Execution Time: 8312.902 ms
"""
WORDS = "Since the upgrade this is slow, and I do not see why it goes to the disk at all. " * 3


@cases("plan, above", [(PLAN, ""), (PLAN, f"{WORDS}\n\n"), (NARROW, ""), (NARROW, f"{WORDS}\n\n")])
def test_a_wrapped_plan_is_complete_at_every_width(tmp_path, plan, above):
    path = tmp_path / "plan.txt"
    for width in range(60, 121):
        path.write_text(above + broken(plan, width))
        counts = read_plan(path)
        assert (counts.reads.count, counts.writes.count) == (22934, 23145), width
        assert counts.elapsed_s == 8.312902, width
        assert plan is NARROW or counts.total_s == pytest.approx(2.5), width


def test_plans_directly_below_each_other_are_two():
    """The last line of each is the widest, and a terminal may have cut such a line."""
    lines = [line for line in PLAN.splitlines() if "(cost=" in line]
    assert len(documents_of_text([*lines, *lines])) == 2


#: The lines of the processes' batches are the widest ones.
BATCHES = """\
 Gather (actual rows=672830 loops=1)
   Workers Launched: 1
   ->  Partial HashAggregate (actual rows=336415 loops=2)
         Batches: 17  Memory Usage: 8337kB  Disk Usage: 31208kB
         Worker 0:  Batches: 18  Memory Usage: 8345kB  Disk Usage: 14928kB
         ->  Parallel Seq Scan on orders (actual rows=9 loops=2)
 Execution Time: 496.314 ms
"""


def at_words(text, width, *, indented):
    """The text, broken between words; the parts of a line are as far right as it, if indented."""
    return "\n".join(
        part for line in text.splitlines()
        for part in textwrap.wrap(
            line, width, subsequent_indent=re.match(" *", line)[0] * indented,
            drop_whitespace=indented,
        )
    )  # fmt: skip


def test_batches_that_were_wrapped_are_complete_or_refused(documents_of):
    refused = []
    for width in range(18, 76):
        words = (at_words(BATCHES, width, indented=indented) for indented in (False, True))
        for text in (broken(BATCHES, width), *words):
            try:
                [document] = documents_of(text)
            except InputError:
                refused.append(width)
                continue
            # The document of an excerpt begins at the aggregate.
            nodes = [n for n in all_nodes(document["Plan"]) if "Disk Usage" in n]
            sizes = [each["Disk Usage"] for node in nodes for each in (node, *node["Workers"])]
            assert sizes == [31208, 14928], width
    assert max(refused) < 53


@cases("line", [
    "Batches: 5  Memory Usage: 24kB  Disk",
    "Batches: 5  Memory Usage: 24kB  Disk Usage: 312 08kB",
    "Batches: 5",
    "Batches: 5  Memory Usage: 24kB",
])  # fmt: skip
def test_batches_that_were_cut_or_rejoined_are_refused(plan_of, line):
    with pytest.raises(EvidenceDamaged):
        plan_of(BATCHES.replace("Batches: 17  Memory Usage: 8337kB  Disk Usage: 31208kB", line))


@cases("line", [
    "Buffers: temp read=229 34 written=23145",
    "Buffers: temp read=22934 written= 23145",
    "Buffers: temp read=22934 wri tten=23145",
    "Buffers: shared hit=1, te mp read=22934 written=23145",
    "Buffers: shared hit=1, fast cache hit=2, te mp read=22934 written=23145",
    "Buffers: shared hit=1, fast cache hit=2 3, temp read=22934 written=23145",
    "Buffers: shared hit=1, temp fast cache hit=2, read=22934 written=23145",
    "I/O Timings: temp read=12 93.4 write=1206.6",
    "I/O Timings: read=129 3.4 write=1206.6",
])  # fmt: skip
def test_a_number_that_was_split_and_rejoined_is_refused(tmp_path, line):
    node = "Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..8000.0 rows=9 loops=1)"
    blocks = "  Buffers: temp read=9 written=9\n" * line.startswith("I/O")
    (path := tmp_path / "plan.txt").write_text(
        f"{node}\n{blocks}  {line}\n  Sort Method: external merge  Disk: 96kB\n"
        "Execution Time: 8100.0 ms\n"
    )
    with pytest.raises(EvidenceDamaged):
        read_plan(path)


def test_hits_of_a_cache_of_a_fork_are_not_of_temp_files(plan_of):
    line = "Buffers: shared hit=1 read=2, ultra fast cache hit=3, temp read=10 written=11"
    node = "Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..8000.0 rows=9 loops=1)"
    counts = plan_of(f"{node}\n  {line}\nExecution Time: 8100.0 ms\n")
    assert (counts.reads.count, counts.writes.count) == (10, 11)


def test_a_wrapped_temp_file_size_is_complete_at_every_width(tmp_path):
    """140,353,536 bytes are 17,133 blocks of 8 KiB."""
    log = (
        "2023-02-06 23:48:35.123 UTC [31236] app@dw LOG:  temporary file: path "
        '"base/pgsql_tmp/pgsql_tmp31236.5", size 140353536\n'
        "2023-02-06 23:48:35.123 UTC [31236] app@dw STATEMENT:  select a from t order by b\n"
        "2023-02-06 23:48:36.012 UTC [31236] app@dw LOG:  duration: 12345.678 ms\n"
    )
    path = tmp_path / "postgresql.log"
    for width in range(60, 140):
        path.write_text(broken(log, width))
        with suppress(InputError):
            assert read_plan(path).writes.count == 17133, width


@cases("plan", [PLAN, NARROW])
def test_truncated_lines_are_refused(tmp_path, plan):
    """Where only the line of blocks is truncated, the sort's size still reveals the spill."""
    path = tmp_path / "plan.txt"
    for width in range(50, 125):
        path.write_text("\n".join(line[:width] for line in plan.split("\n")))
        with suppress(InputError):
            counts = read_plan(path)
            assert (counts.reads.count, counts.writes.count) == (22934, 23145), width


@cases("mark, blocks", [("**", 300), ("~~", None)])
def test_a_line_of_figures_does_not_continue_a_sort_key(tmp_path, mark, blocks):
    line = f"{mark}Buffers: shared hit=7, temp read=300 written=301{mark}  <-- on disk"
    (path := tmp_path / "plan.txt").write_text(
        f"Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..80.0 rows=9 loops=1)\n"
        f"  Sort Key: a\n  {line}\n"
        "  ->  Seq Scan on t  (cost=0.0..1.0 rows=9 width=8) (actual time=0.1..9 rows=9 loops=1)\n"
        "        Buffers: shared hit=7\n"
        "Execution Time: 81.0 ms\n"
    )
    if blocks is None:
        with pytest.raises(EvidenceDamaged):
            read_plan(path)
    else:
        assert read_plan(path).reads.count == blocks


def test_details_may_be_separated_by_many_blanks():
    node = "HashAggregate  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..80.0 rows=9 loops=1)"
    line = (
        "Planned Partitions: 32     Batches: 5     Memory    Usage: 8241kB     Disk Usage:  11600kB"
    )
    lines = [node, "  Group Key: a", f"  {line}", "Execution Time: 81.0 ms"]
    plan = documents_of_text(lines)[0]["Plan"]
    sizes = plan["HashAgg Batches"], plan["Peak Memory Usage"], plan["Disk Usage"]
    assert sizes == (5, 8241, 11600)


#: Dots and words stand for costs, counts of tables, lines and figures of nodes.
ABRIDGED = """\
GroupAggregate  (cost=... rows=... width=8) (actual time=125131.8..128408.1 rows=189949 loops=1)
  Buffers: shared hit=... read=301515, temp read=44943 written=44944
  ->  Sort  Sort Method: external merge  Disk: 359544kB
        ->  Hash Join  Hash Cond: (o.id = u.id)
              (actual time=19.1..62.0 rows=60671 loops=1)  Rows Removed by Join Filter: 83
              ->  Seq Scan on orders o  (...)
              ->  Hash ...
                    Batches: 5  Disk Usage: 16kB
                    [...]
Execution Time: 128456.0 ms
"""


def test_totals_of_an_abridged_plan_are_read(plan_of):
    counts = plan_of(ABRIDGED)
    assert (counts.reads.count, counts.writes.count, counts.elapsed_s) == (44943, 44944, 128.456)


def test_details_behind_the_name_of_a_node_belong_to_it(documents_of):
    [document] = documents_of(ABRIDGED)
    nodes = [(n["Node Type"], n.get("Sort Space Used")) for n in all_nodes(document["Plan"])]
    assert nodes[:3] == [("Aggregate", None), ("Sort", 359544), ("Hash Join", None)]


@cases("temp", ["temp read=... written=44944", "temp read=44943 written=..."])
def test_counts_of_temp_blocks_may_not_be_left_out(plan_of, temp):
    with pytest.raises(EvidenceDamaged):
        plan_of(ABRIDGED.replace("temp read=44943 written=44944", temp))


SIZED = """\
Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
  Sort Method: quicksort  Memory: 26kB
  ->  HashAggregate ...
        Batches: 5  Memory Usage: 8241kB  Disk Usage: 1616kB
        {below}
Execution Time: 902.4 ms
"""


def test_a_size_belongs_to_its_node_though_the_figures_of_the_node_are_left_out(plan_of):
    text = SIZED.format(below="->  Seq Scan on t").replace("quicksort  Memory: 26kB", "{}")
    for sort, size_kib in (("quicksort  Memory: 26kB", 0), ("external merge  Disk: 400kB", 400)):
        counts = plan_of(text.format(sort))
        assert counts.writes.bytes == (1616 + size_kib) * 1024
        assert counts.io_bounds is not None


FIRST_BARE = """\
--- two windows
{first}
  Buffers: shared hit=88, temp read=900 written=901
  ->  Sort
        Sort Method: external merge  Disk: 4000kB
        ->  Seq Scan on t (actual rows=500000.00 loops=1)
Execution Time: 1517.685 ms
"""


@cases("first", ["WindowAgg", "WindowAgg  (Window: w2 AS (PARTITION BY a))", "Sort", "Limit"])
def test_the_first_node_may_lack_its_figures(plan_of, first):
    counts = plan_of(FIRST_BARE.format(first=first))
    assert (counts.reads.count, counts.writes.count) == (900, 901)
    assert counts.elapsed_s == pytest.approx(1.517685)


@cases("first,lost", [
    # Nodes above workers are missing; not the name of a node; the counts are of another node.
    ("Partial HashAggregate", ""),
    ("Sort of windows:", ""),
    ("  WindowAgg", ""),
    ("WindowAgg", "  Buffers: shared hit=88, temp read=900 written=901\n"),
    ("WindowAgg", "Execution Time: 1517.685 ms\n"),
    ("WindowAgg", " written=901"),
])  # fmt: skip
def test_a_line_that_is_no_first_node_is_not_taken_for_it(plan_of, first, lost):
    with pytest.raises(InputError):
        plan_of(FIRST_BARE.format(first=first).replace(lost, ""))


def test_a_plan_with_lines_left_out_may_have_spilled_there(plan_of):
    in_memory = SIZED.replace("Batches: 5", "Batches: 1").replace("  Disk Usage: 1616kB", "")
    with pytest.raises(EvidenceIncomplete):
        plan_of(in_memory.format(below="..."))


CUT = """\
Limit  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.2 rows=9 loops=1)
  ->  Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..900.1 rows=9 loops=1)
        Sort Method: external merge  Disk: 800kB
        ->  Seq Scan on t  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..9.2 rows=9 loops=1)
"""


def test_a_plan_cut_within_its_last_node_is_as_one_cut_above_it(plan_of):
    begin = CUT.index("->  Seq Scan")
    above = plan_of(CUT[:begin])
    for end in range(CUT.index("(cost", begin) + len("(cost=1.0.."), len(CUT) - 1):
        counts = plan_of(CUT[:end])
        assert (counts.writes.count, counts.elapsed_s) == (100, above.elapsed_s), CUT[:end]


def test_a_sort_without_its_method_is_noted(plan_of):
    sort = "Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=1.0..901.0 rows=9 loops=1)\n"
    below = textwrap.indent(f"->  {CUT}Execution Time: 902.4 ms\n", "  ")
    whole, short = (
        plan_of(f"{sort}{line}{below}") for line in ("  Sort Method: quicksort  Memory: 25kB\n", "")
    )
    assert (len(short.notes), short.writes) == (len(whole.notes) + 1, whole.writes)


@cases("remark", ["(\u00d73)", "* 2 processes", "per worker"])
def test_a_size_of_one_of_several_processes_is_refused(plan_of, remark):
    with pytest.raises(EvidenceDamaged):
        plan_of(CUT.replace("800kB", f"800kB {remark}"))


def test_another_plan_that_is_cut_does_not_hide_a_whole_one(documents_of):
    whole, cut = f"{CUT}Execution Time: 902.4 ms\n", CUT[: CUT.index("time=1.0..9.2")]
    first, second = documents_of(f"{whole}\n{cut}")
    assert (first["Execution Time"], "Execution Time" in second) == (902.4, False)


HASHED = """\
Hash Join  (cost=1.0..2.0 rows=9 width=34) (actual time=9.0..980.0 rows=9 loops=1)
  ->  Merge Join  Merge Cond: (a.id = c.id)  (cost=1.0..2.0 rows=9 width=44) (actual rows=128000)
        ->  Index Scan using a on a  (cost=1.0..2.0 rows=9 width=21) (actual rows=9 loops=1)
        ->  Index Scan using c on c  (cost=1.0..2.0 rows=9 width=21) (actual rows=9 loops=1)
  ->  Hash  (cost=1.0..2.0 rows=9 width=44) (actual time=91.0..91.0 rows=64000 loops=1)
        Buckets: 32768  Batches: 8  Memory Usage: 1025kB
Execution time: 990 ms
"""


def test_a_condition_before_the_figures_of_a_node_is_no_other_line(plan_of):
    """Files hold rows of both sides of the join: 20 bytes of header and the columns each."""
    blocks = -(-(128000 + 64000) * (44 + 20) * 7 // 8 // 8192)
    assert plan_of(HASHED).writes.count == blocks


def test_inputs_of_a_node_that_is_left_out_are_no_inputs_of_the_hash_join_above(plan_of):
    lines = HASHED.splitlines()
    lines[1] = "  ->  ..."
    with pytest.raises(EvidenceDamaged):
        plan_of("\n".join(lines))


def test_files_of_a_hash_join_without_the_width_of_its_rows_are_noted(plan_of):
    sorted_ = HASHED.replace("Merge Join", "Sort").splitlines()
    sorted_[2:4] = ["        Sort Method: external merge  Disk: 800kB"]
    text = re.sub(r"\(cost=[^)]*\) ", "", "\n".join(sorted_))
    counts = plan_of(text)
    # The sort, and 20 bytes of each row in seven of eight batches.
    assert counts.writes.count == 100 + (128000 + 64000) * 20 * 7 // 8 // 8192
    assert any("width" in note for note in counts.notes)


ARROWLESS = """\
Limit (actual time=2836.103..2836.325 rows=100)
  Buffers: shared hit=1849729, temp read=73250 written={written}
  Sort (top-N heapsort, 69kB)
{between}    Merge Join (actual time=2202.540..2834.358 rows=4667)
      -> Sort (rows=1602443)
           Sort Method: external merge  Disk: 293024kB
"""


def test_a_node_further_right_belongs_to_the_plan_though_it_has_no_arrow(plan_of):
    counts = plan_of(ARROWLESS.format(between="", written=73337))
    assert (counts.elapsed_s, counts.writes.count) == (pytest.approx(2.836325), 73337)


@cases("between,written", [
    ("\n", 73337),
    ("After the change:\n", 73337),
    ("Execution Time: 2836.4 ms\n", 73337),
    # Less than the size of the sort.
    ("", 7333),
    ("Limit (actual time=9.1..9.2 rows=1)\n", 73337),
])  # fmt: skip
def test_a_node_of_another_plan_is_not_added_to_the_one_above(plan_of, between, written):
    with pytest.raises(InputError):
        plan_of(ARROWLESS.format(between=between, written=written))
