"""A server's log without a server: temp files with their statements, in each format."""

import gzip
import json

import pytest

from cases import cases
from spillcast.engines.postgres.rank import of_logs
from spillcast.engines.ranking import RankRequest
from spillcast.errors import (
    EvidenceAmbiguous,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnknown,
    NoTempIo,
)
from spillcast.evidence.postgres.logs import normal, read_logs
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.selection import Selection
from spillcast.fleet.snapshots import Snapshot, between

TEXT = """\
2026-11-23 10:00:00.100 UTC [41] LOG:  checkpoint starting: time
2026-11-23 10:00:01.100 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192
2026-11-23 10:00:01.100 UTC [42] STATEMENT:  select *
\tfrom big where name = 'Sesame'
\torder by 1
2026-11-23 10:00:02.100 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.1", size 1024
2026-11-23 10:30:00.000 UTC [43] LOG:  temporary file: path "b/pgsql_tmp43.0", size 5
2026-11-23 10:30:00.000 UTC [43] STATEMENT:  select 2
"""
PLAN_IN_BLOCKS = """\
duration: 1000.000 ms  plan:
\tQuery Text: select {n}
\tSort  (cost=1.00..2.00 rows=9 width=49) (actual time=1.0..900.0 rows=9 loops=1)
\t  Sort Method: external merge  Disk: {n}kB
\t  Buffers: temp read={n} written={n}
"""


def test_the_statement_is_below_its_temp_file(tmp_path):
    (tmp_path / "a.log").write_text(TEXT)
    result = read_logs(tmp_path)
    assert [(item.bytes, item.query and item.query.split("\n")[0]) for item in result.temp] == [
        (8192, "select *"),
        (1024, None),
        (5, "select 2"),
    ]
    assert result.window_s == pytest.approx(1799.9)


@cases(
    ("size", "size_bytes"),
    [("1.2 GB", 1.2 * (1 << 30)), ("512kB", 512 << 10), ("5,000,000 bytes", 5e6), ("8192.", 8192)],
)
@cases("quotes", ['""', "\u201c\u201d"])
def test_a_size_written_by_a_tool_has_a_unit(tmp_path, size, size_bytes, quotes):
    (path := tmp_path / "a.log").write_text(
        f"LOG: temporary file: path {quotes[0]}b/pgsql_tmp42.0{quotes[1]}, size {size}\n"
    )
    [file] = read_logs(path).temp
    assert file.bytes == round(size_bytes)
    path.write_text(path.read_text().replace(size, "1.234.567"))
    with pytest.raises(EvidenceDamaged):
        read_logs(path)


@cases("ms", ["1,912.916", "1912,916", "1912.916"])
def test_a_duration_may_have_separators(tmp_path, ms):
    (path := tmp_path / "a.log").write_text(
        'LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192\n'
        f"LOG:  duration: {ms} ms  statement: select 1\n"
    )
    [file] = read_logs(path).temp
    assert file.elapsed_s == pytest.approx(1.912916)


def test_a_message_of_auto_explain_has_its_time_without_its_prefix(plan_of):
    counts = plan_of(
        "It is slow:\n\n```\nduration: 8025.938 ms  plan:\n"
        "  Sort (actual time=1.5..8025.1 rows=9 loops=1)\n    Sort Key: a\n"
        "    Buffers: temp read=3 written=4\n```\nAny ideas?\n"
    )
    assert (counts.operations, counts.elapsed_s) == (7, pytest.approx(8.025938))


def test_a_sort_on_disk_without_temp_blocks_is_not_reported_as_no_spill(tmp_path):
    path = tmp_path / "pasted.txt"
    path.write_text(
        "Sort (actual rows=9 loops=1)\n  Sort Method: external merge  Disk: 24kB\n"
        "  Buffers: shared hit=9\nExecution Time: 9.1 ms\n"
    )
    with pytest.raises(EvidenceIncomplete):
        read_logs(path)


