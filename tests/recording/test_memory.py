"""Memory limits and peak memory of a process, on real processes and made-up cgroups."""

import subprocess
import sys

import pytest
from cgroup_files import group, own_group

from cases import nightly
from harness import available, spill_in, spillcast
from spillcast._core import PeakMemory
from spillcast.recording import Recording, record
from spillcast.recording.observed import MemoryGroup, memory_groups
from spillcast.workspace import NoMemoryGroup, memory_group

HOLD = "import sys; block = bytearray(150 << 20); print('held', flush=True); sys.stdin.read()"


def test_the_peak_includes_a_child_and_outlives_it():
    shell = 'python="$1"; "$python" -c "$2"; echo over; read line'
    process = subprocess.Popen(
        ["sh", "-c", shell, "sh", sys.executable, HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    peak = PeakMemory(process.pid)
    assert process.stdout.readline() == "held\n"
    peak.look()
    held = peak.peak_bytes
    assert 150 << 20 < held < 250 << 20
    process.kill()
    process.communicate()
    peak.look()
    assert peak.peak_bytes >= held


def test_an_ended_process_has_no_peak():
    process = subprocess.Popen(["true"])
    process.wait()
    peak = PeakMemory(process.pid)
    peak.look()
    assert peak.peak_bytes is None


def test_limits_of_version_1_are_read_and_file_pages_are_not_used_memory(tmp_path):
    source = own_group(tmp_path, "memory")
    stat = "cache 900\ntotal_active_file 100\ntotal_inactive_file 200\n"
    limit = "memory.limit_in_bytes"
    group(source, {limit: 5000, "memory.usage_in_bytes": 1000, "memory.stat": stat})
    group(tmp_path / "memory", {limit: 9223372036854771712})
    assert memory_groups(cgroups=tmp_path) == [MemoryGroup(5000, 700)]


def test_limits_of_version_2_are_read(tmp_path):
    source = own_group(tmp_path, "")
    stat = "inactive_file 400\n"
    group(source, {"memory.max": 7000, "memory.current": 1000, "memory.stat": stat})
    assert memory_groups(cgroups=tmp_path) == [MemoryGroup(7000, 600)]
    group(source, {"memory.max": "max"})
    assert memory_groups(cgroups=tmp_path) == []


def test_the_group_with_the_least_free_memory_counts(monkeypatch):
    roomy, full = MemoryGroup(500 << 20, 100 << 20), MemoryGroup(4000 << 20, 3999 << 20)
    monkeypatch.setattr(record, "resident_bytes", lambda _pid: 20 << 20)
    warned = []
    for groups in ([roomy], [roomy, full], [full, roomy]):
        monkeypatch.setattr(record, "memory_groups", lambda groups=groups: groups)
        warned.append(record.memory_warning() is not None)
    assert warned == [False, True, True]


@pytest.mark.parametrize(("limit_mb", "is_said"), [(60, True), *nightly((400, False))])
def test_a_group_too_small_for_a_recorder_is_a_warning(places, limit_mb, is_said):
    # The memory of a recorder depends on the capture source.
    available("bpf")
    try:
        with memory_group(limit_mb * 10**6) as small:
            joined = ["sh", "-c", f'echo $$ > {small}/cgroup.procs; exec "$@"', "sh"]
            words = ("record", "-o", places.root / "run.spill", "--", *spill_in(places))
            result = spillcast(*words, under=joined, env=places.env)
    except NoMemoryGroup as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    assert ("the kernel may kill it" in result.stderr) == is_said
    if not is_said:
        assert result.returncode == 0, result.stderr


def test_a_group_that_a_command_joins_limits_it(places):
    try:
        with memory_group(400 << 20) as joined:
            shell = f'echo $$ > {joined}/cgroup.procs; exec "$@"'
            spill = spill_in(places)
            output = places.root / "run.spill"
            words = ("record", "-o", output, "--", "sh", "-c", shell, "sh", *spill)
            result = spillcast(*words, env=places.env)
    except NoMemoryGroup as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    assert result.returncode == 0, result.stderr
    assert Recording.open(output).meta.memory.limit_bytes == 400 << 20
