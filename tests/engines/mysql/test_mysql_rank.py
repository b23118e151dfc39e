"""The ranking of a server's statements against the server's own counters; refusals."""

import json
import os
import pty
import re
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engines.mysql.conftest import GROUP_BY, SORT
from harness import spillcast
from spillcast.engines.mysql import connected, server_of
from spillcast.engines.mysql.lab import MariaDbLab
from spillcast.engines.mysql.rank import rank_mysql
from spillcast.engines.mysql.record import listed
from spillcast.engines.ranking import Ranked, RankRequest, with_gains
from spillcast.errors import InputError
from spillcast.evidence.counts import Bounds, Counts, OpCounts

COUNTERS = ("created_tmp_disk_tables", "sort_merge_passes")


def counters(cursor):
    cursor.execute(f"show session status where variable_name in {COUNTERS}")
    return {name.lower(): int(value) for name, value in cursor.fetchall()}


def test_counts_match_the_counters_of_the_session(rig):
    began_s = time.monotonic()
    with rig.session() as cursor:
        cursor.execute("truncate performance_schema.events_statements_summary_by_digest")
        expected = {}
        for statement, times in ((SORT, 2), (GROUP_BY, 3)):
            before = counters(cursor)
            for _ in range(times):
                cursor.execute(statement)
            after = counters(cursor)
            expected[times] = tuple(after[name] - before[name] for name in COUNTERS)
    ranking = rank_mysql(rig.dsn, RankRequest(["factor:10"]))
    ranked = {
        statement.calls: (statement.disk_tables, statement.merge_passes)
        for statement in ranking.statements
    }
    assert ranked == expected
    # Not since the server was started; MariaDB keeps whole seconds of when it first saw a digest.
    assert 0 < ranking.window_s <= time.monotonic() - began_s + 1
    assert expected[2][1] > 0
    assert expected[3][0] > 0
    for statement in ranking.statements:
        gain = statement.gains["factor:10"]
        # Faster storage makes nothing slower.
        assert 0 <= gain.interval_s[0] <= gain.interval_s[1] <= statement.elapsed_s
    pattern = shlex.split(ranking.record)[shlex.split(ranking.record).index("--query") + 1]
    assert any(re.search(pattern, text, re.IGNORECASE) for text in (SORT, GROUP_BY))
    result = spillcast("mysql", rig.dsn, "--json")
    assert json.loads(result.stdout)["statements"]


def test_bytes_written_to_temporary_tables_match_the_counts_of_the_kernel(rig):
    if rig.lab.engine == "mysql":
        pytest.skip("pages of its temporary tables are InnoDB's")
    with rig.session() as cursor:
        cursor.execute("select @@pid_file")
        process = Path(cursor.fetchone()[0]).read_text().strip()
        looks = []
        for statement in ("do 0", GROUP_BY):
            cursor.execute(statement)
            text = Path(f"/proc/{process}/io").read_text()
            looks.append(
                (rank_mysql(rig.dsn, RankRequest([])).database_temp_bytes,
                 int(re.search(r"wchar: (\d+)", text)[1]))
            )  # fmt: skip
    counted, written = (after - before for before, after in zip(*looks, strict=True))
    assert counted == pytest.approx(written, rel=0.1)


def test_merges_of_an_index_build_count_as_temp_files(rig):
    """More than the build's buffer of 1 MiB; the server also counts the file by its name."""
    name = "performance_schema.file_summary_by_instance where file_name like '%Merge Temp File'"
    with rig.session() as cursor:
        looks = []
        for statement in ("do 0", "create index sorted on built (pad)"):
            cursor.execute("drop table if exists built")
            cursor.execute(
                "create table built engine=InnoDB select id, repeat(sha2(id, 256), 3) pad from t"
            )
            cursor.execute(statement)
            cursor.execute(f"select coalesce(sum(sum_number_of_bytes_write), 0) from {name}")
            [[merged]] = cursor.fetchall()
            looks.append((rank_mysql(rig.dsn, RankRequest([])).database_temp_bytes, int(merged)))
        cursor.execute("drop table built")
    counted, merged = (after - before for before, after in zip(*looks, strict=True))
    assert merged > 10_000_000
    assert counted == pytest.approx(merged, rel=0.1)


def test_storage_matters_if_memory_holds_temp_files_at_only_one_bound():
    """Bounds of 0 s and 31 s of temp I/O; writes take 26 us, too long for writes to memory."""
    reads, writes = OpCounts.timed(900_000, 10**9, 4.4), OpCounts.timed(7_000, 34 * 10**6, 0.18)
    counts = Counts(
        path=Path("digest"), elapsed_s=31.0, reads=reads, writes=writes, source="figures",
        counts_follow_time=True, time_bounds=Bounds(0.0, 31.0, "not timed"),
    )  # fmt: skip
    ranked = Ranked("digest", "select 1", 3, 93.0, None)
    request = RankRequest(["catalogue:aws-gp3"], None, 0.9)
    [gain] = with_gains(ranked, counts.at_bounds(), 3, request).gains.values()
    assert gain.interval_s[0] < -3 * 900_000 * 500e-6
    assert gain.without_cache_s is None


