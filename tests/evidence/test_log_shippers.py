"""What syslog and log stores put around the messages of a server."""

import csv
import html
import io
import json

import pytest

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceUnsuited
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.unwrap import unwrapped

TEXT = """\
2026-11-23 10:00:04.000 UTC [42] LOG:  temporary file: path "b/pgsql_tmp42.0", size 819200
2026-11-23 10:00:04.000 UTC [42] STATEMENT:  select 1
2026-11-23 10:00:04.100 UTC [42] LOG:  duration: 900.5 ms  statement: select 1
"""

#: The messages of a call with a plan, each with continuation lines.
CALL = (
    "LOG:  duration: 900.5 ms  plan:\n\tQuery Text: select *\n\tfrom big\n"
    "\tSort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)\n"
    "\t  Buffers: shared hit=96, temp read=100 written=101",
    'LOG:  temporary file: path "b/pgsql_tmp42.0", size 819200',
    "STATEMENT:  select *\n\tfrom big",
)
AT, TIME = "2026-11-23T10:00:04.120Z", "2026-11-23 10:00:04.120 UTC"
MESSAGES = [f"{TIME} [42] {message}" for message in CALL]
#: Server records whose fields have the names of Azure, of Supabase and of a csvlog table.
LOGGED = [message.removeprefix("LOG:  ") for message in CALL[:2]]
STATEMENTS = ["", "select *\nfrom big"]


