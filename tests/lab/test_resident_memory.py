"""Memory in use between runs: a process holds it, and frees it for a run and at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness import until
from spillcast.lab import run
from spillcast.lab.run import ResidentMemory

SIZE_BYTES = 32 << 20
#: Prints the process id of the holder, then waits.
PARENT = f"""
import os, sys
from spillcast.lab import run
run._available_bytes = lambda: {run.AVAILABLE_FACTOR_MIN * SIZE_BYTES}
memory = run.ResidentMemory({SIZE_BYTES})
with memory.released():
    pass
print(*open(f"/proc/self/task/{{os.getpid()}}/children"), flush=True)
sys.stdin.read()
"""


def resident_bytes(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


@pytest.fixture
def parent():
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def test_another_process_holds_the_memory_and_ends_with_its_parent(parent):
    holder = int(parent.stdout.readline())
    assert resident_bytes(holder) >= SIZE_BYTES
    parent.kill()
    until(lambda: not resident_bytes(holder), "the end of the holder")


def test_the_memory_is_free_during_a_run(monkeypatch):
    monkeypatch.setattr(run, "_available_bytes", lambda: run.AVAILABLE_FACTOR_MIN * SIZE_BYTES)
    memory = ResidentMemory(SIZE_BYTES)
    try:
        with memory.released():
            pass
        holder = memory._holder.pid
        assert resident_bytes(holder) >= SIZE_BYTES
        with memory.released():
            assert not resident_bytes(holder)
    finally:
        memory.release()


def test_memory_needed_by_others_is_not_taken(monkeypatch):
    monkeypatch.setattr(run, "_available_bytes", lambda: run.AVAILABLE_FACTOR_MIN * SIZE_BYTES - 1)
    memory = ResidentMemory(SIZE_BYTES)
    with memory.released():
        pass
    assert memory._holder is None
