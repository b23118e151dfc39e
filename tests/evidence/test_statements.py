"""Rows of pg_stat_statements: the number of processes that shared their I/O, and the selection."""

import json
from decimal import Decimal

import pytest

from cases import cases
from harness import only_line, spillcast
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceUnknown,
    FileTooLarge,
    NotSpilled,
    TimesContradictory,
)
from spillcast.evidence.postgres.statements import read_rows, read_statements
from spillcast.evidence.selection import Selection
from spillcast.forecast.question import Question
from spillcast.forecast.sizing import sized_rows
from statement_files import VERSIONS, export, row

DEFAULT = "max_parallel_workers_per_gather is not in the file and assumed to be 2"

#: A row as DBeaver shows it, with a line for each column.
RECORD = """\
Name             |Value              |
-----------------+-------------------+
query            |select a order by a|
calls            |20                 |
total_exec_time  |32046.9            |
temp_blks_read   |65240              |
temp_blks_written|65380              |
"""


def test_a_bar_that_closes_a_table_is_not_part_of_its_values(statements_of):
    counts = statements_of(RECORD)
    assert (counts.reads.count, counts.writes.count) == (65240 / 20, 65380 / 20)


def test_an_export_too_long_for_memory_is_refused(tmp_path):
    (path := tmp_path / "rows.csv").write_text("calls,temp_blks_written\n")
    with path.open("a") as file:
        file.truncate(65 << 20)
    with pytest.raises(FileTooLarge):
        read_rows(path)


def test_a_mean_that_implies_more_than_the_speed_of_memory_is_refused(tmp_path):
    """A column of seconds is called avg_time, a name that elsewhere means milliseconds."""
    blocks = "calls,avg_time,temp_blks_read,temp_blks_written,query\n4,12.5,{0},{0},select 1\n"
    (path := tmp_path / "rows.csv").write_text(blocks.format(400_000))
    with pytest.raises(TimesContradictory):
        read_statements(path)
    assert read_statements(path, Selection(elapsed_s=12.5)).elapsed_s == 12.5
    path.write_text(blocks.format(4_000))
    assert read_statements(path).elapsed_s == 0.0125


@cases("blank", ["", "\n"])
def test_a_row_that_is_cut_below_a_blank_line_is_not_the_end_of_the_table(statements_of, blank):
    heading = "calls,total_exec_time,temp_blks_read,temp_blks_written,query\n"
    rows = f"4,1002.0,600,800,a\n{blank}4,1002.0,0,0,b\n{blank}"
    for cut in ("77", "\n77", "\n77,5"):
        with pytest.raises(EvidenceDamaged):
            statements_of(heading + rows + cut)


#: Columns of blanks, a table in Markdown, and one in Org mode; the last value goes on to the end.
COLUMNS = """\
query                calls  total_exec_time  temp_blks_read  temp_blks_written
-------------------  -----  ---------------  --------------  -----------------
select a order by a  20     32046.9          65240           65380
"""
MARKDOWN = """\
| query                | calls | total_exec_time | temp_blks_read | temp_blks_written |
|----------------------|-------|-----------------|----------------|-------------------|
| select a \\| b, c     | 20    | 32046.9         | 65240          | 65380             |
"""
ORG = MARKDOWN.replace("-|-", "-+-").replace("\\| b, c  ", "order by a")
#: As psql aligns it, with or without a border, or by blanks alone: text may contain a bar.
BARS = """\
 query                | calls | total_exec_time | temp_blks_read | temp_blks_written
----------------------+-------+-----------------+----------------+-------------------
 select a || b from c |    20 |         32046.9 |          65240 |             65380
(1 row)
"""
BLANKS = BARS.replace("|", " ").replace("+", " ").replace("a    b from c", "a|b|c|d|e, g ")
FRAME = "+----------------------+-------+-----------------+----------------+-------------------+"
FRAMED = "\n".join(
    [FRAME, *(FRAME if "-+-" in line else f"|{line.ljust(len(FRAME) - 2)}|"
              for line in BARS.splitlines()[:3]), FRAME, "(1 row)", ""]
)  # fmt: skip


@cases(
    "text, query",
    [(COLUMNS, "order by"), (MARKDOWN, "a | b"), (ORG, "order by"), (BARS, "a || b"),
     (FRAMED, "a || b"), (BLANKS, "a|b|c|d|e, g")],
)  # fmt: skip
def test_columns_are_separated_by_their_rule(statements_of, text, query):
    counts = statements_of(text)
    assert (counts.reads.count, counts.writes.count) == (65240 / 20, 65380 / 20)
    assert query in counts.statement.query


