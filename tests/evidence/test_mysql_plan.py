"""Plans that MariaDB ran: bounds of the temp I/O of their sorts contain the recorded counts."""

import html
import json
import re

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceUnsuited, InputError
from spillcast.evidence.mysql import merges
from spillcast.evidence.open import read_figures
from spillcast.evidence.recognise import recognise
from spillcast.evidence.selection import Selection
from spillcast.forecast.ask import ask
from spillcast.forecast.project import Projector
from spillcast.forecast.workload.counted import workload_of_counts
from spillcast.storage.target import resolve

SORTED = {
    "query_block": {
        "select_id": 1,
        "r_total_time_ms": 1000.0,
        "read_sorted_file": {
            "filesort": {
                "r_total_time_ms": 800.0,
                "r_sort_passes": 12,
                "r_buffer_size": "255KiB",
                "table": {"table_name": "t", "r_table_time_ms": 60.0},
            }
        },
    }
}


def slow_merges(runs):
    """As in sql/filesort.cc."""
    maxbuffer, count, levels = runs - 1, 0, 0
    while maxbuffer >= 15:
        i = left = 0
        while i <= maxbuffer - 7 * 3 // 2:
            count, left, i = count + 1, left + 1, i + 7
        count, left, levels = count + 1, left + 1, levels + 1
        maxbuffer = left - 1
    return count + 1, levels


def test_merges_match_the_source_of_mariadb():
    assert all(merges(runs) == slow_merges(runs) for runs in range(2, 3000))


def test_a_plan_gives_bounds_and_a_sufficient_buffer(figures):
    counts = figures("ANALYZE\n" + json.dumps(SORTED, indent=2))
    io = counts.io_bounds
    assert io.lower.writes.bytes < counts.writes.bytes < io.upper.writes.bytes
    # 74 to 80 runs of 255 KiB: written, merged once, and merged to the result.
    assert io.upper.writes.bytes == 3 * 80 * (255 << 10)
    assert counts.time_bounds.upper == pytest.approx(0.74)
    # The unit as the server accepts it: M, not MB.
    assert any("sort_buffer_size = 21M" in note for note in counts.notes)
    on_one_line = figures(json.dumps(SORTED, indent=1).replace("\n", "\\n"))
    assert on_one_line.io_bounds.upper.writes == io.upper.writes


@cases(
    ("passes", "calls", "written"),
    [(14, 917, 52_009_370), (14, 795, 52_009_370), (19, 1727, 98_775_859)],
)
def test_bounds_contain_the_counts_of_the_kernel(figures, passes, calls, written):
    """MariaDB 10.11.5, 11.4.5 and 10.2.11: a sort of 200,000 rows with their columns."""
    plan = json.loads(json.dumps(SORTED))
    plan["query_block"]["read_sorted_file"]["filesort"]["r_sort_passes"] = passes
    bounds = figures(json.dumps(plan)).io_bounds
    assert bounds.lower.writes.bytes <= written <= bounds.upper.writes.bytes
    assert bounds.lower.writes.count <= calls <= bounds.upper.writes.count


def test_sorts_and_tables_with_repeated_keys_all_count(figures):
    block = SORTED["query_block"]
    rest = json.dumps({"r_total_time_ms": 2000.0})[1:]
    first = f'"read_sorted_file": {json.dumps(block["read_sorted_file"])}'
    fits = '"read_sorted_file": {"filesort": {"r_total_time_ms": 1.0, "r_buffer_size": "2Kb"}}'
    derived = f'"table": {{"materialized": {{{first}}}}}, "table": {{"table_name": "u"}}'
    alone = figures(json.dumps(SORTED)).io_bounds.upper.writes
    for inner in (f"{first}, {fits}", f"{fits}, {first}", derived):
        result = figures(f'{{"query_block": {{{inner}, {rest}}}')
        upper = result.io_bounds.upper.writes
        assert (upper.count, upper.bytes) == (alone.count, alone.bytes)
        # A derived table of 300,000 rows took 34 MB in MariaDB 11.4.5, in addition to the runs.
        assert any("temporary table" in note for note in result.notes) == (inner is derived)
    twice = figures(f'{{"query_block": {{{first}, {first}, {rest}}}').io_bounds
    assert twice.upper.writes.bytes == 2 * alone.bytes


