"""Obstacles to a move are named before anything is changed; passwords are never shown."""

import os
import shutil
import subprocess

import pytest

from cases import cases
from harness import (
    completed,
    environment,
    only_line,
    ordinary_user,
    spillcast,
    spillcast_command,
    target,
)
from postgres_rig import private_server
from spillcast.workspace import workspace

PASSWORD = "s3cret'word"
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="wants root")


def refused(moving, *words, to=None, dsn=None, options=("--for", "role:etl", "--apply"), **how):
    """Asserts a refusal with these words that changed nothing."""
    before = moving.state()
    line = ("move", "postgres", dsn or moving.dsn, "--to", to or moving.to, *options)
    message = only_line(spillcast(*line, **how), 2)
    for word in words:
        assert word in message
    assert moving.state() == before
    return message


def test_unusable_directories_are_refused(moving):
    full, foreign, mount = (moving.room / name for name in ("full", "foreign", "mount"))
    for path in (full, foreign, mount):
        path.mkdir()
    (full / "file").touch()
    (mount / "lost+found").mkdir()
    moving.server.give(full)
    moving.server.give(mount)
    refused(moving, "is not empty: file", to=full)
    refused(moving, "is not empty: lost+found", f"{mount}/pg_temp", to=mount)
    refused(moving, "is inside the data directory", to=moving.data / "temp")
    refused(moving, "there is no directory", "mkdir -p", to=moving.room / "none" / "temp")
    refused(moving, "is not a directory", to=full / "file")
    if os.geteuid() == 0:
        refused(moving, "is not the server's own", "chown", to=foreign)
        closed = moving.room / "closed"
        closed.mkdir(mode=0o700)
        refused(moving, "the server cannot reach", "Permission denied", to=closed / "temp")


@pytest.mark.parametrize("database", ["postgres", "dw"])
def test_a_move_blocked_by_another_names_it(moving, monkeypatch, database):
    monkeypatch.setattr("spillcast.engines.postgres.move.run.LOCK_S", 0.0)
    with moving.connect(database=database) as other:
        other.execute("set statement_timeout = '30s'")
        other.execute("select pg_advisory_lock(hashtext('spillcast move'))")
        before = moving.state()
        message = moving.move("--for", "role:etl", "--apply", status=1).stderr
        assert str(other.info.backend_pid) in message
        assert moving.state() == before


def test_nonexistent_names_are_refused(moving):
    for wrong, words in (
        ("role:nobody", "the server has no such role"),
        ("database:none", "the server has no such database"),
        ("etl", "is not a role, a database, server or session"),
        ("role:", "is not a role, a database, server or session"),
    ):
        refused(moving, words, options=("--for", wrong, "--apply"))
    refused(moving, "cannot be a tablespace's name", options=("--tablespace", "pg_x", "--apply"))
    refused(moving, "not both", options=("--apply", "--revert"))


def test_an_existing_tablespace_of_that_name_elsewhere_is_refused(moving):
    path = moving.room / "other"
    path.mkdir()
    moving.server.give(path)
    moving.rows(f"create tablespace spillcast_temp location '{path}'")
    refused(moving, "there is a tablespace spillcast_temp elsewhere", "--tablespace")


def test_without_superuser_the_missing_privilege_is_named_and_sufficient(moving):
    dsn = moving.dsn.replace("user=postgres", "user=etl")
    result = refused(moving, "role etl lacks SUPERUSER", "GRANT postgres TO etl", dsn=dsn)
    assert "options='-c role=postgres'" in result
    plan = completed("move", "postgres", dsn, "--to", moving.to, "--for", "role:etl")
    assert "Note: --apply would be refused" in plan.stdout
    before = moving.state()
    moving.rows("grant postgres to etl")
    try:
        able = f"{dsn} options='-c role=postgres'"
        for subject in ("--apply", "--revert"):
            completed("move", "postgres", able, "--to", moving.to, "--for", "role:etl", subject)
    finally:
        moving.rows("revoke postgres from etl")
    moving.is_as(before)


@ROOT
def test_an_ordinary_user_cannot_make_the_directory(moving):
    refused(moving, "cannot be created without being root", under=ordinary_user())


def test_a_standby_that_would_stop_is_an_obstacle(moving):
    moving.rows("select pg_create_physical_replication_slot('standby_one')")
    try:
        refused(moving, "stops if the directory is missing: standby_one", "--standbys-prepared")
        moving.move("--for", "role:etl", "--standbys-prepared", "--apply")
        moving.move("--revert")
    finally:
        moving.rows("select pg_drop_replication_slot('standby_one')")