@pytest.fixture
def exported(tmp_path):
    def write(version, *rows):
        return export(tmp_path / "statements.csv", version, *rows)

    return write


def bounds(path, **options):
    temp = read_statements(path, Selection(**options))
    if temp.processes_bounds is None:
        return temp.processes
    return (temp.processes_bounds.lower, temp.processes_bounds.upper)


@cases("version", VERSIONS)
def test_parallel_io_in_every_version(exported, version):
    """3 s of temp I/O and 1.5 s of other in calls of 2 s, by at most three processes.

    The other I/O takes 0.5 s or more; in the remaining 1.5 s, two processes do 3 s of temp I/O.
    """
    path = exported(version, row(other_ms=1500.0, workers=2))
    if version < 15:
        # Of calls of 2 s by one to three processes 1.5 s are left: all of it, or memory's speed.
        temp = read_statements(path)
        least_s, most_s = (
            s / temp.processes for s in (temp.time_bounds.lower, temp.time_bounds.upper)
        )
        assert least_s < 0.001
        assert most_s == pytest.approx(1.5)
        assert "--from" in temp.time_bounds.remedy
        assert bounds(path, timed=False) == (1, 3)
        return
    counts = read_statements(path)
    shared = counts.processes_bounds
    assert (shared.lower, shared.upper) == (pytest.approx(2.0), 3)
    assert DEFAULT in shared.reason
    # Midway in 1/processes: 2 / (1/2 + 1/3).
    assert counts.processes == pytest.approx(2.4)
    assert counts.elapsed_s == 2.0
    assert (counts.reads.count, counts.writes.count) == (400, 800)
    assert counts.total_s == pytest.approx(3.0)


@cases("version", [15, 16, 17])
def test_a_single_process_is_possible_where_workers_are_not_counted(exported, version):
    assert bounds(exported(version, row(temp_ms=1000.0))) == (1, 3)


def test_a_query_that_launched_no_workers_had_one_process(exported):
    assert bounds(exported(18, row(temp_ms=1000.0))) == 1
    with pytest.raises(
        TimesContradictory, match=r"took 3 s .* the query 2 s: .* more than 1 process can do"
    ):
        read_statements(exported(18, row(temp_ms=3000.0)))


@cases(
    "query",
    [
        "select report($1)",
        "select * from report($1, $2)",
        "select * from app.report ($1)",
        "call refresh_all()",
        "create table t as select * from big order by k",
        "create index on big (k)",
        "ALTER TABLE big ADD PRIMARY KEY (id)",
        None,
    ],
)
def test_workers_of_nested_statements_are_not_in_a_row(exported, query):
    """Queries of a function, and index builds, have workers that no counter includes."""
    assert bounds(exported(18, row(query=query, temp_ms=1000.0))) == (1, 3)


@cases(
    "query",
    [
        "/* app */ select * from big",
        "with x as (select * from only public.big) select * from x",
        'insert into t select * from "Big" order by k',
        "-- a report\n(select * from (select * from big) b) union select * from big",
    ],
)
def test_queries_without_nested_statements_have_one_process(exported, query):
    assert bounds(exported(18, row(query=query.replace('"', '""'), temp_ms=1000.0))) == 1


def test_exported_settings_bound_the_processes(exported):
    item = {"temp_ms": 1000.0, "max_parallel_workers_per_gather": 4}
    path = exported(15, row(**item))
    assert bounds(path) == (1, 5)
    assert "is 4, as exported" in read_statements(path).processes_bounds.reason
    none = item | {"max_parallel_workers_per_gather": 0}
    assert bounds(exported(15, row(**none))) == 1
    # Another setting limits the workers of an index build.
    assert bounds(exported(15, row(query="create index on big (k)", **none))) == (1, 3)
    both = none | {"max_parallel_maintenance_workers": 6}
    assert bounds(exported(15, row(query="create index on big (k)", **both))) == (1, 7)
    # More were launched than the exporting session's setting allows.
    assert bounds(exported(18, row(workers=3, **none))) == (1, 4)


def test_more_io_than_its_processes_can_do_is_refused(exported):
    path = exported(16, row(temp_ms=7000.0))
    message = only_line(spillcast("forecast", path, "--to", "latency:1ms"), 3)
    assert "more than 3 processes can do" in message
    assert DEFAULT in message
    assert "export the setting" in message
    assert bounds(exported(16, row(temp_ms=7000.0, max_parallel_workers_per_gather=8))) == (3.5, 9)
    # The same applies where the user knows that a call takes less.
    with pytest.raises(TimesContradictory, match="the query 900 ms"):
        read_statements(exported(16, row(temp_ms=3000.0)), Selection(elapsed_s=0.9))


