"""The memory of observed processes: what limits it, and the most that they held."""

import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from spillcast import _core
from spillcast.units import format_bytes

#: What a recorder takes with all that it starts, however long it records; and where it samples a
#: server or has a live view, for which it loads Arrow.
RECORDER_BYTES, WITH_ARROW_BYTES = 80 * 10**6, 160 * 10**6


def high_water_bytes(pid: int) -> int | None:
    """The peak resident memory of a process; None if it has ended or is a kernel thread."""
    return _core.status_bytes(f"/proc/{pid}/status", "VmHWM")


def resident_bytes(pid: int) -> int | None:
    """The resident memory of a process; None if it has ended or is a kernel thread."""
    return _core.status_bytes(f"/proc/{pid}/status", "VmRSS")


def meminfo_bytes() -> dict[str, int]:
    """The sizes of /proc/meminfo by name."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    pairs = (re.match(r"([\w()]+):\s+(\d+) kB", line) for line in lines)
    return {m[1]: int(m[2]) * 1024 for m in pairs if m}


class MemoryGroup(NamedTuple):
    """A memory cgroup: its limit, and what it holds that the kernel cannot drop."""

    limit_bytes: int
    held_bytes: int


def memory_groups(**of: Any) -> list[MemoryGroup]:
    """The memory cgroups with a limit that this process is in, or a ``pid``, innermost first."""
    return [MemoryGroup(*group) for group in _core.memory_groups(**of)]


def tightest_group(**of: Any) -> MemoryGroup | None:
    """The memory cgroup whose limit is the lowest; None where there is none."""
    return min(memory_groups(**of), key=lambda group: group.limit_bytes, default=None)


def too_little_for_us() -> str | None:
    """A warning if the memory cgroup of this process may end it; None if it is safe."""
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


def cgroup_limit_bytes(pid: int) -> int | None:
    """The lowest memory limit that holds a process; None where there is none."""
    group = tightest_group(pid=pid)
    return None if group is None else group.limit_bytes
