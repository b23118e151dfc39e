"""Recording a PostgreSQL query where something is wrong: one clear line, and never a password."""

import os
import re
import subprocess

import pytest

from cases import cases, nightly
from harness import (
    completed,
    environment,
    only_line,
    ordinary_user,
    refuse_tracing,
    spillcast,
    succeeded,
    target,
    until_attached,
)
from postgres_rig import HELD, JOIN, PARALLEL, everything_in, meta_of, recorder

PASSWORD = "Sesame-4711"


def record(dsn, *arguments, **options):
    return spillcast("record", "--postgres", dsn, *arguments, **options)


@pytest.fixture
def guarded(newest):
    """A role that needs its password."""
    with newest.connect() as connection:
        connection.execute("drop role if exists guarded")
        connection.execute(f"create role guarded login superuser password '{PASSWORD}'")
    newest.allow_only("guarded", "scram-sha-256")
    yield f"{newest.dsn} user=guarded"
    newest.allow_only("guarded", "trust")


@pytest.fixture
def ordinary(newest):
    """A role that cannot see other sessions."""
    with newest.connect() as connection:
        connection.execute("drop role if exists ordinary")
        connection.execute("create role ordinary login")
        yield f"{newest.dsn} user=ordinary"
        connection.execute("drop owned by ordinary")


def test_a_wrong_password_is_not_shown(guarded, tmp_path):
    for wrong in (f"{guarded} password=Wrong-{PASSWORD}", guarded):
        result = record(wrong, "--explain", "select 1", cwd=tmp_path)
        message = only_line(result, 2)
        assert PASSWORD not in message
        assert "password" in message
        assert "PGPASSWORD or ~/.pgpass" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["dsn", *nightly("environment", "file")])
def test_the_password_is_in_no_recording(guarded, tmp_path, way):
    output = tmp_path / "run.spill"
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:guarded:{PASSWORD}\n")
    file.chmod(0o600)
    dsn = f"{guarded} password={PASSWORD}" if way == "dsn" else guarded
    env = {"environment": {"PGPASSWORD": PASSWORD}, "file": {"PGPASSFILE": file}}.get(way, {})
    statement = f"select max(x.f || 'password={PASSWORD}') from t x join t y using (id)"
    requested = ("--explain", statement, "--set", "work_mem=64kB", "-o", output)
    result = record(dsn, *requested, env=environment(**env))
    assert result.returncode == 0, result.stderr
    assert PASSWORD.encode() not in everything_in(output)
    assert PASSWORD not in result.stdout + result.stderr
    assert meta_of(output)["engine"]["server"]["user"] == "guarded"


@cases(
    "dsn",
    [
        f"postgresql://u:{PASSWORD}@x@127.0.0.1/db",
        f"postgresql://u:a/{PASSWORD}@127.0.0.1/db",
        f"host=/tmp password={PASSWORD} {PASSWORD}",
        f"host=/tmp {PASSWORD}={PASSWORD}",
        PASSWORD,
        f"postgresql://u:{PASSWORD}%zz@127.0.0.1/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:{PASSWORD}/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/db",
        f"host=/nowhere password={PASSWORD}",
    ],
)
def test_an_invalid_dsn_is_not_repeated(dsn, tmp_path):
    result = record(dsn, "--explain", "select 1", cwd=tmp_path)
    assert PASSWORD not in only_line(result, 2)
    assert re.search("DSN|PostgreSQL: connection", result.stderr)


def test_data_that_an_ordinary_role_cannot_see_is_reported(newest, ordinary, tmp_path):
    with newest.client() as client:
        # Longer than all recorders take to start.
        client.run("select pg_sleep(300)")
        newest.until_running(client)
        for selector in (("--backend", client.pid), ("--query", "pg_sleep"), ("--wait-for-spill",)):
            message = only_line(record(ordinary, *selector, cwd=tmp_path), 2)
            assert "role ordinary may not see" in message
            assert "grant pg_monitor to ordinary" in message
        with newest.connect() as connection:
            connection.execute("grant pg_monitor to ordinary")
        selector = ("--query", "pg_sleep", "--duration", "1s")
        result = record(ordinary, *selector, "-o", tmp_path / "run.spill")
        assert result.returncode == 0, result.stderr