def test_buckets_of_pg_stat_monitor_add_up(rows_of):
    """Rows of a statement in two buckets of pg_stat_monitor are the sum of its calls."""
    [statement] = rows_of(
        "bucket,bucket_start_time,queryid,query,calls,total_exec_time,mean_exec_time,"
        "temp_blks_read,temp_blks_written,temp_blk_read_time,temp_blk_write_time,resp_calls\n"
        + "".join(
            f'{at},{at}:00,5E,select 1,2,4000.5,2000.25,800,1600,900,100,"{{0,2}}"\n'
            for at in (0, 1)
        )
    )
    assert (statement.calls, statement.blocks, statement.temp_s) == (4, 4800, 2.0)


def test_rows_without_timing_name_the_setting_that_enables_it(exported):
    path = exported(17, row(temp_ms=0.0))
    result = spillcast("forecast", path, "--to", "latency:1ms", "--details")
    output = " ".join(result.stdout.split())
    assert "track_io_timing = on" in output
    assert "pg_stat_statements_reset()" in output


def test_the_only_statement_that_spills_is_named(exported):
    path = exported(15, row(1, "select 1", blocks=0), row(-2, "ALTER TABLE t ADD b int, ADD c int"))
    result = spillcast("forecast", path, "--to", "latency:1ms", "--json")
    assert json.loads(result.stdout)["statement"] == {
        "queryid": "-2", "query": "ALTER TABLE t ADD b int, ADD c int", "calls": 4, "most_of": 1,
    }  # fmt: skip
    output = spillcast("forecast", path, "--to", "latency:1ms").stdout
    assert "Statement -2, the mean of 4 calls: ALTER TABLE t ADD b int" in output
    several = spillcast("forecast", path, "--to", "latency:1ms", "--to", "latency:2ms").stdout
    assert "\nStatement -2" in several


def test_several_that_spill_are_ranked(exported):
    path = exported(
        15,
        row(1, "select little", temp_ms=100.0, blocks=9000),
        row(2, "select none", temp_ms=0.0, blocks=0),
        row(-33, "select\n  much from big order by a, b, c, d, e, f, g, h, i, j", temp_ms=900.0),
    )
    result = spillcast("forecast", path, "--to", "latency:1ms")
    assert (result.returncode, result.stdout) == (2, "")
    assert [" ".join(line.split()) for line in result.stderr.splitlines()] == [
        f"spillcast: {path}: 2 statements spill, the most temp I/O first:",
        "queryid calls mean time temp I/O statement",
        "-33 4 2 s 3.60 s select much from big order by a, b, c, d, e, ...",
        "1 4 2 s 400 ms select little",
        "name one with --queryid",
    ]
    assert max(map(len, result.stderr.splitlines()[1:])) <= 100
    named = spillcast("forecast", path, "--to", "latency:1ms", "--queryid", "-33", "--json")
    assert json.loads(named.stdout)["statement"]["queryid"] == "-33"


def test_without_times_they_are_ranked_by_size(exported):
    path = exported(13, row(1, blocks=300), row(2, blocks=900))
    with pytest.raises(EvidenceAmbiguous) as reported:
        read_statements(path, Selection(timed=False))
    _, _, first, second = str(reported.value).splitlines()
    assert first.split()[:6] == ["2", "4", "2", "s", "28.1", "MiB"]
    assert second.split()[0] == "1"


def test_only_a_few_statements_are_listed(exported):
    path = exported(15, *(row(number, blocks=3 * number) for number in range(1, 12)))
    with pytest.raises(EvidenceAmbiguous, match="11 statements spill") as reported:
        read_statements(path)
    assert "and 3 more" in str(reported.value)


def test_statements_hidden_by_permissions_are_reported(exported):
    hidden = row(None, "<insufficient privilege>")
    alone = read_statements(exported(15, hidden)).statement
    assert (alone.queryid, alone.query) == (None, "<insufficient privilege>")
    with pytest.raises(EvidenceAmbiguous) as reported:
        read_statements(exported(15, hidden, hidden))
    assert "2 statements spill" in reported.value.message
    assert "pg_read_all_stats" in reported.value.hint


def test_a_statement_of_several_users_is_merged(exported):
    """Six calls of 3 s and two of 1 s are 2.5 s each, with 750 blocks."""
    path = exported(15, row(calls=6, mean_ms=3000.0, temp_ms=1000.0, blocks=900),
                    row(calls=2, mean_ms=1000.0, temp_ms=600.0, blocks=300, userid=10))  # fmt: skip
    counts = read_statements(path)
    assert counts.elapsed_s == pytest.approx(2.5)
    assert counts.operations == 750
    assert counts.total_s == pytest.approx(0.9)
    assert counts.statement.calls == 8