def test_a_changed_note_is_refused(moving):
    moving.move("--for", "role:etl", "--apply")
    moving.rows("comment on tablespace spillcast_temp is 'spillcast move: hello'")
    refused(moving, "cannot be read", options=("--revert",))


def test_a_setting_on_the_servers_command_line_has_precedence():
    with workspace() as room, private_server(room, {"temp_tablespaces": "pg_default"}) as server:
        line = ("move", "postgres", server.dsn, "--to", room / "fast", "--for", "server")
        message = only_line(spillcast(*line, "--apply"), 2)
        assert "command line" in message
        assert not (room / "fast").exists()


@ROOT
def test_a_remote_server_is_refused(moving):
    elsewhere = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*elsewhere, "true"], capture_output=True).returncode:
        pytest.skip("unshare is refused here")
    refused(moving, "among those of this machine", under=elsewhere)
    line = spillcast_command("move", "postgres", moving.dsn, "--to", moving.to, "--for", "role:etl")
    plan = subprocess.run([*elsewhere, *line], capture_output=True, text=True)
    assert plan.returncode == 0
    assert "mkdir -m 1700" in plan.stdout
    assert "Note: --apply would be refused: the server's process" in plan.stdout


def test_a_connection_pooler_is_refused(moving):
    command = target("pooler", moving.port)
    pooler = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = pooler.stdout.readline().strip()
    dsn = f"host=127.0.0.1 port={port} user=postgres sslmode=disable gssencmode=disable"
    result = refused(moving, "connection pooler", "the server's own host and port", dsn=dsn)
    pooler.communicate("")
    assert "/fast" not in result


@pytest.fixture
def with_password(moving):
    """A role that needs a password."""
    rules = moving.data / "pg_hba.conf"
    old = rules.read_text()
    quoted = PASSWORD.replace("'", "''")
    moving.rows(f"create role secretive superuser login password '{quoted}'")
    rules.write_text("local all secretive scram-sha-256\n" + old)
    moving.reload()
    yield moving
    rules.write_text(old)
    moving.reload()
    moving.rows("drop role secretive")


def test_a_password_is_never_shown(with_password):
    moving = with_password
    host = f"{moving.room / 'postgres'} port={moving.port}"
    quoted = PASSWORD.replace("'", "\\'")
    good = f"host={host} user=secretive dbname=postgres password='{quoted}'"
    for options in ((), ("--apply",), ("--apply", "--json"), ("--revert",)):
        done = completed("move", "postgres", good, "--to", moving.to, *options)
        assert "s3cret" not in done.stdout + done.stderr
    # The environment variable works, too.
    bare = f"host={host} user=secretive dbname=postgres"
    environ = environment(PGPASSWORD=PASSWORD)
    assert spillcast("move", "postgres", bare, "--to", moving.to, env=environ).returncode == 0

    wrong = good.replace("s3cret", "wr0ng")
    result = refused(moving, "password authentication failed", "PGPASSWORD", dsn=wrong)
    assert "wr0ng" not in result
    refused(moving, "PGPASSWORD", dsn=bare)


@cases(
    ("dsn", "words"),
    [
        ("host=/nowhere dbname=x", "No such file"),
        ("host=127.0.0.1 port=1 dbname=x", "refused"),
        ("postgresql://u:s3cret word@127.0.0.1:port/x", "the DSN is neither"),
        ("s3cret", "the DSN is neither"),
        ("nosuchoption=s3cret", "the DSN is neither"),
    ],
)
def test_unreachable_servers_are_refused(tmp_path, dsn, words):
    message = only_line(spillcast("move", "postgres", dsn, "--to", tmp_path / "fast"), 2)
    assert words in message
    assert "s3cret" not in message
    assert list(tmp_path.iterdir()) == []


def test_a_nonexistent_database_is_refused(moving):
    refused(moving, 'database "none" does not exist', dsn=f"{moving.dsn} dbname=none")


def test_a_symbolic_link_is_followed(moving):
    real, link = moving.room / "real", moving.room / "link"
    real.mkdir()
    real.chmod(0o711)
    link.symlink_to(real)
    old, moving.to = moving.to, link / "temp"
    try:
        moving.move("--for", "role:etl", "--apply")
        moving.to = real / "temp"
        assert "restored" in moving.move("--revert").stdout
        assert list(real.iterdir()) == []
    finally:
        moving.to = old
        link.unlink()
        shutil.rmtree(real)


def test_a_path_that_no_tablespace_can_have_is_refused(moving):
    for options in ([], ["--apply"]):
        result = refused(moving, "ours'", to=moving.room / "ours'", options=options)
        assert "another name" in result