def test_missing_privileges_are_reported_without_the_password(rig, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    with rig.session() as cursor:
        cursor.execute("drop user if exists poor@localhost")
        cursor.execute("create user poor@localhost identified by 'secret-word'")
    dsn = f"mysql://poor:secret-word@localhost/?socket={rig.dsn}"
    with pytest.raises(InputError) as refused:
        rank_mysql(dsn, RankRequest(["factor:10"]))
    assert re.search("grant", refused.value.hint or "", re.IGNORECASE)
    with pytest.raises(InputError) as refused:
        rank_mysql(dsn.replace("secret-word", "other-secret"), RankRequest(["factor:10"]))
    assert "other-secret" not in str(refused.value)


def test_statements_are_ranked_without_file_times(rig):
    with rig.session() as cursor:
        cursor.execute(SORT)
        cursor.execute("drop user if exists counter@localhost")
        cursor.execute("create user counter@localhost")
        cursor.execute(
            "grant select on performance_schema.events_statements_summary_by_digest "
            "to counter@localhost"
        )
    ranking = rank_mysql(f"mysql://counter@localhost/?socket={rig.dsn}", RankRequest(["factor:10"]))
    assert ranking.statements
    assert not ranking.databases
    assert all(not statement.gains and statement.refused for statement in ranking.statements)
    assert "rights" in {note.code for note in ranking.unseen}


def test_the_printed_check_of_a_move_reaches_the_server(rig, tmp_path):
    with rig.session() as cursor:
        cursor.execute("select @@tmpdir")
        ((temp,),) = cursor.fetchall()
    (file := tmp_path / "its own.cnf").write_text(f"[client]\nsocket = {rig.dsn}\nuser = root\n")
    for dsn in (rig.dsn, f"mysql://root@localhost/?socket={rig.dsn}", str(file)):
        printed = spillcast("move", "mysql", dsn, "--to", tmp_path / "moved").stdout
        [client] = re.findall(
            r"^(?:mariadb|mysql) .*<<'SQL'\n(?s:.*?)\nSQL$", printed, re.MULTILINE
        )
        done = subprocess.run(["bash", "-c", client], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert temp in done.stdout.split(), dsn
    with rig.session() as cursor:
        cursor.execute("create user guarded@localhost identified by 'a-word'")
    dsn = f"mysql://guarded:a-word@localhost/?socket={rig.dsn}"
    printed = spillcast("move", "mysql", dsn, "--to", tmp_path / "moved").stdout
    assert "a-word" not in printed
    [client] = re.findall(r"^(?:mariadb|mysql) .*<<'SQL'\n(?s:.*?)\nSQL$", printed, re.MULTILINE)
    pid, terminal = pty.fork()
    if not pid:
        os.execvp("bash", ["bash", "-c", client])
    shown = b""
    with suppress(OSError):
        while part := os.read(terminal, 4096):
            # Input typed before the prompt is discarded.
            if b"assword" in part:
                os.write(terminal, b"a-word\n")
            shown += part
    assert os.waitpid(pid, 0)[1] == 0, shown
    assert temp in shown.decode().split()


def test_a_server_accepts_the_settings_of_a_move_and_counts_nothing_by_default(rig, tmp_path):
    (to := tmp_path / "moved").mkdir()
    result = spillcast("move", "mysql", rig.dsn, "--to", to, "--user", "root", "--json")
    document = json.loads(result.stdout)
    script = next(
        step["command"] for step in document["steps"] if "cat >" in step.get("command", "")
    )
    settings = dict(re.findall(r"^(\w+) = (.*)$", script, re.MULTILINE))
    (room := tmp_path / "lab").mkdir()
    lab = type(rig.lab)(room)
    spaces = settings["innodb_temp_data_file_path"]
    assert (rig.lab.data / spaces.partition(":")[0]).resolve() == to / "ibtmp1"
    settings["innodb_temp_data_file_path"] = spaces.replace(
        os.path.relpath(to, rig.lab.data), os.path.relpath(to, lab.data)
    )
    with lab.serve(to, None, *(f"--{name}={value}" for name, value in settings.items())):
        moved = rig.__class__(lab, str(lab.socket), to)
        with moved.session(None) as cursor:
            cursor.execute("select @@tmpdir, @@innodb_tmpdir")
            assert cursor.fetchone() == (str(to), str(to))
        assert (to / "ibtmp1").exists()
        as_root = f"mysql://root@localhost/?socket={moved.dsn}"
        with pytest.raises(InputError):
            rank_mysql(as_root, RankRequest(["factor:10"]))
        with moved.session(None), connected(as_root) as connection:
            server = server_of(connection)
            if server.flavor == "mysql":
                with pytest.raises(InputError):
                    listed(connection, server)
                return
            [session] = listed(connection, server)
            assert Path(f"/proc/{session.thread}/status").exists()


def test_statements_that_exceed_the_digest_table_are_named(tmp_path):
    try:
        lab = MariaDbLab(tmp_path)
    except InputError as error:
        pytest.skip(f"no MariaDB: {error}")
    dsn = f"mysql://root@localhost/?socket={lab.socket}"
    options = ("--performance-schema=ON", "--performance-schema-digests-size=2")
    with lab.serve(tmp_path, None, *options):
        with connected(dsn) as connection, connection.cursor() as cursor:
            for text in ("select 1", "select 1 + 1", "select 1 + 1 + 1"):
                cursor.execute(text)
        ranking = rank_mysql(dsn, RankRequest([]))
    assert "digests" in {note.code for note in ranking.unseen}
    assert ranking.statements_seen < 3
