"""Hand-written plans: unusual formats, relevant parts, and input that cannot be used."""

import json
from contextlib import suppress

import pytest

from cases import cases, nightly
from harness import only_line, spillcast
from spillcast.errors import EvidenceAmbiguous, EvidenceDamaged, InputError, NoTempIo, Refusal
from spillcast.evidence.counts import OpCounts
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.postgres.nodes import nodes_of
from spillcast.evidence.postgres.plan import counts_of_plan, read_plan
from spillcast.evidence.postgres.statements import read_rows, read_statements
from spillcast.evidence.selection import Selection
from text_plan import TEXT_PLAN

STATEMENTS = (
    "queryid,calls,total_exec_time,temp_blks_read,temp_blks_written,temp_blk_read_time,"
    "temp_blk_write_time\n"
    "-1,10,20000,1000,2000,1500,2500\n"
    "815,4,8000,400,400,10,10\n"
    "9,3,1,0,0,0,0\n"
)


def node(kind, read, written, *below, **values):
    times = {"Temp I/O Read Time": read / 10, "Temp I/O Write Time": written / 10}
    blocks = {"Temp Read Blocks": read, "Temp Written Blocks": written}
    return {"Node Type": kind, "Actual Rows": 9, "Actual Loops": 1, **blocks, **times,
            "Plans": list(below), **values}  # fmt: skip


def of(plan, **more):
    return counts_of_plan({"Plan": plan, "Execution Time": 1000.0, **more})