def test_a_secret_in_a_statement_is_not_shown(exported):
    path = exported(15, row(query="alter role u password 'Sesame-4711'"))
    output = spillcast("forecast", path, "--to", "latency:1ms").stdout
    assert "alter role u password" in output
    assert "Sesame" not in output


@cases("value", ["-4", "inf", "nan", "many", ""])
def test_invalid_numbers_are_refused(exported, value):
    path = exported(15, row() | {"temp_blks_written": value or None})
    assert "cut or damaged" in only_line(spillcast("forecast", path, "--to", "latency:1ms"), 2)


def test_an_export_without_rows_is_refused(statements_of):
    """Only the heading, as where the query selects statements that spilled."""
    with pytest.raises(EvidenceUnknown):
        statements_of(" calls | temp_blks_read | temp_blks_written\n-------+---+---\n(0 rows)\n")


def test_a_text_of_any_length_and_a_truncated_text(exported):
    path = exported(15, row(query=f"select * from big where id in ({'1, ' * 99_999}1)"))
    assert read_statements(path).statement.calls == 4
    path.write_text(path.read_text()[:5000])
    assert "cut or damaged" in only_line(spillcast("forecast", path, "--to", "latency:1ms"), 2)


@cases("null", ["NULL", "[null]", "(null)", "NaN"])
def test_null_markers_of_clients_are_read_as_null(exported, null):
    path = exported(15, row() | {"temp_blk_read_time": null, "temp_blk_write_time": null})
    assert read_statements(path).time_bounds is not None


def test_a_second_table_below_the_count_of_rows_is_refused(statements_of):
    table = "calls|total_exec_time|temp_blks_read|temp_blks_written\n5|20|100|100\n(1 row)\n"
    with pytest.raises(EvidenceDamaged, match="heading"):
        statements_of(f"{table}\n{table}")
    assert (
        statements_of(f"{table}\nTime: 1.123 ms\nname|setting\nwork_mem|4MB\n(1 row)\n").reads.count
        == 20
    )


def test_text_below_a_table_is_not_a_row_and_a_second_table_is_refused(exported):
    path = exported(18, row(temp_ms=1000.0))
    plain, text = read_statements(path), path.read_text()
    for below in ("\ndw=> ", "\nThanks,\nJo", "$ exit", "jo@db1:~$ ", "[jo@db1 ~]$ ls"):
        path.write_text(f"{text}{below}\n")
        assert read_statements(path) == plain
    path.write_text(text + text)
    with pytest.raises(EvidenceDamaged, match="heading"):
        read_statements(path)


#: Two statements as a German client exports them: 25 calls of 7,293.827 ms.
GERMAN = """\
calls;total_exec_time;mean_exec_time;temp_blks_read;temp_blks_written;query
25;182.345,678;7.293,827;812.500;815.000;select a
1.000;12,500;0,0125;0;0;select b
"""


@cases("text", [GERMAN, GERMAN.replace("182.345,678", "182345,678")])
def test_counts_with_separators_and_times_with_a_comma(rows_of, text):
    first, second = rows_of(text)
    assert (first.read_blocks, first.written_blocks) == (812_500, 815_000)
    assert (first.elapsed_s, second.elapsed_s) == pytest.approx((182.345678, 0.0125))
    assert second.calls == 1000


@cases(
    "total, mean",
    [("2 345,678", "234,568"), ("2'345.678", "234.568"), ("1,23,456.789", "12,345.679"),
     ("2\u202f345,678", "234,568"), ("2,345.678", "234.568")],
)  # fmt: skip
def test_separators_of_every_country(rows_of, total, mean):
    text = "calls;total_exec_time;mean_exec_time;temp_blks_read;temp_blks_written;query\n"
    [row] = rows_of(f"{text}10;{total};{mean};5;6;select a\n")
    assert row.elapsed_s == pytest.approx(123.456789 if "1,23" in total else 2.345678)


def test_a_count_of_blocks_must_be_an_integer(rows_of):
    text = "calls,total_exec_time,temp_blks_read,temp_blks_written,query\n5,20,812.5,815,select a\n"
    with pytest.raises(EvidenceDamaged, match="whole"):
        rows_of(text)


