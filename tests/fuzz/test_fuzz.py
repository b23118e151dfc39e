"""Readers of damaged evidence: each input is answered or refused, none ends in a traceback."""

import subprocess
import sys
from pathlib import Path

from harness import environment

TESTS = Path(__file__).parents[1]


def fuzz(*arguments):
    """Run the fuzzer in a process that has no threads yet, as it forks."""
    path = ":".join((str(TESTS), *(entry for entry in sys.path if entry)))
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *map(str, arguments)],
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_complete_and_drawn_inputs_are_answered_and_what_once_broke_breaks_no_more():
    result = fuzz("--known", "--brief", "--count", 30)
    assert result.returncode == 0, result.stdout
    assert result.stdout.count(" inputs, seed 0: ") == 2


def test_a_traceback_is_seen(tmp_path):
    """A fuzzer that sees nothing would pass everything."""
    package = tmp_path / "sitecustomize.py"
    package.write_text(
        "import spillcast.gate as gate\n"
        "def damaged(*_): return RuntimeError('on purpose')\n"
        "gate.damaged = damaged\n"
    )
    path = ":".join((str(tmp_path), str(TESTS), *(entry for entry in sys.path if entry)))
    result = subprocess.run(
        [sys.executable, "-m", "fuzz", "--count", "10", "--shape", "plan-json"],
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 1
    assert "traceback: " in result.stdout
    assert "RuntimeError" in result.stdout
