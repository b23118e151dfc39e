"""Rows of pg_stat_statements whose columns have other names or units, or no identifier."""

import json

import pytest

from cases import cases
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    InputError,
    SelectionEmpty,
)
from spillcast.evidence.postgres.statements import read_rows, read_statements
from spillcast.evidence.selection import Selection
from spillcast.evidence.table_rows import rows_of
from spillcast.forecast.question import Question
from spillcast.forecast.sizing import statements_of


#: Column names that queries rename, or that other views have.
@cases("name", ["left", "short_query", "query_sql_text", "stmt"])
def test_a_row_without_an_identifier_is_selected_by_its_number(tmp_path, name):
    """The largest has number 1: 40 calls of 2,563 blocks, then 2 calls of 24,005."""
    (path := tmp_path / "rows.csv").write_text(
        f"query_type,{name},calls,total_exec_time,temp_blks_read,temp_blks_written\n"
        "select,select 1,9,12.5,0,0\n"
        "other,create index on t (a),2,9120.0,24000,24010\n"
        'select,"select a, sum(b) from t group by a",40,32120.0,51200,51320\n'
    )
    with pytest.raises(EvidenceAmbiguous) as reported:
        read_statements(path)
    assert "--item" in reported.value.hint
    first, second = (read_statements(path, Selection(item=item)) for item in (1, 2))
    assert (first.operations, first.statement.query[:8]) == (1280 + 1283, "select a")
    assert (second.operations, second.statement.query) == (24_005, "create index on t (a)")
    with pytest.raises(SelectionEmpty):
        read_statements(path, Selection(item=3))


#: Rows in other formats; the query text contains quotes and signs.
COLUMNS = ("queryid", "query", "calls", "total_exec_time", "temp_blks_read", "temp_blks_written")
ROWS = (
    ("77", "select ('a,;)') from t order by 1", "12", "48.5", "120", "240"),
    ("-8", "select b", "3", "8.5", "0", "0"),
)


def insert(rows):
    texts = (", ".join("'" + cell.replace("'", "''") + "'" if cell[:1] == "s" else cell
             for cell in row) for row in rows)  # fmt: skip
    return f"INSERT INTO s.t ({', '.join(COLUMNS)})\nVALUES (" + "),\n       (".join(texts) + ");\n"


FORMS = {
    "one command": insert(ROWS),
    "names in lines": insert(ROWS).replace(", ", ",\n  ", 5),
    "a command a row": "".join(insert([values]) for values in ROWS),
    "Jira": f"||{'||'.join(COLUMNS)}||\n" + "".join(f"|{'|'.join(row)}|\n" for row in ROWS),
    "AsciiDoc of psql": "\n".join(
        ['[options="header",cols="<l",frame="none"]', "|====", f"^l|{' ^l|'.join(COLUMNS)}",
         *(f">l|{' <l|'.join(row)}" for row in ROWS), "|====", "", "....", "(2 rows)", "...."]
    ),
    "AsciiDoc": "\n".join(
        ["|===", f"|{' |'.join(COLUMNS)}", *("\n|" + "\n|".join(row) for row in ROWS), "|===", ""]
    ),
    "YAML": "".join(
        f"- {cells[0]}\n" + "".join(f"  {cell}\n" for cell in cells[1:])
        for cells in ([f'{name}: "{value}"' for name, value in zip(COLUMNS, row, strict=True)]
                      for row in ROWS)
    ),
    "names in words": "\n".join(
        " | ".join(cells) for cells in ([name.replace("_", " ").title() for name in COLUMNS], *ROWS)
    ),
    "comments below the query": "\n".join(
        [f"select {','.join(name + chr(10) for name in COLUMNS)}from pg_stat_statements;", "",
         *(f"-- {' | '.join(cells)}" for cells in (COLUMNS, ["-" * 9] * 6, *ROWS))]
    ).replace("- | -", "--+--"),
}  # fmt: skip


@cases("form", FORMS)
def test_rows_in_commands_documents_and_comments(rows_of, form):
    first, second = rows_of(FORMS[form])
    assert (first.queryid, first.query) == ROWS[0][:2]
    assert (first.calls, first.read_blocks, first.written_blocks) == (12, 120, 240)
    assert (second.queryid, second.elapsed_s) == ("-8", 0.0085)


