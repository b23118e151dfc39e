"""A held query: nothing runs before its gate opens; then its time, its rows or its failure."""

import functools
import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from cases import cases, nightly
from harness import TIMEOUT_S, until
from postgres_rig import of_debian, private_server
from spillcast.engines import LabQuery
from spillcast.engines.duckdb import DuckDbLab
from spillcast.engines.postgres.lab import held_in
from spillcast.engines.postgres.server import embedded
from spillcast.errors import ExperimentFailed
from spillcast.workspace import workspace

INSTALLATIONS = [embedded(), *nightly(*of_debian())]


@pytest.fixture(scope="module")
def servers():
    """The server of an installation, shared by all tests."""
    with ExitStack() as stack:

        def serve(installation):
            room = stack.enter_context(workspace())
            return stack.enter_context(private_server(room, installation=installation))

        yield functools.cache(serve)


@pytest.fixture(params=INSTALLATIONS, ids=lambda item: item.version)
def server(request, servers):
    return servers(request.param)


@pytest.fixture(params=["duckdb", "postgres"])
def hold(request, tmp_path):
    """Holds a query of each engine."""
    if request.param == "postgres":
        server = request.getfixturevalue("servers")(INSTALLATIONS[0])
        return lambda sql: held_in(server, sql, {})
    lab = DuckDbLab.on(tmp_path, None)
    return lambda sql: lab.hold(LabQuery("test", sql, 0, "100MB"), tmp_path, {})


def test_a_query_runs_when_the_gate_opens_and_returns_its_rows(hold):
    with hold("select 1 + 1, 'a' union all select 3, 'b' order by 1") as held:
        assert Path(f"/proc/{held.pid}").exists()
        assert not held.wait(0.3)
        opened = time.monotonic()
        held.start()
        assert held.wait(TIMEOUT_S)
        ran = held.result()
        # The time at the gate is excluded.
        assert 0 < ran.elapsed_s < time.monotonic() - opened
    assert json.loads(ran.rows) == [[2, "a"], [3, "b"]]
    assert ran.run_queue_delay_s >= 0
    # The scheduler may not have accounted for so short a time yet.
    assert 0 <= ran.cpu_s < 0.3


def test_the_cpu_time_of_a_query_is_measured(hold):
    with hold(
        "select sum(sqrt(i)) from generate_series(1, 4000000) s(i), generate_series(1, 5) t(j)"
    ) as held:
        held.start()
        ran = held.result()
    # DuckDB has several threads; time in the run queue is not CPU time.
    assert 0.02 < ran.cpu_s < ran.elapsed_s * os.cpu_count()


def test_a_failed_query_gives_the_message_of_the_engine(hold):
    with hold("select no_such_column") as held:
        held.start()
        with pytest.raises(ExperimentFailed, match="no_such_column"):
            held.result()


def test_a_query_closed_early_leaves_no_process(hold):
    with hold("select 1") as held:
        pass
    until(lambda: not Path(f"/proc/{held.pid}").exists(), "the process to end")


def test_a_backend_has_the_requested_settings(server):
    query = (
        "select current_setting('work_mem'), pg_backend_pid(), count(*) from made",
        {"work_mem": "3MB"},
        ["create temp table made as select 1"],
    )
    with held_in(server, *query) as held:
        held.start()
        assert json.loads(held.result().rows) == [["3MB", held.pid, 1]]


def test_the_elapsed_time_is_only_that_of_the_query(server):
    with held_in(server, "select from pg_sleep(0.4)", {}) as held:
        opened = time.monotonic()
        held.start()
        ran = held.result()
        assert 0.4 <= ran.elapsed_s < time.monotonic() - opened


def test_a_refused_setting_is_reported(server):
    with ExitStack() as stack, pytest.raises(ExperimentFailed, match="no_such_setting"):
        stack.enter_context(held_in(server, "select 1", {"no_such_setting": "1"}))


def test_an_endless_query_is_given_up(tmp_path):
    endless = (
        "select count(*) from range(10000000) a, range(10000000) b where a.range % 7 = b.range % 3"
    )
    lab = DuckDbLab.on(tmp_path, None)
    with lab.hold(LabQuery("test", endless, 0, "100MB"), tmp_path, {}) as held:
        held._timeout_s = 0.1
        held.start()
        time.sleep(0.2)
        with pytest.raises(ExperimentFailed):
            held.wait(0.1)


@cases(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (35, "35")])
def test_a_killed_process_gives_an_error(tmp_path, number, name):
    lab = DuckDbLab.on(tmp_path, None)
    with lab.hold(LabQuery("test", "select 1", 0, "100MB"), tmp_path, {}) as held:
        os.kill(held.pid, number)
        with pytest.raises(ExperimentFailed, match=name):
            held.result()


def test_its_process_imports_no_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the user')")
    monkeypatch.chdir(tmp_path)
    lab = DuckDbLab.on(tmp_path, None)
    with lab.hold(LabQuery("test", "select 1", 0, "100MB"), tmp_path, {}) as held:
        held.start()
        assert json.loads(held.result().rows) == [[1]]
