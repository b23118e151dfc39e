"""A folder as evidence: script -> SQL*Plus's spool files -> readers -> profile and forecast."""

import json
import re
from datetime import timedelta

import pytest
from made_up_sqlplus import NOW, database, insert, run_script

from harness import json_of, spillcast
from oracle_files import READ, WRITE, blocks, write_trace
from spillcast.engines.oracle import collect
from spillcast.evidence.open import SPOOLS, find_evidence
from spillcast.evidence.oracle.ash import read_ash
from spillcast.evidence.oracle.ash_profile import executions

SQL_ID = "4q7zf0d2m8kcx"
SESSION = "35,65385"
#: Growth of the session's statistics in each interval: all 1,000 reads of temp come from flash.
FLASH = {
    1: ("cell flash cache read hits for temp IO", 1_000),
    2: ("physical read IO requests", 1_000),
    3: ("physical reads", 31_000),
    4: ("physical reads direct temporary tablespace", 31_000),
}
WAITING = {"session_state": "WAITING", "event": READ, "p3": 31, "time_waited": 9_000}
ON_CPU = {"session_state": "ON CPU", "event": None, "time_waited": 0}


@pytest.fixture
def oracle():
    """A database in which the hash join of line 3 spills: 60 of 100 s are reads of temp."""
    with database() as connection:
        parameters = {"db_block_size": "16384", "pga_aggregate_target": str(8 << 30)}
        for name, value in parameters.items():
            insert(connection, "v$parameter", {"name": name, "value": value})
        usual = {"inst_id": 1, "sql_id": SQL_ID, "session_id": 35, "session_serial#": 65385}
        usual |= {"sql_exec_id": 16777216, "sql_exec_start": NOW - timedelta(seconds=101)}
        line = {"sql_plan_line_id": 3, "sql_plan_operation": "HASH JOIN"}
        for second in range(100):
            at = NOW - timedelta(seconds=100 - second)
            state = WAITING | line if second < 60 else ON_CPU
            insert(connection, "gv$active_session_history", {"sample_time": at} | usual | state)
        area = {"inst_id": 1, "sid": 35, "qcsid": 35, "sql_id": SQL_ID, "workarea_address": "W"}
        area |= {"operation_id": 3, "operation_type": "HASH-JOIN", "policy": "AUTO"}
        area |= {"max_mem_used": 1 << 30, "number_passes": 1, "tempseg_size": 20 << 30}
        insert(connection, "gv$sql_workarea_active", area)
        sizes = {"estimated_optimal_size": 12 << 30, "estimated_onepass_size": 64 << 20}
        insert(connection, "gv$sql_workarea", {"inst_id": 1, "workarea_address": "W"} | sizes)
        session = {"inst_id": 1, "sid": 35, "serial#": 65385, "saddr": "S", "audsid": 5}
        insert(connection, "gv$session", session | {"sql_id": SQL_ID, "status": "ACTIVE"})
        segment = {"inst_id": 1, "session_addr": "S", "tablespace": "TEMP", "segtype": "HASH"}
        insert(connection, "gv$tempseg_usage", segment | {"blocks": 1_310_720, "extents": 9})
        for number, (name, _) in FLASH.items():
            insert(connection, "v$statname", {"statistic#": number, "name": name})
        yield connection


def look(oracle):
    """Changes while the script samples: statistics grow."""

    def at(turn):
        oracle.execute('delete from "v$sesstat"')
        for number, (_, growth) in FLASH.items():
            value = 5_000 + growth * max(turn, 0)
            insert(oracle, "v$sesstat", {"sid": 35, "statistic#": number, "value": value})

    return at


@pytest.fixture
def folder(oracle, tmp_path):
    """The output of the script, and a trace that a user put beside it."""
    target = tmp_path / "collected"
    target.mkdir()
    script = collect(sql_id=SQL_ID, sid=SESSION, interval=20)
    run_script(oracle, script.replace("&licensed", "yes"), target, look(oracle))
    write_trace(
        target / "orcl_ora_1.trc", [(READ, 9_000, blocks(31)), (WRITE, 300, blocks(31))] * 50
    )
    return target


def test_every_spool_file_has_a_reader(folder):
    result = find_evidence([folder])
    assert result.collected == [folder]
    spooled = {path.name for path in folder.glob("*.csv")}
    assert spooled == set(SPOOLS) - {"spillcast_sessions.csv"}
    for name in spooled:
        assert [path.name for path in getattr(result, SPOOLS[name])] == [name]
    assert [path.name for path in result.traces] == ["orcl_ora_1.trc"]
    # Each is also recognised by its content, in any folder.
    for name in spooled:
        other = folder.parent / f"other_{name}"
        other.write_bytes((folder / name).read_bytes())
        assert getattr(find_evidence([other]), SPOOLS[name]) == [other]


def test_the_folder_is_forecast(folder, tmp_path):
    target = write_trace(tmp_path / "there.trc", [(READ, 900, blocks(31))] * 50)
    result = spillcast("forecast", folder, "--to", target, "--json")
    document = json.loads(result.stdout)
    # 60 of 100 samples wait for reads, which take a tenth there.
    assert document["baseline_s"] == pytest.approx(100, abs=0.1)
    assert document["forecast_s"] == pytest.approx(40 + 6, abs=0.2)
    warnings = {warning["code"]: warning["message"] for warning in document["warnings"]}
    assert "100 % of temp reads" in warnings["flash-cache"]
    # Its parameters have the block size.
    document = json.loads(
        spillcast("forecast", folder, "--to", "catalogue:aws-gp3", "--json").stdout
    )
    warnings = {warning["code"]: warning["message"] for warning in document["warnings"]}
    assert "16" in warnings["not-replayed"]
    assert "block-assumed" not in warnings