def test_a_command_whose_last_row_is_cut_is_refused(rows_of):
    with pytest.raises(EvidenceDamaged):
        rows_of(insert(ROWS).removesuffix(", 0);\n"))


@cases("line", ["  temp_blks_written: 8\n", "  calls: 40\n"])
def test_records_in_yaml_that_lack_a_field_are_refused(rows_of, line):
    text = FORMS["YAML"]
    number = text.count("\n") // 2 + (5 if "written" in line else 2)
    lines = text.splitlines(keepends=True)
    with pytest.raises(InputError):
        rows_of("".join(lines[:number] + lines[number + 1 :]))


#: psql with a query and its result, whose column names have no units.
ECHOED = """\
db=> select queryid, calls, total_exec_time as total_ms, {read} as temp_read,
db->   s.temp_blks_written temp_written
db-> from pg_stat_statements s order by temp_written desc;
 queryid | calls | total_ms | temp_read | temp_written
---------+-------+----------+-----------+--------------
 77      |     8 |   4000.5 |       800 |          960
(1 row)
"""


def test_a_query_above_its_result_names_the_columns_behind_its_aliases(tmp_path):
    (path := tmp_path / "rows.txt").write_text(ECHOED.format(read="temp_blks_read"))
    counts = read_statements(path)
    assert (counts.reads.count, counts.writes.count) == (100, 120)
    path.write_text(
        "\\copy (select calls, total_exec_time, temp_blks_read as temp_read, temp_blks_written "
        "temp_written from pg_stat_statements) to stdout csv header\n\n"
        "calls,total_exec_time,temp_read,temp_written\n8,4000.5,800,960\n"
    )
    assert read_statements(path).operations == 220


#: The outer query converts what the inner one names.
INNER = """\
with s as (
 select query, calls, total_exec_time, temp_blks_read as temp_read, temp_blks_written temp_written
 from pg_stat_statements)
select query, calls, total_exec_time, temp_read * 8 as temp_read, temp_written * 8 as temp_written
from s;

query,calls,total_exec_time,temp_read,temp_written
select a,8,4000.5,6400,7680
"""


@cases("text", [ECHOED.format(read="temp_blks_read * 8192"), ECHOED.format(read="a.temp_read"),
                INNER,
                "select temp_blks_read as temp_read, 1 from t;\n"
                + ECHOED.format(read="shared_blks_read + temp_blks_read")])  # fmt: skip
def test_an_alias_of_an_expression_has_no_unit(tmp_path, text):
    (path := tmp_path / "rows.txt").write_text(text)
    with pytest.raises(EvidenceIncomplete):
        read_statements(path)


def test_reads_that_an_export_lacks_are_those_of_one_pass(tmp_path):
    (path := tmp_path / "rows.csv").write_text(
        "query,calls,total_exec_time,temp_blks_written\nselect a,8,4000.5,960\n"
    )
    counts = read_statements(path)
    assert (counts.reads.count, counts.writes.count, len(counts.notes)) == (120, 120, 1)
    path.write_text(
        "query,calls,total_exec_time,temp_blks_written,temp_blk_read_time,temp_blk_write_time\n"
        "select a,8,4000.5,960,40.5,50.5\n"
    )
    with pytest.raises(EvidenceIncomplete):
        read_statements(path)


@cases("rounded", ["5.23E+18", "5.234567e18", "52345678..."])
def test_statements_with_the_same_rounded_identifier_are_separate(tmp_path, rounded):
    (path := tmp_path / "rows.csv").write_text(
        "queryid,query,calls,total_exec_time,temp_blks_read,temp_blks_written\n"
        f"{rounded},select a,2,9120.0,24000,24010\n"
        f"{rounded},select b,4,9120.0,24000,24010\n"
    )
    assert [(row.query, row.calls) for row in read_rows(path)] == [("select a", 2), ("select b", 4)]


def test_sizing_a_selected_statement_covers_it_alone(tmp_path):
    (path := tmp_path / "rows.csv").write_text(
        "stmt,calls,total_exec_time,temp_blks_read,temp_blks_written\n"
        "create index on t (a),2,9120.0,24000,24010\n"
        "select a from t,40,32120.0,51200,51320\n"
    )
    sized = statements_of([path], Question(item=2), None)
    assert [each.name for each in sized] == [path.name]


