"""A replay gets a page cache as large as the engine's: real memory cgroups on a real disk."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cases import cases, nightly
from evidence import warned
from harness import completed, ordinary_user, started, until
from spillcast import _core
from spillcast.forecast import forecast
from spillcast.recording.meta import Memory
from spillcast.storage.free_space import machine_cache_bytes
from spillcast.storage.probe import SLACK_BYTES, probe
from spillcast.workspace import NoMemoryGroup, memory_group
from spills import MIB, recording, written_and_read

SPILL_BYTES = 256 * MIB
#: A group's limit also covers the replay's own memory, which it may not use in full.
LOOSE_BYTES = SLACK_BYTES + 80 * MIB


@pytest.fixture
def disk():
    """An empty directory on a disk, whose page cache can be dropped."""
    from disk import directory_on_disk

    with directory_on_disk() as where:
        yield where
        # A janitor removes the files of a killed probe, and its group.
        until(lambda: list(where.iterdir()) == [], "an empty directory")


def spill(tmp_path, **meta):
    operations = written_and_read(SPILL_BYTES, times=2)
    return recording(tmp_path / "run.spill", operations, gap_ns=0, **meta)


def groups_of(pid):
    """The memory cgroups that a process made."""
    return [
        group
        for parent in _core.group_folders("memory")
        for group in parent.glob(f"spillcast-probe-*-{pid}")
    ]


def need_groups():
    try:
        with memory_group(64 * MIB):
            pass
    except NoMemoryGroup as error:
        pytest.skip(f"no memory cgroup: {error}")


def read_bytes(device):
    """The bytes read from a block device so far."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if f"{fields[0]}:{fields[1]}" == device:
            return int(fields[5]) * 512
    raise AssertionError(device)


def test_a_working_set_of_twice_the_cache_is_read_from_the_disk(disk, tmp_path):
    need_groups()
    cache = SPILL_BYTES // 2
    held = spill(tmp_path, memory=Memory(cache + 7, 7))
    before = read_bytes(disk.device)
    storage = probe(disk.path, held)
    from_disk = read_bytes(disk.device) - before
    assert storage.facts["memory_bound"] == cache
    assert storage.facts["memory_bound_reason"] is None
    # In the second of two sequential reads, the next pages are those evicted first.
    assert from_disk >= 2 * (SPILL_BYTES - cache - LOOSE_BYTES)
    assert groups_of(os.getpid()) == []
    assert "page-cache" not in warned(forecast(held, storage))


@pytest.mark.nightly
def test_with_enough_memory_the_working_set_is_read_from_the_page_cache(disk, tmp_path):
    if machine_cache_bytes() < 4 * SPILL_BYTES:
        pytest.skip("this machine has less memory than two such spills need")
    free = spill(tmp_path, memory=Memory(None, 7), available=1 << 50)
    storage = probe(disk.path, free)
    assert storage.facts["memory_bound"] is None
    assert storage.facts["memory_bound_reason"] is None
    assert storage.facts["page_cache_bytes"] == (1 << 50) - 7
    read = next(group for group in storage.groups if group.op == "read")
    # Hardly any of 2,048 reads reached a disk.
    assert read.quantile_s(0.5) < 0.001


@cases(
    ("meta", "cache"),
    [
        ({}, None),
        ({"available": 100}, 100),
        ({"available": 100, "memory": Memory(None, 30)}, 70),
        ({"available": 100, "memory": Memory(80, 30)}, 50),
        ({"available": 100, "memory": Memory(80, None)}, 80),
        ({"available": 100, "memory": Memory(80, 90)}, 0),
        # Memory of the group other than files: shared pages count once.
        ({"available": 200, "memory": Memory(80, 90, 30)}, 50),
        ({"available": 100, "memory": Memory(80, 90, 30)}, 10),
    ],
)
def test_the_page_cache_of_an_engine_is_its_limit_minus_its_memory(tmp_path, meta, cache):
    operations = written_and_read(MIB)
    run = recording(tmp_path / "run.spill", operations, **meta)
    assert run.meta.engine_cache_bytes == cache


def test_without_privilege_the_probe_continues_and_reports_it(open_places):
    user = ordinary_user()
    if not user:
        pytest.skip("only root can give up privilege")
    path = open_places.root / "run.spill"
    operations = written_and_read(8 * MIB)
    held = recording(path, operations, memory=Memory(4 * MIB, 0))
    path.chmod(0o755)
    for file in path.iterdir():
        file.chmod(0o644)
    output = open_places.temp / "storage.json"
    where = open_places.temp / "probed"
    where.mkdir()
    where.chmod(0o777)
    completed("probe", where, "--like", path, "-o", output, under=user)
    from spillcast.storage import Storage

    storage = Storage.load(output)
    if storage.facts["memory_bound"] is not None:
        pytest.skip("an ordinary user may make memory cgroups here")
    if storage.facts["filesystem"] == "tmpfs":
        pytest.skip("files in memory have no page cache")
    assert storage.facts["memory_bound_reason"]
    texts = warned(forecast(held, storage))
    assert "no memory cgroup could be made" in texts["page-cache"]


@pytest.mark.parametrize("death", [signal.SIGKILL, *nightly(signal.SIGINT)])
def test_the_group_is_removed_with_its_owner(disk, tmp_path, death):
    need_groups()
    path = tmp_path / "run.spill"
    slow = written_and_read(8 * MIB, times=4)
    recording(path, slow, gap_ns=200_000_000, memory=Memory(4 * MIB, 0))
    process = started("probe", disk.path, "--like", path, stderr=subprocess.PIPE)
    until(lambda: any(map(has_written, groups_of(process.pid))), "the replay")
    process.send_signal(death)
    _, stderr = process.communicate()
    assert b"Traceback" not in stderr
    # It can be removed only after the process in it has ended.
    until(lambda: groups_of(process.pid) == [], "the end of the group")


def has_written(group):
    """Whether a process of a group has written a block."""
    try:
        pids = (group / "cgroup.procs").read_text().split()
        counts = [Path(f"/proc/{pid}/io").read_text().split() for pid in pids]
    except OSError:
        return False
    return any(int(count[count.index("wchar:") + 1]) >= 8192 for count in counts)


def test_the_group_of_a_dead_owner_is_removed(tmp_path):
    need_groups()
    with memory_group(64 * MIB) as group:
        stale = group.with_name(group.name.replace(group.name.split("-")[-1], str(2**22 + 1)))
        stale.mkdir()
        need_groups()
        assert not stale.exists()
        assert group.exists()
    assert not group.exists()
