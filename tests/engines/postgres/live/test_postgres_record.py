"""Recordings of real PostgreSQL queries match EXPLAIN."""

import json
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cases import nightly
from harness import available, completed, spillcast, succeeded, until, until_attached
from postgres_rig import (
    HELD,
    JOIN,
    MIDWAY,
    PARALLEL,
    SPILLING,
    Client,
    meta_of,
    once_watched,
    recorder,
)
from spillcast.engines import SessionSelector
from spillcast.engines.postgres.live import record_postgres
from spillcast.engines.postgres.live.activity import SETTING_NAMES
from spillcast.recording.capture import SOURCES
from spillcast.report.recording import PROPOSAL

ROOT = Path(__file__).parents[4]

EXPLAIN = "explain (analyze, buffers, format json) "
#: Waits at the gate after its spill.
SPILLED = f"select m from ({JOIN}) j(m) where gate()"
SETTINGS = [f"{name}={value}" for name, value in SPILLING.items()]


def temp_blocks(output):
    """Temp blocks read and written, counted from single waits, each of which is a whole block."""
    waits = pq.read_table(output / "waits.parquet", columns=["op", "temp", "bytes"])
    moved = waits.filter(pc.and_(waits["temp"], pc.greater(waits["bytes"], 0)))
    ops = moved["op"].cast("string").to_pylist()
    return ops.count("read"), ops.count("write")


def check_counts(output, plan, off=0.02):
    read, written = temp_blocks(output)
    assert read == pytest.approx(plan["Temp Read Blocks"], rel=off)
    assert written == pytest.approx(plan["Temp Written Blocks"], rel=off)


def check_counts_of_workers(output, plan):
    """On a busy machine a worker does some I/O before the recorder attaches; this is reported."""
    missed = [worker["missed"] for worker in meta_of(output)["server"]["workers"]]
    read, written = temp_blocks(output)
    for seen, key, reported in (
        (read, "Temp Read Blocks", sum(worker["reads"] for worker in missed)),
        (written, "Temp Written Blocks", sum(worker["writes"] for worker in missed)),
    ):
        # An ordinary user attaches to workers later than root.
        assert (0.5 * plan[key] if os.geteuid() == 0 else 0) < seen <= 1.02 * plan[key]
        assert seen + reported >= 0.98 * plan[key]


def explained(served, output, *settings):
    result = completed(
        "record", "--postgres", served.dsn, "--explain", JOIN, "-o", output,
        *(word for setting in [*SETTINGS, *settings] for word in ("--set", setting)),
    )  # fmt: skip
    plan = json.loads((output / "plan.json").read_text())[0]["Plan"]
    return result, plan, meta_of(output)


def test_an_explained_statement_matches_its_plan(served_nightly, tmp_path):
    available("bpf")
    output = tmp_path / "run.spill"
    result, plan, meta = explained(served_nightly, output, "max_parallel_workers_per_gather=0")
    check_counts(output, plan)
    assert result.stderr in ("", f"spillcast: {PROPOSAL}\n")
    assert meta["capture"]["method"] == "bpf"
    assert meta["capture"]["lost"] == 0
    engine = meta["engine"]
    assert engine["name"] == "postgres"
    assert engine["version"].startswith(served_nightly.server.installation.version)
    assert engine["work_mem"] == "128kB"
    assert engine["temp_tablespaces"] == "slow"
    assert engine["track_io_timing"] == "on"
    assert engine["query"] == JOIN
    summary = engine["plan"]
    assert summary["temp_written_blocks"] == plan["Temp Written Blocks"]
    spilling = sum(node["temp_written_blocks"] for node in summary["spills"])
    assert spilling == plan["Temp Written Blocks"]
    assert {node["node"] for node in summary["spills"]} == {"Hash Join", "Hash"}
    assert meta["elapsed_s"] == pytest.approx(summary["execution_s"], rel=0.2, abs=0.4)
    # The server's times of temp I/O and those of the system calls are of the same operations.
    timed_s = summary["temp_read_s"] + summary["temp_write_s"]
    assert meta["temp"]["total_s"] == pytest.approx(timed_s, rel=0.15)
    (listed,) = meta["server"]["temp_files"]
    assert listed["tablespace"] == "slow"
    # On a busy machine the server may list a file only while it is empty.
    assert listed["peak_files"] > 0
    assert listed["peak_bytes"] <= 8192 * plan["Temp Written Blocks"]
    with served_nightly.connect() as connection:
        count = connection.execute("select count(*) from pg_stat_activity where state <> 'idle'")
        assert count.fetchone() == (1,)
    check_samples(pq.read_table(output / "samples.parquet").to_pylist(), meta)


