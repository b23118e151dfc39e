"""SQL Server: actual plans in each form in which they are shared, rows of views, and refusals."""

import csv
import html
import io
import json
import re

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnsuited,
    NoTempIo,
)
from spillcast.evidence.open import read_figures
from spillcast.evidence.selection import Selection
from sqlserver_files import ESTIMATED, FILES, FITS, HASH, OLD, QUERIES, SORT, plan

SORTED = plan(SORT.format(pages=7841))
BODY = SORTED.partition("\n")[2]


@cases(
    "text",
    [
        SORTED,
        SORTED.encode("utf-16"),
        SORTED.replace('"select 0"', '"select \u201ca\u201d"'),
        SORTED.encode("utf-16-be"),
        f"Microsoft SQL Server 2005 XML Showplan\n{'-' * 40}\n{BODY}\n\n(1 row affected)\n",
        f"<pre>{html.escape(SORTED)}</pre>",
        # A mail wraps lines within tags.
        "Hi,\n" + re.sub("^", ">> ", BODY.replace('" ', '"\n'), flags=re.MULTILINE),
        '"query_plan"\n"' + BODY.replace('"', '""') + '"\n',
        f"plan = {SORTED!r}\nprint(plan)",
        repr([(SORTED,)]),
        json.dumps([{"query_id": 7, "query_plan": SORTED}]),
        "String plan =\n" + " +\n".join(map(json.dumps, SORTED.splitlines(keepends=True))) + ";",
    ],
)
def test_a_plan_is_read_in_each_form(figures, text):
    counts = figures(text)
    assert (counts.reads.bytes, counts.writes.bytes) == (7841 * 8192,) * 2
    assert (counts.elapsed_s, counts.cpu_s, counts.processes) == (5.0, 1.5, 1)
    # The lower bound is the waits, the upper bound an operation for each page.
    bounds = counts.io_bounds
    assert 3643 <= bounds.lower.operations <= 3644
    assert bounds.upper.operations == 2 * 7841
    assert (counts.time_bounds.lower, counts.time_bounds.upper) == pytest.approx((2.753, 2.978))
    assert counts.engine.version == "16.0.4210.1"
    assert "1 MiB" in " ".join(counts.notes)


def test_a_spill_without_run_times_is_of_an_actual_plan(figures):
    """A tool that shortened the plan kept the pages of the spill, and no time."""
    start = SORT.index("<RunTime")
    short = SORT[:start].replace('<QueryTimeStats CpuTime="1500" ElapsedTime="5000"/>', "")
    counts = figures(plan(short.format(pages=500) + "</RelOp>"), elapsed_s=5.0)
    assert counts.writes.bytes == counts.reads.bytes == 500 * 8192


def test_a_parallel_join_without_waits_has_bounds(figures):
    counts = figures(plan(HASH))
    assert (counts.reads.bytes, counts.writes.bytes) == (19040 * 8192, 10040 * 8192)
    assert (counts.elapsed_s, counts.processes) == (15.548, 8)
    assert counts.time_bounds.upper == pytest.approx(8 * 15.548)
    # Operations of 1 MiB, or of single pages.
    assert counts.io_bounds.lower.operations == pytest.approx((19040 + 10040) / 128, abs=1)


def test_a_batch_mode_sort_has_no_waits_of_its_own_and_counts_one_pass(figures):
    """In 2022, listed waits are a few ms; the operator reads more pages than the details show."""
    counters = 'ActualElapsedms="5000" ActualPhysicalReads="700" ActualReadAheads="30664"'
    batch = SORT.replace("IO_COMPLETION", "WRITELOG").replace("2753", "2").replace("225", "1")
    text = plan(batch.format(pages=7841)).replace('ActualElapsedms="5000"', counters)
    counts = figures(text.replace('DegreeOfParallelism="8"', 'DegreeOfParallelism="0"'))
    assert (counts.reads.bytes, counts.writes.bytes) == (4 * 7841 * 8192,) * 2
    # Elapsed time without CPU time and the log's wait.
    upper_s = 5 - 1.5 - 0.002
    assert (counts.time_bounds.lower, counts.time_bounds.upper) == pytest.approx((0, upper_s))


