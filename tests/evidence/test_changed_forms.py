"""Doubled, joined, shifted and cut evidence: the same answer, a refusal or a note."""

import json
import re

import duckdb
import pytest
import report_disguises

import ash_files
import monitor_reports
import sqlserver_files
import statement_files
from cases import cases
from fuzz.figure_shapes import OTHERS
from oracle_files import READ, blocks, write_trace
from spillcast.errors import (
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    InputError,
    SpillcastError,
    TimesContradictory,
)
from spillcast.evidence.clickhouse import read_rows as read_queries
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.trace import profile_traces
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.evidence.postgres.statements import read_rows
from spillcast.evidence.selection import Selection
from text_plan import TEXT_PLAN


def statements(tmp_path, *more):
    rows = [statement_files.row(blocks=9000, temp_ms=900.0, userid=10), *more]
    return statement_files.export(tmp_path / "made.csv", 18, *rows).read_text()


def answer(folder, text):
    """Elapsed time, temp I/O and notes; None where it is refused."""
    (path := folder / "evidence.txt").write_text(text)
    try:
        counts = open_evidence(find_evidence([path]), Selection(elapsed_s=900.0))
    except SpillcastError:
        return None
    return counts.reads, counts.writes, set(counts.notes)


def again(text):
    """Repeats the lines below the heading."""
    return text + text.partition("\n")[2]


def with_column(name, cell, before):
    """Repeats a column of a CSV or TSV table with other values, as a join of two views does."""

    def changed(text):
        heading, *rows = text.strip().split("\n")
        separator = "\t" if "\t" in heading else ","
        columns = ((name, heading), *((cell, row) for row in rows))
        parts = (column if before else column[::-1] for column in columns)
        return "".join(separator.join(part) + "\n" for part in parts)

    return changed


def without_line(number, title):
    """Removes one of the lines below a title."""

    def changed(text):
        above, title_line, below = text.partition(title)
        lines = below.split("\n")
        return above + title_line + "\n".join(lines[:number] + lines[number + 1 :])

    return changed


FILE_STATS = sqlserver_files.FILES + "2\t1\t9000\t9000\t73728000\t5000\t9000\t73728000\t7000\n"
SHARES = OTHERS["shares"][1]
XPLAN = report_disguises.xplan()
TABLE_ROW = next(line for line in XPLAN.split("\n") if "T1 " in line) + "\n"
TIMES = "temp read=600.000 write=930.000"


@cases(
    ("text", "change"),
    [
        (statements, again),
        *(
            (statements, with_column(name, "7", before))
            for name in ("calls", "temp_blks_read", "temp_blk_write_time", "shared_blk_read_time")
            for before in (True, False)
        ),
        (FILE_STATS, with_column("num_of_reads", "14", before=True)),
        (FILE_STATS, with_column("io_stall_write_ms", "14", before=False)),
        (SHARES, lambda text: text.replace(" 54%", " 54.0%")),
        (SHARES, lambda text: text.replace("  418 ", " #### ")),
        (SHARES, lambda text: text.replace("  338 ", "  33800000 ")),
        (XPLAN, lambda text: text.replace(TABLE_ROW, "")),
        (XPLAN, lambda text: text.replace("--", "\u2014")),
        (XPLAN, lambda text: text.replace("|    TABLE", "|  TABLE")),
        (report_disguises.session_event(), lambda text: text.replace("temp", "other", 1)),
        *(
            (report_disguises.session_event(), with_column(name, "7", before))
            for name in ("TOTAL_WAITS", "TIME_WAITED_MICRO")
            for before in (True, False)
        ),
        *(
            (monitor_reports.text(), without_line(number, table))
            for table in ("Global Stats", "SQL Plan")
            for number in (2, 3)
        ),
        (TEXT_PLAN, lambda text: text.replace(TIMES, "temp read=1'600.000 write=1'930.000")),
        (TEXT_PLAN, lambda text: text.replace(" write=930.000", "")),
        (TEXT_PLAN, lambda text: text.replace("written=", "dirtied=").replace("Disk", "Memory")),
        (TEXT_PLAN, lambda text: text.replace(TIMES, "temp read=0.600 write=0.930")),
        (TEXT_PLAN, lambda text: text.replace("loops=4", f"loops={2**32 - 1}")),
    ],
)
def test_changed_evidence_gives_no_other_answer_without_a_note(tmp_path, text, change):
    text = text(tmp_path) if callable(text) else text
    changed = change(text)
    assert changed != text
    whole, result = answer(tmp_path, text), answer(tmp_path, changed)
    assert whole is not None
    assert result is None or result[:2] == whole[:2] or result[2] - whole[2]