def test_intervals_of_a_statement_add_up(tmp_path):
    """Azure's query store has intervals; its identifier is query_id."""
    (path := tmp_path / "store.csv").write_text(
        "user_id,query_id,start_time,end_time,calls,total_time,temp_blks_read,temp_blks_written\n"
        "10,-44,2024-05-01 10:00:00,2024-05-01 10:15:00,12,24051.5,600,700\n"
        "10,-44,2024-05-01 10:15:00,2024-05-01 10:30:00,8,15948.5,400,300\n"
        "10,77,2024-05-01 10:15:00,2024-05-01 10:30:00,100,150.5,0,0\n"
    )
    counts = read_statements(path)
    assert (counts.statement.queryid, counts.statement.calls) == ("-44", 20)
    assert (counts.elapsed_s, counts.operations) == (2.0, 100)
    # Without a start time, a time is the moment of counts that contain the earlier ones.
    path.write_text(path.read_text().replace("start_time", "first"))
    with pytest.raises(EvidenceMixed):
        read_statements(path)


#: Text below a table: in one cell, in several or as many as in a row, and with a quote that has no
#: end.
BELOW = (
    *("(2 rows)", "-- and more, of others", "Time: 12.3 ms, or so", 'all of it, at 10, "now'),
    "The first took long, 10 calls, each of it, at night, on disk, as expected",
)


@cases("text", BELOW)
def test_rows_below_text_are_not_left_out_silently(statements_of, text):
    rows = ["queryid,calls,total_exec_time,temp_blks_read,temp_blks_written,query"]
    rows += [f"{n},2,9000.0,600,800,select {n}" for n in (1, 2)]
    assert statements_of("\n".join([*rows[:2], "", "(1 row)", text])).operations == 700
    with pytest.raises(EvidenceDamaged):
        statements_of("\n".join([*rows[:2], "", "(1 row)", rows[2], text]))


@cases("values", ["2,NULL,,,select 2", "2,9000.0,,######,select 2"])
def test_a_row_below_a_blank_line_is_no_text_though_it_lacks_values(values):
    names = "queryid,calls,total_exec_time,temp_blks_read,temp_blks_written,query"
    rows = rows_of(f"{names}\n1,2,9000.0,600,800,select 1\n\n2,{values}\n")
    assert [row["queryid"] for row in rows] == ["1", "2"]


#: Users' selections: only the mean, by its own name or an alias; a comment ends below the table.
MEANS = """\
   id | calls | temp_blks_read | temp_blks_written |  {mean}  | query
------+-------+----------------+-------------------+----------+------------
   77 |     4 |            600 |               800 |   250.5  | select a +
      |       |                |                   |          | from t
(1 row)

END_OF_SAMPLE
"""


@cases("mean", ["mean_exec_time", "mean_time", "avg_ms", "mean_exec_ms", "AVG_TIME"])
def test_the_mean_of_the_calls_replaces_their_total(statements_of, mean):
    counts = statements_of(MEANS.format(mean=mean))
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (0.2505, 150, 200)


#: 20 calls of 1.6 s, each with 3,200 blocks (25 MiB) read and 6,400 (50 MiB) written: in the units
#: and with the names that queries give them.
UNITS = {
    "calls,total_seconds,temp_mb_read,temp_mb_written": "20,32,500,1000",
    "ncalls,total_min,temp_read_bytes,temp_written_bytes": "20,0.53333,524288000,1048576000",
    "calls,avg_s,temp_blocks_read_per_call,temp_blocks_written_per_call": "20,1.600,3200,6400",
    "num_calls,mean_exec_time,avg_temp_mb_read,avg_temp_mb_written": "20,1600,25.0,50.0",
    "executions,total_exec_time,temp_read,temp_written": "20,00:00:32,500 MB,1000 MB",
    "calls,total_time,temp_blks_read,temp_written": "20,0 days 00:00:32,64000,1024000 kB",
    # Several forms of a column, and values with units of their own.
    "calls,total_ms,total_min,temp_read_bytes,temp_gb_read,temp_written_mb,avg_temp_gb_written": (
        "20,32000,1,524288000,0,1000,0"
    ),
    "calls,total_min,temp_mb_read,temp_kb_written": "20,32 s,512000 kB,1000 MB",
    # Fractions of a block in each call.
    "calls,avg_s,temp_blks_read_per_call,temp_blks_written_per_call": "20,1.600,3199.98,6400.02",
    "calls,total_s,temp_blks_read,temp_blks_written,temp_read_ms": "20,32,64000,128000,64000",
    "Calls,Total time (s),temp_blks_read,temp_blks_written": "20,32,64000,128000",
    "Calls,Total Time (ms),Temp Blks Read,Temp Blks Written": "20,32000,64000,128000",
    "calls,totalExecTime,tempBlksRead,tempBlksWritten": "20,32000,64000,128000",
    "Calls,Total time (s),temp_blks_read (MB),temp_blks_written_bytes": "20,32,500,1048576000",
}


