"""The memory of observed processes: what limits it, and the most that they held."""

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spillcast.recording.cgroups import CGROUPS, group_folders, read
from spillcast.units import format_bytes

#: What a recorder takes with all that it starts, however long it records; and where it samples a
#: server or has a live view, for which it loads Arrow.
RECORDER_BYTES, WITH_ARROW_BYTES = 80 * 10**6, 160 * 10**6
#: Share of a core that looks at many threads may take.
LOOKS_SHARE = 0.01


class PeakMemory:
    """The most memory that a process and those it started held resident, looked at now and then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids = {pid}
        self._peak_bytes: dict[int, int] = {}
        self._held_bytes: int | None = None
        self._due_s = 0.0

    def add(self, *pids: int) -> None:
        """Look at more processes from now on, each once."""
        self._pids.update(pids)

    def look(self) -> None:
        """Read the kernel's own high-water mark of each process that is still there, where due."""
        if time.monotonic() < self._due_s:
            return
        before_s = time.thread_time()
        for pid in [member for root in self._pids for member in family(root)]:
            high = high_water_bytes(pid)
            if high is not None:
                self._peak_bytes[pid] = high
        group = tightest_group(self._pid)
        if group is not None:
            self._held_bytes = max(self._held_bytes or 0, group.held_bytes)
        self._due_s = time.monotonic() + (time.thread_time() - before_s) / LOOKS_SHARE

    @property
    def peak_bytes(self) -> int | None:
        """Sum of the peaks, which is an upper bound; None where nothing could be read."""
        return sum(self._peak_bytes.values()) or None

    @property
    def group_held_bytes(self) -> int | None:
        """The most that its tightest memory cgroup held besides files; None where there is none."""
        return self._held_bytes


def family(pid: int) -> Iterator[int]:
    """A process and all that it started and that are still there."""
    yield pid
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for task in tasks:
        for child in read(Path(f"/proc/{pid}/task/{task}/children")).split():
            yield from family(int(child))


def high_water_bytes(pid: int) -> int | None:
    """The most a process held resident; None where it has ended or is a kernel thread."""
    return _status_bytes(pid, "VmHWM")


def resident_bytes(pid: int) -> int | None:
    """What a process holds resident; None where it has ended or is a kernel thread."""
    return _status_bytes(pid, "VmRSS")


def _status_bytes(pid: int, key: str) -> int | None:
    match = re.search(rf"^{key}:\s+(\d+) kB", read(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def meminfo_bytes() -> dict[str, int]:
    """The sizes of /proc/meminfo by name."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    pairs = (re.match(r"([\w()]+):\s+(\d+) kB", line) for line in lines)
    return {m[1]: int(m[2]) * 1024 for m in pairs if m}


@dataclass(frozen=True)
class MemoryGroup:
    """A memory cgroup: its limit, and what it holds that the kernel cannot drop."""

    limit_bytes: int
    held_bytes: int


def memory_groups(pid: int | str = "self", cgroups: Path = CGROUPS) -> list[MemoryGroup]:
    """The memory cgroups with a limit that a process is in, innermost first."""
    groups = []
    for group in group_folders(pid, "memory", cgroups):
        limit = read(group / "memory.max") or read(group / "memory.limit_in_bytes")
        # `max` in version 2, a number near 2**63 in version 1: no limit.
        if limit.isdigit() and int(limit) < 1 << 60:
            groups.append(MemoryGroup(int(limit), _held_bytes(group)))
    return groups


def tightest_group(pid: int | str = "self") -> MemoryGroup | None:
    """The memory cgroup of a process whose limit is the lowest; None where there is none."""
    return min(memory_groups(pid), key=lambda group: group.limit_bytes, default=None)


def too_little_for_us() -> str | None:
    """What is wrong where our own memory cgroup may end us, in a line; None: nothing."""
    group, resident = tightest_group(), resident_bytes(os.getpid())
    if group is None or resident is None:
        return None
    room = group.limit_bytes - group.held_bytes + resident
    need = WITH_ARROW_BYTES if "pyarrow" in sys.modules else RECORDER_BYTES
    if room >= need:
        return None
    return (
        f"the memory cgroup has {format_bytes(max(room, 0))} for a recorder, which takes up to "
        f"{format_bytes(need)}: the kernel may kill it; raise the limit, or record from "
        "outside with --pid"
    )


def cgroup_limit_bytes(pid: int | str = "self") -> int | None:
    """The lowest memory limit that holds a process; None where there is none."""
    group = tightest_group(pid)
    return None if group is None else group.limit_bytes


def _held_bytes(group: Path) -> int:
    """What is in use without the pages of files; those of tmpfs count, for they must stay."""
    used = read(group / "memory.current") or read(group / "memory.usage_in_bytes")
    pairs = (line.split() for line in read(group / "memory.stat").splitlines())
    stat = {name: int(value) for name, value in pairs}
    names = ("active_file", "inactive_file")
    files = sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in names)
    return max(0, int(used or 0) - files)