def test_paths_of_temp_files_may_lack_quotes(tmp_path):
    (tmp_path / "a.log").write_text(TEXT.replace('"', ""))
    (tmp_path / "b.log").write_text(TEXT)
    assert read_logs(tmp_path / "a.log").temp == read_logs(tmp_path / "b.log").temp


@cases("prefix", ["> ", ">> ", "    "])
@cases("end", ["", "\n"])
def test_a_log_in_a_mail_reads_as_the_log_itself(tmp_path, prefix, end):
    row = [""] * 26
    row[0], row[3], row[11] = "2026-11-23 10:00:01.100 UTC", "42", "LOG"
    row[13], row[19] = '"temporary file: path ""b/pgsql_tmp42.0"", size 8192"', "select 1"
    for text in (TEXT, ",".join(row) + "\n"):
        plain, quoted = tmp_path / "plain.log", tmp_path / "quoted.log"
        plain.write_text(text)
        quoted.write_text("\n".join(prefix + line for line in text.splitlines()) + end)
        assert read_logs(quoted).temp == read_logs(plain).temp
        assert read_logs(quoted).window_s == read_logs(plain).window_s


def test_a_plan_outside_a_log_and_text_that_is_not_a_log(tmp_path):
    """A plan without an elapsed time gives no forecast; its blocks are those it states."""
    path = tmp_path / "pasted.txt"
    path.write_text(
        "Sort (actual rows=9 loops=1)\n  Sort Method: external merge  Disk: 24kB\n"
        "  Buffers: temp read=3 written=4\n  I/O Timings: temp read=1.0 write=2.0\n"
    )
    [ranked] = of_logs(read_logs(path), RankRequest([]))
    assert (ranked.temp_bytes, ranked.refused is None) == (7 * 8192, False)
    path.write_text("SQL Monitoring Report\n\nGlobal Information\n Status : DONE\n")
    with pytest.raises(EvidenceUnknown) as refused:
        read_logs(path)
    assert "spillcast forecast" in refused.value.hint


def test_the_statement_of_a_function_that_spills_is_below_its_context(tmp_path):
    (tmp_path / "a.log").write_text(
        """\
2026-11-23 10:00:01.100 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192
2026-11-23 10:00:01.100 UTC [42] CONTEXT:  SQL statement "select 1"
\tPL/pgSQL function f() line 1 at PERFORM
2026-11-23 10:00:01.100 UTC [42] STATEMENT:  select f()
"""
    )
    assert [(item.bytes, item.query) for item in read_logs(tmp_path).temp] == [(8192, "select f()")]