def check_samples(samples, meta):
    """The samples represent the time of the query."""
    stood_for_s = sum(sample["weight_us"] for sample in samples) / 1e6
    sampling = meta["sampling"]
    whole_s = meta["server"]["query_elapsed_s"]
    assert stood_for_s + sampling["gap_s"] == pytest.approx(whole_s, rel=0.1, abs=0.4)
    events = {str(sample["event"]).lower() for sample in samples}
    # A busy machine can keep the sampler from running.
    assert {"buffileread", "buffilewrite"} <= events or sampling["gap_s"] > 0
    assert sampling["samples"] == len(samples)
    assert sampling["client_cpu_s"] > 0
    assert sampling["server_cpu_s"] > 0
    cut = [sample["time_ns"] for sample in samples]
    assert cut == sorted(cut)


def test_parallel_workers_are_all_recorded(newest, tmp_path):
    output = tmp_path / "run.spill"
    settings = [f"{name}={value}" for name, value in PARALLEL.items()]
    _, plan, meta = explained(newest, output, *settings)
    check_counts_of_workers(output, plan)
    workers = meta["server"]["workers"]
    assert len(workers) == meta["engine"]["plan"]["workers_launched"] == 2
    processes = {meta["server"]["backend"], *(worker["pid"] for worker in workers)}
    waits = pq.read_table(output / "waits.parquet")
    assert set(waits.filter(waits["temp"])["session"].to_pylist()) == processes
    samples = pq.read_table(output / "samples.parquet")
    seen = set(zip(samples["session"].to_pylist(), samples["coordinator"].to_pylist(), strict=True))
    leader = meta["server"]["backend"]
    sessions = {(leader, None)} | {(worker["pid"], leader) for worker in workers}
    # A busy machine can keep the sampler from running, too.
    assert seen == sessions or (seen < sessions and meta["sampling"]["gap_s"] > 0)


def test_an_idle_session_with_late_workers_is_recorded(served_nightly, tmp_path):
    output = tmp_path / "run.spill"
    with served_nightly.client(**PARALLEL) as client:
        requested = ("--postgres", served_nightly.dsn, "--backend", client.pid)
        with recorder(output, *map(str, requested)) as process:
            served_nightly.until_watched(process)
            # Skipped: a query that no user waits for.
            client.connection.execute("select 1")
            client.run(EXPLAIN + JOIN)
            plan = client.plan()
            succeeded(process)
    check_counts_of_workers(output, plan)
    meta = meta_of(output)
    assert len(meta["server"]["workers"]) == 2
    assert meta["server"]["before_recording_s"] == 0
    assert meta["engine"]["query"] == EXPLAIN + JOIN
    assert meta["elapsed_s"] == pytest.approx(plan["Actual Total Time"] / 1e3, rel=0.2, abs=0.4)


@pytest.mark.parametrize("how", [("--wait-for-spill",), *nightly((("--query", "JOIN t Y"),))])
def test_a_session_is_selected_by_its_query(newest, tmp_path, how):
    output = tmp_path / "run.spill"
    with (
        newest.client() as client,
        newest.client() as bystander,
        newest.gate() as gate,
        recorder(output, "--postgres", newest.dsn, *how) as process,
    ):
        bystander.run("select pg_sleep(2)")
        until(lambda: "waiting for" in process.stderr.readline(), "the recorder")
        client.run(EXPLAIN + MIDWAY)
        newest.until_watched(process)
        gate.open()
        plan = client.plan()
        succeeded(process)
    meta = meta_of(output)
    assert meta["server"]["backend"] == client.pid
    before_s, whole_s = meta["server"]["before_recording_s"], plan["Actual Total Time"] / 1e3
    assert 0 < before_s < whole_s
    assert meta["elapsed_s"] == pytest.approx(whole_s - before_s, rel=0.2, abs=0.4)
    assert meta["server"]["query_elapsed_s"] == pytest.approx(whole_s, rel=0.2, abs=0.4)
    read, written = temp_blocks(output)
    assert 0 < read + written <= plan["Temp Read Blocks"] + plan["Temp Written Blocks"]


@contextmanager
def recorded(newest, output, query, *options):
    """A client whose query waits at the gate, its running recorder, and the gate."""
    with newest.client() as client, newest.gate() as gate:
        client.run(query)
        newest.until_held(client)
        requested = ("--postgres", newest.dsn, "--backend", client.pid)
        with recorder(output, *requested, *options) as process:
            newest.until_watched(process)
            yield client, process, gate


def temp_bytes(newest):
    """The bytes of the temp files in the tablespace ``slow``."""
    with newest.connect() as connection:
        return connection.execute(
            "select sum(size) from pg_tablespace t, pg_ls_tmpdir(t.oid) where spcname = 'slow'"
        ).fetchone()


def go_on(newest, gate):
    """Lets a query at the gate spill for a while, and holds it again before it ends."""
    before_bytes = temp_bytes(newest)
    gate.open()
    until(lambda: temp_bytes(newest) != before_bytes, "its spill")
    gate.close()


