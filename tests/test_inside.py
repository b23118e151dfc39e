"""A run inside the test process behaves as in a separate process, and leaves nothing behind."""

import logging
import os
import sys
import time
from pathlib import Path

import pytest

import forked
import inside
from cases import cases
from harness import TIMEOUT_S, environment, spillcast

EXAMPLES = Path(__file__).parents[1] / "examples"
PLAN = EXAMPLES / "work-memory" / "plan.json"
TRACE = EXAMPLES / "oracle" / "plan.trc"


@cases(
    "words",
    [
        ("forecast", PLAN, "--to", "factor:5", "--elapsed", "1s"),
        ("forecast", "-", "--to", "factor:5"),
        ("profile", "here.csv"),
        ("report", "--nonsense"),
    ],
)
def test_it_prints_the_output_of_a_separate_process(tmp_path, words):
    (tmp_path / "here.csv").write_text("no evidence\n")
    options = {"cwd": tmp_path, "env": environment(COLUMNS=70, TZ="Asia/Tokyo")}
    before = Path.cwd(), dict(os.environ), time.tzname, sys.stdout
    alone = spillcast(*words, anew=True, **options)
    result = spillcast(*words, **options)
    assert (Path.cwd(), dict(os.environ), time.tzname, sys.stdout) == before
    assert (result.returncode, result.stdout) == (alone.returncode, alone.stdout)
    assert result.stderr == alone.stderr


def test_its_temp_files_follow_its_environment(tmp_path):
    query = "select current_setting('temp_directory') as folder"
    requested = ("profile", TRACE, "--sql", query, "--json")
    result = spillcast(*requested, env=environment(TMPDIR=tmp_path))
    assert result.returncode == 0, result.stderr
    assert str(tmp_path) in result.stdout


def test_log_messages_of_a_library_are_on_stderr(tmp_path, monkeypatch):
    def main():
        logging.getLogger("library").warning("went wrong")
        sys.exit(0)

    monkeypatch.setattr("spillcast.cli.main", main)
    result = forked.run_inside(["storage"], TIMEOUT_S, cwd=tmp_path, env=os.environ)
    assert result.stderr == "went wrong\n"


def test_ctrl_c_ends_the_tests(tmp_path, monkeypatch):
    def main():
        sys.exit(130)

    monkeypatch.setattr("spillcast.cli.main", main)
    with pytest.raises(KeyboardInterrupt):
        forked.run_inside(["storage"], TIMEOUT_S, cwd=tmp_path, env=os.environ)


def test_changes_left_by_a_run_are_detected(tmp_path):
    left = []
    with pytest.raises(AssertionError), inside.unchanged():
        left.append((tmp_path / "file").open("w"))
    left.pop().close()
    with pytest.raises(AssertionError), inside.surroundings([], tmp_path, os.environ):
        os.environ["XDG_CACHE_HOME"] = "/elsewhere"
    with pytest.raises(AssertionError), inside.surroundings([], tmp_path, os.environ):
        os.chdir("/")