def rows(heading, cells, separator=","):
    """An export in CSV."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows([heading, *cells])
    return text.getvalue()


def prefixed(prefix):
    """A prefix before each line."""
    return "".join(f"{prefix}{line}\n" for message in MESSAGES for line in message.split("\n"))


def arrows(line):
    """A record as Fluent Bit prints it."""
    return f'{{"log"=>{json.dumps(line)}, "stream"=>"stderr"}}]\n'


#: How log stores and shippers format these messages.
SHIPPED = {
    "pods": prefixed("[pod/pg-0/postgres] 2026-11-23T10:00:04.120000000Z "),
    "fly": prefixed(f"{AT} app[4d89d19dc012d8] lax [info]postgres | "),
    "stern": prefixed("pg-0 postgres "),
    "weekdays": prefixed("Mon 2026-11-23 10:00:04 UTC db1 postgres[42]: "),
    "epoch": prefixed("1795428004.120000 db1 postgres[42]: "),
    "labels": prefixed(f'{AT} {{app="pg", pod="pg-0"}} '),
    "twelve hours": prefixed("Nov 23 10:00:04 AM  "),
    "tabs": prefixed(f"1795428004120\t{AT}\t"),
    "tagged": "".join(
        f"{AT}\tkube.pg\t{json.dumps({'log': line})}\n"
        for message in MESSAGES for line in message.split("\n")
    ),
    "arrows": "".join(
        "[0] kube.pg: [[1795428004.12, {}], " + arrows(line)
        for message in MESSAGES for line in message.split("\n")
    ),
    "blanks": "".join(
        json.dumps({"log": line}) + " \n" for message in MESSAGES for line in message.split("\n")
    ),
    "portion": json.dumps({"LogFileData": "\n".join(MESSAGES), "Marker": "21:9"}, indent=4),
    "fields": json.dumps({"results": [
        [{"field": "@timestamp", "value": AT}, {"field": "@message", "value": message}]
        for message in MESSAGES
    ]}),
    "subscription": json.dumps({"subscriptionFilters": ["f"], "logEvents": [
        {"id": "1", "timestamp": 1795428004120, "message": message} for message in MESSAGES
    ]}),
    "attributes": json.dumps({"data": [
        {"type": "log", "attributes": {"service": "pg", "message": message}}
        for message in MESSAGES
    ]}),
    "result": "".join(
        json.dumps({"preview": False, "result": {"_raw": message}}) + "\n" for message in MESSAGES
    ),
    "content": rows(["Date", "Host", "Content"], [[AT, "db1", message] for message in MESSAGES]),
    "semicolons": rows(["time", "message"], [[AT, message] for message in MESSAGES], ";"),
    "strings": json.dumps(MESSAGES, indent=1),
    "code": f"const log = {json.dumps(MESSAGES, indent=2)}.join('\\n');\n",
    "cells": json.dumps({"tables": [{"rows": [
        ["db1", message] for message in (*MESSAGES, f"{TIME} [42] LOG:  disconnection")
    ]}]}),
    "records in lines": "".join(
        json.dumps({"log": json.dumps({
            "timestamp": AT, "pid": 42, "error_severity": "LOG", "message": text, "statement": query
        }) + "\n"}) + "\n"
        for text, query in zip(LOGGED, STATEMENTS, strict=True)
    ),
    "csv in lines": "".join(
        json.dumps({"log": line}) + "\n"
        for text, query in zip(LOGGED, STATEMENTS, strict=True)
        for line in rows([TIME, "u", "d", 42, *[""] * 7, "LOG", 0, text, *[""] * 5, query,
                          *[""] * 6], []).splitlines()
    ),
    "unnamed": rows(["Level", "Source"], [["Information", "PostgreSQL", text] for text in CALL]),
    "azure": rows(
        ["TimeGenerated [UTC]", "processId_d", "errorLevel_s", "Message", "statement_s"],
        [[AT, 42, "LOG", *each] for each in zip(LOGGED, STATEMENTS, strict=True)],
    ),
    "parsed": json.dumps([
        {"event_message": text, "metadata": [{"parsed": [
            {"error_severity": "LOG", "process_id": 42, "query": query or None, "timestamp": AT}
        ]}]}
        for text, query in zip(LOGGED, STATEMENTS, strict=True)
    ]),
}  # fmt: skip


#: A log as it is, and as people paste it into an issue or a page.
PASTED = {
    "bare": "{}",
    "fenced": "PostgreSQL 16 says:\n\n```\n{}```\n\nAny ideas?\n",
    "page": "<p>It says:</p>\n<pre><code>\n{}\n</code></pre>\n",
}


@cases("pasted", PASTED)
@cases("shipped", SHIPPED)
def test_additions_of_a_shipper_are_not_part_of_messages(logs_of, shipped, pasted):
    text = SHIPPED[shipped].removesuffix("\n") + "\n"
    logs = logs_of(PASTED[pasted].format(html.escape(text) if pasted == "page" else text))
    assert [(file.bytes, file.query) for file in logs.temp] == [(819200, "select *\nfrom big")]
    (plan,) = logs.plans
    assert plan["Query Text"].split() == ["select", "*", "from", "big"]
    assert (plan["Execution Time"], plan["Plan"]["Temp Written Blocks"]) == (900.5, 101)


@cases("prefix", ["pg-0 postgres ", f"tests\tRun\t{AT} ", f"[{AT}] [pg] "])
def test_blanks_may_replace_the_tabs_of_continuation_lines(logs_of, prefix):
    lines = prefixed(prefix).split("\n")
    blanks = [prefix + line.removeprefix(prefix).replace("\t", " " * 8) for line in lines if line]
    logs = logs_of("\n".join(blanks) + "\n")
    queries = [logs.temp[0].query, logs.plans[0]["Query Text"]]
    assert [query.split() for query in queries] == [["select", "*", "from", "big"]] * 2
    assert logs.plans[0]["Plan"]["Temp Written Blocks"] == 101


@cases("text", [
    f"EVENTS\t38\t1795428004120\tdb.0\t{MESSAGES[1]}\t1795428004120\n",
    f"---\ninsertId: s=1\ntextPayload: '{MESSAGES[1]}'\ntimestamp: '{AT}'\n",
])  # fmt: skip
def test_a_log_with_fields_after_its_messages_is_refused(logs_of, text):
    with pytest.raises(EvidenceUnsuited, match=r"pasted\.txt"):
        logs_of(text)


@cases("depth", [300, 500, 900, 20_000])
def test_a_line_of_deeply_nested_json_is_skipped(logs_of, depth):
    [file] = logs_of(TEXT + '{"a": ' * depth + "1" + "}" * depth + "\n").temp
    assert (file.bytes, file.elapsed_s) == (819200, 0.9005)


@cases("month", ["Nov", "мар", "Sept."])
def test_syslog_writes_month_names_in_its_language(tmp_path, month):
    lines = [f"{month} 23 10:00:04 db postgres[42]: [5-1] {line}" for line in TEXT.splitlines()]
    (tmp_path / "plain.log").write_text(TEXT)
    (tmp_path / "sys.log").write_text("\n".join(lines) + "\n")
    assert read_logs(tmp_path / "sys.log").temp == read_logs(tmp_path / "plain.log").temp


@cases(
    ("line", "dropped"),
    [
        ("systemd-journald[320]: Suppressed 1234 messages from postgresql@15-main.service", True),
        ("systemd-journald[320]: Suppressed 1234 messages from nginx.service", False),
        ("rsyslogd: imuxsock lost 1234 messages from pid 42 due to rate-limiting", True),
        ("rsyslogd: imjournal: 1234 messages lost due to rate-limiting (20000 allowed)", True),
    ],
)
def test_messages_that_a_rate_limit_dropped_are_noted(tmp_path, line, dropped):
    """By default journald and rsyslog drop messages when a hash join removes thousands of files."""
    at = "Nov 29 10:00:01 db1 "
    (path := tmp_path / "syslog").write_text(
        f'{at}postgres[42]: [7-1] LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192\n'
        f"{at}{line}\n"
    )
    assert bool(read_logs(path).notes) == dropped


@cases(
    ("first", "more", "other"),
    [
        ("Nov 29 10:00:01 db1 postgres[42]: [7-1] ", "Nov 29 10:00:01 db1 postgres[42]: [7-2] #011",
         "Nov 29 10:00:01 db1 CRON[99]: (root) CMD (run-parts /etc/cron.hourly)"),
        ("2026-11-29T10:00:01.1+01:00 db1 postgres[42]: ",
         "2026-11-29T10:00:01.1+01:00 db1 postgres[42]: \t",
         "2026-11-29T10:00:01.2+01:00 db1 systemd-journald[9]: Suppressed 12 messages from x"),
        ("db-1   | 2026-11-29 10:00:01.000 CET [42] ", "db-1 | \t",
         'web-1  | 10.0.0.1 - - "GET /x" 200'),
        ("[pod/db-0/postgres] 2026-11-29 10:00:01.000 CET [42] ", "[pod/db-0/postgres] \t",
         "[pod/web-0/nginx] served a page"),
        ("2026-11-29T10:00:01.1Z stderr F 2026-11-29 10:00:01.000 CET [42] ",
         "2026-11-29T10:00:01.1Z stderr P \t",
         "2026-11-29T10:00:01.2Z stdout F archived a segment"),
    ],
)  # fmt: skip
def test_lines_of_other_programs_are_not_part_of_a_statement(tmp_path, first, more, other):
    (path := tmp_path / "syslog").write_text(
        f'{first}LOG:  temporary file: path "b/pgsql_tmp42.0", size 8192\n'
        f"{first}STATEMENT:  select a\n{other}\n{more}from b\n{other}\n"
    )
    [file] = read_logs(path).temp
    assert file.query.split() == ["select", "a", "from", "b"]


def test_a_nested_plan_is_recognised_in_another_language(logs_of):
    """Its temp blocks are included in those of the plan that called it."""
    plan = "\tLimit  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)"
    buffers = "\t  Buffers: temp read=100 written=101"
    at = "2026-11-23 10:00:04.000 UTC [42] "
    lines = [f"{at}LOG:  duration: 990.500 ms  plan:", plan, buffers]
    nested = [*lines, f"{at}ZUSAMMENHANG:  SQL-Funktion »f« Anweisung 1"]
    outer = [line.replace("990", "991") for line in lines]
    inner, outer = logs_of("\n".join([*nested, *outer, ""])).plans
    assert (inner["Plan"]["Temp Written Blocks"], outer["Plan"]["Temp Written Blocks"]) == (101, 0)


def test_an_error_about_a_temp_file_does_not_give_its_size(logs_of):
    error = 'could not read file "base/pgsql_tmp/pgsql_tmp42.0": read 4096 of 8192'
    log = TEXT.replace("LOG:  ", f"ERROR:  {error}\n2026-11-23 10:00:04.000 UTC [42] LOG:  ", 1)
    assert [file.bytes for file in logs_of(log).temp] == [819200]


def test_messages_among_named_values(tmp_path, logs_of):
    (plain := tmp_path / "plain.log").write_text(TEXT)
    quoted = [json.dumps(line) for line in TEXT.splitlines()]
    lines = [f'time="2026-11-23T10:00:04Z" level=info msg={line} pod=db-0' for line in quoted]
    assert logs_of("\n".join(lines) + "\n").temp == read_logs(plain).temp


def test_lines_of_a_drain_prefixed_by_their_lengths(logs_of):
    """Only the first line of a message has the server's prefix."""
    drain = "211 <134>1 2026-11-23T10:00:04+00:00 host app postgres.109 - [DATABASE] [{}] {}\n"
    prefix = 'time_ms = "2026-11-23 10:00:04.1 UTC" pid="42" user="u"'
    lines = [
        ("11-1", f"{prefix} LOG:  duration: 900.5 ms  execute <unnamed>: select *"),
        ("11-2", "\tfrom big"),
        ("12-1", f'{prefix} LOG:  temporary file: path "b/pgsql_tmp42.0", size 819200'),
    ]
    (file,) = logs_of("".join(drain.format(*each) for each in lines)).temp
    assert (file.bytes, file.elapsed_s, file.query) == (819200, 0.9005, "select *\nfrom big")


