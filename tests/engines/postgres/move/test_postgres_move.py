"""Temp files of a real server are moved, observed at the new place, and moved back."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from cases import nightly

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "moving-temp.md"
SCOPES = ("role:etl", "database:dw", "server")
#: The user and the database that spill in a scope.
WHO = {
    "role:etl": ("etl", "postgres"),
    "database:dw": ("etl", "dw"),
    "server": ("etl", "postgres"),
    "session": ("postgres", "postgres"),
}


def test_the_guide_shows_the_printed_move(moving):
    """Only on the version of the guide; the directory has another name here."""
    if moving.server.installation.version.split(".")[0] != "18" or os.geteuid() != 0:
        pytest.skip("the guide's output is that of PostgreSQL 18, by root")
    shown = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for subject, expected in zip(("--apply", "--revert"), shown, strict=True):
        stdout = moving.move("--for", "role:etl", subject).stdout
        stdout = stdout.replace(str(moving.to), "/mnt/nvme/pg_temp")
        assert stdout.replace(f"chown {moving.server.user}:", "chown postgres:") == expected


@pytest.mark.parametrize("scope", SCOPES)
def test_temp_files_move_there_and_back(moving, scope):
    before = moving.state()
    document = json.loads(moving.move("--for", scope, "--apply", "--json").stdout)
    assert all(step["done"] for step in document["steps"])
    assert document["verified"]["files"] > 0
    assert document["verified"]["bytes"] > 100_000

    moving.spills_in(moving.to, *WHO[scope])
    # The server has removed the mark of an unfinished move.
    assert oct(moving.to.stat().st_mode)[-4:] == "0700"

    moving.move("--for", scope, "--revert")
    moving.is_as(before)
    moving.spills_in(moving.data, *WHO[scope])


def test_a_revert_does_not_need_the_directory(moving):
    before = moving.state()
    refused = moving.move("--revert", to=False, status=2)
    assert "moved temp files to no tablespace of this server" in refused.stderr
    moving.move("--for", "role:etl", "--apply")
    moving.move("--revert", to=False)
    moving.is_as(before)


def test_a_session_can_set_the_tablespace_itself(moving):
    before = moving.state()
    document = json.loads(moving.move("--apply", "--json").stdout)
    *done, by_hand = document["steps"]
    assert all(step["done"] for step in done)
    assert not by_hand["done"]
    with moving.connect() as connection:
        connection.execute(by_hand["sql"])
        assert connection.execute("show temp_tablespaces").fetchone() == ("spillcast_temp",)
    moving.move("--revert")
    moving.is_as(before)


@pytest.mark.parametrize("names", [["plain", "Odd, \"name'"], *nightly([], [""])])
@pytest.mark.parametrize("scope", SCOPES)
def test_a_revert_restores_former_settings(moving, scope, names):
    for name in filter(None, names):
        path = moving.room / f"old{len(name)}"
        path.mkdir()
        moving.server.give(path)
        quoted = name.replace('"', '""')
        moving.rows(f"create tablespace \"{quoted}\" location '{path}'")
    if names:
        kind, _, who = scope.partition(":")
        target = f"{kind} {who}" if who else "system"
        values = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
        moving.rows(f"alter {target} set temp_tablespaces = {values}")
        moving.reload()
    before = moving.state()
    moving.move("--for", scope, "--apply")
    assert moving.state() != before
    moving.move("--for", scope, "--revert")
    moving.is_as(before)


def test_repeated_moves_and_reverts_change_nothing(moving):
    before = moving.state()
    moving.move("--for", "role:etl", "--apply")
    moved = moving.state()
    document = json.loads(moving.move("--for", "role:etl", "--apply", "--json").stdout)
    assert (document["steps"], document["verified"]["files"] > 0) == ([], True)
    assert moving.state() == moved
    assert "Nothing to do" in moving.move("--for", "role:etl").stdout
    moving.move("--revert")
    again = moving.move("--revert").stdout
    assert "nothing to restore" in again
    moving.is_as(before)


def test_several_scopes_share_a_tablespace_until_the_last_is_reverted(moving):
    before = moving.state()
    for scope in SCOPES:
        moving.move("--for", scope, "--apply")
    output = moving.move("--for", "role:etl", "--revert").stdout
    assert "the tablespace stays for database:dw, server" in output
    # Privileges granted by the role's move are needed by the others.
    moving.spills_in(moving.to, "etl", "dw")
    assert "nothing to restore" in moving.move("--for", "role:etl", "--revert").stdout
    moving.move("--revert")
    moving.is_as(before)


def test_an_existing_directory_is_kept(moving):
    moving.to.mkdir()
    moving.server.give(moving.to)
    before = moving.state()
    moving.move("--for", "role:etl", "--apply")
    moving.move("--revert")
    moving.is_as(before)
    assert moving.to.is_dir()


def test_an_existing_tablespace_is_kept_with_its_comment(moving):
    moving.to.mkdir()
    moving.server.give(moving.to)
    moving.rows(f"create tablespace theirs location '{moving.to}'")
    moving.rows("comment on tablespace theirs is 'it''s theirs'")
    before = moving.state()
    refused = moving.move("--revert", status=2)
    assert "spillcast moved no temp files to it" in refused.stderr
    document = json.loads(moving.move("--for", "role:etl", "--apply", "--json").stdout)
    assert document["tablespace"] == "theirs"
    moving.move("--revert")
    moving.is_as(before)


def test_a_tablespace_with_a_chosen_name(moving):
    before = moving.state()
    name = 'my "Temp"'
    moving.move("--for", "role:etl", "--tablespace", name, "--apply")
    moving.spills_in(moving.to, "etl")
    moving.move("--revert")
    moving.is_as(before)


def refused_to_drop(moving, *words):
    """Asserts that a revert leaves the tablespace and gives the reason."""
    result = moving.move("--revert", "--json", status=1)
    assert "is in use and stays" in result.stderr
    # A single document, which lists the completed steps.
    assert json.loads(result.stdout)["left"]
    for word in words:
        assert word in result.stderr
    assert ("spillcast_temp",) in moving.rows("select spcname from pg_tablespace")
    # All that could be restored was.
    assert moving.rows("select 1 from pg_db_role_setting where 'etl'::regrole = setrole") == []


def test_a_tablespace_with_temp_files_of_a_running_query_is_kept(moving):
    before = moving.state()
    moving.move("--for", "role:etl", "--apply")
    connection, files = moving.spilling("etl")
    refused_to_drop(moving, "temp files of running queries")
    assert all(path.exists() for path in files)
    connection.close()
    moving.move("--revert")
    moving.is_as(before)


def test_a_tablespace_with_shared_temp_files_is_kept(moving):
    """Parallel workers share a directory of temp files, which pg_ls_tmpdir does not show."""
    moving.move("--for", "role:etl", "--apply")
    connection, files = moving.spilling("etl")
    shared = files[0].parent / "pgsql_tmp4711.0.fileset"
    connection.close()
    shared.mkdir()
    refused_to_drop(moving, "temp files of running queries: 1")
    shared.rmdir()
    moving.move("--revert")
    assert not moving.to.exists()


def test_a_tablespace_with_a_table_is_kept(moving):
    before = moving.state()
    moving.move("--for", "role:etl", "--apply")
    moving.rows("create table kept tablespace spillcast_temp as select 1 as one", database="dw")
    moving.rows("create table here tablespace spillcast_temp as select 1 as one")
    refused_to_drop(moving, "tables or indexes of database dw, postgres, such as here")
    assert moving.rows("select one from kept", database="dw") == [(1,)]
    moving.rows("drop table kept", database="dw")
    moving.rows("drop table here")
    moving.move("--revert")
    moving.is_as(before)


def test_a_tablespace_used_by_other_settings_is_kept(moving):
    moving.move("--for", "role:etl", "--apply")
    moving.rows("alter role postgres set temp_tablespaces = 'spillcast_temp'")
    moving.rows("alter database dw set default_tablespace = 'spillcast_temp'")
    refused_to_drop(
        moving, "temp_tablespaces of role:postgres", "default_tablespace of database:dw"
    )


def test_later_settings_of_a_user_are_kept(moving):
    moving.move("--for", "role:etl", "--apply")
    moving.rows("alter role etl set temp_tablespaces = 'pg_default'")
    output = moving.move("--revert").stdout
    assert "role:etl is set to pg_default now, which is kept" in output
    settings = moving.rows("select setconfig from pg_db_role_setting")
    assert settings == [(["temp_tablespaces=pg_default"],)]


def test_a_setting_with_precedence_is_named(moving):
    moving.rows("alter role etl in database dw set temp_tablespaces = 'pg_default'")
    output = moving.move("--for", "role:etl", "--apply").stdout
    assert "role:etl in database:dw has a setting of its own" in output


def test_open_sessions_are_reported(moving):
    with moving.connect("etl"):
        output = moving.move("--for", "role:etl", "--apply").stdout
    assert "open sessions of role:etl keep their setting: 1" in " ".join(output.split())


def test_a_missing_directory_is_detected_and_restored(moving):
    before = moving.state()
    moving.move("--for", "role:etl", "--apply")
    shutil.rmtree(moving.to)
    result = moving.move("--for", "role:etl", "--apply", status=1)
    assert "temp files of such a session are in pg_default" in result.stderr
    moving.move("--revert")
    moving.is_as(before)


@pytest.mark.parametrize("scope", SCOPES)
def test_the_printed_commands_run_and_revert(moving, psql, scope):
    before = moving.state()
    script = moving.move("--for", scope).stdout
    moving.is_as(before)
    target, _, back = script.partition("# To go back:\n")
    back = re.sub("^# ?", "", back, flags=re.MULTILINE)

    psql(target, "bash")
    printed = moving.state()
    psql(back, "bash")
    moving.is_as(before)
    moving.move("--for", scope, "--apply")
    applied = moving.state()
    assert applied == printed
    # A manual move is reverted as any other.
    moving.move("--revert")
    psql(target, "bash")
    moving.move("--revert")
    moving.is_as(before)


@pytest.mark.parametrize("scope", ["server", "role:etl"])
def test_successive_moves_are_reverted_from_the_last_on(moving, scope):
    before = moving.state()
    then = moving.room / "then"
    moving.move("--for", scope, "--apply")
    later = ("--to", str(then))
    moving.move(*later, "--tablespace", "later", "--for", scope, "--apply", to=False)
    moved = moving.state()
    message = moving.move("--revert", status=2).stderr
    assert f"--to {then} --revert" in message
    moving.is_as(moved)
    moving.move(*later, "--revert", to=False)
    moving.move("--revert")
    moving.is_as(before)
