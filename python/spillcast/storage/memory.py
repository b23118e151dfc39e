"""Memory for temp files: the page cache of an engine and of a probe, and tmpfs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import SpillTooLarge
from spillcast.evidence.counts import Counts
from spillcast.recording import Recording
from spillcast.recording.meta import Memory
from spillcast.recording.observed import (
    IN_MEMORY,
    command_of,
    meminfo_bytes,
    memory_groups,
    mounted,
    resident_bytes,
)
from spillcast.text import shell_word
from spillcast.units import format_bytes

_VM = Path("/proc/sys/vm")


def machine_cache_bytes() -> int:
    """The page cache that a process could use on this machine now."""
    return max(0, min([meminfo_bytes().get("MemAvailable", sys.maxsize), *_rooms()]))


def dirty_limit_bytes(filesystem: str) -> int | None:
    """The kernel's limit of dirty pages, from what user space can read; None without a limit.

    ``vm.dirty_bytes``, or the share ``vm.dirty_ratio`` of free memory and the pages of files, of
    the machine or of the smallest memory cgroup. The kernel slows writers down before that.
    """
    if filesystem in IN_MEMORY:
        return None
    try:
        limit_bytes = int((_VM / "dirty_bytes").read_text())
        ratio = int((_VM / "dirty_ratio").read_text())
    except (OSError, ValueError):
        return None
    if limit_bytes:
        return limit_bytes
    memory = meminfo_bytes()
    pages = ("MemFree", "Active(file)", "Inactive(file)")
    if any(name not in memory for name in pages):
        return None
    dirtyable = sum(memory[name] for name in pages)
    return max(0, min([dirtyable, *_rooms()])) * ratio // 100


def _rooms() -> list[int]:
    """The memory that the cgroups of this process leave, in bytes."""
    return [group.limit_bytes - group.held_bytes for group in memory_groups()]


SHARED_MEMORY = Path("/dev/shm")
#: Room that a mount has beyond the spill that was seen: the next run may spill a little more.
HEADROOM = 1.25
_STEP_BYTES = 256 << 20


def check_memory(baseline: Recording | Counts, directory: Path | None = None) -> list[str]:
    """Instructions to put the temp files of ``baseline`` into memory.

    ``directory`` is on a tmpfs that is mounted already. Refusal with the figures where the spill
    does not fit: it would swap, run out of memory, or fill the mount.
    """
    if isinstance(baseline, Counts):
        spill, memory, held_now = baseline.held_bytes, Memory(), 0
    else:
        spill, memory = baseline.held_bytes, baseline.meta.memory
        held_now = _held_now_bytes(baseline)
    query = memory.peak_rss_bytes or 0
    groups = _rooms()
    if memory.limit_bytes is not None:
        groups.append(memory.limit_bytes - query)
    meminfo = meminfo_bytes()
    # The query wants for itself what it does not hold now.
    free = meminfo["MemAvailable"] - max(0, query - held_now)
    _check_room(spill, free, meminfo.get("SwapFree", 0), groups)
    # The spill and a quarter, in steps of 256 MiB.
    size = -(-round(spill * HEADROOM) // _STEP_BYTES) * _STEP_BYTES
    where, remedy = "DIR", f"mount -t tmpfs -o size={mount_word(size)} tmpfs DIR"
    if directory is not None:
        word = shell_word(directory)
        where, remedy = str(directory), f"mount -o remount,size={mount_word(size)} {word}"
        stat = os.statvfs(directory)
        if stat.f_blocks and stat.f_bavail * stat.f_frsize < spill:
            room = format_bytes(stat.f_bavail * stat.f_frsize)
            raise SpillTooLarge(
                f"the spill holds up to {format_bytes(spill)} and {directory} has {room} free: "
                f"first {remedy}"
            )
    held = f", which held {format_bytes(query)}" if query else ""
    return [
        f"{remedy}: the spill holds up to {format_bytes(spill)}, and "
        f"{format_bytes(min([free, *groups]))} of memory are free beside the query{held}; "
        f"what is in {where} is charged to the memory of whoever writes it"
    ]


def is_tmpfs(directory: Path) -> bool:
    """Whether a directory lies on a tmpfs."""
    mount = mounted(str(directory.resolve()))
    return mount is not None and mount.filesystem == "tmpfs"


def _check_room(spill: int, free: int, swap: int, groups: Sequence[int]) -> None:
    """Refusal where bytes do not fit into free memory, or into the room of a memory cgroup."""
    holds = f"the spill holds up to {format_bytes(spill)}"
    if groups and min(groups) < spill:
        raise SpillTooLarge(
            f"{holds}, and the memory cgroup leaves {format_bytes(max(min(groups), 0))} beside the "
            "query: it would run out of memory"
        )
    if spill <= free:
        return
    beside = f"{format_bytes(max(free, 0))} of memory are free beside the query"
    if spill <= free + swap:
        rest = f"the rest would go to swap ({format_bytes(swap)} free)"
        raise SpillTooLarge(f"{holds}, and {beside}: {rest}")
    raise SpillTooLarge(
        f"{holds}, and {beside}, with {format_bytes(swap)} of swap: it would run out of memory"
    )


def mount_word(size: int) -> str:
    """A size as mount reads it: ``8G``, ``1280M``."""
    return f"{size >> 30}G" if size % (1 << 30) == 0 else f"{size >> 20}M"


def _held_now_bytes(baseline: Recording) -> int:
    """The present memory of the recorded process, if it still runs on this machine."""
    engine = baseline.meta.engine
    if engine.pid is None or not baseline.meta.machine.is_this_one:
        return 0
    if command_of(engine.pid) != engine.command:
        return 0
    return resident_bytes(engine.pid) or 0
