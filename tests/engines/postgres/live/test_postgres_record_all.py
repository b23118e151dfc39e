"""Recordings of all queries of a real server at once: each matches EXPLAIN of its query."""

import json
import os
import signal
import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest
from test_postgres_record import EXPLAIN, go_on, temp_blocks

from cases import cases
from harness import completed, only_line, refuse_perf, spillcast, succeeded, until
from postgres_rig import (
    JOIN,
    MIDWAY,
    PARALLEL,
    Client,
    everything_in,
    meta_of,
    private_server,
    recorder,
    until_kept,
)
from spillcast.engines.postgres.live.record_all import record_all_of_postgres
from spillcast.recording import Recording
from spillcast.recording import server as recordings_of_server
from spillcast.recording.capture import RecordOptions
from spillcast.recording.schema import totals
from spillcast.workspace import NoMemoryGroup, memory_group, workspace

SORT = "select count(*) from (select f, id from t where id % 2 = 0 order by id, f offset 0) s"
IN_MEMORY = "select count(*) from t"


@contextmanager
def all_recorded(server, output, *arguments):
    """``record --all`` in the background, after it has begun to observe the server."""
    with recorder(output, "--postgres", server.dsn, "--all", *arguments) as process:
        message = process.stderr.readline()
        assert "are observed" in message, message + process.stderr.read()
        yield process


def ended(process):
    """The output of the recorder, ended as a user ends it."""
    process.send_signal(signal.SIGINT)
    stdout, _ = succeeded(process)
    return stdout


def recordings(output):
    """The metas by process id and number."""
    metas = {path.stem: meta_of(path) for path in output.iterdir()}
    assert all(name.partition("-")[0] == str(m["engine"]["pid"]) for name, m in metas.items())
    return metas


def check_is_of(path, plan, unassigned=0):
    """Blocks and time match the plan, except for those of unknown workers.

    PostgreSQL may write a block of the query after its plan has been counted.
    """
    counts = plan["Temp Read Blocks"], plan["Temp Written Blocks"]
    assert -2 <= sum(counts) - sum(temp_blocks(path)) <= unassigned
    recording = Recording.open(path)
    whole_s = plan["Actual Total Time"] / 1e3
    assert recording.elapsed_s == pytest.approx(whole_s, rel=0.2, abs=0.4)
    # Seconds, waits and the sums in meta.json are three records of the same calls.
    temp, other = totals(recording.waits)
    assert recording.meta.temp == temp
    assert recording.meta.other_io == other
    rows = [row for row in recording.seconds.to_pylist() if row["temp"] and row["op"]]
    assert sum(row["count"] for row in rows) == temp.operations
    assert sum(row["bytes"] for row in rows) == temp.bytes <= 8192 * sum(counts)
    ends_s = [(wait["start_ns"] + wait["elapsed_ns"]) / 1e9 for wait in recording.waits.to_pylist()]
    assert max(ends_s) <= recording.elapsed_s + 0.1


def test_sessions_that_spill_at_once(served_nightly, tmp_path):
    output = tmp_path / "server.spills"
    with (
        served_nightly.client() as joins,
        served_nightly.client() as sorts,
        served_nightly.client(**PARALLEL) as parallel,
        served_nightly.client() as counts,
        all_recorded(served_nightly, output, "--json") as process,
    ):
        # A session that connects later, in addition to those that already exist.
        with served_nightly.client() as late:
            joins.run(EXPLAIN + JOIN)
            sorts.run(EXPLAIN + SORT)
            parallel.run(EXPLAIN + JOIN)
            counts.run(IN_MEMORY)
            late.run(EXPLAIN + JOIN)
            spilling = (joins, sorts, parallel, late)
            plans = {client.pid: client.plan() for client in spilling}
        # The last session has disconnected, and its recording exists nevertheless.
        until_kept(output, len(spilling))
        document = json.loads(ended(process))
    metas = recordings(output)
    assert metas.keys() == {f"{client.pid}-1" for client in spilling}
    for client in spilling:
        path = output / f"{client.pid}-1.spill"
        # A worker of a few ms may end before its session is known.
        check_is_of(path, plans[client.pid], document["unassigned"] if client is parallel else 0)
        meta = metas[path.stem]
        assert meta["capture"]["lost"] == 0
        assert meta["ended_by"] == "end"
        assert meta["engine"]["query"].startswith(EXPLAIN)
        assert meta["cpu_s"] > 0
        assert meta["memory"]["peak_rss_bytes"] > 0
        # The target resembles the recorded storage: on others a busy machine may be too uncertain.
        completed("forecast", path, "--to", "latency:500us", "--json")
    workers = metas[f"{parallel.pid}-1"]["server"]["workers"]
    assert 1 <= len(workers) <= 2
    waits = Recording.open(output / f"{parallel.pid}-1.spill").temp_waits
    assert set(waits["session"].to_pylist()) == {parallel.pid, *(item["pid"] for item in workers)}
    check_document(document, metas, output)