def test_rows_of_two_snapshots_are_not_added_up(tmp_path):
    """The later counts contain the earlier ones; those of other users and databases do not."""
    later = {"blocks": 9000, "temp_ms": 900.0, "calls": 5}
    (path := tmp_path / "both.csv").write_text(
        statements(tmp_path, statement_files.row(**later, userid=10))
    )
    with pytest.raises(InputError):
        read_rows(path)
    path.write_text(statements(tmp_path, statement_files.row(**later, userid=11)))
    assert [row.calls for row in read_rows(path)] == [9]
    path.write_text(again(path.read_text()))
    assert [row.calls for row in read_rows(path)] == [9]
    # Without columns that distinguish users, and with identifiers that a spreadsheet rounded.
    for userids, names in (((None, None), 815), ((10, 10), 5.23e18)):
        both = (
            statement_files.row(names, None, userid=user, calls=calls)
            for user, calls in zip(userids, (4, 5), strict=True)
        )
        text = statement_files.export(path, 18, *both).read_text()
        if userids[0] is None:
            text = text.replace("userid,", "no,", 1)
        for written in (text, again(text)):
            path.write_text(written)
            assert sum(row.calls for row in read_rows(path)) == 9


def test_total_rows_and_truncated_identifiers_are_not_statements(tmp_path):
    """A spreadsheet shows #### where a column is too narrow."""
    rows = [statement_files.row(n, None, calls=n, blocks=900, userid=n) for n in (2, 3)]
    total = statement_files.row(5, None, calls=5, blocks=900, userid=5)
    path = statement_files.export(tmp_path / "statements.csv", 18, *rows, total)
    assert [row.calls for row in read_rows(path)] == [2, 3]
    for row in rows:
        row["queryid"] = "####"
    statement_files.export(path, 18, *rows)
    assert [(row.queryid, row.calls) for row in read_rows(path)] == [(None, 2), (None, 3)]


def test_statements_in_a_box_of_duckdb(tmp_path):
    path = tmp_path / "box.txt"
    columns = (
        "true as toplevel, date '2026-11-30' as since, i as queryid, i + 1 as calls, 'q' as query"
    )
    times = "i * 9.5 as total_exec_time, i as temp_blks_read, i as temp_blks_written"
    for count in (3, 100):
        box = str(duckdb.sql(f"select {columns}, {times} from range({count}) t(i)"))
        path.write_text(box)
        if count == 3:
            assert [row.calls for row in read_rows(path)] == [1, 2, 3]
        else:
            with pytest.raises(InputError):
                read_rows(path)


def test_times_of_a_part_of_the_calls_are_refused(tmp_path):
    """The server began to time I/O after most of the calls, so that a block takes 0.1 us."""
    row = statement_files.row(calls=1000, blocks=30_000, temp_ms=3.0)
    path = statement_files.export(tmp_path / "statements.csv", 18, row)
    with pytest.raises(TimesContradictory):
        open_evidence(find_evidence([path]), Selection())


@cases(
    "text",
    [
        # Microseconds that someone divided by a thousand, and milliseconds.
        sqlserver_files.QUERIES.replace("20000000,6000000", "20000,6000"),
        OTHERS["mariadb"][1].replace("000.0", ".0").replace("800.0", "0.8"),
        json.dumps({"latency": 9e-6, "system_peak_temp_dir_size": 1 << 32,
                    "total_bytes_spilled": 1 << 32, "total_bytes_written": 1 << 33}),
    ],
)  # fmt: skip
def test_times_faster_than_memory_are_in_another_unit(tmp_path, text):
    (path := tmp_path / "made.txt").write_text(text)
    with pytest.raises(EvidenceContradictory):
        open_evidence(find_evidence([path]), Selection())
    assert open_evidence(find_evidence([path]), Selection(elapsed_s=900.0)).writes.bytes


