"""The sampling thread: other threads can read its data, and learn of its failure."""

import os

import pytest

from spillcast.engines import SessionSelector
from spillcast.engines.activity import QueryLife, ServerClock
from spillcast.engines.postgres.live import record_postgres
from spillcast.engines.postgres.live.activity import ActivityQueries
from spillcast.engines.sampler import SessionQuery

#: Longer than a recorder takes to attach; the statement is cancelled.
SLEEP = "select pg_sleep(600)"


def test_a_worker_may_join_a_query_while_its_processes_are_iterated():
    query = SessionQuery(1, QueryLife(ServerClock()))
    seen = []
    for pid in query.pids:
        query.join(os.getpid(), 1)
        seen.append(pid)
    assert seen == [1]
    assert set(query.pids) == {1, os.getpid()}


def failing_look(monkeypatch, after):
    """Makes the sampler fail, as by a bug, at a later sample."""
    looks, sessions = [], ActivityQueries.sessions

    def look(self):
        looks.append(1)
        if len(looks) > after:
            raise LookupError("no such column")
        return sessions(self)

    monkeypatch.setattr(ActivityQueries, "sessions", look)


def test_a_crashed_sampler_does_not_end_the_query(newest, tmp_path, monkeypatch):
    with newest.client() as client:
        client.run(SLEEP)
        newest.until_running(client)
        failing_look(monkeypatch, 5)
        wanted = SessionSelector(backend=client.pid)
        recorded = record_postgres(newest.dsn, tmp_path / "run.spill", wanted).meta
        with newest.connect() as connection:
            connection.execute("select pg_cancel_backend(%s)", [client.pid])
        with pytest.raises(Exception, match="canceling"):
            client.result()
    assert recorded.ended_by == "failure"
    assert recorded.server.ended_by == "failure"
    assert "no such column" in recorded.server.failure