def test_ctrl_c_keeps_the_recording_and_leaves_the_query(newest, tmp_path):
    output = tmp_path / "run.spill"
    with recorded(newest, output, MIDWAY) as (client, process, gate):
        go_on(newest, gate)
        process.send_signal(signal.SIGINT)
        stdout, _ = succeeded(process)
        assert client.thread.is_alive()
        gate.open()
        assert client.result() == [("x" * 40,)]
    meta = meta_of(output)
    assert meta["server"]["ended_by"] == meta["ended_by"] == "interrupt"
    assert meta["server"]["query_elapsed_s"] > meta["elapsed_s"] > 0
    assert "ran for" in stdout
    assert sum(temp_blocks(output)) > 0


def test_duration_counts_from_the_start_of_the_query(newest, tmp_path):
    output = tmp_path / "run.spill"
    idle_s, duration_s = 3, 6
    with newest.client() as client, newest.gate():
        requested = ("--postgres", newest.dsn, "--backend", client.pid)
        with recorder(output, *requested, "--duration", f"{duration_s}s") as process:
            newest.until_watched(process)
            time.sleep(idle_s)
            client.run(SPILLED)
            succeeded(process)
    meta = meta_of(output)
    assert meta["server"]["ended_by"] == meta["ended_by"] == "duration"
    # The limit if it counted from the attachment; the last sample may be some time before.
    assert meta["elapsed_s"] > duration_s - idle_s


@pytest.mark.parametrize("which", ["idle", "none like it"])
def test_duration_limits_the_wait_for_a_query(newest, tmp_path, which):
    """No query runs: the recorder gives up, reports it, and leaves nothing."""
    output = tmp_path / "run.spill"
    with newest.client() as client:
        idle = ("--backend", client.pid)
        requested = idle if which == "idle" else ("--query", "from a_table_that_nobody_reads")
        result = spillcast(
            "record", "--postgres", newest.dsn, *requested, "--duration", "0.5s", "-o", output
        )
    assert result.returncode == 1
    subject = (
        f"a query of session {client.pid}" if which == "idle" else "a session with a query like"
    )
    assert f"spillcast: waited 500 ms for {subject}" in result.stderr
    assert "none appeared\n  a longer --duration waits longer" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_ends_with_its_query_ends_the_recording(newest, tmp_path):
    output = tmp_path / "run.spill"
    with recorded(newest, output, MIDWAY) as (client, process, gate):
        go_on(newest, gate)
        with newest.connect() as connection:
            connection.execute("select pg_terminate_backend(%s)", [client.pid])
        succeeded(process)
        with pytest.raises(psycopg.errors.AdminShutdown):
            client.result()
    assert meta_of(output)["server"]["ended_by"] == "query"
    assert sum(temp_blocks(output)) > 0


def test_a_killed_recorder_leaves_server_and_query_running(newest, tmp_path):
    output = tmp_path / "run.spill"
    with recorded(newest, output, MIDWAY) as (client, process, gate):
        go_on(newest, gate)
        process.kill()
        gate.open()
        assert client.result() == [("x" * 40,)]
    assert not output.exists()


def test_a_killed_recorder_ends_its_own_statement(newest, tmp_path):
    output = tmp_path / "run.spill"
    endless = f"{JOIN} cross join generate_series(1, 100000)"
    requested = ("--postgres", newest.dsn, "--explain", endless)
    sessions = "select count(*) from pg_stat_activity where application_name like 'spillcast%'"
    with recorder(output, *requested) as process, newest.connect() as connection:
        until_attached(output, process)
        # More than two where the statement has parallel workers.
        until(lambda: connection.execute(sessions).fetchone() >= (2,), "its sessions")
        process.kill()
        until(lambda: connection.execute(sessions).fetchone() == (0,), "their end")


def test_a_recorded_statement_is_rolled_back(newest, tmp_path):
    with newest.connect() as connection:
        connection.execute("create table if not exists kept as select 1 as one")
        record_postgres(
            newest.dsn, tmp_path / "run.spill", explain="delete from kept returning pg_sleep(0.2)"
        )
        assert connection.execute("select one from kept").fetchone() == (1,)


def test_python_keeps_a_query_without_a_spill_with_its_samples(newest, tmp_path):
    with newest.client() as client, newest.gate() as gate:
        client.run("select gate()")
        newest.until_held(client)
        recording = record_postgres(
            newest.tcp,
            tmp_path / "run.spill",
            SessionSelector(backend=client.pid),
            on_status=once_watched(gate.open),
        )
    assert recording.meta.temp.reads == recording.meta.temp.writes == 0
    assert "PgSleep" in recording.samples["event"].to_pylist()


