"""JSON in pieces is what the standard library writes at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import spillcast, spillcast_command
from spillcast.cli.output import emit
from spillcast.recording import Recording
from statement_files import export, row

DOCUMENTS = [
    {},
    {"rows": [], "none": {}, "text": 'ä\n"', "flat": [1, 2.5, None, True, float("inf")]},
    {"rows": [{"a": 1, "b": {"c": [(1, 2), {"d": Path("/x")}]}}, {"e": []}], 3: [[]], None: 1},
    {"path": Path("/x"), "many": [{"n": n, "of": "x" * n} for n in range(3_000)]},
    {"rows": [{"text": "},\n    {", "},\n    {": n} for n in range(600)] + [{"a": [1]}, {"b": 2}]},
    {"rows": [{"a": 1}, {}, {"b": True}], "more": [{"a": Path("/x")}, {"b": None}]},
    {True: {"deep": [[[{"er": [1]}], []]]}, 'quoted "key"': {"a": {1}}},
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_as_the_standard_library_writes_it(document, capsys):
    emit(document)
    assert capsys.readouterr().out == json.dumps(document, indent=2, default=str) + "\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_leads_nowhere(tmp_path, closed):
    written = "import os; os.write(os.open('spilled', os.O_CREAT | os.O_WRONLY), bytes(9))"
    command = [sys.executable, "-S", "-c", written]
    asked = spillcast_command("record", "--temp", ".", "-o", "run.spill", "--", *command)
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr
    assert Recording.open(tmp_path / "run.spill").meta.temp.writes == 1


def test_a_refused_forecast_is_one_document(tmp_path):
    """Statements without times of temp I/O tell no time at all."""
    rows = export(tmp_path / "statements.csv", 16, row(temp_ms=0.0))
    result = spillcast("forecast", rows, "--to", "factor:2", "--json")
    assert result.returncode == 3
    said = json.loads(result.stdout)
    assert (said["schema"], said["targets"]) == ("spillcast.forecast/1", [])
    assert said["refused"] in said["verdict"]["text"]
    assert said["refused"] in result.stderr
