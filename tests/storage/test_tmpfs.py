"""Temp files in memory: which spills fit, which would swap or exhaust memory, with the figures."""

import os
import subprocess

import pytest

from cases import cases
from evidence import change, recording
from spillcast.errors import SpillTooLarge
from spillcast.recording.meta import Memory
from spillcast.recording.observed import MemoryGroup
from spillcast.storage import free_space

G = 1 << 30
M = 1 << 20


@pytest.fixture
def spill(tmp_path):
    """A recording whose temp file ends at 3 GiB, of a query with 1 GiB of memory."""
    baseline = recording(tmp_path / "r.spill", [("write", M, 3072, 1000)], elapsed_s=10.0)
    change(baseline, memory=Memory(None, G))
    return baseline


@pytest.fixture
def machine(monkeypatch):
    """A machine with this much memory and swap free, and these memory cgroups."""

    def is_(free, swap=0, groups=()):
        meminfo = {"MemAvailable": free, "SwapFree": swap}
        monkeypatch.setattr(free_space, "meminfo_bytes", lambda: meminfo)
        monkeypatch.setattr(free_space, "memory_groups", lambda: list(groups))

    return is_


def test_a_spill_that_fits_is_answered_with_the_size_to_mount(spill, machine):
    machine(free=5 * G)
    (advice,) = free_space.tmpfs_advice(spill)
    # 3 GiB and a quarter, in steps of 256 MiB.
    assert advice.startswith("mount -t tmpfs -o size=3840M tmpfs DIR: the spill holds up to 3 GiB")
    assert "4 GiB of memory are free beside the query, which held 1 GiB" in advice


@cases(
    ("room", "memory", "words"),
    [
        (
            {"free": int(3.5 * G), "swap": 2 * G},
            (None, G),
            r"3 GiB.*2\.50 GiB of.*swap \(2 GiB free",
        ),
        (
            {"free": 2 * G, "swap": G},
            (None, G),
            r"1 GiB of memory.*1 GiB of swap: it would run out",
        ),
        # The limit of the query's cgroup, and of this process's, as the probe writes there.
        ({"free": 20 * G}, (2 * G, G), "memory cgroup leaves 1 GiB"),
        # Also memory that other processes use in it.
        ({"free": 20 * G}, (4 * G, G, 3 * G), "memory cgroup leaves 1 GiB"),
        ({"free": 20 * G, "groups": [MemoryGroup(4 * G, 2 * G)]}, (None, G), "cgroup leaves 2 GiB"),
    ],
)
def test_a_spill_that_does_not_fit_is_refused(spill, machine, room, memory, words):
    machine(**room)
    change(spill, memory=Memory(*memory))
    with pytest.raises(SpillTooLarge, match=words):
        free_space.tmpfs_advice(spill)


def test_directories_in_memory_are_recognised(tmp_path):
    if not os.path.ismount("/dev/shm"):
        pytest.skip("/dev/shm is not mounted")
    assert free_space.is_tmpfs(free_space.SHARED_MEMORY)
    assert not free_space.is_tmpfs(free_space.Path("/proc/self"))


def test_a_mount_that_is_too_small_is_refused_with_the_remount(spill, machine, tmp_path):
    machine(free=20 * G)
    small = tmp_path / "a small one"
    small.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", small], capture_output=True
    )
    if mount.returncode:
        pytest.skip("mounting wants root")
    try:
        assert free_space.is_tmpfs(small)
        with pytest.raises(SpillTooLarge, match=r"64 MiB free: first mount -o remount,size=3840M"):
            free_space.tmpfs_advice(spill, small)
    finally:
        subprocess.run(["umount", small], check=True)