@cases("ran", ["Execution Time: 990.5 ms", "Total runtime: 990.5 ms"])
def test_times_before_the_lines_of_a_plan(plan_of, ran):
    plan = [
        "Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)",
        "  Sort Key: k",
        "  Buffers: shared hit=96, temp read=100 written=101",
        ran,
    ]
    at = "2026-11-23T10:00:04.123456789Z"
    counts = plan_of("".join(f"{at} {line}\n" for line in plan))
    assert (counts.elapsed_s, counts.writes.count) == (0.9905, 101)


def test_a_plan_through_syslog(logs_of):
    """There is only one message; what stands above distinguishes its lines from a program's."""
    message = (
        "2026-11-23 10:00:04 UTC [42] LOG:  duration: 1602.5 ms  plan:",
        "#011Query Text: select 1",
        "#011Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..1600.0 rows=6 loops=1)",
        "#011  Sort Method: external merge  Disk: 800kB",
        "#011  Buffers: shared hit=96, temp read=100 written=101",
    )
    lines = [f"Nov 23 10:00:04 db postgres[42]: [5-{n}] {m}" for n, m in enumerate(message, 1)]
    (plan,) = logs_of("\n".join(lines) + "\n").plans
    assert (plan["Execution Time"], plan["Plan"]["Temp Written Blocks"]) == (1602.5, 101)


