"""`record --pid` of a server's first process observes sessions that are there and those to come."""

import signal

import pyarrow.parquet as pq
import pytest

from cases import nightly
from harness import available
from postgres_rig import HELD, JOIN, meta_of, recorder, until_attached
from spillcast.recording.capture import SOURCES

#: Sources other than perf that join running processes.
OTHERS = [name for name in SOURCES if SOURCES[name].attaches and name != "perf"]
EXPLAIN = "explain (analyze, buffers, format json) "


def blocks_by_session(output):
    """Temp blocks read and written by each process, counted from the single waits."""
    waits = pq.read_table(output / "waits.parquet", columns=["session", "op", "file", "bytes"])
    result = {}
    for row in waits.to_pylist():
        if row["bytes"] and "pgsql_tmp" in (row["file"] or ""):
            counts = result.setdefault(row["session"], {"read": 0, "write": 0})
            counts[row["op"]] += 1
    return result


@pytest.mark.parametrize("capture", ["perf", *nightly(*OTHERS)])
def test_sessions_that_are_there_already_are_observed(newest, tmp_path, capture):
    available(capture)
    output = tmp_path / "run.spill"
    requested = ("--pid", newest.server.pid, "--capture", capture)
    # Two idle, one in the middle of a query, and one that connects later.
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
    for pid, plan in plans.items():
        assert seen[pid]["read"] == pytest.approx(plan["Temp Read Blocks"], rel=0.02)
        assert seen[pid]["write"] == pytest.approx(plan["Temp Written Blocks"], rel=0.02)
    meta = meta_of(output)
    assert meta["capture"]["lost"] == 0
    assert meta["ended_by"] == "interrupt"
