"""A part of a query of which the server counted earlier calls: the counts give the whole."""

import json

import psycopg
import pytest

from postgres_rig import PARALLEL, rig
from spillcast.engines import SessionSelector
from spillcast.engines.postgres.live import record_postgres
from spillcast.engines.postgres.live.explain import MAYBE_CANCELLED, previous_calls
from spillcast.engines.postgres.server import embedded
from spillcast.forecast import forecast
from spillcast.forecast.remaining import RemainingWorkHints, hints_of
from spillcast.forecast.remaining.progress import CALLS_SOURCE
from spillcast.recording import Recording
from spillcast.storage.target import resolve

ALONE = {**PARALLEL, "max_parallel_workers_per_gather": 0, "track_io_timing": "on"}
COUNTED = "select queryid, calls, temp_blks_written from pg_stat_statements where query like %s"
PATTERN = "select max(t.f), (select pg_sleep(%"


#: Seconds that a query sleeps after its spill, so that it cannot end before it is cancelled.
LONG_S = 600


def spills(constant, sleep_s=LONG_S, values="max(t.f)"):
    """Spills, then sleeps; other constants give another call of the same statement."""
    joins = " ".join(f"join t t{n} using (id)" for n in range(4))
    return f"select {values}, (select pg_sleep({sleep_s})) from t {joins} where t.id <> {constant}"


@pytest.fixture(scope="module")
def counting():
    """A server that counts statements, and has counted two calls of one of them."""
    with rig(embedded(), shared_preload_libraries="pg_stat_statements") as made:
        with made.connect() as connection:
            connection.execute("create extension pg_stat_statements")
            connection.execute("create database other")
        with made.client(**ALONE) as first, made.client(**ALONE) as second:
            first.run(spills(4711, sleep_s=0))
            second.run(spills(815, sleep_s=0))
            first.result()
            second.result()
        yield made


@pytest.fixture(scope="module")
def part(counting, tmp_path_factory):
    """The first operations of a third call, which is then cancelled and so not counted."""
    path = tmp_path_factory.mktemp("former") / "part.spill"
    with counting.client(**ALONE) as client:

        def first_operations(_recorder, status):
            client.begin(spills(42))
            if status["temp_writes"] > 100:
                raise KeyboardInterrupt

        wanted = SessionSelector(backend=client.pid)
        record_postgres(counting.dsn, path, wanted, on_status=first_operations)
    return Recording.open(path)


def counted(counting):
    """The statement's identifier, and the blocks that a call writes."""
    with counting.connect() as connection:
        queryid, calls, blocks = connection.execute(COUNTED, [PATTERN]).fetchone()
    assert calls == 2
    return queryid, blocks / calls


def test_earlier_calls_give_the_whole(counting, part):
    storage = resolve("latency:100us", part)
    answer = forecast(part, storage)
    assert answer.part is None
    assert CALLS_SOURCE in answer.to_come.writes_bytes.source
    # With the calls alone: the planner's estimate of the bytes is another source.
    alone = RemainingWorkHints(without=("plan", "input", "spill"))
    writes = forecast(part, storage, known=alone).to_come.writes_bytes
    assert writes.source == CALLS_SOURCE
    _, blocks = counted(counting)
    # The median of some thousand draws.
    assert writes.done + writes.centre == pytest.approx(8192 * blocks, rel=0.02)


def test_only_numbers_of_the_statement_are_kept(counting, part):
    text = (part.path / "former_calls.json").read_text()
    [row] = json.loads(text)
    assert row["queryid"] == counted(counting)[0]
    assert "query" not in row
    assert "join" not in text


def test_a_given_run_replaces_the_counted_calls(part, tmp_path):
    """The run is of another statement, which is reported, and the server's counts are not used."""
    plan = tmp_path / "plan.json"
    node = {"Node Type": "Sort", "Plan Rows": 1, "Plan Width": 8, "Actual Loops": 1}
    node |= {"Temp Written Blocks": 9, "Temp Read Blocks": 9, "Actual Rows": 1}
    document = {"Plan": node, "Execution Time": 50.0, "Query Text": "select 1"}
    plan.write_text(json.dumps([document]))
    given = hints_of([plan])
    left = forecast(part, resolve("latency:1ms", part), known=given).to_come
    assert "plan.json" in " ".join(left.unused)
    for quantity in (left.reads_bytes, left.writes_bytes, left.elapsed_s):
        assert CALLS_SOURCE not in quantity.source


@pytest.mark.parametrize(("database", "of"), [("postgres", 1), ("other", 0)])
def test_calls_in_another_database_are_another_statement(counting, database, of):
    queryid, _ = counted(counting)
    assert len(previous_calls(counting.dsn, database, str(queryid))) == of


def test_a_server_without_counters_is_not_used(newest):
    assert previous_calls(newest.dsn, "postgres", "1") == []


def record_cancelled(served, path, query, *, begin=""):
    """Records a query that is cancelled meanwhile; returns the recording and the messages.

    The query begins while the recorder waits for it.
    """
    words, ticks = [], []
    with served.client(**ALONE) as client:
        if begin:
            client.connection.execute(begin)

        def cancel(_recorder, status):
            client.begin(query)
            ticks.append(status["waiting"])
            # A server publishes its counts once a second.
            if ticks.count(False) == 6:
                client.connection.cancel()

        wanted = SessionSelector(backend=client.pid)
        record_postgres(served.dsn, path, wanted, on_status=cancel, notify=words.append)
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.result()
    return Recording.open(path), words


@pytest.mark.parametrize("begin", ["", "begin"])
def test_a_cancelled_call_is_not_a_whole_run(counting, tmp_path, begin):
    """The counted calls show it, and in an open transaction its state."""
    recording, _ = record_cancelled(counting, tmp_path / "cut.spill", spills(7), begin=begin)
    assert recording.meta.ended_by == recording.meta.server.ended_by == "error"
    answer = forecast(recording, resolve("latency:100us", recording))
    assert answer.part is None
    assert answer.baseline_s > recording.elapsed_s
    # The earlier calls are known. If this one ran far slower, they are named as unused.
    known = (answer.to_come.writes_bytes.source, *answer.to_come.unused)
    assert any("previous calls" in words or "former_calls" in words for words in known)


def test_a_call_that_may_have_been_cancelled_is_reported(newest, tmp_path):
    """No calls are counted there, but rolled back transactions are."""
    _, words = record_cancelled(newest, tmp_path / "cut.spill", spills(7))
    assert MAYBE_CANCELLED in words


@pytest.mark.nightly
def test_a_call_that_ends_is_a_whole_run(counting, tmp_path):
    words, path, query = [], tmp_path / "whole.spill", spills(9, sleep_s=0, values="min(t.f)")
    with counting.client(**ALONE) as client:
        client.run(query)
        client.result()
    with counting.client(**ALONE) as client:
        record_postgres(
            counting.dsn,
            path,
            SessionSelector(backend=client.pid),
            on_status=lambda *_status: client.begin(query),
            notify=words.append,
        )
        client.result()
    assert Recording.open(path).meta.ended_by == "end"
    assert MAYBE_CANCELLED not in words