def test_json_output_is_only_the_meta(newest, tmp_path):
    output = tmp_path / "run.spill"
    requested = ("--postgres", newest.dsn, "--explain", JOIN, "--set", "work_mem=64kB")
    result = completed("record", *requested, "-o", output, "--json")
    document = json.loads(result.stdout)
    assert document.pop("path") == str(output)
    assert document == meta_of(output)
    assert result.stderr == ""
    documented = (ROOT / "docs" / "schema.md").read_text()
    for key in ("server", "sampling"):
        assert [name for name in document[key] if f"{key}.{name}" not in documented] == []


def test_settings_are_those_at_the_start_of_the_session(newest, tmp_path):
    given = {
        "role etl set work_mem": "7MB",
        "role etl set hash_mem_multiplier": "3",
        "role etl in database postgres set hash_mem_multiplier": "4",
        "database postgres set max_parallel_workers_per_gather": "5",
        "database postgres set work_mem": "6MB",
        # Settings of the monitoring role do not belong to the session.
        "role watcher set work_mem": "99MB",
        "role watcher set temp_tablespaces": "slow",
    }
    with newest.connect() as connection:
        for role in ("etl", "watcher"):
            connection.execute(f"create role {role} login superuser")
        for where, value in given.items():
            connection.execute(f"alter {where} = '{value}'")
        try:
            with (
                psycopg.connect(f"{newest.dsn} user=etl", autocommit=True) as session,
                newest.gate() as gate,
            ):
                client = Client(session)
                client.run("select gate()")
                newest.until_held(client)
                engine = record_postgres(
                    f"{newest.dsn} user=watcher",
                    tmp_path / "run.spill",
                    SessionSelector(query="select gate"),
                    on_status=once_watched(gate.open),
                ).meta.engine.settings
                client.result()
        finally:
            connection.execute("alter database postgres reset all")
            connection.execute("drop role etl, watcher")
    result = {name: engine[name] for name in SETTING_NAMES}
    assert result == {
        "work_mem": "7MB",
        "hash_mem_multiplier": "4",
        "max_parallel_workers_per_gather": "5",
        "temp_tablespaces": "",
        "track_io_timing": "off",
        "io_method": "worker",
    }


def test_statements_after_the_query_are_not_recorded(newest, tmp_path):
    output = tmp_path / "run.spill"
    with (
        newest.client() as client,
        recorder(output, "--postgres", newest.dsn, "--backend", client.pid) as process,
    ):
        until_attached(output, process)
        client.connection.execute("begin")
        client.run(JOIN)
        # The session remains idle in its transaction: it might fetch more rows of a cursor.
        succeeded(process)
    sampled = pq.read_table(output / "samples.parquet").to_pylist()
    assert sampled
    assert "ClientRead" not in {item["event"] for item in sampled}
    assert meta_of(output)["sampling"]["samples"] == len(sampled)


#: Capture sources other than perf that attach to running processes.
OTHERS = [name for name in SOURCES if SOURCES[name].attaches and name != "perf"]


def blocks_by_session(output):
    """Temp blocks read and written by each process, counted from single waits."""
    waits = pq.read_table(output / "waits.parquet", columns=["session", "op", "file", "bytes"])
    result = {}
    for row in waits.to_pylist():
        if row["bytes"] and "pgsql_tmp" in (row["file"] or ""):
            counts = result.setdefault(row["session"], {"read": 0, "write": 0})
            counts[row["op"]] += 1
    return result


@pytest.mark.parametrize("capture", ["perf", *nightly(*OTHERS)])
def test_sessions_that_already_exist_are_observed(newest, tmp_path, capture):
    available(capture)
    output = tmp_path / "run.spill"
    requested = ("--pid", newest.server.pid, "--capture", capture)
    # Two are idle, one is in the middle of a query, and one connects later.
    clients = newest.client(), newest.client(), newest.client()
    with clients[0] as first, clients[1] as second, clients[2] as busy, newest.gate() as gate:
        busy.run(HELD)
        newest.until_held(busy)
        with recorder(output, *requested) as process:
            until_attached(output, process)
            gate.open()
            with newest.client() as later:
                for client in (first, second, later):
                    client.run(EXPLAIN + JOIN)
                plans = {client.pid: client.plan() for client in (first, second, later)}
            busy.result()
            process.send_signal(signal.SIGINT)
            _, answer = process.communicate()
            assert process.returncode == 0, answer
    seen = blocks_by_session(output)
    assert seen.keys() == plans.keys() | {busy.pid}
    meta = meta_of(output)
    # On a busy machine the recorder may lose calls, which it counts.
    lost = meta["capture"]["lost"]
    for pid, plan in plans.items():
        for op, counted in (("read", "Temp Read Blocks"), ("write", "Temp Written Blocks")):
            assert 0.98 * plan[counted] - lost <= seen[pid][op] <= 1.02 * plan[counted]
    assert meta["ended_by"] == "interrupt"
