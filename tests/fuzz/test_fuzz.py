"""Readers of damaged evidence: each input is answered or refused, without a traceback."""

import subprocess
import sys
from pathlib import Path

from harness import environment

TESTS = Path(__file__).parents[1]


#: Prints the outcomes of drawn inputs, then those of a shape with a planted fault.
#: Its process has no threads yet, as it forks.
PROGRAM = """
import os, sys
from fuzz.__main__ import main
status = main(["--count", "25"])
import spillcast.gate as gate
def damaged(*_): return RuntimeError("on purpose")
gate.damaged = damaged
print("planted")
planted = main(["--count", "4", "--shape", "plan-json"])
sys.stdout.flush()
os._exit(status + 2 * planted)
"""


def test_drawn_inputs_are_answered_and_a_traceback_is_detected():
    """A fuzzer that detects nothing would pass everything."""
    path = ":".join((str(TESTS), *(entry for entry in sys.path if entry)))
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 2, result.stdout + result.stderr
    sound, planted = result.stdout.split("planted\n")
    assert "25 inputs, seed 0: " in sound
    assert "traceback: " in planted
    assert "RuntimeError" in planted