def test_files_of_other_databases_and_of_a_single_snapshot_have_no_growth(tmp_path):
    row = "{0}\t{1}\t{2}\t{3}\t{3}0000\t{3}\t{3}\t{3}0000\t{3}\n"
    grown = [row.format(2, 1, 1000, 9000), row.format(2, 1, 61000, 9900)]
    others = [row.format(5, 1, sample, 7000) for sample in (1000, 61000)]
    path = tmp_path / "files.tsv"

    def snapshots(lines, columns=slice(None)):
        rows = (line.split("\t")[columns] for line in [sqlserver_files.FILES, *lines])
        path.write_text("".join(map("\t".join, rows)))
        return open_evidence(find_evidence([path]), Selection(elapsed_s=60.0))

    whole = snapshots([*grown, *others])
    assert (whole.reads.count, whole.writes.bytes) == (900, 9_000_000)
    with pytest.raises(EvidenceIncomplete):
        snapshots([*grown, *others], slice(1, None))
    with pytest.raises(EvidenceContradictory):
        snapshots([*grown, row.format(2, 3, 61000, 9900)])


@cases("is_first", [True, False])
def test_a_cut_plan_in_xml_beside_a_whole_one_is_noted(tmp_path, is_first):
    whole = (
        '<explain xmlns="http://www.postgresql.org/2009/explain"><Query><Plan>'
        "<Node-Type>Sort</Node-Type><Actual-Loops>1</Actual-Loops><Temp-Read-Blocks>3"
        "</Temp-Read-Blocks><Temp-Written-Blocks>4</Temp-Written-Blocks></Plan>"
        "<Execution-Time>950</Execution-Time></Query></explain>"
    )
    path = tmp_path / "plan.xml"

    def read(text):
        path.write_text(text)
        return open_evidence(find_evidence([path]), Selection())

    plans = [whole[:200], whole] if is_first else [whole, whole[:200]]
    counts = read("\n".join(plans))
    assert counts.reads.count == 3
    assert len(counts.notes) > len(read(whole).notes)
    with pytest.raises(EvidenceDamaged):
        read(whole[:200])


def test_a_table_cut_at_its_right_edge_is_damaged(tmp_path):
    """Without the columns of writes and temp space it resembles a table without a spill."""
    lines = OTHERS["xplan"][1].split("\n")
    at = lines[2].index("| Writes") - 2
    (path := tmp_path / "plan.txt").write_text("\n".join(line[:at] for line in lines))
    with pytest.raises(EvidenceDamaged):
        open_evidence(find_evidence([path]), Selection(elapsed_s=900.0))


def test_repeated_samples_and_queries_count_once(tmp_path):
    path = ash_files.write_ash(tmp_path / "ash.csv", ash_files.execution(30))
    path.write_text(again(path.read_text()))
    assert read_ash(path).samples.num_rows == 30
    log = json.loads(OTHERS["query_log"][1])
    (path := tmp_path / "log.jsonl").write_text(
        "".join(json.dumps(log | {"query_id": name}) + "\n" for name in "aba")
    )
    assert [query.query_id for query in read_queries(path)] == ["a", "b"]


@cases(
    "change",
    [
        # Milliseconds, pieces whose names sort the other way, a repeated piece, and missing lines.
        lambda lines: [re.sub(r"ela= (\d+)000", r"ela= \1", line) for line in lines],
        lambda lines: lines[303:] + lines[:303],
        lambda lines: [*lines, *lines[707:]],
        lambda lines: lines[:100] + lines[-100:],
    ],
)
def test_waits_that_contradict_the_time_of_their_trace_are_noted(tmp_path, change):
    path = write_trace(tmp_path / "a.trc", [(READ, 8000, blocks(31))] * 1000)
    assert profile_traces([path], ["event"]).excess_text() is None
    lines = path.read_text().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith("WAIT"))
    path.write_text("".join(lines[:first] + change(lines[first:])))
    assert profile_traces([path], ["event"]).excess_text() is not None


def test_contradictory_columns_of_ash_are_damage(tmp_path):
    path = ash_files.write_ash(tmp_path / "ash.csv", ash_files.execution(4))
    path.write_text(with_column("EVENT", "latch free", before=True)(path.read_text()))
    with pytest.raises(InputError):
        read_ash(path)


def test_rows_of_a_trigger_written_by_another_statement_count():
    scan = {"Node Type": "Named Tuplestore Scan", "Actual Rows": 20000, "Actual Loops": 1}
    plan = {"Plan": scan | {"Temp Read Blocks": 281, "Temp Written Blocks": 0}}
    assert counts_of_plan(plan | {"Execution Time": 7.5}).reads.bytes == 281 * 8192


