"""The door: an engine of one file, once it is in the registry, goes from record to report."""

import json
import subprocess
import sys

import pytest

from harness import TARGETS, TIMEOUT_S, environment
from spillcast.recording import Recording

#: The engine in the registry, then the command line or a recording, as with any other engine.
REGISTERED = """
import forked
import paper_engine
from spillcast.engines.registry import ENGINES

forked.hold_little_memory()
ENGINES["paper"] = paper_engine.ENGINE
"""
COMMAND_LINE = REGISTERED + "from spillcast.cli import main; main()"
RECORD = (
    REGISTERED
    + """
import sys
from pathlib import Path
from spillcast.engines.registry import lab_of
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain

lab, folder = lab_of("paper"), Path(sys.argv[1])
run_recorded(lab(folder), lab.demo, plain("disk", folder / "temp"), folder / "run.spill")
"""
)


def run(code, *arguments):
    """Run code in a process in which the engine is registered; what it prints."""
    path = environment().get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(PYTHONPATH=f"{TARGETS.parent}:{path}"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spillcast(*arguments):
    return run(COMMAND_LINE, *arguments)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    run(RECORD, folder)
    return folder / "run.spill"


def test_its_query_is_recorded(recorded):
    temp = Recording.open(recorded).meta.temp
    assert (temp.reads, temp.writes, temp.bytes) == (400, 400, 2 * 400 * (16 << 10))


def test_its_recording_is_forecast(recorded):
    document = json.loads(spillcast("forecast", recorded, "--to", "latency:5ms", "--json"))
    [forecast] = document.get("forecasts", [document])
    assert forecast["forecast_s"] > 0.005 * 800


def test_it_is_verified(tmp_path):
    options = ("--storage", "1 ms", "--storage", "5 ms", "--threads", 1, "--repeat", 1)
    document = json.loads(
        spillcast("verify", "--engine", "paper", "--minutes", 2, *options, "--json")
    )
    assert {case["engine"] for case in document["cases"]} == {"Paper 1.0"}
    assert {(case["from"], case["to"]) for case in document["cases"]} == {
        ("1 ms", "5 ms"), ("5 ms", "1 ms"),
    }  # fmt: skip


def test_it_is_reported_by_its_label(recorded, tmp_path):
    page = tmp_path / "page.html"
    spillcast("report", recorded, "--to", "latency:5ms", "-o", page)
    assert "Paper 1.0" in page.read_text()


def test_what_it_lacks_is_refused_by_its_name():
    refusal = REGISTERED + (
        "from spillcast.engines.registry import work_memory_of\n"
        "from spillcast.errors import InputError\n"
        "try: work_memory_of('paper')\n"
        "except InputError as error: print(error)\n"
    )
    assert "--engine paper: Paper does not support this: its work memory" in run(refusal)
