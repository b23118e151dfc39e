"""A run in the process of the tests is as one in a process of its own, and leaves nothing."""

import os
import sys
import time
from pathlib import Path

import pytest

import inside
from cases import cases
from harness import environment, spillcast

PLAN = Path(__file__).parents[1] / "examples" / "work-memory" / "plan.json"


@cases(
    "words",
    [
        ("forecast", PLAN, "--to", "factor:5", "--elapsed", "1s"),
        ("forecast", "-", "--to", "factor:5"),
        ("storage", "show", "catalogue:aws-gp3"),
        ("profile", "here.csv"),
        ("report", "--nonsense"),
    ],
)
def test_it_prints_what_another_process_prints(tmp_path, words):
    (tmp_path / "here.csv").write_text("no evidence\n")
    options = {"cwd": tmp_path, "env": environment(COLUMNS=70, TZ="Asia/Tokyo")}
    before = Path.cwd(), dict(os.environ), time.tzname, sys.stdout
    alone = spillcast(*words, anew=True, **options)
    result = spillcast(*words, **options)
    assert (Path.cwd(), dict(os.environ), time.tzname, sys.stdout) == before
    assert (result.returncode, result.stdout) == (alone.returncode, alone.stdout)
    assert result.stderr == alone.stderr


def test_what_a_run_leaves_is_seen(tmp_path):
    left = []
    with pytest.raises(AssertionError), inside.unchanged():
        left.append((tmp_path / "file").open("w"))
    left.pop().close()
    with pytest.raises(AssertionError), inside.surroundings([], tmp_path, os.environ):
        os.environ["XDG_CACHE_HOME"] = "/elsewhere"
    with pytest.raises(AssertionError), inside.surroundings([], tmp_path, os.environ):
        os.chdir("/")
