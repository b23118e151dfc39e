"""Waits for memory until dirty pages are written back, on a slow disk."""

import os
import sys

import pyarrow.parquet as pq
import pytest

from harness import available, spillcast
from spillcast.recording import WRITEBACK, Recording
from spillcast.workspace import memory_group
from spillcast_lab.kernel_slowed import BLKIO, KernelSlowed, kernel_slowed, unsupported_reason

MIB = 1 << 20
#: This much of the group is dirty when its program needs memory that only writeback can free.
LIMIT_BYTES, DIRTY_BYTES, MEMORY_BYTES = 64 * MIB, 32 * MIB, 48 * MIB
BYTES_PER_S = 20 * MIB
#: Joins the group, writes, and prints how long it takes to touch memory.
PROGRAM = f"""
import mmap, os, sys, time
group, path = sys.argv[1:]
with open(group + "/cgroup.procs", "w") as procs:
    procs.write(str(os.getpid()))
file = os.open(path, os.O_RDWR | os.O_CREAT)
for at in range(0, {DIRTY_BYTES}, {MIB}):
    os.pwrite(file, bytes({MIB}), at)
memory, begun = mmap.mmap(-1, {MEMORY_BYTES}), time.monotonic()
for at in range(0, {MEMORY_BYTES}, mmap.PAGESIZE):
    memory[at] = 1
print(time.monotonic() - begun)
"""


@pytest.fixture
def slow_disk(tmp_path):
    """A directory on a file system with a limited writeback rate, whichever process causes it."""
    available("bpf")
    if (reason := unsupported_reason()) is not None:
        pytest.skip(reason)
    limit = BLKIO / "blkio.throttle.write_bps_device"
    with kernel_slowed(KernelSlowed("slow", 0.0001, 0.0001), tmp_path, tmp_path) as place:
        device = os.stat(place.directory).st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        limit.write_text(f"{number} {BYTES_PER_S}")
        try:
            yield place.directory
        finally:
            limit.write_text(f"{number} 0")


def test_a_page_fault_that_waits_for_writeback_is_temp_io(tmp_path, slow_disk):
    output = tmp_path / "run.spill"
    with memory_group(LIMIT_BYTES) as group:
        command = [sys.executable, "-c", PROGRAM, group, slow_disk / "duckdb_temp_block"]
        requested = ("--capture", "bpf", "--temp", slow_disk, "-o", output)
        result = spillcast("record", *requested, "--", *command)
    assert result.returncode == 0, result.stderr
    touched_s = float(result.stdout.split()[0])
    waits = pq.read_table(output / "waits.parquet").to_pylist()
    matches = [wait for wait in waits if wait["event"] == WRITEBACK]
    assert {(wait["op"], wait["temp"], wait["file"]) for wait in matches} == {(None, True, None)}
    # The disk's rate gives the lower bound, and the program's clock the upper bound.
    room_bytes = LIMIT_BYTES - DIRTY_BYTES
    waited_s = sum(wait["elapsed_ns"] for wait in matches) / 1e9
    assert (MEMORY_BYTES - room_bytes) / BYTES_PER_S / 2 <= waited_s <= touched_s
    # These waits are the storage's work, not waits for another thread.
    trace = Recording.open(output).work.trace
    assert trace.change.sum() == len(matches) + sum(
        wait["temp"] and wait["op"] is None and wait["file"] is not None for wait in waits
    )