def check_document(answer, metas, output):
    """The list describes the content of each recording."""
    assert answer["schema"] == "spillcast.server-recording/1"
    assert answer["ended_by"] == "interrupt"
    assert answer["unkept"] == []
    written = sum(meta["temp"]["writes"] for meta in metas.values())
    assert answer["unassigned"] < written
    listed = {str(item["path"]): item for item in answer["recordings"]}
    assert listed.keys() == {str(output / f"{name}.spill") for name in metas}
    for path, item in listed.items():
        meta = metas[path.rpartition("/")[2].removesuffix(".spill")]
        assert (item["reads"], item["writes"]) == (meta["temp"]["reads"], meta["temp"]["writes"])
        assert item["read_bytes"] + item["written_bytes"] == meta["temp"]["bytes"]
        assert item["workers"] == len(meta["server"]["workers"])
        assert (item["user"], item["database"]) == ("postgres", "postgres")
        assert item["application"] == "client"
        assert 0 < item["temp_share"] < 1


def test_successive_queries_of_one_session(newest, tmp_path):
    """By two successive recorders: the second adds recordings. None contains a secret."""
    output = tmp_path / "server.spills"
    secret = SORT.replace("f, id", "f, f || 'password=Sesame-4711', id", 1)
    statements = (JOIN, secret, secret)
    plans = []
    with newest.client() as client:
        for first, ended_by, form in ((0, 2, []), (2, 3, ["--json"])):
            with all_recorded(newest, output, *form) as process:
                for statement in statements[first:ended_by]:
                    client.run(EXPLAIN + statement)
                    plans.append(client.plan())
                    client.connection.execute(IN_MEMORY)
                until_kept(output, ended_by)
                stdout = ended(process)
                assert form or f"{output}: 2 recordings of queries that spilled" in stdout
                assert f"{client.pid}-{ended_by}.spill" in stdout
                assert "Sesame-4711" not in stdout
    assert recordings(output).keys() == {f"{client.pid}-{number}" for number in (1, 2, 3)}
    for number, plan in enumerate(plans, 1):
        check_is_of(output / f"{client.pid}-{number}.spill", plan)
    assert b"Sesame-4711" not in everything_in(output)


def test_a_query_that_still_runs_at_the_end_is_kept_so_far(newest, tmp_path):
    output = tmp_path / "server.spills"
    with newest.client() as client, newest.gate() as gate:
        client.run(MIDWAY)
        newest.until_held(client)
        with all_recorded(newest, output, "--duration", "4s") as process:
            # Once it is observed, it continues, and is held again until the recorder has ended.
            go_on(newest, gate)
            succeeded(process)
        assert client.thread.is_alive()
        gate.open()
        assert client.result() == [("x" * 40,)]
    meta = recordings(output)[f"{client.pid}-1"]
    assert meta["ended_by"] == meta["server"]["ended_by"] == "duration"
    assert meta["server"]["before_recording_s"] > 0
    assert meta["temp"]["reads"] + meta["temp"]["writes"] > 0


def test_nothing_is_left_where_no_query_spilled(newest, tmp_path):
    output = tmp_path / "server.spills"
    with newest.client() as client, all_recorded(newest, output) as process:
        client.connection.execute(IN_MEMORY)
        assert "no query did temp I/O" in ended(process)
    assert not output.exists()