@cases(
    "disguise",
    [
        lambda lines: [f"# {line}" for line in lines],
        lambda lines: [f"-- {line}" for line in lines],
        lambda lines: [f" * {line}" for line in lines],
        lambda lines: [f"+{line}" for line in lines],
        lambda lines: [f"{number}: {line}" for number, line in enumerate(lines, 1)],
        lambda lines: [f"> {line}" for line in ["See:", "```json", *lines, "```"]],
        lambda lines: ["<pre>", *(html.escape(line) for line in lines), "</pre>"],
        lambda lines: [
            '<?xml version="1.0"?>\n<resultset statement="ANALYZE FORMAT=JSON SELECT a FROM t">',
            f'  <row>\n\t<field name="ANALYZE">{html.escape(lines[0])}',
            *(html.escape(line) for line in lines[1:-1]),
            f"{lines[-1]}</field>\n  </row>\n</resultset>",
        ],
        lambda lines: [
            f"<TABLE BORDER=1><TR><TH>ANALYZE</TH></TR><TR><TD>{html.escape(lines[0])}",
            *(html.escape(line) for line in lines[1:]),
            "</TD></TR></TABLE>",
        ],
        lambda lines: ['"' + "\n".join(lines).replace('"', '""') + '"'],
        lambda lines: ["EXPLAIN", '"' + "\n".join(lines).replace('"', '""') + '"'],
        lambda lines: [re.sub(r'"(\w+)"', "\u201c\\1\u201d", line) for line in lines],
    ],
)
def test_text_around_a_plan_is_ignored(tmp_path, disguise):
    (path := tmp_path / "plan.txt").write_text(json.dumps(SORTED, indent=2))
    plain = read_figures([path])
    path.write_text("\n".join(disguise(path.read_text().split("\n"))))
    assert read_figures([path]).io_bounds == plain.io_bounds


def test_temporary_tables_may_have_been_on_disk(figures):
    """MariaDB 10.11.19 wrote 5,525 pages of two derived tables of 200,000 and 150,000 rows."""
    inner = json.loads(json.dumps(SORTED))["query_block"] | {"r_total_time_ms": 6592.0}
    sort = inner["read_sorted_file"]["filesort"]
    filled = {"r_total_time_ms": 6181.0, "temporary_table": {"table": {"r_rows": 200_000}}}
    sort["table"] |= {"r_rows": 200_000, "materialized": {"query_block": filled}}
    table = {"r_rows": 150_000, "r_table_time_ms": 0.2, "materialized": {"query_block": inner}}
    counts = figures(json.dumps({"query_block": {"r_total_time_ms": 6617.0, "table": table}}))
    assert counts.io_bounds.upper.writes.count > 5525
    assert counts.io_bounds.upper.writes.bytes > 3 * 80 * (255 << 10) + 5525 * 8192
    # All time but that spent outside of both may have been temp I/O.
    assert counts.time_bounds.upper == pytest.approx(6.617)
    # A short table adds no more than its time, in which memory moves at most 5000 pages.
    plan = json.loads(json.dumps(SORTED))
    sorts = figures(json.dumps(plan)).io_bounds.upper.writes.count
    short = {
        "r_rows": 1_000_000,
        "r_loops": 900,
        "materialized": {"query_block": {"r_total_time_ms": 5.0}},
    }
    plan["query_block"]["table"] = short
    counts = figures(json.dumps(plan))
    assert counts.time_bounds.upper == pytest.approx(0.745)
    assert sorts < counts.io_bounds.upper.writes.count <= sorts + 5001