@cases("times", ["", "350", "0"])
def test_calls_of_less_than_a_block_are_not_forecast(tmp_path, times):
    heading = "queryid,calls,total_exec_time,temp_blks_read,temp_blks_written"
    heading += ",temp_blk_read_time,temp_blk_write_time"
    times = f"{times},{times}"
    rare, usual = f"1,40,1234.5,5,6,{times}", f"2,4,99234.5,50000,60000,{times}"
    (path := tmp_path / "statements.csv").write_text("\n".join((heading, rare, usual)))
    with pytest.raises(NotSpilled, match="11 temp blocks in 40 calls"):
        read_statements(path, Selection(queryid="1"))
    [sized] = sized_rows(read_rows(path), Question(), None)
    assert sized.name == "2"


#: Rows of a data frame of pandas, as it prints them, and too wide for the terminal.
FRAME = """\
                queryid  calls  total_exec_time  temp_blks_read  temp_blks_written          query
0  -6844578505338488014     40     123456.78901          520000             521000  select a b...
1                    77   4000         40.00000               0                  0       select 1
"""
WIDE = """\
                queryid  calls  total_exec_time  \\
0  -6844578505338488014     40     123456.78901
1                    77   4000         40.00000

   temp_blks_read  temp_blks_written          query
0          520000             521000  select a b...
1               0                  0       select 1

[2 rows x 6 columns]
"""


#: The same rows as polars and an R tibble print them.
POLARS = """\
shape: (2, 6)
┌──────────────────────┬───────┬─────────────────┬────────────────┬───────────────────┬───────────────┐
│ queryid              ┆ calls ┆ total_exec_time ┆ temp_blks_read ┆ temp_blks_written ┆ query         │
│ ---                  ┆ ---   ┆ ---             ┆ ---            ┆ ---               ┆ ---           │
│ i64                  ┆ i64   ┆ f64             ┆ i64            ┆ i64               ┆ str           │
╞══════════════════════╪═══════╪═════════════════╪════════════════╪═══════════════════╪═══════════════╡
│ -6844578505338488014 ┆ 40    ┆ 123456.78901    ┆ 520000         ┆ 521000            ┆ select a b... │
│ 77                   ┆ 4000  ┆ 40.0            ┆ 0              ┆ 0                 ┆ select 1      │
└──────────────────────┴───────┴─────────────────┴────────────────┴───────────────────┴───────────────┘
"""  # noqa: E501
TIBBLE = """\
# A tibble: 2 x 6
               queryid calls total_exec_time temp_blks_read temp_blks_written query
                 <chr> <int>           <dbl>          <dbl>             <dbl> <chr>
1 -6844578505338488014    40         123457.         520000            521000 select a b...
2                   77  4000             40               0                 0 select 1
"""


@cases("text", [FRAME, WIDE, f">>> print(df)\n{FRAME}", POLARS, TIBBLE])
def test_a_printed_data_frame(rows_of, text):
    [row] = [row for row in rows_of(text) if row.spills]
    assert (row.queryid, row.query) == ("-6844578505338488014", "select a b...")
    assert (row.calls, row.read_blocks, row.written_blocks) == (40, 520_000, 521_000)


def test_rows_below_a_name_with_times_in_ms(rows_of):
    named = {"calls": 40, "total_exec_time_ms": 1234.5, "temp_blks_read": 5, "temp_blks_written": 6}
    document = {"order_by": "total", "count": 1, "queries": [{"query": "select a", **named}]}
    [row] = rows_of(json.dumps(document))
    assert (row.elapsed_s, row.blocks) == (1.2345, 11)


def test_a_row_that_holds_a_list_is_a_row(rows_of):
    values = {"calls": 40, "total_exec_time": 1234.5, "temp_blks_read": 5, "temp_blks_written": 6}
    [row] = rows_of(json.dumps({**values, "tables": [{"name": "t"}]}))
    assert row.blocks == 11


def test_a_row_in_a_string_of_a_program(rows_of):
    values = {"calls": 40, "total_exec_time": 1234.5, "temp_blks_read": 5, "temp_blks_written": 6}
    for rows in (values, [values]):
        text = json.dumps(rows, indent=2)
        [row] = rows_of(f"const d = `{text}`\n")
        assert (row.elapsed_s, row.blocks) == (1.2345, 11)


def test_rows_of_python_with_decimals(rows_of):
    values = {"calls": 40, "total_exec_time": Decimal("1234.5"), "temp_blks_read": 5}
    text = repr([{**values, "temp_blks_written": Decimal("6")}])
    [row] = rows_of(text)
    assert (row.elapsed_s, row.blocks) == (1.2345, 11)
    with pytest.raises(EvidenceDamaged):
        rows_of(text.replace("]", ", {'calls': 7, 'total_ex"))
