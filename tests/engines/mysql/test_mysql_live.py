"""Recording a session of MariaDB: only its thread is recorded; refusals."""

import threading
import time
from contextlib import suppress
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
from pymysql.constants import COMMAND

from cases import cases
from engines.mysql.conftest import GROUP_BY, SORT
from harness import ensure_usable
from spillcast.engines import SessionSelector
from spillcast.engines.mysql import MysqlServer, connected, parts_of, server_of, shown_dsn
from spillcast.engines.mysql.record import listed, record_mysql
from spillcast.errors import EvidenceUnknown, InputError, ServerUnsuited


def can_attach():
    """Whether a capture source can observe a running server."""
    for source in ("bpf", "perf"):
        with suppress(OSError):
            ensure_usable(source)
            return True
    return False


needs_capture = pytest.mark.skipif(not can_attach(), reason="no capture can attach")


def temp_of(recording):
    temp = recording.meta.temp
    return temp.reads, temp.writes, temp.bytes


@needs_capture
def test_only_the_thread_of_the_session_is_recorded(rig, tmp_path):
    alone, _ = rig.recorded(SORT, tmp_path / "alone.spill")
    with rig.repeating(GROUP_BY):
        beside, query = rig.recorded(SORT, tmp_path / "run.spill")
    assert temp_of(alone) == temp_of(beside)
    assert alone.meta.temp.writes > 0
    assert beside.meta.ended_by == "end"
    assert beside.meta.engine.query == query
    assert beside.meta.server.before_recording_s == 0


@needs_capture
def test_a_short_statement_before_the_query_is_skipped(rig, tmp_path):
    recording, query = rig.recorded(SORT, tmp_path / "run.spill", first="select 1")
    assert recording.meta.engine.query == query
    assert recording.meta.temp.writes > 0


@needs_capture
def test_a_temporary_table_on_disk_counts_as_temp_io(rig, tmp_path):
    recording, _ = rig.recorded(GROUP_BY, tmp_path / "run.spill")
    if rig.lab.engine == "mysql":
        # InnoDB's threads write its pages at some later time, so the server's own counts are used.
        calls = recording.meta.server.table_calls
        assert recording.meta.temp.operations == 0
        assert recording.meta.spilled is (None if calls else False)
        return
    files = recording.waits.filter(recording.waits["temp"].values)["file"].to_pylist()
    assert any("#sql" in file and ".MAD" in file for file in files)


@needs_capture
def test_calls_on_temporary_tables_count_after_the_client_disconnects(rig, tmp_path):
    if rig.lab.engine != "mysql":
        pytest.skip("the session's own thread does the I/O of its temporary tables")
    with rig.session() as cursor:
        connection = cursor.connection
        thread = threading.Thread(target=leaves, args=[connection])
        selector = SessionSelector(connection.thread_id())

        def begin(*_status):
            if thread.ident is None:
                thread.start()

        recording = record_mysql(
            rig.dsn, tmp_path / "run.spill", selector, notify=begin, on_status=begin
        )
        thread.join()
        connection.connect()
    assert recording.meta.server.table_calls > 0


def leaves(connection):
    """A client that sends a query and disconnects before the result."""
    connection._execute_command(COMMAND.COM_QUERY, GROUP_BY.replace("0.5", "1.5"))
    time.sleep(1.0)
    connection._force_close()


@needs_capture
@pytest.mark.parametrize("granted", ["performance_schema.*", "performance_schema.threads"])
def test_an_optional_privilege_that_is_missing_is_named(rig, tmp_path, granted):
    tables = [granted]
    if granted.endswith("threads"):
        tables.append("performance_schema.events_statements_current")
    grants = [f"select on {table}" for table in tables]
    if rig.lab.engine == "mariadb":
        grants = ["process on *.*"]
    with rig.session() as cursor:
        cursor.execute("drop user if exists watcher@localhost")
        cursor.execute("create user watcher@localhost")
        for grant in grants:
            cursor.execute(f"grant {grant} to watcher@localhost")
    dsn = f"mysql://watcher@localhost/?socket={rig.dsn}"
    matches = []
    recording, _ = rig.recorded(SORT, tmp_path / "run.spill", dsn=dsn, notify=matches.append)
    assert recording.meta.captured
    assert recording.meta.temp.writes > 0
    if rig.lab.engine == "mysql":
        missing = "process on *.*" if granted.endswith("*") else "select on performance_schema.*"
        assert any(f"grant {missing} to 'watcher'@'localhost'" in text for text in matches)


def test_a_nonexistent_session_is_refused(rig):
    for selector in (SessionSelector(999_999), SessionSelector(query="(")):
        with pytest.raises(InputError):
            record_mysql(rig.dsn, None, selector)
    with rig.session() as cursor, rig.session() as other:
        cursor.execute("select connection_id()")
        [number] = cursor.fetchone()
        selector = SessionSelector(number)
        threading.Timer(0.5, other.execute, [f"kill {number}"]).start()
        with pytest.raises(InputError):
            record_mysql(rig.dsn, None, selector)


def test_each_view_of_sessions_gives_the_session_and_its_thread(rig):
    with rig.session() as cursor, connected(rig.dsn) as connection:
        cursor.execute("select connection_id()")
        [number] = cursor.fetchone()
        server = server_of(connection)
        # MariaDB has MySQL's tables, too.
        flavors = {server.flavor, "mysql"}
        threads = {
            session.thread
            for flavor in flavors
            for session in listed(connection, replace(server, flavor=flavor))
            if session.id == number
        }
    assert len(threads) == 1
    assert None not in threads


def test_a_session_behind_a_proxy_is_refused():
    connection = MagicMock()
    cursor = connection.cursor.return_value.__enter__.return_value
    cursor.description = [(name,) for name in ("version", "host", "instrumented", "id")]
    cursor.fetchall.return_value = [("8.0.36", "db01", 1, 4711)]
    connection.thread_id.return_value = 12
    with pytest.raises(ServerUnsuited):
        server_of(connection)
    connection.thread_id.return_value = 4711
    assert server_of(connection) == MysqlServer("mysql", "8.0.36", "db01", instrumented=True)


@cases(
    "dsn",
    ["db01", "mysql://db01:port", "mysql://db01?ssl=1", "/no/such/socket", "postgres://db",
     "~no-such-user/my.cnf", "x" * 300],
)  # fmt: skip
def test_an_invalid_dsn_is_refused(dsn):
    with pytest.raises(InputError):
        parts_of(dsn)


def test_a_user_without_a_home_has_no_defaults_file(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert "read_default_file" not in parts_of("mysql://db01")


def test_a_dsn_is_parsed_and_shown_without_its_password(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MYSQL_PWD", "from-environment")
    parts = parts_of("mysql://etl:p%40ss@db01:3307/dw")
    assert parts == {
        "host": "db01", "port": 3307, "user": "etl", "password": "p@ss", "database": "dw",
    }  # fmt: skip
    assert parts_of("mysql://db01")["password"] == "from-environment"
    assert "p@ss" not in shown_dsn("mysql://etl:p@ss@db01/dw")
    (rows := tmp_path / "rows.txt").write_text(
        "| query | exec_count | disk_tmp_tables |\n|---|---|---|\n| SELECT `c` | 12 | 12 |\n"
    )
    with pytest.raises(EvidenceUnknown):
        parts_of(str(rows))
    (defaults := tmp_path / "other.cnf").write_text("user = etl\n")
    with pytest.raises(InputError):
        parts_of(str(defaults))
    defaults.write_text("[client]\nuser = etl\n")
    assert parts_of(f"--defaults-file={defaults}")["read_default_file"] == str(defaults)