#: Two parts of 1,500 rows, as MariaDB 10.1 to 11.4 show them: the block of a UNION has no time.
UNION = {
    "query_block": {
        "union_result": {
            "table_name": "<union2,3>",
            "r_rows": 3000,
            "query_specifications": [
                {"query_block": {"r_total_time_ms": ms, "table": {"r_rows": 1500}}}
                for ms in (43.2, 40.9)
            ],
        }
    }
}


def test_a_union_below_a_sort_may_have_been_on_disk(figures):
    """MariaDB 10.11.19 wrote and read this for a sort with one merge of a UNION's 3,000 rows."""
    plan = json.loads(json.dumps(SORTED))
    plan["query_block"]["r_total_time_ms"] = 151.8
    sort = plan["query_block"]["read_sorted_file"]["filesort"]
    sort |= {"r_total_time_ms": 14.0, "r_sort_passes": 1}
    sort["table"] = {"r_rows": 3000, "r_table_time_ms": 0.3, "materialized": UNION}
    counts = figures(json.dumps(plan))
    upper = counts.io_bounds.upper
    assert upper.writes.count > 6090
    assert upper.writes.bytes > 45_185_495
    assert upper.reads.count > 12_175
    assert upper.reads.bytes > 70_923_686
    assert counts.time_bounds.upper == pytest.approx(0.1518)