def test_an_ordinary_role_can_record_its_own_statement(newest, ordinary, tmp_path):
    with newest.connect() as connection:
        connection.execute("grant select on t to ordinary")
    output = tmp_path / "run.spill"
    result = record(ordinary, "--explain", JOIN, "--set", "work_mem=64kB", "-o", output)
    assert result.returncode == 0, result.stderr
    # Only superusers enable I/O timing, and only pg_monitor lists temp files.
    assert "the plan may have no I/O times" in result.stderr
    meta = meta_of(output)
    assert meta["engine"]["plan"]["temp_read_s"] is None
    assert meta["server"]["temp_files"] == []
    assert meta["temp"]["writes"] > 0


def test_a_connection_pooler_is_refused(newest, tmp_path):
    pooler = subprocess.Popen(
        target("pooler", newest.port), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    port = pooler.stdout.readline().strip()
    dsn = f"host=127.0.0.1 port={port} user=postgres sslmode=disable gssencmode=disable"
    message = only_line(record(dsn, "--explain", "select 1", cwd=tmp_path), 2)
    pooler.communicate("")
    assert "connection pooler" in message
    assert "the server's own host and port" in message


def test_several_sessions_are_listed(newest, tmp_path):
    with newest.client() as item, newest.client() as other:
        for client in (item, other):
            # Longer than the recorder takes to start.
            client.run("select pg_sleep(300), 'password=hidden'")
            newest.until_running(client)
        result = record(newest.dsn, "--query", "PG_SLEEP", cwd=tmp_path)
    assert result.returncode == 2
    first, *listed, hint = result.stderr.splitlines()
    assert first == "spillcast: 2 sessions match:"
    assert {int(line.split()[0]) for line in listed} == {item.pid, other.pid}
    assert all(len(line) <= 80 for line in listed)
    assert "hidden" not in result.stderr
    assert "--backend PID" in hint


def test_a_worker_names_its_leader(newest, tmp_path):
    with newest.client(**PARALLEL) as client, newest.gate():
        client.run("select count(*) from t where gate()")
        # The session and two workers: they wait at the gate until the client cancels.
        newest.until_held(client, processes=3)
        query = "select pid from pg_stat_activity where leader_pid = %s"
        with newest.connect() as connection:
            worker, *_ = connection.execute(query, [client.pid]).fetchone()
        message = only_line(record(newest.dsn, "--backend", worker, cwd=tmp_path), 2)
        client.connection.cancel()
    assert f"a parallel worker of {client.pid}" in message


#: Command lines, and words of the error.
BAD_INPUT = {
    "nothing to find": ((), "--backend PID, --query PATTERN"),
    "to find and to run": (("--query", "x", "--explain", "select 1"), "--backend PID, --query"),
    "no such session": (("--backend", "4194303"), "the server has no such session"),
    "no pattern": (("--query", "x("), "parentheses () not balanced"),
    "no query": (("--explain", "select from where"), "syntax error"),
    "no table": (("--explain", "select * from nothing_here"), "does not exist"),
    "two statements": (("--explain", "select 1; select 2"), "multiple commands"),
    "a setting of no name": (("--explain", "select 1", "--set", "4MB"), "is not NAME=VALUE"),
    "no such setting": (("--explain", "select 1", "--set", "no_such=1"), "unrecognized"),
    "no such tablespace": (
        ("--explain", "select 1", "--set", "temp_tablespaces=none"), '"none" does not exist',
    ),
    "a setting for another's": (("--query", "x", "--set", "work_mem=1MB"), "for the session of"),
    "preload": (("--explain", "select 1", "--capture", "preload"), "already running"),
    "no such directory": (
        ("--explain", "select 1", "-o", "none/run.spill"), "there is no directory",
    ),
}  # fmt: skip


@cases("case", BAD_INPUT)
def test_bad_input(newest, tmp_path, case):
    arguments, words = BAD_INPUT[case]
    result = record(newest.dsn, *arguments, cwd=tmp_path)
    assert words in only_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_its_options_need_a_server(tmp_path):
    for option in (("--backend", 1), ("--query", "x"), ("--wait-for-spill",), ("--set", "a=b")):
        result = spillcast("record", *option, "--", "true", cwd=tmp_path)
        assert "needs --postgres" in only_line(result, 2)


def recorded(newest, dsn, output, **options):
    """The message of a recorder about a query that continues after the recorder has started."""
    with newest.client() as client, newest.gate() as gate:
        client.run(HELD)
        newest.until_held(client)
        requested = ("--postgres", dsn, "--backend", str(client.pid))
        with recorder(output, *requested, **options) as process:
            newest.until_watched(process)
            gate.open()
            _, stderr = succeeded(process)
    return stderr


def test_without_perf_events_only_waits_are_recorded(newest, tmp_path):
    output = tmp_path / "run.spill"
    stderr = recorded(newest, newest.dsn, output, under=refuse_tracing())
    assert "its processes: cannot observe the server's processes" in stderr
    check_samples_only(output)


def test_another_users_server_needs_privilege(newest, open_places):
    under = ordinary_user()
    if not under:
        pytest.skip("only root has a server of another user")
    output = open_places.temp / "run.spill"
    environ = environment(HOME=open_places.root)
    stderr = recorded(newest, newest.dsn, output, under=under, env=environ)
    assert "belongs to another user" in stderr
    assert "run spillcast as that user, as root" in stderr
    check_no_io(output)


def test_a_remote_server_is_refused(newest, tmp_path):
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("process ids of one's own (unshare --pid) want root")
    output = tmp_path / "run.spill"
    stderr = recorded(newest, newest.tcp, output, under=apart)
    assert "are not among those of this machine" in stderr
    check_no_io(output)


def test_an_explicit_perf_source_that_is_refused_is_an_error(newest, tmp_path):
    requested = ("--explain", "select 1", "--capture", "perf")
    result = record(newest.dsn, *requested, under=refuse_tracing(), cwd=tmp_path)
    assert "cannot observe the server's processes" in only_line(result, 2)


def check_no_io(output):
    """The recording has only samples."""
    meta = meta_of(output)
    assert meta["temp"] is None
    assert meta["capture"]["method"] == "none"
    assert meta["sampling"]["samples"] > 10
    return meta


def check_samples_only(output):
    """Only samples are reported; the recording can be profiled, but not forecast."""
    meta = check_no_io(output)
    profiled = completed("profile", output)
    assert re.search(r"Buf[Ff]ile(Read|Write) +\d", profiled.stdout)
    assert "samples of waits, no I/O" in profiled.stdout
    completed("profile", output, "--by", "session,second", "--json")
    assert "this evidence has only samples" in only_line(
        spillcast("profile", output, "--by", "file"), 2
    )
    for command in (("forecast", output, "--to", "/tmp"), ("probe", "/tmp", "--like", output)):
        message = only_line(spillcast(*command), 3)
        assert meta["capture"]["absent_because"] in message
        assert "record on the server's own machine" in message


def test_a_query_that_has_ended_gives_no_recording(newest, tmp_path):
    output = tmp_path / "run.spill"
    with newest.client() as client:
        with recorder(output, "--postgres", newest.dsn, "--backend", str(client.pid)) as process:
            until_attached(output, process)
            client.connection.close()
            _, stderr = process.communicate()
        assert process.returncode == 2
        assert "has ended without a query" in stderr
    assert os.listdir(tmp_path) == []


def test_a_statement_that_a_timeout_cancels_is_not_complete(newest, tmp_path):
    limits = ("--set", "statement_timeout=200ms", "--set", "work_mem=128kB")
    requested = ("--set", "temp_tablespaces=slow", "-o", "run.spill", "--explain", JOIN)
    result = record(newest.dsn, *limits, *requested, cwd=tmp_path)
    assert result.returncode == 1
    assert "canceling statement due to statement timeout" in result.stderr
    assert "--set statement_timeout=0" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dsn_longer_than_a_file_name_hides_its_password(guarded):
    secret = "Wrong-" * 60
    message = only_line(spillcast("postgres", f"{guarded} password={secret}"), 2)
    assert "Wrong-" not in message
    assert "password" in message
