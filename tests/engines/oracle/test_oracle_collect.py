"""The collecting script: every statement parses as Oracle's and gives the expected rows in DuckDB.

Without an Oracle server, SQL*Plus commands and the PL/SQL around a query are not run.
"""

import csv
import json
import re
from datetime import timedelta

import pytest
from made_up_sqlplus import NOW, VIEWS, database, insert, parsed, run
from sqlglot import exp

from cases import cases, nightly
from harness import spillcast
from spillcast.engines.oracle import collect, parse_session
from spillcast.errors import OptionInvalid
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import executions
from spillcast.evidence.oracle.collected import read_statistics

SQL_ID = "09bmj7j9q8a5z"
SESSION = "33,4711"
READ = "direct path read temp"


@pytest.fixture
def oracle():
    with database() as connection:
        yield connection


@pytest.mark.parametrize("session", [SESSION, *nightly(None)])
@pytest.mark.parametrize("sql_id", [SQL_ID, *nightly(None)])
@pytest.mark.parametrize("history", [False, True])
def test_every_statement_parses_and_runs(oracle, sql_id, session, history):
    script = collect(sql_id=sql_id, sid=session, history=history)
    trees = parsed(script)
    assert all(isinstance(tree, exp.Select) for tree in trees)
    assert len(trees) >= 5
    for view in VIEWS:
        run(oracle, script, view, v_before=None, v_seconds=3)
    assert "{" not in script


@cases("session", [None, SESSION])
def test_the_script_changes_only_the_trace_of_the_session(session):
    script = collect(sql_id=SQL_ID, sid=session)
    calls = re.findall(r"^exec (\S+?)\((.*)\)$", script, re.MULTILINE)
    who = "session_id => 33, serial_num => 4711"
    assert calls == (
        [
            ("dbms_monitor.session_trace_enable", f"{who}, waits => true, binds => false"),
            ("dbms_monitor.session_trace_disable", who),
        ]
        if session
        else []
    )
    assert "password" not in script.lower().replace("no password stands here", "")


def test_the_licence_is_confirmed_before_ash_is_read():
    for history in (False, True):
        script = collect(history=history)
        requested = script.index("accept licensed")
        assert "Diagnostics Pack" in script[:requested]
        assert "active_sess" not in script[:requested]
        assert "whenever sqlerror exit" in script[requested:]


def test_licence_answers(oracle):
    script = collect()
    for answer, goes_on in (("YES", True), ("yes", True), ("no", False), ("", False)):
        (row,) = run(oracle, script.replace("&licensed", answer), "dual")
        # Division by zero is an error in Oracle, and infinite or null in DuckDB.
        assert (row["licensed"] == 1) == goes_on


def ash_rows():
    """A row for each reason to be excluded, and two that belong: the session and its worker."""
    usual = {"sql_id": SQL_ID, "session_id": 33, "session_serial#": 4711, "p3": 31}
    usual |= {"session_state": "WAITING", "event": READ, "time_waited": 9_000}
    usual |= {"sql_exec_id": 16777216, "sql_exec_start": NOW - timedelta(seconds=40)}
    at = [NOW - timedelta(seconds=s, milliseconds=211) for s in range(6)]
    worker = {"session_id": 50, "session_serial#": 1}
    worker |= {"qc_session_id": 33, "qc_session_serial#": 4711}
    on_cpu = {"session_state": "ON CPU", "event": None, "time_waited": 0}
    return [
        usual | {"sample_time": at[1]} | worker,
        usual | {"sample_time": at[2]} | on_cpu,
        usual | {"sample_time": at[3], "sql_id": "aaaaaaaaaaaaa"},
        usual | {"sample_time": at[4], "session_serial#": 1},
        usual | {"sample_time": NOW - timedelta(minutes=11)},
    ]


def spool(path, rows):
    """SQL*Plus's output of the rows with `set markup csv on`."""
    with path.open("w") as file:
        file.write("\n")
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow([name.upper() for name in rows[0]])
        writer.writerows(["" if cell is None else cell for cell in row.values()] for row in rows)
    return path


@pytest.mark.parametrize(
    ("view", "source", "more"),
    [
        ("gv$active_session_history", "V$", {"inst_id": 2}),
        ("dba_hist_active_sess_history", "DBA_HIST", {"snap_id": 9, "instance_number": 2}),
    ],
)
def test_ash_of_a_session_and_its_workers(oracle, tmp_path, view, source, more):
    insert(oracle, view, *(row | more for row in ash_rows()))
    history = source == "DBA_HIST"
    script = collect(sql_id=SQL_ID, sid=SESSION, minutes=10, history=history)
    rows = [row for row in run(oracle, script, view) if "sample_time" in row]
    assert [row["sample_time"] for row in rows] == [
        "2024-10-14 12:59:57.789",
        "2024-10-14 12:59:58.789",
    ]
    ash = read_ash(spool(tmp_path / "spillcast_ash.csv", rows))
    assert (ash.source, ash.damaged) == (source, [])
    assert ash.samples["event"].to_pylist() == [None, READ]
    assert ash.samples["coordinator"].to_pylist() == [None, 33]
    assert ash.samples["instance"].to_pylist() == [2, 2]
    assert ash.samples["p3"].to_pylist() == [31, 31]
    assert set(ash.samples["exec_start"].to_pylist()) == {"2024-10-14 12:59:20"}
    # The worker and its session are a single execution.
    assert [item.session for item in executions(ash)] == [33]