@cases(
    ("text", "error"),
    [
        (plan(ESTIMATED), EvidenceUnsuited),
        (plan(FITS), NoTempIo),
        (plan(OLD), EvidenceIncomplete),
        (SORTED[: len(SORTED) // 2], EvidenceDamaged),
        ('<Warnings><SortSpillDetails WritesToTempDb="7841"/></Warnings>', EvidenceIncomplete),
        (SORTED[:600] + SORTED[640:], EvidenceDamaged),
        (SORTED.replace("</RelOp>", "</RelOp>\n...\n"), EvidenceIncomplete),
        (SORTED.replace("7841", "-1"), EvidenceDamaged),
        (SORTED.replace("7841", "x"), EvidenceDamaged),
    ],
)
def test_a_plan_without_counts_is_refused(figures, text, error):
    with pytest.raises(error):
        figures(text)


@cases("separator", [",", "\t", ";"])
def test_rows_of_query_stats_give_means_of_calls(figures, separator):
    counts = figures(QUERIES.replace(",", separator))
    assert (counts.elapsed_s, counts.cpu_s) == (5.0, 1.5)
    assert counts.writes.bytes == 7841 * 8192
    assert counts.statement.calls == 4
    with pytest.raises(EvidenceAmbiguous):
        figures(QUERIES + "0xBB,1,10000000,1,80,1\n")
    more = figures(QUERIES + "0xBB,1,10000000,1,80,1\n", queryid="0xbb")
    assert more.writes.bytes == 80 * 8192
    rows = csv.DictReader(io.StringIO(QUERIES))
    assert figures(json.dumps(list(rows))).writes == counts.writes
    assert figures(f"-- return this:\n/*\n{QUERIES}*/\n").writes == counts.writes
    # A client draws a table.
    cells = [[cell.ljust(20) for cell in line.split(",")] for line in QUERIES.splitlines()]
    grid = ["|".join([*row, "\n"]) for row in cells]
    grid.insert(1, "+".join(["-" * 20] * len(cells[0]) + ["\n"]))
    assert figures("".join(grid)).writes == counts.writes
    # Times of rows that did not spill are ignored.
    assert figures(QUERIES + "0xBB,1,,1,0,1\n").statement.calls == 4


@cases("form", ["Markdown", "psql", "HTML", "INSERT"])
def test_rows_in_formats_of_other_clients(figures, form):
    heading, *rows = (line.split(",") for line in QUERIES.splitlines())
    if form == "HTML":
        cells = (f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
        text = f"<table><tr><th>{'</th><th>'.join(heading)}</th></tr>{''.join(cells)}</table>"
    elif form == "INSERT":
        into = f"insert into t ({', '.join(heading)}) values"
        text = "".join(f"{into} ({', '.join(map(repr, row))});\n" for row in rows)
    else:
        end, joint = ("|", "|") if form == "Markdown" else ("", "+")
        table = [heading, ["-" * 22] * len(heading), *rows]
        lines = ((" | ", row) if row is not table[1] else (f"-{joint}-", row) for row in table)
        text = "\n".join(
            f"{end} {by.join(f'{cell:22}' for cell in row)} {end}".strip(" ") for by, row in lines
        )
    assert figures(text).writes == figures(QUERIES).writes


def test_a_statement_may_exceed_the_usual_length_of_cells(figures):
    """Python's csv module refuses cells of more than 131,072 characters."""
    heading, row, *_ = QUERIES.splitlines()
    statement = "select " + ", ".join(f"column_{n}" for n in range(12_000))
    counts = figures(f'{heading},statement_text\n{row},"{statement}"\n')
    assert counts.elapsed_s == 5.0


@cases(
    ("text", "error"),
    [
        (QUERIES.replace("31364", "0"), NoTempIo),
        (QUERIES.replace("31364", "many"), EvidenceDamaged),
        (QUERIES.replace(",4,2", ",0,2"), EvidenceDamaged),
        (QUERIES[:-25], EvidenceDamaged),
    ],
)
def test_rows_without_counts_are_refused(figures, text, error):
    with pytest.raises(error):
        figures(text)


def test_two_snapshots_of_tempdb_give_timed_counts(tmp_path):
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    # The log (file 2) and master (database 1) are not temp files.
    other = "2\t2\t1000\t9\t9\t9\t9\t9\t9\n1\t1\t1000\t9\t9\t9\t9\t9\t9\n"
    before.write_text(f"{FILES}2\t1\t1000\t100\t819200\t50\t200\t13107200\t70\n{other}")
    after.write_text(f"{FILES}2\t1\t61000\t1100\t9011200\t5050\t2200\t144179200\t9070\n")
    for paths in ([before, after], [after, before]):
        counts = read_figures(paths)
        assert (counts.elapsed_s, counts.subject) == (60, "the interval between the snapshots")
        assert (counts.reads.count, counts.reads.bytes) == (1000, 8192000)
        assert (counts.writes.count, counts.writes.bytes) == (2000, 131072000)
        assert (counts.reads.total_ns, counts.writes.total_ns) == (5e9, 9e9)
    # Both snapshots in one paste, and a third.
    both = tmp_path / "both.txt"
    both.write_text(before.read_text() + after.read_text().removeprefix(FILES))
    pasted = read_figures([both])
    assert (pasted.reads, pasted.elapsed_s) == (counts.reads, counts.elapsed_s)
    both.write_text(both.read_text() + after.read_text().removeprefix(FILES))
    assert read_figures([both]).reads == counts.reads
    with pytest.raises(EvidenceMixed):
        read_figures([both, before], Selection(elapsed_s=60.0))
    with pytest.raises(EvidenceIncomplete):
        read_figures([after])
    alone = read_figures([after], Selection(elapsed_s=60.0))
    assert (alone.reads.count, alone.subject) == (1100, None)


#: Counts and times of a statement from servers in German, Japanese, Chinese and Russian.
STATISTICS = [
    'Tabelle "t". Scananzahl 5, logische Lesevorgänge 7, physische Lesevorgänge 0, Read-Ahead-'
    "Lesevorgänge 1, logische LOB-Lesevorgänge 0, physische LOB-Lesevorgänge 0.\n",
    "テーブル 't'。スキャン カウント 1、論理読み取り数 6、物理読み取り数 0、"
    "先読み読み取り数 0、LOB 論理読み取り数 0、LOB 物理読み取り数 0。\n",
    "表 't'。扫描计数 1\uff0c逻辑读取 6 次\uff0c物理读取 0 次\uff0c预读 0 次\uff0c"
    "lob 逻辑读取 0 次\uff0clob 物理读取 0 次\uff0clob 预读 0 次。\n",
    " Время работы SQL Server:\n   Время ЦП = 172 мс, затраченное время = 415 мс.\n",
    " SQL Server 実行時間:\n   CPU 時間 = 172 ミリ秒、経過時間 = 61 ミリ秒。\n",
]


@cases("text", STATISTICS)
def test_pages_and_times_are_refused_by_name_in_any_language(figures, text):
    with pytest.raises(EvidenceUnsuited) as refused:
        figures(text)
    assert "STATISTICS XML" in refused.value.hint