@cases("heading", UNITS)
def test_names_of_columns_give_their_units(statements_of, heading):
    counts = statements_of(f"query,{heading}\nselect a,{UNITS[heading]}\n")
    assert counts.elapsed_s == pytest.approx(1.6, rel=1e-4)
    assert (counts.reads.count, counts.writes.count) == (3200, 6400)


PSQL = """\
 ncalls | total_s | temp_mb_read | temp_mb_written |  query
--------+---------+--------------+-----------------+----------
     20 |    32.0 |          500 |            1000 | select a
(1 row)
"""


def test_other_names_of_columns_are_read_below_the_bars_of_psql(statements_of):
    counts = statements_of(PSQL)
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (1.6, 3200, 6400)


@cases(("columns", "values"), [
    ("calls,total_exec_time,temp_read,temp_written", "20,32000,1,2"),
    ("calls,total_exec_time,temp_read,temp_written", "20,32000,64000.5,128000.5"),
    ("calls,total_exec_time,temp_gb_read,temp_gb_written", "20,32000,1,2"),
    ("calls,avg_s,temp_blks_read,temp_blks_written", "20,1,64000,128000"),
    ("total_exec_time,avg_temp_mb_read,avg_temp_mb_written", "32000,25.0,50.0"),
])  # fmt: skip
def test_figures_without_a_unit_or_calls_or_rounded_by_half_are_refused(tmp_path, columns, values):
    path = tmp_path / "rows.csv"
    path.write_text(f"query,{columns}\nselect a,{values}\n")
    with pytest.raises(EvidenceIncomplete):
        read_statements(path)


def test_a_rounded_time_is_replaced_by_the_time_of_the_run(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "query,calls,total_min,temp_blks_read,temp_blks_written\nselect a,20,1,64,128\n"
    )
    assert read_statements(path, Selection(elapsed_s=3.0)).elapsed_s == 3.0


def test_other_names_of_columns_are_read_in_a_data_frame(statements_of):
    heading, values = next(iter(UNITS.items()))
    cells = zip(heading.split(","), values.split(","), strict=True)
    frame = {"query": {"0": "select a"}} | {name: {"0": float(cell)} for name, cell in cells}
    counts = statements_of(json.dumps(frame))
    assert (counts.elapsed_s, counts.reads.count, counts.writes.count) == (1.6, 3200, 6400)


RECORD = """\
queryid           | 123456
query             | select a                 +
                  | from t order by b
calls             | 5
total_exec_time   | 12345.5
temp_blks_read    | 10000
temp_blks_written | 10100
"""


@cases("above,below,is_read", [
    ("The slow one:", "We have work_mem = 4MB.", True),
    ("", "We have work_mem = 4MB.", True),
    ("The slow one:", "calls | 7", False),
    ("temp_blks_read | 9", "The rest:", False),
    ("Two of them | with bars", "", False),
])  # fmt: skip
def test_a_record_amid_text_needs_no_heading(rows_of, above, below, is_read):
    text = f"{above}\n\n{RECORD}\n{below}\n"
    if is_read:
        [row] = rows_of(text)
        assert (row.calls, row.blocks) == (5, 20100)
    else:
        with pytest.raises(InputError):
            rows_of(text)
    with pytest.raises(InputError):
        rows_of(text.replace("temp_blks_written | 10100\n", "temp_blks_wr\n"))