def test_the_first_sample_in_memory_is_shown(oracle):
    insert(oracle, "gv$active_session_history", *ash_rows())
    first = run(oracle, collect(), "gv$active_session_history")[0]
    assert first == {"first_sample": "2024-10-14 12:49:00"}


@cases(("minutes", "history"), [(60, False), (61, True)])
def test_the_number_of_minutes_chooses_memory_or_history(minutes, history):
    assert ("dba_hist" in collect(minutes=minutes)) == history


def test_statistics_have_growth_rate_and_total(oracle, tmp_path):
    """Three samples; computed by hand, with a session and a statistic that do not belong."""
    names = {7: "physical reads", 70: "physical writes", 9: "redo size"}
    insert(oracle, "v$statname", *({"statistic#": n, "name": name} for n, name in names.items()))
    script = collect(sid=SESSION)
    before, lines = None, ['"SAMPLE_TIME","NAME","VALUE","PER_SECOND","ACCUMULATED"']
    for reads, writes in ((1_000, 50), (106_899, 50), (106_909, 350)):
        oracle.execute('delete from "v$sesstat"')
        for sid, number, value in ((33, 7, reads), (33, 70, writes), (33, 9, 1), (34, 7, 5)):
            insert(oracle, "v$sesstat", {"sid": sid, "statistic#": number, "value": value})
        rows = run(oracle, script, "v$sesstat", v_before=before, v_seconds=3)
        assert [row["accumulated"] for row in rows] == [reads, writes]
        # As the PL/SQL block does with the rows.
        before = "".join(f",{row['statistic#']}={row['accumulated']}" for row in rows)
        for row in rows:
            if row["value"] is not None:
                numbers = [int(row[key]) for key in ("value", "per_second", "accumulated")]
                lines.append(",".join([str(NOW), f'"{row["name"]}"', *map(str, numbers)]))
    path = tmp_path / "spillcast_statistics.csv"
    path.write_text("\n".join(lines) + "\n")
    matches = [tuple(row.values()) for row in read_statistics(path).rows.to_pylist()]
    assert matches == [
        (0, "physical reads", 105_899, 35_300, 106_899),
        (0, "physical writes", 0, 0, 50),
        (1, "physical reads", 10, 3, 106_909),
        (1, "physical writes", 300, 100, 350),
    ]


def test_work_areas_and_temp_of_the_session(oracle):
    areas = ({"sid": 33, "qcsid": 33}, {"sid": 50, "qcsid": 33}, {"sid": 9, "qcsid": 9})
    insert(oracle, "gv$sql_workarea_active", *({"inst_id": 1, **area} for area in areas))
    script = collect(sid=SESSION)
    assert [row["sid"] for row in run(oracle, script, "gv$sql_workarea_active")] == [33, 50]
    sessions = ((33, 4711, "a"), (33, 5, "b"), (34, 4711, "c"))
    for sid, serial, address in sessions:
        named = {"sid": sid, "serial#": serial, "saddr": address}
        insert(oracle, "gv$session", {"inst_id": 1, **named})
        insert(oracle, "gv$tempseg_usage", {"inst_id": 1, "session_addr": address, "blocks": 128})
    (row,) = run(oracle, script, "gv$tempseg_usage")
    assert (row["sid"], row["serial#"]) == (33, 4711)


def test_the_path_of_the_trace_is_shown(oracle):
    insert(oracle, "v$session", {"sid": 33, "serial#": 4711, "paddr": "p"})
    insert(oracle, "v$process", {"addr": "p", "tracefile": "/diag/trace/x_ora_1.trc"})
    script = collect(sid=SESSION)
    assert run(oracle, script, "v$process") == [{"tracefile": "/diag/trace/x_ora_1.trc"}]


@cases("sql_id", ["", "short", "09BMJ7J9Q8A5Z", "' or 1=1 --  ", SQL_ID + "\n"])
def test_an_invalid_sql_id_is_refused(sql_id):
    with pytest.raises(OptionInvalid, match="--sql-id"):
        collect(sql_id=sql_id)


@cases("text", ["33", "33,", "33;4711", "33,4711;drop", "-1,2", "1,1234567890"])
def test_an_invalid_session_is_refused(text):
    with pytest.raises(OptionInvalid, match="--sid"):
        parse_session(text)


@cases("wrong", [{"minutes": 0}, {"minutes": 10**7}, {"interval": 0}])
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(OptionInvalid, match="is not between 1 and"):
        collect(**wrong)


def test_the_verb_prints_writes_and_answers_in_json(tmp_path):
    requested = ["collect", "oracle", "--sql-id", SQL_ID, "--sid", "33,4711", "--interval", "5"]
    expected = collect(sql_id=SQL_ID, sid=SESSION, interval=5)
    assert spillcast(*requested).stdout == expected
    document = json.loads(spillcast(*requested, "--json").stdout)
    assert document == {"schema": "spillcast.collect/1", "script": expected}
    path = tmp_path / "collect.sql"
    assert spillcast(*requested, "-o", path).stdout == ""
    assert path.read_text() == expected


def test_invalid_options_of_the_verb_exit_with_2(tmp_path):
    result = spillcast("collect", "oracle", "--sid", "33")
    assert result.returncode == 2
    assert "is not SID,SERIAL" in result.stderr
    result = spillcast("collect", "oracle", "-o", tmp_path / "none" / "collect.sql")
    assert result.returncode == 2
    assert "there is no directory" in result.stderr
