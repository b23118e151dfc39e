"""A PostgreSQL query in the live view: JSON lines while it runs, and no leftovers."""

import json
from contextlib import closing

from harness import succeeded
from postgres_rig import HELD, MIDWAY, PARALLEL, recorder
from screen import Terminal, screen
from spillcast.engines.postgres import SAMPLER, open_session
from spillcast.engines.postgres.rank.snapshot import take_snapshot

#: Spills for half a minute, in a single process.
SPILLS = "select max(t.f) from t " + " ".join(f"join t t{n} using (id)" for n in range(12))
ALONE = {**PARALLEL, "max_parallel_workers_per_gather": 0}


def test_a_query_is_watched_to_its_end(newest, tmp_path):
    with newest.client() as client, newest.gate() as gate:
        client.run(HELD)
        newest.until_held(client)
        requested = ("--postgres", newest.dsn, "--backend", client.pid, "--to", "factor:10")
        with recorder(None, "--live", "--json", *requested, cwd=tmp_path) as process:
            newest.until_watched(process)
            gate.open()
            stdout, _ = succeeded(process)
        assert client.result()
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert [line["ended"] for line in lines] == [False] * (len(lines) - 1) + [True]
    last = lines[-1]
    assert {row["event"] for row in last["rows"]} >= {"pread64", "pwrite64"}
    assert {of["op"] for of in last["temp"]} == {"read", "write"}
    assert last["lost"] == 0
    # At its end the whole query is known, or the part from the attachment on.
    assert last["forecast"]["to_come"] is None
    assert list(tmp_path.iterdir()) == []


def test_the_plan_gives_the_remaining_work(newest):
    with newest.client(**ALONE) as client:
        client.run(SPILLS)
        newest.until_running(client)
        requested = ("--backend", client.pid, "--to", "latency:50us")
        with Terminal(
            "record", "--live", "--discard", "--postgres", newest.dsn, *requested
        ) as terminal:
            terminal.until("left running it takes about")
            terminal.press("q")
            assert terminal.end() == 0
            lines = [line for line in screen(terminal.text) if line]
        client.connection.cancel()
        client.thread.join()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "remaining from about to known from" in text
    assert "the plan, which was not run" in text
    assert "known from the remaining bytes, at the time each took" in text


def test_a_session_of_which_only_workers_spill_is_live(newest):
    settings = {"enable_parallel_hash": "off", "parallel_leader_participation": "off"}
    with newest.gate(), newest.client(**PARALLEL, **settings) as client:
        client.run(MIDWAY)
        newest.until_held(client, processes=2)
        with closing(open_session(newest.dsn, SAMPLER)) as connection:
            live = {session.pid: session for session in take_snapshot(connection).live}
    assert live[client.pid].temp_bytes > 0
