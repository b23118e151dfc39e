"""Parallel workers that sessions show while ``spillcast postgres --since`` looks at them."""

import json
import subprocess
import time

import pytest

from harness import only_line, started, until
from postgres_rig import PARALLEL, of_debian, private_server
from spillcast.engines.postgres.rank import NAME
from spillcast.workspace import workspace

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "track_io_timing": "on",
    "work_mem": "256kB",
    "max_parallel_workers_per_gather": "0",
}
#: Run with workers, and without.
SHARED = "select max(x.f) from t x join t y using (id)"
ALONE = "select count(*) from (select id, f from t order by f, id offset 0) s"


@pytest.fixture(scope="module")
def old():
    """A server that counts no workers: the oldest that is installed."""
    installations = [item for item in of_debian() if float(item.version) < 18]
    if not installations:
        pytest.skip("no PostgreSQL before 18 is installed")
    with workspace() as room, private_server(room, SETTINGS, installations[-1]) as made:
        with made.connect() as connection:
            connection.execute("create extension pg_stat_statements")
            connection.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                "from generate_series(1, 150000) i"
            )
            connection.execute("analyze t")
        yield made


def test_statements_are_told_by_the_workers_that_were_seen(old):
    requested = ("postgres", old.dsn, "--to", "factor:1000", "--since", "4s", "--json")
    with old.connect() as alone, old.connect() as parallel:
        for name, value in PARALLEL.items():
            parallel.execute("select set_config(%s, %s, false)", [name, str(value)])
        command = started(*requested, stdout=subprocess.PIPE, text=True)
        began = time.monotonic()
        while command.poll() is None and time.monotonic() - began < 60:
            parallel.execute(SHARED)
            alone.execute(ALONE)
        answer, _ = command.communicate()
    assert command.returncode == 0
    document = json.loads(answer)
    by_text = {item["query"][:10]: item for item in document["statements"]}
    # One process: its temp I/O took that time. Of several none is known but what they add up to.
    low_s, high_s = by_text[ALONE[:10]]["temp_s"]
    assert low_s == high_s
    low_s, high_s = by_text[SHARED[:10]]["temp_s"]
    assert low_s < high_s
    assert "processes" not in {note["code"] for note in document["unseen"]}


def test_a_session_that_the_server_ends_is_told_in_a_line(old):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = started("postgres", old.dsn, "--since", "60s", **pipes)
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
    with old.connect() as connection:
        # Its looks come after its first counts.
        until(
            lambda: connection.execute(
                "select 1 from pg_stat_activity "
                "where application_name = %s and query ~ 'leader_pid'",
                [NAME],
            ).fetchone(),
            "a look at the sessions",
        )
        connection.execute(end, [NAME])
    stdout, stderr = command.communicate()
    # In the server's own words, or in those of libpq where the connection went first.
    ended = subprocess.CompletedProcess([], command.returncode, stdout, stderr)
    assert "\n  start again when the server answers\n" in only_line(ended, 1)