def written(tmp_path, text, name="plan.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_xml_of_auto_explain_without_a_query_element(plan_of):
    """The query's text and plan are below the root."""
    counts = plan_of(
        "2026-11-26 05:03:59.137 UTC [3498] LOG:  duration: 111.562 ms  plan:\n"
        '\t<explain xmlns="http://www.postgresql.org/2009/explain">\n'
        "\t  <Query-Text>select 1</Query-Text>\n\t  <Plan>\n\t    <Node-Type>Sort</Node-Type>\n"
        "\t    <Actual-Loops>1</Actual-Loops>\n\t    <Temp-Read-Blocks>3</Temp-Read-Blocks>\n"
        "\t    <Temp-Written-Blocks>4</Temp-Written-Blocks>\n\t  </Plan>\n\t</explain>\n"
    )
    assert (counts.reads.count, counts.writes.count) == (3, 4)


NODE = "Sort  (cost=2181.77..2231.77 rows=2 width=4) (actual time=28.680..38.265 rows=2 loops=1)"
BUFFERS = "  Buffers: shared hit=3, temp read=101 written=107"
#: As psql writes a plan in JSON with \\pset linestyle old-ascii, expanded.
OLD_ASCII = """\
-[ RECORD 1 ]---------
QUERY PLAN | [
           :   {
           :     "Plan": {
           :       "Node Type": "Sort",
           :       "Actual Loops": 1,
           :       "Temp Read Blocks": 101,
           :       "Temp Written Blocks": 107
           :     },
           :     "Execution Time": 39.384
           :   }
           : ]
"""
SORT = {"Node Type": "Sort", "Actual Loops": 1, "Temp Read Blocks": 101, "Temp Written Blocks": 107}
PLAN = json.dumps([{"Plan": SORT, "Execution Time": 39.384}], indent=2).splitlines()
YAML = ["- Plan:", *(f"    {name}: {value}" for name, value in SORT.items())]
YAML.append("  Execution Time: 39.384")


def in_a_cell(lines, *, is_expanded):
    """A plan in the single cell of psql's table; the continuation mark is behind all text."""
    width = max(map(len, lines))
    padded = [*(f"{line.ljust(width)}+" for line in lines[:-1]), lines[-1]]
    if not is_expanded:
        return "".join(f" {line}\n" for line in padded) + "\n"
    names = ["QUERY PLAN", *[" " * 10] * len(lines)]
    return "".join(f"{name} | {line}\n" for name, line in zip(names, padded, strict=False))


HEAD = "-[ RECORD 1 ]--------------------\n"
#: A program logged the plan in a field of its record.
RECORD = json.dumps({"level": "info", "msg": "slow query", "plan": "\n".join(
    [NODE, BUFFERS, "  ->  Function Scan on g  (actual time=1.0..2.0 rows=2 loops=1)",
     "Execution Time: 39.384 ms"])})  # fmt: skip


@cases(
    "text",
    [
        OLD_ASCII,
        RECORD,
        *(in_a_cell(lines, is_expanded=at) for lines in (PLAN, YAML) for at in (False, True)),
        *(HEAD + in_a_cell(lines, is_expanded=True) for lines in (PLAN, YAML)),
    ],
)
def test_a_plan_in_a_single_cell(tmp_path, text):
    counts = read_plan(written(tmp_path, text))
    assert (counts.reads.count, counts.writes.count) == (101, 107)
    assert counts.elapsed_s == 0.039384


def test_a_json_plan_wrapped_by_a_terminal_is_complete_at_every_width(tmp_path):
    document = {"Node Type": "Sort", "Actual Loops": 1, "Sort Key": ["o.id", "o.name"],
                "Temp Read Blocks": 101, "Temp Written Blocks": 107}  # fmt: skip
    text = json.dumps([{"Plan": {**document, "Plans": [document] * 3}, "Execution Time": 39.384}])
    for width in range(20, 120):
        lines = [text[at : at + width].rstrip() for at in range(0, len(text), width)]
        counts = read_plan(written(tmp_path, "\n".join(lines)))
        assert (counts.reads.count, counts.writes.count) == (101, 107), width


def test_a_cut_last_line_does_not_hide_the_counts_of_the_top_node(tmp_path):
    child = "  ->  Hash  (cost=2.0..3.0 rows=2 width=4) (actual time=1.0..2.0 rows=2 loops=1)"
    sort = "        Sort Method: external merge  Disk: 1880kB"
    lines = (NODE, BUFFERS, child, f"  ->  {NODE}", sort)
    text = "\n".join(lines)
    for end in range(len("\n".join(lines[:3])), len(text)):
        counts = read_plan(written(tmp_path, text[:end]))
        assert (counts.reads.count, counts.elapsed_s) == (101, 0.038265), text[:end]
    without = "\n".join((lines[0], *lines[2:]))
    with pytest.raises(EvidenceDamaged):
        read_plan(written(tmp_path, without.removesuffix("kB")))


@cases("begin, between, end", [("[", ",\n", "]"), ("", "\n", "")])
def test_a_cut_plan_after_a_whole_one_is_refused(tmp_path, begin, between, end):
    document = json.dumps({"Plan": node("Sort", 3, 4), "Execution Time": 1000.0})
    text = f"{begin}{document}{between}{document}{end}"
    whole = len(begin) + len(document)
    with pytest.raises(EvidenceAmbiguous):
        read_plan(written(tmp_path, text))
    for length in range(whole + 20, len(text) - len(end), 7):
        with pytest.raises(EvidenceDamaged):
            read_plan(written(tmp_path, text[:length]))
    # In a JSON list that only lacks its end, the plan is complete.
    assert read_plan(written(tmp_path, text[:whole])).operations == 7


def test_the_counts_of_a_plan(tmp_path):
    counts = read_plan(written(tmp_path, TEXT_PLAN))
    assert (counts.elapsed_s, counts.source) == (2.5, "explain")
    assert counts.reads == OpCounts(3000, 3000 * 8192, 600_000_000)
    assert counts.writes == OpCounts(3100, 3100 * 8192, 930_000_000)
    # The leader sorted 8 MB and a worker 7 MB; the lines of two workers are missing.
    assert (counts.processes, counts.held_bytes) == (pytest.approx(30 / 8), 15_000 * 1024)


def test_the_leader_may_only_gather():
    sort = node("Sort", 30, 30, **{"Actual Loops": 2})
    assert of(node("Gather", 30, 30, sort, **{"Workers Launched": 2})).processes == 2
    sort = node("Sort", 30, 30, **{"Actual Loops": 3})
    assert of(node("Gather", 30, 30, sort, **{"Workers Launched": 2})).processes == 3


def test_processes_are_averaged_over_serial_and_parallel_parts():
    """300 blocks in 3 processes take as long as 100; with 100 of one process, 400 in 2 each."""
    below = node("Sort", 150, 150, **{"Actual Loops": 3})
    gather = node("Gather", 150, 150, below, **{"Workers Launched": 2})
    top = node("Sort", 200, 200, gather)
    assert of(top).processes == pytest.approx(2.0)


def test_verbose_plans_show_the_blocks_of_each_process():
    """The first worker did 60 of 100 blocks, the leader 30: equivalent to 5/3 processes."""
    workers = [{"Worker Number": 0, "Temp Read Blocks": 20, "Temp Written Blocks": 40},
               {"Worker Number": 1, "Temp Read Blocks": 5, "Temp Written Blocks": 5}]  # fmt: skip
    join = node("Hash Join", 40, 60, **{"Actual Loops": 3, "Workers": workers})
    top = node("Gather", 40, 60, join, **{"Workers Launched": 2})
    assert of(top).processes == pytest.approx(100 / 60)


def test_a_worker_without_lines_counts_as_a_process():
    """Three processes sorted, of which the plan shows two: 80 KiB and 70 KiB."""
    disk = {"Sort Method": "external merge", "Sort Space Type": "Disk"}
    workers = [{"Worker Number": 0, **disk, "Sort Space Used": 70}]
    sizes = {"Actual Loops": 3, **disk, "Sort Space Used": 80, "Workers": workers}
    top = node("Gather", 30, 30, node("Sort", 30, 30, **sizes), **{"Workers Launched": 2})
    assert of(top).processes == pytest.approx((8 + 7 + 7.5) / 8)


def test_a_common_table_expression_is_counted_once():
    shared = node("Sort", 100, 100, **{"Subplan Name": "CTE c"})
    scans = [node("CTE Scan", 150, 160, **{"CTE Name": "c"}),
             node("CTE Scan", 50, 0, **{"CTE Name": "c"})]  # fmt: skip
    top = nodes_of(node("Append", 200, 160, shared, *scans))
    apart = [(n.kind, n.temp.read, n.temp.written) for n in top.walk()]
    assert apart == [("Append", 0, 0), ("Sort", 100, 100), ("CTE Scan", 50, 60),
                     ("CTE Scan", 50, 0)]  # fmt: skip


def test_an_elapsed_time_without_explain_replaces_that_of_the_plan():
    plan = node("Sort", 100, 100)
    counts = counts_of_plan({"Plan": plan, "Execution Time": 1000.0}, elapsed_s=0.8)
    assert counts.elapsed_s == 0.8
    assert counts.total_s == pytest.approx(0.02)


def test_without_a_summary_the_top_node_gives_the_time():
    document = {"Plan": node("Sort", 1, 1, **{"Actual Total Time": 700.0})}
    assert counts_of_plan(document).elapsed_s == 0.7


def test_a_text_without_its_last_lines_has_the_time_of_its_first_node(tmp_path):
    counts = read_plan(written(tmp_path, TEXT_PLAN[: TEXT_PLAN.index(" Planning")]))
    assert (counts.elapsed_s, counts.operations) == (2.0, 6100)


def test_statements_are_means_of_calls(tmp_path):
    path = written(tmp_path, STATEMENTS, "s.csv")
    most = read_statements(path, Selection(queryid="-1"))
    assert (most.elapsed_s, most.statement.calls) == (2.0, 10)
    assert (most.reads.count, most.writes.count) == (100, 200)
    assert most.total_s == pytest.approx(0.4)
    other = read_statements(path, Selection(queryid="815"))
    assert (other.elapsed_s, other.reads.count) == (2.0, 100)
    written(tmp_path, STATEMENTS.replace(",", ";"), "s.csv")
    assert read_statements(path, Selection(queryid="-1")) == most


def test_kinds_are_recognised_by_content(tmp_path):
    plans = [
        written(tmp_path, TEXT_PLAN, "a.txt"),
        written(tmp_path, json.dumps([{"Plan": {}}]), "b.json"),
        written(tmp_path, "LOG:  duration: 2.5 ms  plan:\n\tSort\n", "c.log"),
    ]
    statements = written(tmp_path, STATEMENTS, "d.csv")
    result = find_evidence([*plans, statements])
    assert (result.plans, result.statements) == (plans, [statements])


BLOCKS = {"Temp Read Blocks": 5, "Temp Written Blocks": 5}
BAD = {
    "cut": (json.dumps([{"Plan": node("Sort", 1, 1)}])[:-9], "cut or damaged"),
    "cut text": (
        "Sort  (cost=1.00..2.00 rows=9 width=4) (actual time=1.0..2.0 rows=9 loops=1)\n"
        "  Buffers: temp read=3",
        "no Execution Time",
    ),
    "no analyze": (json.dumps([{"Plan": {"Node Type": "Sort"}}]), "without ANALYZE"),
    "no analyze, text": ("Sort  (cost=1.00..2.00 rows=9 width=4)\n", "without ANALYZE"),
    "no buffers": (
        json.dumps([{"Plan": {"Node Type": "Sort", "Actual Loops": 1}}]),
        "without BUFFERS",
    ),
    "no buffers, text": (
        "Sort  (cost=1.00..2.00 rows=9 width=4) (actual time=1.0..2.0 rows=9 loops=1)\n"
        "Execution Time: 5.0 ms\n",
        "without BUFFERS",
    ),
    "all time": (
        json.dumps([{"Plan": node("Sort", 9, 9), "Execution Time": 3.7e14}]),
        "the time of the query is 3",
    ),
    "no spill": (json.dumps([{"Plan": node("Sort", 0, 0), "Execution Time": 5}]), "does not spill"),
    "xml": ('<explain xmlns="http://www.postgresql.org/2009/explain">', "XML"),
    "yaml": ("- Plan: \n    Node Type: \"Sort\"\n", "without ANALYZE"),
    "no plan": ('{"schema": "other"}', "known kind"),
    "no node": (json.dumps({"Plan": BLOCKS | {"Actual Loops": 1}, "Execution Time": 1}), "damaged"),
    "no number": (
        json.dumps([{"Plan": node("Sort", 1, 1, **{"Temp Read Blocks": "many"})}]),
        "damaged",
    ),
    "no time": (
        json.dumps([{"Plan": node("Sort", 1, 1), "Execution Time": 0}]),
        "elapsed time of 0",
    ),
    "empty": ("", ""),
}  # fmt: skip


@cases("name", BAD)
def test_unusable_plans_are_refused_in_one_line(tmp_path, name):
    text, words = BAD[name]
    path = written(tmp_path, text, "plan.json")
    result = spillcast("forecast", path, "--to", "latency:1ms")
    assert words in only_line(result, 2)


def test_a_plan_without_times_has_bounds_or_uses_the_present_storage(tmp_path):
    text = "\n".join(line for line in TEXT_PLAN.splitlines() if "Timings" not in line)
    path = written(tmp_path, text)
    # Without a storage, each process took between memory's speed and the whole run.
    within = read_plan(path).time_bounds
    assert 0 < within.lower < 0.1
    assert within.upper == pytest.approx(2.5 * 30 / 8)
    # 6,100 blocks of 0.3 ms, of which the leader did 8/30, were 0.488 s of 2.5 s.
    result = spillcast(
        "forecast", path, "--from", "latency:300us", "--to", "latency:30us", "--json"
    )
    document = json.loads(result.stdout)
    assert document["forecast_s"] == pytest.approx(2.5 - 0.9 * 0.488)
    assert "assumed" in {warning["code"] for warning in document["warnings"]}
    slow = spillcast("forecast", path, "--from", "latency:9ms", "--to", "latency:30us", "--details")
    assert "page cache" in slow.stdout


@pytest.mark.parametrize("step", [3, *nightly(1)])
@cases("text", [TEXT_PLAN, json.dumps([{"Plan": node("Sort", 1, 1)}], indent=1)])
def test_a_plan_cut_anywhere_raises_only_input_errors(tmp_path, text, step):
    path = tmp_path / "plan.txt"
    for end in range(0, len(text), step):
        path.write_text(text[:end])
        with suppress(InputError, Refusal):
            assert read_plan(path).writes.count > 0


BAD_STATEMENTS = {
    "no columns": ("queryid,calls,temp_blks_written\n1,2,3\n", "without total_exec_time"),
    "cut": (STATEMENTS[: STATEMENTS.index(",2000,1500")], "cut or damaged"),
    "cut json": ('[{"temp_blks_written": 5,', "cut or damaged"),
    "words": (STATEMENTS.replace("1000", "many"), "cut or damaged"),
    "no spill": ("\n".join(STATEMENTS.splitlines()[::3]), "not spill"),
}


@cases("name", BAD_STATEMENTS)
def test_unusable_statements_are_refused_in_one_line(tmp_path, name):
    text, words = BAD_STATEMENTS[name]
    result = spillcast("forecast", written(tmp_path, text, "s.csv"), "--to", "latency:1ms")
    assert words in only_line(result, 2)


def test_an_absent_queryid_is_refused(tmp_path):
    path = written(tmp_path, STATEMENTS, "s.csv")
    result = spillcast("forecast", path, "--to", "latency:1ms", "--queryid", "7")
    assert "no row has queryid 7" in only_line(result, 2)
    with pytest.raises(NoTempIo):
        read_statements(path, Selection(queryid="9"))


def test_options_and_verbs_that_do_not_apply_to_plans_are_refused(tmp_path):
    path = written(tmp_path, TEXT_PLAN)
    for options, words in (
        (("--queryid", "7"), "--queryid"),
        (("--sql-id", "7"), "ASH"),
        (("--method", "seed"), "ASH"),
    ):
        result = spillcast("forecast", path, "--to", "latency:1ms", *options)
        assert words in only_line(result, 2)
    assert "contain totals" in only_line(spillcast("profile", path), 2)
    assert "contain totals" in only_line(spillcast("profile", path, "--sql", "from waits"), 2)
    two = spillcast("forecast", path, path, "--to", "latency:1ms")
    assert "2 files" in only_line(two, 2)


@cases(
    "text",
    [
        '[\n  {\n    "Plan": {\n      "Node Type": "Sort",\n      "Actual Loops": 1, -- once\n'
        '      "Temp Read Blocks": 10,\n      "Temp Written Blocks": 11\n    },\n'
        '    "Execution Time": 30.043\n  }\n]\n',
        "6 Sort (cost=1.0..2.0 rows=9 width=12) (actual time=1.5..9.5 rows=9 loops=1)\n"
        "9 Buffers: shared hit=138, temp read=10 written=11\n40 Planning time: 0.899 ms\n"
        "41 Execution time: 30.043 ms\n",
    ],
)
def test_a_plan_with_comments_or_line_numbers(plan_of, text):
    counts = plan_of(text)
    assert (counts.reads.count, counts.writes.count, counts.elapsed_s) == (10, 11, 0.030043)


IN_MEMORY = """\
Sort  (actual time=9.0..90.0 rows=9 loops=1)
  Sort Key: a
  Sort Method: quicksort  Memory: 85677kB
  Buffers: shared hit=9166
  ->  Seq Scan on b  (actual time=1.0..9.0 rows=9 loops=1)
        Buffers: shared hit=9166
Execution Time: 95.5 ms
"""
ON_DISK = IN_MEMORY.replace("quicksort  Memory", "external merge  Disk").replace(
    "9166\n  ->", "9166, temp read=13846 written=13867\n  ->"
)


@cases("above,below", [(IN_MEMORY, ON_DISK), (ON_DISK, IN_MEMORY)])
@cases("name", ["Sort", "Gather Merge", "Custom Scan (Cache) on c", "Foreign Scan on public.t"])
def test_a_second_plan_whose_figures_are_below_its_name_is_detected(tmp_path, above, below, name):
    below = below.replace("Sort  (", f"{name}\n    (", 1)
    path = written(tmp_path, f"{above}\nand now:\n\n{below}")
    with pytest.raises(EvidenceAmbiguous):
        read_plan(path)
    counts = [read_plan_or_none(path, item) for item in (1, 2)]
    assert [each and each.writes.count for each in counts] in ([13867, None], [None, 13867])


def read_plan_or_none(path, item):
    with suppress(NoTempIo):
        return read_plan(path, Selection(item=item))


def test_figures_below_the_end_of_a_plan_need_a_name(tmp_path):
    path = written(tmp_path, f"{ON_DISK}\nwhat\n  (actual time=9.1..90.2 rows=9 loops=1)\n")
    with pytest.raises(EvidenceDamaged):
        read_plan(path)
    quote = "\nwhat\n  (actual time=9.0..90.0 rows=9 loops=1)\n"
    assert read_plan(written(tmp_path, ON_DISK + quote)).writes.count == 13867


def test_a_quotation_below_two_plans_is_ambiguous(tmp_path):
    text = (ON_DISK + IN_MEMORY).replace("Execution Time: 95.5 ms\n", "")
    path = written(tmp_path, f"{text}| `4MB` | `external merge  Disk: 85677kB` | much |\n")
    with pytest.raises(EvidenceAmbiguous):
        read_plan(path)


def test_a_join_without_indentation_has_an_unknown_size(tmp_path):
    """Without buffers, the join's spill follows from the rows of its two inputs."""
    scan = "  -> Seq Scan on {}  (cost=0..1 rows=9 width=8) (actual time=1.0..2.0 rows=900 loops=1)"
    lines = [
        "Hash Join  (cost=0.0..1.0 rows=9 width=8) (actual time=1.0..9.0 rows=900 loops=1)",
        scan.format("a"),
        "  -> Hash  (cost=0.0..1.0 rows=9 width=8) (actual time=1.0..2.0 rows=900 loops=1)",
        "        Buckets: 1024  Batches: 16  Memory Usage: 99kB",
        "      " + scan.format("b"),
        "Execution Time: 9.5 ms",
    ]
    assert read_plan(written(tmp_path, "\n".join(lines))).writes.count > 1
    vector = "\n".join(lines).replace("Hash Join", "Vector Hash Join")
    assert read_plan(written(tmp_path, vector)).writes.count > 1
    with pytest.raises(EvidenceDamaged):
        read_plan(written(tmp_path, "\n".join(line.strip() for line in lines)))


def test_thousands_separators_are_not_decimal_commas(tmp_path):
    plan = ON_DISK.replace("(actual", "(cost=1.00..2.00 rows=9 width=8) (actual")
    plan = plan.replace("time=9.0..90.0", "time=9.000..90.000")
    plan += "Settings: work_mem = '4MB', hash_mem_multiplier = '1.5'\n"
    decimal = plan.translate(str.maketrans(".", ",")).replace(",,", "..").replace("'1,5'", "'1.5'")
    assert read_plan(written(tmp_path, decimal)).elapsed_s == 0.0955
    for cost in ("1,234..2,345", "1,234,567..2,345,678"):
        text = decimal.replace("cost=1,00..2,00", f"cost={cost}")
        with pytest.raises(EvidenceDamaged):
            read_plan(written(tmp_path, text))


@cases("below", ["", "(1 row)\n"])
def test_a_second_table_is_refused(tmp_path, below):
    table = "calls | total_exec_time | temp_blks_read | temp_blks_written\n------+------\n"
    text = f"{table} 1 | 900 | 100 | 100\n{below}\n{table} 2 | 90 | 10 | 10\n"
    with pytest.raises(InputError):
        read_statements(written(tmp_path, text))


@cases("fence", ["", "```\n"])
@cases("below", ["", "(1 row)\n"])
def test_text_with_commas_below_a_table_is_not_a_row(tmp_path, fence, below):
    table = "calls | total_exec_time | temp_blks_read | temp_blks_written\n------+------\n"
    text = f"{fence}{table} 1 | 900 | 100 | 99\n{below}{fence}\nAs you see, it is, at last, slow.\n"
    assert read_statements(written(tmp_path, text)).writes.count == 99


@cases("names", ["calls | query", "query | calls"])
def test_a_row_below_a_blank_line_belongs_to_the_table(tmp_path, names):
    rows = [{"calls": 1, "query": "a"}, {"calls": 2, "query": "select b"}]
    lines = [f"{row[names[:5]]} | {row[names[-5:]]} | 90 | 9 | {row['calls']}" for row in rows]
    heading = f"{names} | total_time | temp_blks_read | temp_blks_written\n------+------\n"
    path = written(tmp_path, f"{heading}{lines[0]}\n\n{lines[1]}\n\nSee, it, is slow.\n")
    assert [row.written_blocks for row in read_rows(path)] == [1, 2]


def test_a_session_with_many_plans_is_ambiguous(tmp_path):
    lines = ["QUERY PLAN", "-" * 40, *ON_DISK.splitlines(), "(7 rows)", "", ""]
    with pytest.raises(EvidenceAmbiguous):
        read_plan(written(tmp_path, "\n".join(lines * 1200)))


def test_statements_in_the_expanded_forms_of_psql(tmp_path):
    """Each row of the table has a name and a value."""
    names, *rows = (line.split(",") for line in STATEMENTS.splitlines())
    lines = ['<table border="1">\n']
    for at, row in enumerate(rows, 1):
        lines.append(f'\n  <tr><td colspan="2" align="center">Record {at}</td></tr>\n')
        for name, cell in zip(names, row, strict=True):
            lines.append(f'  <tr valign="top">\n    <th>{name}</th>\n')
            lines.append(f'    <td align="right">{cell}</td>\n  </tr>\n')
    path = written(tmp_path, "".join([*lines, "</table>\n"]))
    csv = "".join(f"{pair[0]},{pair[1]}\n" for row in rows for pair in zip(names, row, strict=True))
    for expanded in (path, written(tmp_path, csv, "expanded.csv")):
        assert read_rows(expanded) == read_rows(written(tmp_path, STATEMENTS, "statements.csv"))


def test_a_description_of_columns_is_refused(tmp_path):
    names = ("calls", "total_exec_time", "temp_blks_read", "temp_blks_written")
    lines = ["| Column | Type |", "| --- | --- |", *(f"| {name} | bigint |" for name in names)]
    with pytest.raises(InputError):
        open_evidence(find_evidence([written(tmp_path, "\n".join(lines))]), Selection())