REMARKED = """\
Sort  (cost=1.0..2.0 rows=9 width=8)          ← estimates
      (actual time=9.0..90.0 rows=9 loops=1)  <-- and this is what it took
  Sort Key: a                                 ◄── no index
  Buffers: temp read=30 written=40            <== 320 KiB
  ->  Seq Scan on t                           ← all of the table: the filter keeps it
        (cost=0.0..1.0 rows=9 width=8)
        (actual time=0.1..1.0 rows=9 loops=1)
Execution Time: 95.0 ms                       ← in total
"""
EXPANDED = """\
-[ RECORD 1 ]-----+---------
query             | select 1 -- 2
calls             | 10       // few
total_exec_time   | 950.0    -- ms
temp_blks_read    | 300      # blocks
temp_blks_written | 400      ← 8 KiB each
"""
ENTITIES = """\
[&lcub;"Plan": &lbrace;"Node Type": "Sort", "Actual Rows": 9, "Actual Loops": 1,
"Temp Read Blocks": 30, "Temp Written Blocks": 40&rbrace;, "Execution Time": 95.0&rcub;]
"""


@cases("text", [REMARKED, EXPANDED, ENTITIES])
def test_remarks_and_entities_of_pages_are_removed(tmp_path, text):
    (path := tmp_path / "paste").write_text(text)
    counts = open_evidence(find_evidence([path]), Selection())
    assert (counts.reads.count, counts.writes.count) == (30, 40)
    assert counts.elapsed_s == pytest.approx(0.095)


def test_a_remark_with_figures_is_not_removed(tmp_path):
    """A sort on disk has at least its size of 320 KiB, which is 40 blocks."""
    text = REMARKED.replace("Buffers: temp read=30 written=40", "Sort Method: external merge")
    (path := tmp_path / "paste").write_text(text.replace("<== 320 KiB", "<== Disk: 320kB"))
    assert open_evidence(find_evidence([path]), Selection()).writes.count == 40


_LINES = TEXT_PLAN.strip("\n").split("\n")
#: Rows of a plan as programs print them.
PRINTED = {
    "Ruby": "[{}]".format(", ".join(f'{{"QUERY PLAN"=>{json.dumps(line)}}}' for line in _LINES)),
    "PHP": "\n".join(f"Array\n(\n    [QUERY PLAN] => {line}\n)\n" for line in _LINES),
    "PHP with types": "\n".join(
        f'array(1) {{\n  ["QUERY PLAN"]=>\n  string({len(line)}) "{line}"\n}}' for line in _LINES
    ),
    "Java": "[{}]".format(", ".join(f"{{QUERY PLAN={line}}}" for line in _LINES)),
    "Java in lines": ",\n".join(f"{{QUERY PLAN={line}}}" for line in _LINES),
    "Go": "[{}]".format(" ".join(f"map[QUERY PLAN:{line}]" for line in _LINES)),
}


@cases("around", ["{}\n", "We see:\n\n```\n{}\n```\n"])
@cases("language", PRINTED)
def test_rows_as_programs_print_them(plan_of, language, around):
    assert plan_of(around.format(PRINTED[language])) == plan_of(TEXT_PLAN)


@cases("language", ["PHP", "Java in lines"])
def test_rows_that_a_terminal_wrapped_lose_no_digits(plan_of, language):
    with pytest.raises(EvidenceDamaged):
        plan_of(PRINTED[language].replace("write=930.000", "write=93\n0.000"))


YAML = """\
- Plan:
    Node Type: "Sort"
    Actual Rows: 9
    Actual Loops: 1
    Temp Read Blocks: 30
    Temp Written Blocks: 40
    Temp I/O Read Time: 7.000
    Temp I/O Write Time: 14.250
  Execution Time: 95.0
"""


@cases("changed", [
    YAML.replace("14.250", "1\n4.250"),
    YAML.replace("14.250", "14.250\n[...]"),
    f"{YAML}(1 row)\n\ndb=# execute slow;\n{YAML}",
])  # fmt: skip
def test_text_between_lines_of_yaml_ends_no_plan(plan_of, changed):
    assert plan_of(f"{YAML}(1 row)\n").writes.total_ns == 14_250_000
    with pytest.raises(EvidenceDamaged):
        plan_of(changed)