def test_a_union_needs_the_time_of_the_whole(tmp_path):
    plan = json.loads(json.dumps(UNION))
    result = plan["query_block"]["union_result"]
    result["query_specifications"][0]["query_block"] |= SORTED["query_block"]
    (path := tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(EvidenceIncomplete):
        read_figures([path])
    counts = read_figures([path], Selection(elapsed_s=1.5))
    assert counts.time_bounds.upper == counts.elapsed_s == 1.5
    assert counts.io_bounds.upper.writes.bytes > 3 * 80 * (255 << 10)


def with_sort(**figures_of_sort):
    plan = json.loads(json.dumps(SORTED))
    plan["query_block"]["read_sorted_file"]["filesort"] |= figures_of_sort
    return json.dumps(plan)


def test_merge_passes_are_a_rounded_mean_of_the_loops_of_a_sort(figures):
    bounds = figures(with_sort(r_loops=2)).io_bounds
    # Passes: 23 to 25 together. Two loops write as many as two sorts, or each pass merges two runs.
    assert bounds.lower.writes.bytes <= 23 * (255 << 10) / 2
    assert bounds.upper.writes.bytes >= 2 * 3 * 80 * (255 << 10)
    # MariaDB 10.11.19: of 31 loops, one merged once; by /proc, its thread wrote 3.58 MB.
    few = {"r_loops": 31, "r_sort_passes": 0}
    bounds = figures(with_sort(**few)).io_bounds
    assert bounds.lower.writes.bytes <= 3_579_951 <= bounds.upper.writes.bytes
    with pytest.raises(EvidenceIncomplete):
        figures(with_sort(**few, r_buffer_size="(varied across executions)"))


@cases(
    ("sort", "wrote", "read"),
    [
        # MariaDB 10.11.19, 120,000 rows: (calls, bytes) of the thread, by /proc.
        ((136, "7KiB", 500), (138, 8815500), (3282, 3728079)),
        ((66, "31KiB", 500), (236, 15221000), (1008, 5296407)),
        ((232, "7KiB"), (781, 46158176), (33993, 48536542)),
    ],
)
def test_bounds_contain_small_reads_large_writes_and_a_limit(figures, sort, wrote, read):
    names = ("r_sort_passes", "r_buffer_size", "r_limit")
    bounds = figures(with_sort(**dict(zip(names, sort, strict=False)))).io_bounds
    for op, (calls, moved) in {"writes": wrote, "reads": read}.items():
        lower, upper = getattr(bounds.lower, op), getattr(bounds.upper, op)
        assert lower.count <= calls <= upper.count
        assert lower.bytes <= moved <= upper.bytes


STARS, LINE = "*" * 27, "+" + "-" * 40 + "+"
SHOWN = json.dumps(SORTED, indent=2)


@cases(
    "text",
    [
        f"{STARS} 1. row {STARS}\nANALYZE: {SHOWN}\n1 row in set (1.844 sec)\n",
        f"1 row in set (1.8 sec)\n```json\nANALYZE: {SHOWN}\n```\n",
        f"[2023-05-11 23:18:10] a explain: {SHOWN}\n[2023-05-11 23:18:10] done\n",
        f"t> analyze ...\n{LINE}\n| ANALYZE{' ' * 32}|\n{LINE}\n| {SHOWN} |\n{LINE}\n",
    ],
)
def test_output_of_clients_is_read_as_the_plan(figures, text):
    assert figures(text).reads == figures(json.dumps(SORTED)).reads


def test_an_unreadable_size_is_damage_of_its_file(tmp_path):
    (path := tmp_path / "plan.json").write_text(json.dumps(SORTED).replace("255KiB", "2 heaps"))
    with pytest.raises(EvidenceDamaged) as raised:
        read_figures([path])
    assert raised.value.where == str(path)


@cases(
    "text",
    [
        json.dumps({"query_block": {"select_id": 1}}),
        json.dumps(SORTED)[:90],
        f"[23:18:10] a explain: {SHOWN}\n[23:18:10] b explain: {SHOWN}\n",
        json.dumps(SORTED).replace("12", '"many"'),
        json.dumps(SORTED).replace("12", "0"),
        json.dumps(SORTED).replace("800.0", "[]"),
        json.dumps(SORTED).replace("1000.0", "null"),
        json.dumps(SORTED).replace("60.0", "-60.0"),
        json.dumps(SORTED).replace('"255KiB"', "2097152"),
        json.dumps(SORTED).replace("r_buffer_size", "buffer"),
        "-> Sort: t.a  (cost=61 rows=600) (actual time=0.4..0.5 rows=600 loops=1)\n",
    ],
)
def test_a_plan_that_does_not_show_spills_is_refused(figures, text):
    with pytest.raises(InputError):
        figures(text)


@cases(
    "text",
    [
        "+----+-------------+-------+\n| id | select_type | table |\n+----+-------------+-------+\n"
        "|  1 | SIMPLE      | t     |\n+----+-------------+-------+\n",
        f"{STARS} 1. row {STARS}\n           id: 1\n  select_type: SIMPLE\n        table: t\n",
        json.dumps({"query_plan": {"operation": "Sort: t.a", "actual_last_row_ms": 8.1}}),
        "My plan: -> Table scan on t  (cost=9.1 rows=2) (actual time=0.1..3.5 rows=9 loops=1)\n",
    ],
)
def test_plans_without_merge_passes_are_recognised_and_refused(tmp_path, text):
    (path := tmp_path / "plan.txt").write_text(text)
    assert recognise(path).reader == "mysql.read"
    with pytest.raises(EvidenceUnsuited):
        read_figures([path])


def test_storage_with_the_present_speed_changes_nothing_at_any_bound(tmp_path):
    plan = json.loads(json.dumps(SORTED))
    plan["query_block"]["table"] = {"r_rows": 500_000, "materialized": {"rows": 1}}
    (path := tmp_path / "plan.json").write_text(json.dumps(plan))
    (same, _), (faster, _) = ask([path], ["factor:1", "factor:10"])
    projector = Projector(workload_of_counts(counts := read_figures([path])))
    storage = resolve("factor:1", counts)
    assert len(projector.at_bounds) == len(storage.at_bounds) == 4
    for bound, present in zip(projector.at_bounds, storage.at_bounds, strict=True):
        assert bound.outcome(present)[0] == pytest.approx(1.0, rel=0.01)
    # Intervals include the spread of counts: a run of one second does not take minutes.
    assert 0.1 < same.interval_s[0] < 0.999 < same.interval_s[1] < 3.0
    assert faster.interval_s[0] < 0.1 < faster.interval_s[1] <= same.interval_s[1]
