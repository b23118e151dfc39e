"""What limits a process's memory and the most it held, on real processes and made-up cgroups."""

import subprocess
import sys
from pathlib import Path

import pytest

from spillcast.recording.memory import MemoryGroup, PeakMemory, memory_groups

HOLD = "import sys; block = bytearray(150 << 20); print('held', flush=True); sys.stdin.read()"


def test_the_peak_holds_what_a_child_held_and_survives_its_end():
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


def test_nothing_is_known_of_a_process_that_is_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    peak = PeakMemory(process.pid)
    peak.look()
    assert peak.peak_bytes is None


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("memory_", "memory.")).write_text(f"{value}\n")


def own_groups(controller: str) -> str:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1] == controller]
    return paths[0] if paths else pytest.skip(f"this kernel has no cgroup of '{controller}'")


def test_limits_of_version_1_are_found_and_file_pages_are_not_held(tmp_path):
    here = tmp_path / "memory" / own_groups("memory").lstrip("/")
    stat = "cache 900\ntotal_active_file 100\ntotal_inactive_file 200\n"
    group(here, memory_limit_in_bytes=5000, memory_usage_in_bytes=1000, memory_stat=stat)
    group(tmp_path / "memory", memory_limit_in_bytes=9223372036854771712)
    assert memory_groups(cgroups=tmp_path) == [MemoryGroup(5000, 700)]


def test_limits_of_version_2_are_found(tmp_path):
    here = tmp_path / own_groups("").lstrip("/")
    group(here, memory_max=7000, memory_current=1000, memory_stat="inactive_file 400\n")
    assert memory_groups(cgroups=tmp_path) == [MemoryGroup(7000, 600)]
    group(here, memory_max="max")
    assert memory_groups(cgroups=tmp_path) == []
