"""A part of a server's query: its plan, which is not executed, gives the remaining work."""

import json

import pytest

from cases import cases
from postgres_rig import MIDWAY, PARALLEL, interrupted_after
from spillcast.cli import run
from spillcast.engines import SessionSelector
from spillcast.engines.postgres.live import record_postgres
from spillcast.engines.postgres.live.explain import estimate
from spillcast.forecast import forecast
from spillcast.recording import Recording, minute
from spillcast.storage.target import resolve

#: Spills in one process, and waits at the gate before it continues.
SPILLS = MIDWAY + " " + " ".join(f"join t t{n} using (id)" for n in range(7))
#: Spills for longer than three bursts take to attach; a server shows 1,023 bytes of a statement.
ONCE = "select max(t.f) from t " + " ".join(f"join t t{n} using (id)" for n in range(10))
LONG = f"select max(m) from ({' union all '.join([ONCE] * 2)}) s(m)"
ALONE = {**PARALLEL, "max_parallel_workers_per_gather": 0}


@pytest.fixture
def part(newest, tmp_path):
    """The first operations of a query that continues."""
    with newest.client(**ALONE) as client, newest.gate() as gate:
        client.run(SPILLS)
        newest.until_held(client)
        record_postgres(
            newest.dsn,
            tmp_path / "part.spill",
            SessionSelector(backend=client.pid),
            on_status=interrupted_after(500, gate.open),
        )
    return Recording.open(tmp_path / "part.spill")


def test_the_plan_is_kept_and_gives_the_whole(part):
    document = json.loads((part.path / "estimate.json").read_text())
    assert "max(" not in json.dumps(document)
    answer = forecast(part, resolve("latency:100us", part))
    assert answer.part is None
    assert answer.to_come.writes_bytes.source == "the plan, which was not run"
    assert answer.baseline_s > part.meta.server.before_recording_s + part.elapsed_s


def test_bursts_keep_samples_and_plan(newest, tmp_path, monkeypatch):
    monkeypatch.setattr(minute, "BURSTS", 3)
    output = tmp_path / "part.spill"
    with newest.client(**ALONE) as client:
        client.run(LONG)
        newest.until_running(client)
        session = ("--postgres", newest.dsn, "--backend", str(client.pid))
        words = ("record", "--minute", "--duration", "0.6s", *session, "-o", str(output))
        with pytest.raises(SystemExit) as ended:
            run([*words])
    assert ended.value.code == 0
    recording = Recording.open(output)
    assert recording.meta.ended_by == "duration"
    assert recording.meta.temp.operations > 0
    assert recording.samples.num_rows > 1
    assert len(recording.meta.raw.slices_s) == 3
    assert "Plan" in (output / "estimate.json").read_text()
    # The folders of the bursts are gone.
    assert [item.name for item in tmp_path.iterdir()] == ["part.spill"]


@cases(
    "statement",
    ["delete from t", "select 1; drop table t", "select max(f) from nothing_of_that_name"],
)
def test_statements_that_cannot_be_explained_are_skipped(newest, statement):
    assert estimate(newest.dsn, None, statement, {}) == {}
    assert estimate(newest.dsn, None, "select max(f) from t", {})


def test_a_truncated_statement_is_not_planned(newest):
    """A server shows 1,023 bytes of a statement, and the beginning may be a different statement."""
    shown = "select max(f) from t where f <> 'x' and id > 1".ljust(1022) + "2"
    assert len(shown) == 1023
    assert estimate(newest.dsn, None, shown, {}) == {}
    assert estimate(newest.dsn, None, shown[:1000], {})


def test_statements_that_write_are_not_executed(newest):
    """Nor is a function that the planner would evaluate."""
    with newest.connect() as connection:
        connection.execute("create table if not exists seen (n int)")
        connection.execute(
            "create or replace function note() returns int immutable language plpgsql as "
            "$$ begin insert into seen values (1); return 1; end $$"
        )
        assert estimate(newest.dsn, None, "select note()", {}) == {}
        assert connection.execute("select count(*) from seen").fetchone() == (0,)
        connection.execute("drop function note()")
        connection.execute("drop table seen")