def test_the_error_for_a_damaged_plan_of_a_log_names_the_file(logs_of):
    node = "Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..2.0 rows=6 loops=1) Disk: 7kB"
    at = "2026-11-23 10:00:04 UTC [42] LOG:  duration: 20.5 ms  plan:"
    with pytest.raises(EvidenceDamaged, match=r"pasted\.txt"):
        logs_of(f"{at}\n\tQuery Text: select 1\n\t{node}\n")


def test_streams_of_loki(tmp_path):
    lines = [line for line in TEXT.splitlines() if "\t" not in line]
    values = [[str(10**9 * at), line] for at, line in enumerate(lines)]
    streams = {"resultType": "streams", "result": [{"stream": {"pod": "pg"}, "values": values}]}
    (tmp_path / "plain.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "loki.json").write_text(json.dumps({"status": "success", "data": streams}))
    assert read_logs(tmp_path / "loki.json").temp == read_logs(tmp_path / "plain.log").temp


def test_a_duration_is_a_message_without_its_prefix(logs_of):
    messages = [line.split("LOG:  ")[1] for line in TEXT.splitlines() if "LOG:  " in line]
    (file,) = logs_of(rows(["event_message", "id"], [[text, "9e"] for text in messages])).temp
    assert (file.bytes, file.elapsed_s, file.query) == (819200, 0.9005, "select 1")


def test_the_psql_session_gives_the_time_of_its_statement(logs_of):
    """With client_min_messages = log and \\timing."""
    message = 'LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp299.0", size 20070400'
    times = ["CREATE INDEX", "Time: 402.848 ms", "", "shop=# DROP INDEX i;", "Time: 9.973 ms", ""]
    (file,) = logs_of("\n".join([message, *times])).temp
    assert (file.bytes, file.elapsed_s) == (20070400, pytest.approx(0.402848))


def test_the_statement_of_a_plan_may_be_indented(plan_of):
    """journald and syslog replace a tab before lines with blanks."""
    lines = [
        "2026-11-23 10:00:04.1 UTC [42] LOG:  duration: 990.500 ms  plan:",
        "        Query Text: select a,",
        "          b from t;",
        "        Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)",
        "          Buffers: temp read=100 written=101",
    ]
    prefixed = [f"Nov 23 10:00:04 db postgres[42]: [7-{i}] {line}" for i, line in enumerate(lines)]
    statement = plan_of("\n".join(prefixed)).statement
    assert statement is not None
    assert " ".join(statement.query.split()) == "select a, b from t;"


@cases("end", ["", "```\n"])
def test_text_below_a_pasted_log_is_not_part_of_its_statement(logs_of, end):
    """Two files that a process removes at once are of one call if the statements are equal."""
    at = "2026-11-23 10:00:04 UTC [42] "
    lines = [
        f'{at}LOG:  temporary file: path "b/pgsql_tmp42.5", size 819200',
        f"{at}STATEMENT:  select a",
        "from b",
        f'{at}LOG:  temporary file: path "b/pgsql_tmp42.4", size 819200',
        f"{at}STATEMENT:  select a",
        "from b",
    ]
    first, second = logs_of("\n".join(lines) + f"\n{end}\nSee the manual.\n").temp
    assert (first.query, first.call) == (second.query, second.call) == ("select a\nfrom b", 1)


def test_marks_of_grep_between_groups_are_not_part_of_a_statement(logs_of):
    logs = logs_of(f"{TEXT}--\n{TEXT.replace('42', '43').replace('select 1', 'select 2')}--\n")
    assert [file.query for file in logs.temp] == ["select 1", "select 2"]


def test_a_csvlog_with_other_quotes_is_read(logs_of):
    text = io.StringIO()
    message = 'temporary file: path "b/pgsql_tmp42.0", size 819200'
    of_session = ["u", "d", 42, "[local]", "6a.2a", 1, "SELECT", "", "1/2", 0, "LOG", "00000"]
    cells = [TIME, *of_session, message, *[""] * 5, "select 1", "", "", "psql"]
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerow(cells)
    [file] = logs_of(text.getvalue()).temp
    assert (file.bytes, file.query) == (819200, "select 1")


@cases("failed", ["open temporary file", "write to file", "remove file"])
def test_a_failure_of_a_temp_file_is_no_size_of_one(logs_of, failed):
    name = '"base/pgsql_tmp/pgsql_tmp42.3.fileset/o1of2.p0.0"'
    with pytest.raises(EvidenceUnsuited):
        logs_of(f"{TIME} [42] ERROR:  could not {failed} {name}: No such file or directory\n")


def test_statements_without_tabs_are_compared_beyond_a_blank_line(logs_of):
    at = "2026-11-23 10:00:04 UTC [4{}] "
    lines = [
        line
        for name in "12"
        for line in (
            f'{at.format(name)}LOG:  temporary file: path "b/pgsql_tmp4{name}.5", size 819200',
            f"{at.format(name)}STATEMENT:  -- report",
            "",
            f"select {name}",
        )
    ]
    logs = logs_of("\n".join([*lines, f"{at.format(3)}LOG:  end"]))
    assert {file.query for file in logs.temp} == {"-- report\nselect 1", "-- report\nselect 2"}


@cases(
    "line",
    [
        "->  Seq Scan on p{}  (cost=0.00..1.00 rows=9 width=8) (actual rows=9 loops=1)",
        "Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.000..{}00.000 rows=9 loops=1)",
        "        Buffers: shared hit={} read=7",
    ],
)
def test_what_lines_of_a_plan_have_in_common_is_no_prefix(line):
    text = "\n".join(map(line.strip().format, (3, 4, 5)))
    assert unwrapped(text) == text


def test_a_prefix_of_a_plan_may_also_precede_other_text():
    plan = [
        "Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.000..900.000 rows=9 loops=1)",
        "  Buffers: temp read=100 written=101",
        "Execution Time: 901.000 ms",
    ]
    lines = ["select a from p;", *plan, "(3 rows)"]
    assert unwrapped("\n".join(f"db1: {line}" for line in lines)) == "\n".join(lines)


def test_a_column_of_times_below_its_heading_is_no_prefix():
    times = [f"2024-10-14 10:00:{second:02} 133        WAITING" for second in range(9)]
    text = "\n".join(["SAMPLE_TIME         SESSION_ID SESSION_STATE", *times])
    assert unwrapped(text) == text


def test_row_numbers_in_a_page_are_not_a_column(plan_of):
    """Notebooks show data frames so."""
    lines = [
        "Sort  (cost=1.0..2.0 rows=1 width=8) (actual time=1.0..900.0 rows=6 loops=1)",
        "  Buffers: temp read=100 written=101",
        "Execution Time: 990.5 ms",
    ]
    rows = [f"<tr><th>{at}</th><td>{line}</td></tr>" for at, line in enumerate(lines)]
    page = ["<table>", "<tr><th></th><th>QUERY PLAN</th></tr>", *rows, "</table>"]
    assert plan_of("\n".join(page)).writes.count == 101
