"""Exports of pg_stat_statements from real servers; forecasts from them against runs there."""

import json
from contextlib import ExitStack

import pytest

from emulator import skip_without_fuse
from harness import spillcast
from plans import HASH, INSTALLATIONS, PARALLEL, SORT, explain, fill
from postgres_rig import private_server
from spillcast.evidence.postgres.statements import read_statements
from spillcast.storage.emulation import emulate
from spillcast.storage.model import fixed_behaviour
from spillcast.workspace import workspace
from statement_files import COLUMNS

#: Latency of an operation in each tablespace.
SPACES = {"slow": 0.001, "fast": 0.0002}
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "work_mem": "1MB",
    "enable_mergejoin": "off",
}
SERIAL = ("set max_parallel_workers_per_gather = 0",)
RUNS = {
    "sort": (SORT, PARALLEL),
    "hash": (HASH, (*PARALLEL, "set work_mem = '256kB'")),
    "one process": (SORT, SERIAL),
}


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=lambda item: item.version)
def server(request):
    """A connection to a server with two tables, and two tablespaces of known latency."""
    skip_without_fuse()
    with ExitStack() as stack:
        room = stack.enter_context(workspace())
        served = stack.enter_context(private_server(room, SETTINGS, request.param))
        # A cached plan would outlast a setting.
        connection = stack.enter_context(served.connect(prepare_threshold=None))
        for name, latency_s in SPACES.items():
            backing, mountpoint = room / f"{name}-backing", room / name
            for path in (backing, mountpoint):
                path.mkdir()
            served.give(backing)
            behaviour = fixed_behaviour(latency_s, latency_s)
            stack.enter_context(emulate(behaviour, mountpoint, backing))
            connection.execute(f"create tablespace {name} location '{mountpoint}'")
        connection.execute("create extension pg_stat_statements")
        fill(connection)
        yield connection


def exported(server, path, *columns):
    """Runs the export command of the documentation."""
    requested = ", ".join((*columns, "*"))
    copy = f"copy (select {requested} from pg_stat_statements) to stdout csv header"
    with server.cursor().copy(copy) as rows:
        path.write_bytes(b"".join(bytes(row) for row in rows))
    return path


def counted(server, path, query, before, space):
    """The export after some calls of a query whose temp files lie in a tablespace."""
    server.execute("reset all")
    for statement in (*before, f"set temp_tablespaces = {space}"):
        server.execute(statement)
    server.execute("select pg_stat_statements_reset()")
    for _ in range(2):
        server.execute(query)
    return exported(server, path)


def test_the_columns_match_the_version(server, tmp_path):
    heading = exported(server, tmp_path / "s.csv").read_text().splitlines()[0]
    assert heading.split(",") == COLUMNS[server.info.server_version // 10_000]


def forecast_and_run(server, tmp_path, query, before):
    """The forecast for the fast tablespace, and the time that the query takes there.

    A single run gives both the latency there and the query's time, because two runs may be
    disturbed differently.
    """
    slow = counted(server, tmp_path / "slow.csv", query, before, "slow")
    target = tmp_path / "fast.json"
    settings = (*before, "set temp_tablespaces = fast")
    plan = explain(server, query, "format json", before=settings)
    target.write_text(json.dumps([plan]))
    result = spillcast("forecast", slow, "--to", target, "--json")
    return result, plan["Execution Time"] / 1e3


@pytest.mark.nightly
@pytest.mark.parametrize("name", RUNS)
def test_a_forecast_is_correct_or_refused(server, tmp_path, name):
    query, before = RUNS[name]
    misses = []
    # A busy machine may disturb a run; a wrong forecast misses all three.
    for _ in range(3):
        result, measured_s = forecast_and_run(server, tmp_path, query, before)
        assert result.returncode in (0, 3), result.stderr
        document = json.loads(result.stdout)
        if document.get("refused_code") == "times-contradictory":
            return
        assert document["statement"]["query"] == query
        if document["refused"] is not None:
            assert "how many shared it is not known" in document["refused"]
            return
        known = name == "one process" and server.info.server_version >= 180_000
        codes = {warning["code"] for warning in document["warnings"]}
        assert ("processes" in codes) == (not known)
        low_s, high_s = document["interval_s"]
        if low_s <= measured_s <= high_s:
            return
        misses.append((low_s, measured_s, high_s))
    pytest.fail(f"bounds and measured times: {misses}")


def test_an_exported_setting_shows_a_single_process(server, tmp_path):
    counted(server, tmp_path / "s.csv", SORT, SERIAL, "fast")
    name = "max_parallel_workers_per_gather"
    path = exported(server, tmp_path / "s.csv", f"current_setting('{name}') as {name}")
    temp = read_statements(path)
    assert (temp.processes, temp.processes_bounds) == (1, None)
