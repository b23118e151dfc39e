"""The interface of engines: a registered engine of one file works from recording to report."""

import json
import subprocess
import sys

import pytest

from harness import TARGETS, TIMEOUT_S, environment
from spillcast.recording import Recording

#: The engine in the registry, a recording of it, then command lines as with any other engine, each
#: of which prints to a file. One process: most of a short one is imports.
PROGRAM = """
import contextlib, json, sys
from pathlib import Path

import forked
import paper_engine
from spillcast.cli import run
from spillcast.engines.registry import ENGINES, lab_of, work_memory_of
from spillcast.errors import InputError
from spillcast.lab.run import run_recorded
from spillcast.lab.storages import plain

forked.hold_little_memory()
ENGINES["paper"] = paper_engine.ENGINE
lab, folder = lab_of("paper"), Path(sys.argv[1])
run_recorded(lab(folder), lab.demo, plain("disk", folder / "temp"), folder / "run.spill")
for name, words in json.loads(sys.argv[2]).items():
    with (folder / name).open("w") as printed, contextlib.redirect_stdout(printed):
        try:
            status = run(words)
        except SystemExit as exited:
            status = exited.code
    assert not status, (name, status)
try:
    work_memory_of("paper")
except InputError as error:
    (folder / "refused").write_text(str(error))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the recording, the page and the printed output."""
    folder = tmp_path_factory.mktemp("paper")
    recording, page = str(folder / "run.spill"), str(folder / "page.html")
    run(
        folder,
        forecast=["forecast", recording, "--to", "latency:5ms", "--json"],
        report=["report", recording, "--to", "latency:5ms", "-o", page],
    )
    return folder


def run(folder, **commands):
    """Records, then runs the commands; each prints to a file of its name."""
    path = environment().get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(PYTHONPATH=f"{TARGETS.parent}:{path}"),
    )
    assert done.returncode == 0, done.stderr


def test_its_query_is_recorded(folder):
    temp = Recording.open(folder / "run.spill").meta.temp
    assert (temp.reads, temp.writes, temp.bytes) == (400, 400, 2 * 400 * (16 << 10))


def test_its_recording_is_forecast(folder):
    document = json.loads((folder / "forecast").read_text())
    [forecast] = document.get("forecasts", [document])
    assert forecast["forecast_s"] > 0.005 * 800


@pytest.mark.nightly
def test_it_is_verified(tmp_path):
    storages = ("--storage", "1 ms", "--storage", "5 ms", "--threads", "1", "--repeat", "1")
    run(tmp_path, verify=["verify", "--engine", "paper", "--minutes", "2", *storages, "--json"])
    document = json.loads((tmp_path / "verify").read_text())
    assert {case["engine"] for case in document["cases"]} == {"Paper 1.0"}
    assert {(case["from"], case["to"]) for case in document["cases"]} == {
        ("1 ms", "5 ms"), ("5 ms", "1 ms"),
    }  # fmt: skip


def test_it_is_reported_by_its_label(folder):
    assert "Paper 1.0" in (folder / "page.html").read_text()


def test_a_missing_feature_is_refused_by_name(folder):
    refused = (folder / "refused").read_text()
    assert "--engine paper: Paper does not support this: its work memory" in refused
