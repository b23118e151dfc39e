"""A file system slowed by the kernel: really slow for processes inside, removed afterwards."""

import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness import environment, until
from spillcast._core import PeakMemory
from spillcast_lab.kernel_slowed import CACHE_BYTES, KernelSlowed, kernel_slowed, unsupported_reason

#: Reads and writes of this many bytes, bypassing the page cache.
BLOCK_BYTES = 8192
COUNT = 300
#: Writes, then reads, each with O_DIRECT; prints the times in seconds.
DIRECT_IO = f"""
import mmap, os, sys, time
block = mmap.mmap(-1, {BLOCK_BYTES})
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for call in (lambda at: os.pwrite(file, block, at), lambda at: os.preadv(file, [block], at)):
    begun = time.monotonic()
    for number in range({COUNT}):
        call(number * {BLOCK_BYTES})
    print(time.monotonic() - begun)
"""
#: Holds this much memory, and writes a file that the page cache would keep entirely.
HELD_BYTES, FILE_BYTES = 40 << 20, 96 << 20
FILLS = f"""
import os, sys
held = bytearray(os.urandom(1)) * {HELD_BYTES}
with open(sys.argv[1], "wb") as file:
    for _ in range({FILE_BYTES} >> 20):
        file.write(bytes(1 << 20))
    os.fsync(file.fileno())
for line in open("/proc/self/cgroup"):
    if ":memory:" in line:
        stat = "/sys/fs/cgroup/memory" + line.split(":")[2].strip() + "/memory.stat"
        print(dict(l.split() for l in open(stat))["cache"])
"""
HOLDS = f"""
import os, sys
held = bytearray(os.urandom(1)) * {HELD_BYTES}
open(sys.argv[1], "wb").write(bytes({HELD_BYTES}))
print(flush=True)
sys.stdin.read()
"""
OWNER = """
import sys, time
from pathlib import Path
from spillcast_lab.kernel_slowed import KernelSlowed, kernel_slowed
storage = KernelSlowed("slow", 0.001, 0.001)
with kernel_slowed(storage, Path(sys.argv[1]), Path(sys.argv[1])) as place:
    print(place.directory, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def possible():
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)


def python(within, code, *arguments):
    """The output of a Python program started within some groups.

    This process stays in them only briefly: the kernel kills the largest process of a group that
    runs out of memory.
    """
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with within:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with program:
        output = program.stdout.read()
    assert program.returncode == 0
    return output


def left_behind(room):
    """Mounts, loop devices and groups that name the directory or this process."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(room) in line]
    loops = [
        path
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if str(room) in path.read_text()
    ]
    return [*mounts, *loops, *Path("/sys/fs/cgroup/blkio").rglob("spillcast-*-slow")]


def test_direct_operations_are_slow_only_inside(tmp_path):
    storage = KernelSlowed("slow", read_s=0.004, write_s=0.002)
    with kernel_slowed(storage, tmp_path, tmp_path) as place:
        inside = python(place.inside(), DIRECT_IO, place.directory / "in")
        probed = python(place.groups.limited(), DIRECT_IO, place.directory / "probe")
        outside = python(nullcontext(), DIRECT_IO, place.directory / "out")
    # Unused budget of earlier tenths of a second is credit; without limits it takes hundredths.
    for answer in (inside, probed):
        write_s, read_s = map(float, answer.split())
        assert write_s >= COUNT * 0.002 / 2
        assert read_s >= COUNT * 0.004 / 2
    assert float(outside.split()[1]) < float(inside.split()[1])


def test_the_page_cache_is_bounded_in_addition_to_the_memory_of_the_engine(tmp_path):
    storage = KernelSlowed("slow", read_s=0.0001, write_s=0.0001)
    with kernel_slowed(storage, tmp_path, tmp_path) as place:
        with place.groups.unbounded(0.0):
            freely = int(python(place.inside(), FILLS, place.directory / "spill"))
        (place.directory / "spill").unlink()
        bounded = int(python(place.inside(), FILLS, place.directory / "spill"))
    assert freely >= FILE_BYTES
    # Python takes less before it holds its memory, and the kernel counts in batches.
    assert bounded <= CACHE_BYTES + (8 << 20)


def test_a_recorder_sees_the_memory_of_the_group_other_than_files(tmp_path):
    storage = KernelSlowed("slow", read_s=0.0001, write_s=0.0001)
    with kernel_slowed(storage, tmp_path, tmp_path) as place:
        with place.inside():
            holder = subprocess.Popen(
                [sys.executable, "-c", HOLDS, place.directory / "file"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        with holder:
            holder.stdout.readline()
            memory = PeakMemory(holder.pid)
            memory.look()
            holder.stdin.close()
    assert HELD_BYTES <= memory.group_held_bytes <= HELD_BYTES + (24 << 20)


def test_this_process_returns_to_its_groups(tmp_path):
    groups = Path("/proc/self/cgroup")
    before = groups.read_text()
    with kernel_slowed(KernelSlowed("slow", 0.001, 0.001), tmp_path, tmp_path) as place:
        with place.inside():
            assert groups.read_text() != before
        assert groups.read_text() == before


def test_everything_is_removed_afterwards(tmp_path):
    with kernel_slowed(KernelSlowed("slow", 0.001, 0.001), tmp_path, tmp_path):
        assert len(left_behind(tmp_path)) == 3
    until(lambda: not left_behind(tmp_path), "the end of mount, device and group")
    assert not any(tmp_path.iterdir())


def test_everything_is_removed_after_a_kill(tmp_path):
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as owner:
        directory = Path(owner.stdout.readline().strip())
        assert directory.is_dir()
        assert left_behind(tmp_path)
        owner.send_signal(signal.SIGKILL)
    until(lambda: not left_behind(tmp_path), "the end of mount, device and group")
    until(lambda: not any(tmp_path.iterdir()), "the end of the image")