@cases("newest_first", [False, True])
def test_lines_of_a_log_in_an_export(tmp_path, newest_first):
    lines = [line for line in TEXT.splitlines() if "\t" not in line]
    rows = [f'{line[:23]},"{line.replace(chr(34), chr(34) * 2)}"' for line in lines]
    rows = rows[::-1] if newest_first else rows
    (tmp_path / "plain.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "export.csv").write_text("\n".join(["@timestamp,@message", *rows]) + "\n")
    assert read_logs(tmp_path / "export.csv").temp == read_logs(tmp_path / "plain.log").temp


def test_log_lines_in_search_results(tmp_path):
    lines = [line for line in TEXT.splitlines() if "\t" not in line]
    hits = [{"_index": "pg", "_source": {"message": line}} for line in lines]
    (tmp_path / "plain.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "hits.json").write_text(json.dumps({"took": 3, "hits": {"hits": hits}}))
    assert read_logs(tmp_path / "hits.json").temp == read_logs(tmp_path / "plain.log").temp


def test_csvlog_with_a_heading(tmp_path):
    """Rows of a foreign table, as a client writes them."""
    (tmp_path / "a.csv").write_text(
        "log_time,process_id,error_severity,message,query,context\n"
        "2024-03-01 10:00:05.000 UTC,411,LOG,"
        '"temporary file: path ""b/pgsql_tmp411.0"", size 819200",select 1,\n'
        "2024-03-01 10:00:05.010 UTC,411,LOG,duration: 800.5 ms,,\n"
    )
    [result] = read_logs(tmp_path / "a.csv").temp
    assert (result.bytes, result.query, result.elapsed_s) == (819200, "select 1", 0.8005)


@cases(
    "statement", ["", "  statement: select 1 -- INFO: by day", "  execute p: /* HINT: */ select"]
)
@cases("zone", ["UTC", "+08", "Europe/Berlin"])
def test_csvlog_with_a_line_for_each_message(tmp_path, zone, statement):
    """Each line begins with a time, as where a pager added one."""
    row = [""] * 26
    row[:4] = [f"2026-11-23 10:00:05.100 {zone}", '"u"', '"d"', "42"]
    messages = (
        '"temporary file: path ""b/pgsql_tmp42.0"", size 81920000"',
        f"duration: 4500.0 ms{statement}",
    )
    lines = [",".join([*row[:13], message, *row[14:]]) for message in messages]
    # The same with each line in a separate cell.
    cells = ['"' + line.replace('"', '""') + '"' for line in lines]
    for written in (lines, cells):
        (path := tmp_path / "a.csv").write_text("\n".join(written) + "\n")
        [file] = read_logs(path).temp
        assert (file.bytes, file.elapsed_s) == (81_920_000, 4.5)
        assert read_plan(path).elapsed_s == 4.5


def test_the_times_of_single_line_messages_are_kept(tmp_path):
    (path := tmp_path / "a.log").write_text("".join(
        f"2026-11-23 10:00:0{second}.100 UTC [42] {message}\n"
        for second in (5, 9)
        for message in ('ERROR:  temporary file size exceeds "temp_file_limit" (1024kB)',
                        "STATEMENT:  select a from t order by a")
    ))  # fmt: skip
    assert read_logs(path).window_s == 4.0


def test_messages_without_their_prefix_in_a_program(logs_of):
    message = 'temporary file: path "base/pgsql_tmp/pgsql_tmp42.{}", size {}'
    files = "".join(f"    '{message.format(at, size)}',\n" for at, size in ((1, 700), (0, 1300)))
    logs = logs_of(f'messages = [\n    "duration: 20.2 ms  statement: select 1",\n{files}]\n')
    assert sum(file.bytes for file in logs.temp) == 2000


def test_log_lines_in_a_program(tmp_path):
    """Unrecognised temp files are not reported as none."""
    quoted = "".join(f"\t\t\t`{line}`,\n" for line in TEXT.splitlines() if "\t" not in line)
    (path := tmp_path / "log_test.go").write_text(f"\tlines: []string{{\n{quoted}\t}},\n")
    assert [file.bytes for file in read_logs(path).temp] == [8192, 1024, 5]
    path.write_text('see temporary file: path "b/pgsql_tmp42.0", of 8192\n')
    with pytest.raises(EvidenceDamaged):
        read_logs(path)


def test_messages_in_the_text_of_a_statement_are_ignored(logs_of):
    quoted = TEXT.splitlines()[1]
    first, second = '"b/pgsql_tmp42.0", size 8192', '"b/pgsql_tmp9.0", size 70000'
    text = TEXT.replace("\tfrom big", f"\t{quoted.replace(first, second)}\n\tfrom big")
    assert [file.bytes for file in logs_of(text).temp] == [8192, 1024, 5]


def test_an_empty_temp_file_is_not_damage(tmp_path):
    (path := tmp_path / "a.log").write_text("".join(TEXT.splitlines(True)[1:3]))
    assert read_logs(path).temp
    path.write_text(path.read_text().replace("size 8192", "size 0"))
    with pytest.raises(NoTempIo):
        read_logs(path)


def test_a_log_with_non_breaking_blanks_is_read(plan_of):
    with pytest.raises(EvidenceAmbiguous, match=r"3 runs"):
        plan_of(TEXT.replace(" ", "\u00a0"))


def test_a_prefix_that_looks_like_an_object(tmp_path):
    lines = [line.replace("2026", '{"t":"2026', 1) for line in TEXT.splitlines()]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    assert [item.bytes for item in read_logs(tmp_path / "a.log").temp] == [8192, 1024, 5]


@cases("rotated", ["", ".1", "-20261125", "-2026-11-25.3.gz"])
def test_messages_logged_in_several_formats_count_once(tmp_path, rotated):
    message = 'temporary file: path ""b/pgsql_tmp42.0"", size 8192'
    row = [""] * 26
    row[0], row[13], row[19] = "2026-11-23 10:00:01.100 UTC", f'"{message}"', "select 1"
    plain = message.replace('""', '"')
    reported = {"timestamp": row[0], "message": plain, "statement": row[19]}
    texts = {
        "": f"{row[0]} [42] LOG:  {plain}\n{row[0]} [42] STATEMENT:  select 1\n",
        ".csv": ",".join(row) + "\n",
        ".json": json.dumps(reported) + "\n",
    }
    packed = gzip.compress if rotated.endswith(".gz") else bytes
    for format, text in texts.items():
        alone = tmp_path / "alone"
        alone.mkdir(exist_ok=True)
        for folder in (tmp_path, alone):
            (folder / f"pg{format}{rotated}").write_bytes(packed(text.encode()))
        result = read_logs(alone / f"pg{format}{rotated}")
        assert [(item.bytes, item.query) for item in result.temp] == [(8192, "select 1")]
    assert len(read_logs(tmp_path).temp) == 1


def test_statements_that_differ_in_their_constants_are_equal():
    assert normal("SELECT a FROM t WHERE b = 'it''s' AND c > 4.5 ;") == normal(
        "select a from t\n where b = $1 and c > $2"
    )


def row(**values):
    return {"userid": 1, "dbid": 1, "queryid": 7, "toplevel": True, "calls": 0, **values}


def test_growth_between_two_snapshots():
    before = Snapshot(1000.0, 10.0, [row(calls=5, temp_blks_read=50), row(queryid=8, calls=9)])
    after = Snapshot(
        1600.0,
        10.0,
        [
            row(calls=7, temp_blks_read=90, mean_exec_time=3.0),
            # The statement was evicted and returned.
            row(queryid=8, calls=2, temp_blks_read=4),
            row(queryid=9, calls=1),
        ],
    )
    result = between(before, after)
    assert result.since_s == 1000.0
    reported = {
        item["queryid"]: (item["calls"], item.get("temp_blks_read")) for item in result.rows
    }
    assert reported == {7: (2, 40), 8: (2, 4), 9: (1, None)}
    assert between(before, Snapshot(1600.0, 1500.0, [row(calls=7)])).since_s == 1500.0


PLANNED = """\
2026-11-23 10:00:00.100 UTC [42] LOG:  duration: 200.000 ms  plan:
\tQuery Text: select count(*)
\tfrom {table}
\torder by f
\tSort  (cost=1.00..2.00 rows=10 width=8) (actual time=1.000..190.000 rows=10 loops=1)
\t  Sort Key: f
\t  Sort Method: external merge  Disk: 800kB
\t  Buffers: temp read=100 written=100
\t  I/O Timings: temp read=50.000 write=50.000
\t  ->  Seq Scan on {table}  (cost=0.00..1.00 rows=10 width=8) (actual rows=10 loops=1)
"""


IN_YAML = r"""2026-11-23 10:00:00.100 UTC [42] LOG:  duration: 200.000 ms  plan:
    Query Text: "select \"f\"\nfrom big order by 1"
    Plan:
      Node Type: "Sort"
      Parallel Aware: false
      Plan Rows: 10
      Plan Width: 8
      Actual Rows: 10
      Actual Loops: 1
      Sort Key:
        - "f"
      Sort Method: "external merge"
      Sort Space Used: 800
      Sort Space Type: "Disk"
      Temp Read Blocks: 100
      Temp Written Blocks: 100
2026-11-23 10:00:00.200 UTC [42] LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp42.0", size 819200
2026-11-23 10:00:00.200 UTC [42] STATEMENT:  select "f"
    from big order by 1
"""  # noqa: E501


def test_a_plan_in_yaml_belongs_to_the_statement_that_wrote_the_temp_file(logs_of):
    [ranked] = of_logs(logs_of(IN_YAML.replace("\n    ", "\n\t")), RankRequest([]))
    assert ranked.query.split() == ["select", '"f"', "from", "big", "order", "by", "1"]
    assert (ranked.temp_bytes, ranked.calls) == (200 * 8192, 1)


def test_the_plans_that_spill_most_are_forecast_and_all_have_their_bytes(tmp_path):
    blocks = {f"t{number}": 100 + 10 * number for number in range(40)}
    log = tmp_path / "server.log"
    log.write_text(
        "".join(
            PLANNED.format(table=table).replace("=100", f"={number}")
            for table, number in blocks.items()
        )
    )
    ranked = of_logs(read_logs(log), RankRequest(["factor:2"]))
    statements = {item.query.split()[3]: item for item in ranked}
    assert {table: item.temp_bytes for table, item in statements.items()} == {
        table: 2 * number * 8192 for table, number in blocks.items()
    }
    forecast = [table for table, item in statements.items() if item.no_spill]
    assert 0 < len(forecast) < 40
    assert all(item.gains or item.refused for item in ranked)
    assert set(forecast) == set(sorted(blocks, key=blocks.get)[-len(forecast):])  # fmt: skip


def test_multi_line_statements_are_distinguished_by_all_lines(tmp_path):
    (tmp_path / "a.log").write_text(PLANNED.format(table="big") + PLANNED.format(table="small"))
    result = read_logs(tmp_path)
    assert [item["Query Text"].split() for item in result.plans] == [
        ["select", "count(*)", "from", table, "order", "by", "f"] for table in ("big", "small")
    ]
    assert [item["Plan"]["Temp Read Blocks"] for item in result.plans] == [100, 100]
    (tmp_path / "a.log").write_text(
        PLANNED.format(table="big").replace("\tSort  (", "\tQuery Parameters: $1 = '5'\n\tSort  (")
    )
    [item] = read_logs(tmp_path).plans
    assert item["Query Text"].endswith("order by f")
    assert item["Plan"]["Node Type"] == "Sort"


def test_an_invalid_time_is_skipped(tmp_path):
    lines = TEXT.replace("2026-11-23 10:00:00.100", "2026-13-45 10:00:00.100")
    (tmp_path / "a.log").write_text(lines)
    result = read_logs(tmp_path)
    assert len(result.temp) == 3
    assert result.window_s == pytest.approx(1798.9)


@cases("block_bytes", [1000, 8192])
def test_a_log_in_several_blocks_reads_as_in_one(tmp_path, monkeypatch, block_bytes):
    """Blocks end within messages, statements and plans."""
    message = f"2026-11-23 10:00:{{at:02}}.100 UTC [{{pid}}] LOG:  {PLAN_IN_BLOCKS}"
    (path := tmp_path / "a.log").write_text(
        "".join(
            TEXT.replace(" size ", f" size {at}") + message.format(at=at % 60, pid=50 + at, n=at)
            for at in range(1, 60)
        )
    )

    def contents():
        logs = read_logs(path)
        plans = [(plan["Query Text"], plan["Plan"]["Temp Read Blocks"]) for plan in logs.plans]
        return [(file.bytes, file.query) for file in logs.temp], plans, logs.window_s

    whole = contents()
    monkeypatch.setattr("spillcast.evidence.text.BLOCK_BYTES", block_bytes)
    assert contents() == whole
    assert (len(whole[0]), whole[1][-1]) == (3 * 59, ("select 59", 59))


def test_rotated_logs_cover_the_time_from_the_oldest_to_the_newest(tmp_path):
    for day, name in ((25, "pg.log"), (24, "pg.log.1"), (23, "pg.log.2")):
        (tmp_path / name).write_text(TEXT.replace("2026-11-23", f"2026-11-{day}"))
    assert read_logs(tmp_path).window_s == pytest.approx(2 * 86400 + 1799.9)


def test_a_plan_truncated_by_a_shipper_is_named_and_the_rest_is_read(logs_of):
    logs = logs_of(
        TEXT + "2026-11-23 10:31:00.000 UTC [44] LOG:  duration: 5098.147 ms  plan:\n"
        '\t{\n\t  "Query Text": "select 3",\n\t  "Plan": {\n\t    "Node Type": "Sort", ...\n'
    )
    assert (len(logs.temp), len(logs.damaged)) == (3, 1)
    assert "pasted.txt" in logs.notes[0]


def test_an_impossible_number_of_rows_is_damage(plan_of):
    plan = (
        "Sort  (cost=1.0..2.0 rows=9223372036854775808 width=49) (actual time=1.0..2.0 rows=9"
        " loops=1)\n\t  Buffers: shared hit=4"
    )
    with pytest.raises(EvidenceDamaged, match="Plan Rows"):
        plan_of(f"LOG:  duration: 2501.000 ms  plan:\n\t{plan}\n")


def test_a_plan_that_quotes_log_messages_is_one_plan(logs_of):
    """A statement that reads logs, in a JSON record that has only the message."""
    message = (
        "duration: 9.0 ms  plan:\nQuery Text: select * from logs -- INFO: nightly\n order by line\n"
        "Sort  (cost=1.00..1.01 rows=10 width=8) (actual time=8.000..8.500 rows=10 loops=1)\n"
        "  Buffers: shared hit=1, temp read=5 written=6\n"
        "  ->  Seq Scan on logs  (cost=0.00..1.00 rows=99 width=8) "
        "(actual time=0.010..3.000 rows=99 loops=1)\n"
        "        Filter: (line ~~ '2026-01-01 10:00:00 ERROR:  temporary file: path "
        '"base/pgsql_tmp/pgsql_tmp77.0", size 1048576\'::text)\n'
        "        Buffers: shared hit=1"
    )
    logs = logs_of(json.dumps({"timestamp": "2026-01-01 10:00:00 UTC", "message": message}) + "\n")
    [plan] = logs.plans
    assert logs.temp == []
    [scan] = plan["Plan"]["Plans"]
    assert (plan["Plan"]["Temp Written Blocks"], scan["Shared Hit Blocks"]) == (6, 1)


IN_MEMORY = """\
Sort  (cost=1.0..2.0 rows=9 width=8) (actual time=2.0..3.0 rows=9 loops=1)
  Sort Key: a
  Sort Method: quicksort  Memory: 25kB
  Buffers: shared hit=10
  ->  Seq Scan on t  (cost=0.0..1.0 rows=9 width=8) (actual time=0.1..1.0 rows=9 loops=1)
        Buffers: shared hit=10
"""
ON_DISK = """\
2026-11-23 10:00:01.100 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192000
2026-11-23 10:00:01.100 UTC [42] STATEMENT:  select b
"""


def test_a_plan_in_memory_does_not_hide_the_temp_files_of_another_call(tmp_path):
    """The temp file has 1,000 blocks, and only its own call's time counts."""
    logged = (
        "2026-11-23 10:00:00.100 UTC [41] LOG:  duration: 9.5 ms  plan:\n\tQuery Text: select a\n"
    )
    duration = "2026-11-23 10:00:01.101 UTC [42] LOG:  duration: 950.0 ms\n"
    plan = logged + "".join(f"\t{line}\n" for line in IN_MEMORY.splitlines())
    (path := tmp_path / "a.log").write_text(plan + ON_DISK + duration)
    counts = read_plan(path)
    assert (counts.writes.count, counts.elapsed_s) == (1000, 0.95)
    pasted = f"{IN_MEMORY}Execution Time: 9.5 ms\n"
    path.write_text(f"{pasted}\n{ON_DISK}")
    with pytest.raises(EvidenceIncomplete):
        read_plan(path)
    assert read_plan(path, Selection(elapsed_s=2.0)).writes.count == 1000
    path.write_text(pasted)
    with pytest.raises(NoTempIo):
        read_plan(path)