def test_the_spilling_operation_and_its_memory_are_named(folder, tmp_path):
    """The fixture's figures: a join of 1 GiB, for which Oracle estimates 12."""
    target = write_trace(tmp_path / "there.trc", [(READ, 900, blocks(31))] * 50)
    document = json.loads(spillcast("forecast", folder, "--to", target, "--json").stdout)
    (line,) = document["spilled"]["lines"]
    assert line == {
        "sql_id": SQL_ID,
        "plan_line": 3,
        "operation": "HASH JOIN",
        "share": 1.0,
        "passes": 1,
    }
    more = document["spilled"]["more_pga"]
    assert more["held_bytes"] == 1 << 30
    assert (more["needed_bytes"], more["estimated"]) == (12 << 30, True)
    assert more["pga_target_bytes"] == 8 << 30
    assert more["forecast_s"] == pytest.approx(40, abs=0.1)
    assert more["interval_s"][0] <= 40 <= more["interval_s"][1]
    output = " ".join(spillcast("forecast", folder, "--to", target).stdout.split())
    assert re.search(r"hash join of line 3 \w+ 100 ?% of .*, in one pass", output)
    assert (
        "More PGA instead: the work area that spills held 1 GiB and would need about 12" in output
    )


def test_plan_lines_of_the_folder(folder):
    document = json.loads(spillcast("profile", folder, "--by", "row-source", "--json").stdout)
    rows = {row["row-source"]: row for row in document["rows"]}
    assert rows[3]["operation"] == "HASH JOIN"
    assert (rows[3]["temp_us"], rows[3]["temp_share"], rows[3]["passes"]) == (60_000_000, 1.0, 1)
    # A sample of a wait of 9 ms represents 1000 / 9 reads of 31 blocks.
    read = 60 * 1000 / 9 * 31 * 16384
    assert rows[3]["temp_read_bytes"] == pytest.approx(read, rel=1e-3)
    assert rows[None]["temp_us"] == 0
    assert document["words"] == ["The hash join of line 3 takes 100% of the time in temp I/O."]


def test_the_folder_is_profiled_by_its_samples(folder):
    document = json.loads(spillcast("profile", folder, "--json").stdout)
    assert {row["event"]: row["total_us"] for row in document["rows"]} == {
        READ: 60_000_000,
        "(on CPU)": 40_000_000,
    }


def test_sql_queries_all_files_of_the_folder(folder):
    tables = ("samples", "statistics", "work_areas", "temp_usage", "waits", "calls", "statements")
    query = "select " + ", ".join(f"(select count(*) from {name})" for name in tables)
    rows = json_of("profile", folder, "--sql", query)["rows"]
    assert rows == [[100, 12, 1, 1, 100, 0, 1]]


def test_a_failed_statement_leaves_empty_spool_files(oracle, tmp_path):
    """SQL*Plus writes nothing at all where a query has no row."""
    for view in ("gv$sql_workarea_active", "gv$tempseg_usage"):
        oracle.execute(f'delete from "{view}"')
    run_script(oracle, collect(sql_id=SQL_ID).replace("&licensed", "yes"), tmp_path)
    assert (tmp_path / "spillcast_workareas.csv").read_text() == ""
    result = find_evidence([tmp_path])
    assert (result.work_areas, result.temp_usage) == ([], [])
    assert len(read_ash(result.ash).samples) == 100


def test_without_the_diagnostics_pack_sessions_are_sampled(oracle, tmp_path):
    """A session and its worker: active for 8 s, 4 s of them in reads of temp; then idle."""
    script = collect(sql_id=SQL_ID, without_pack=True, minutes=1)
    assert "active_session_history" not in script
    assert "accept" not in script
    running = {"inst_id": 1, "sql_id": SQL_ID, "sql_exec_id": 7, "audsid": 5}
    reading = {"state": "WAITING", "event": READ, "wait_class": "User I/O", "p1": 201, "p3": 31}
    on_cpu = {"state": "WAITED SHORT TIME", "event": READ, "wait_class": "User I/O"}
    idle = {"state": "WAITING", "event": "PX Deq: Execute Reply", "wait_class": "Idle"}
    insert(oracle, "gv$px_session", {"inst_id": 1, "sid": 35, "serial#": 65385, "qcsid": 35})
    worker = {"inst_id": 1, "sid": 50, "serial#": 2, "qcsid": 35, "qcinst_id": 1}
    insert(oracle, "gv$px_session", worker)

    def at(turn):
        now = NOW + timedelta(seconds=turn)
        oracle.execute(f"create or replace macro systimestamp() as timestamp '{now}'")
        oracle.execute('delete from "gv$session"')
        status = {"status": "ACTIVE" if turn < 8 else "INACTIVE"}
        at_work = reading if turn < 4 else on_cpu
        insert(oracle, "gv$session", running | idle | status | {"sid": 35, "serial#": 65385})
        insert(oracle, "gv$session", running | at_work | status | {"sid": 50, "serial#": 2})
        # The script's own session is excluded.
        insert(oracle, "gv$session", running | on_cpu | {"status": "ACTIVE", "audsid": 4711})

    run_script(oracle, script, tmp_path, at)
    result = find_evidence([tmp_path])
    assert [path.name for path in result.ash] == ["spillcast_sessions.csv"]
    ash = read_ash(result.ash)
    assert ash.damaged == []
    assert ash.samples["event"].to_pylist() == [READ] * 4 + [None] * 4
    assert ash.samples["coordinator"].to_pylist() == [35] * 8
    assert ash.samples["p3"].to_pylist() == [31] * 4 + [None] * 4
    assert [item.exec_id for item in executions(ash)] == [7]
    completed = spillcast("profile", tmp_path)
    assert "samples of V$SESSION, not of ASH" in " ".join(completed.stdout.split())
