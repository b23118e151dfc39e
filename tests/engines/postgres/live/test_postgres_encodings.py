"""Sessions in databases of other encodings than the recorder's connection, and vice versa."""

import json
import os
import signal

import pytest

from cases import cases, nightly
from harness import completed, environment, only_line, spillcast, succeeded
from postgres_rig import Client, meta_of, recorder, until_kept

SORT = 'select count(*) as "été" from (select f, id from t order by id, f offset 0) s'
OURS = (
    "select count(*) from (select 'é' || i from generate_series(1, 20000) i order by 1 offset 0) s"
)
PLACES = {"utf8": "UTF8", "latin": "LATIN1", "none": "SQL_ASCII"}
REPLACED = SORT.replace("é", "\ufffd")


@pytest.fixture(scope="module")
def encoded(newest):
    """The DSN of a database by its encoding; the LATIN1 database has a table."""
    with newest.connect() as connection:
        for name, encoding in PLACES.items():
            connection.execute(
                f"create database {name} encoding '{encoding}' lc_collate 'C' lc_ctype 'C' "
                "template template0"
            )
        with newest.connect(dbname="latin") as latin:
            latin.execute(
                "create table t as select hashint8(i) as id, repeat('x', 40) as f "
                "from generate_series(1, 60000) i"
            )
        yield {name: f"{newest.dsn} dbname={name}" for name in PLACES}
        for name in PLACES:
            connection.execute(f"drop database {name} with (force)")


def sort(newest):
    """Sorts slowly in the LATIN1 database."""
    with newest.connect(dbname="latin", client_encoding="UTF8") as connection:
        connection.execute("set work_mem = '128kB'; set temp_tablespaces = slow")
        client = Client(connection)
        client.run(SORT)
        client.result()


@pytest.mark.parametrize(
    ("place", "environment_says"),
    [("none", "LATIN1"), ("latin", "UTF8"), *nightly(("utf8", "LATIN1"), ("latin", "LATIN1"))],
)
def test_a_session_is_recorded_from_anywhere(encoded, newest, tmp_path, place, environment_says):
    output = tmp_path / "run.spill"
    arguments = ("--postgres", encoded[place], "--query", "from t order", "--json")
    env = environment(PGCLIENTENCODING=environment_says)
    with recorder(output, *arguments, env=env) as process:
        process.stderr.readline()
        sort(newest)
        succeeded(process)
    meta = meta_of(output)
    assert meta["server"]["failure"] is None
    assert meta["engine"]["query"] == (SORT if place == "latin" else REPLACED)
    assert meta["temp"]["reads"] > 0


@pytest.mark.parametrize("place", ["none", *nightly("utf8", "latin")])
def test_all_sessions_are_recorded_from_anywhere(encoded, newest, tmp_path, place):
    output = tmp_path / "server.spills"
    with recorder(output, "--postgres", encoded[place], "--all", "--json") as process:
        process.stderr.readline()
        sort(newest)
        until_kept(output, 1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    document = json.loads(stdout)
    assert document["failure"] is None
    [item] = document["recordings"]
    assert item["query"] == (SORT if place == "latin" else REPLACED)


def test_a_statement_of_any_characters_is_explained(encoded, tmp_path):
    for place, dsn in encoded.items():
        output = tmp_path / f"{place}.spill"
        requested = ("--set", "work_mem=64kB", "-o", output, "--explain", OURS)
        completed("record", "--postgres", dsn, *requested)
        assert (output / "plan.json").exists()


@cases("option", ["--explain", "--set", "--query", "--postgres"])
def test_bytes_that_are_not_text_are_refused(newest, tmp_path, option):
    no_text = os.fsdecode(b"a=\xe9")
    given = {"--postgres": newest.dsn, option: no_text}
    given |= {"--explain": "select 1"} if option in ("--set", "--postgres") else {}
    arguments = [word for name, value in given.items() for word in (name, value)]
    message = only_line(spillcast("record", *arguments, cwd=tmp_path), 2)
    assert "not UTF-8" in message