def test_a_server_that_stops_ends_the_recording(tmp_path):
    output, is_limited = tmp_path / "server.spills", False
    with ExitStack() as groups, workspace() as room, private_server(room) as server:
        with suppress(NoMemoryGroup):
            group = groups.enter_context(memory_group(2 << 30))
            (group / "cgroup.procs").write_text(str(server.pid))
            is_limited = True
        with server.connect() as connection:
            connection.execute("create table t as select hashint8(i) as id, repeat('x', 40) as f "
                               "from generate_series(1, 150000) i")  # fmt: skip
        with (
            server.connect() as first,
            server.connect() as second,
            all_recorded(server, output, "--json") as process,
        ):
            done, cut = Client(first), Client(second)
            for client in (done, cut):
                client.connection.execute("set work_mem = '128kB'")
            done.run(JOIN)
            done.result()
            cut.run(f"select m from ({JOIN}) j(m) where pg_sleep(600) is not null")
            until(lambda: sleeps(server, cut), "its spill")
            # As after a crash.
            os.kill(server.pid, signal.SIGQUIT)
            stdout, _ = succeeded(process)
            with pytest.raises(psycopg.Error):
                cut.result()
    metas, answer = recordings(output), json.loads(stdout)
    assert answer["ended_by"] == "end"
    assert metas[f"{done.pid}-1"]["ended_by"] == "end"
    assert metas[f"{cut.pid}-1"]["ended_by"] == "failure"
    if is_limited:
        # The server's sessions share the group, whichever of them fills it.
        for memory in (meta["memory"] for meta in metas.values()):
            assert 0 < memory["group_held_bytes"] < memory["limit_bytes"] == 2 << 30
    assert {str(path) for path in output.iterdir()} == {
        item["path"] for item in answer["recordings"]
    }


def sleeps(server, client):
    """Whether a client's query has reached its pg_sleep, after its spill."""
    query = "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s"
    with server.connect() as connection:
        return connection.execute(query, [client.pid]).fetchone() == (True,)


def test_a_query_whose_waits_were_thinned_out_is_reported(newest, tmp_path, monkeypatch):
    monkeypatch.setattr(recordings_of_server, "ROWS_MAX", 500)
    output = tmp_path / "server.spills"
    matches, observed, done = [], threading.Event(), threading.Event()

    def until_done(_recorder, status):
        if done.is_set() and not status["active"]:
            raise KeyboardInterrupt

    def watch():
        matches.append(record_all_of_postgres(
            newest.dsn, output, options=RecordOptions(duration_s=60.0),
            notify=lambda _: observed.set(), on_status=until_done,
        ))  # fmt: skip

    thread = threading.Thread(target=watch)
    with newest.client() as client:
        thread.start()
        assert observed.wait(60)
        client.run(SORT)
        client.result()
        done.set()
        thread.join()
    (recording,) = matches
    assert recording.recordings == []
    (unkept,) = recording.unkept
    assert (unkept.pid, unkept.query) == (client.pid, SORT)
    assert "--backend" in unkept.because
    assert recording.unassigned > 0


SINGLE_SESSION = [
    ("--backend", "1"),
    ("--query", "sales"),
    ("--wait-for-spill",),
    ("--explain", "select 1"),
    ("--set", "work_mem=1MB"),
    ("--live",),
]


@cases("option", SINGLE_SESSION)
def test_options_of_one_session_are_refused(tmp_path, option):
    dsn = f"host={tmp_path}"
    result = spillcast("record", "--postgres", dsn, "--all", *option, cwd=tmp_path)
    assert f"{option[0]} does not go with --all" in only_line(result, 2)


def test_a_server_is_required(tmp_path):
    result = spillcast("record", "--all", "--", "true", cwd=tmp_path)
    assert "needs --postgres" in only_line(result, 2)


def test_a_folder_of_other_content_is_refused(newest, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = spillcast("record", "--postgres", newest.dsn, "--all", "-o", tmp_path)
    assert "notes.txt" in only_line(result, 2)


def test_a_role_without_access_to_other_sessions_is_refused(newest, tmp_path):
    with newest.connect() as connection:
        connection.execute("drop role if exists blind")
        connection.execute("create role blind login")
    result = spillcast("record", "--postgres", f"{newest.dsn} user=blind", "--all", cwd=tmp_path)
    assert "grant pg_monitor to blind" in only_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_server_whose_processes_cannot_be_observed_is_refused(newest, tmp_path):
    requested = ("record", "--postgres", newest.dsn, "--all", "--capture", "perf")
    result = spillcast(*requested, cwd=tmp_path, under=refuse_perf())
    assert "cannot observe the server's processes" in only_line(result, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_remote_server_is_refused(newest, tmp_path):
    apart = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("process ids of one's own (unshare --pid) want root")
    requested = ("record", "--postgres", newest.tcp, "--all")
    result = spillcast(*requested, cwd=tmp_path, under=apart)
    message = only_line(result, 2)
    assert "are not among those of this machine" in message
    assert "--backend" in message
    assert list(tmp_path.iterdir()) == []
