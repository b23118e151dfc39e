"""Names that would be statements or lines without quoting: recorded, ranked, moved."""

import json
import os

import pytest

from cases import nightly
from harness import completed, json_of, spillcast, succeeded
from plans import INSTALLATIONS
from postgres_rig import private_server, recorder
from spillcast.engines.postgres import identifier, literal
from spillcast.recording import Recording
from spillcast.workspace import workspace

NAMES = {
    "quotes and lines": 'it\'s "x"; drop table t; --\nb\r\tc',
    "percent and unicode": "--100%s %(x)s %% $(touch planted) té \u202e😀 \x1b[31m",
}


@pytest.fixture(scope="module")
def room():
    with workspace() as made:
        yield made


@pytest.fixture(scope="module")
def server(room):
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "allow_in_place_tablespaces": "on",
        "max_parallel_workers_per_gather": "0",
        "track_io_timing": "on",
        "work_mem": "256kB",
    }
    with private_server(room, settings, INSTALLATIONS[0]) as made:
        with made.connect() as connection:
            connection.execute("create extension pg_stat_statements")
        yield made


@pytest.mark.parametrize("kind", ["quotes and lines", *nightly("percent and unicode")])
def test_a_name_is_never_interpreted(server, room, tmp_path, kind):
    name = NAMES[kind]
    quoted = identifier(name)
    query = (
        f"select count({quoted}) from (select hashint8(i) as {quoted}, repeat('x', 40) as f "
        f"from generate_series(1, 400000) i order by 2, 1 offset 0) {quoted}"
    )
    with server.connect() as connection:
        connection.execute(f"create role {quoted} login superuser")
        connection.execute(f"create database {quoted} owner {quoted}")
        connection.execute(f"create tablespace {quoted} location ''")
        connection.execute(f"alter role {quoted} set temp_tablespaces = {literal(name)}")
        connection.execute("select pg_stat_statements_reset()")

    output = tmp_path / "run.spill"
    with recorder(output, "--postgres", server.dsn, "--query", "generate_series.1, 4") as process:
        process.stderr.readline()
        with server.connect(user=name, dbname=name) as session:
            assert session.execute(query).fetchone() == (400000,)
        succeeded(process)
    recording = Recording.open(output)
    assert recording.meta.temp.operations > 0
    assert recording.meta.engine.query == query
    assert [item.tablespace for item in recording.meta.server.temp_files] in ([], [name])
    page = spillcast("forecast", output, "--to", "latency:1ms")
    # The I/O of a parallel worker before the attachment may make a forecast impossible.
    assert page.returncode in (0, 3), page.stderr
    assert not any(letter in page.stdout for letter in "\r\x1b\u202e")

    result = completed("postgres", server.dsn, "--to", "latency:1ms", "--json")
    assert any(
        "generate_series" in item["query"] for item in json.loads(result.stdout)["statements"]
    )
    shown = completed("postgres", server.dsn, "--to", "latency:1ms")
    assert not any(letter in shown.stdout for letter in "\r\x1b\u202e")

    for scope in (f"role:{name}", f"database:{name}"):
        printed = completed("move", "postgres", server.dsn, "--to", room / "fast", "--for", scope)
        assert identifier(name) in printed.stdout
        assert not any(letter in printed.stdout for letter in "\r\x1b\u202e")
    if os.geteuid() == 0:
        line = ("move", "postgres", server.dsn, "--to", room / "fast", "--for", f"role:{name}")
        applied = spillcast(*line, f"--tablespace={name}", "--apply")
        assert (applied.returncode, "there is a tablespace" in applied.stderr) == (2, True)
        assert json_of(*line, f"--tablespace={name} 2", "--apply")["verified"]["files"] > 0
        completed(*line, "--revert")
    with server.connect() as connection:
        connection.execute(f"drop database {quoted}")
        connection.execute(f"drop tablespace {quoted}")
        connection.execute(f"drop role {quoted}")
