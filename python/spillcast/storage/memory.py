"""Memory for temp files: the page cache of an engine and of a probe, and tmpfs."""

import os
import sys
from dataclasses import dataclass
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
from spillcast.recording.spill import spill_bytes
from spillcast.text import shell_word
from spillcast.units import format_bytes

_VM = Path("/proc/sys/vm")


def engine_cache_bytes(evidence: Recording | Counts) -> int | None:
    """The page cache that the engine could have used; None where it is not known."""
    if isinstance(evidence, Counts):
        return None
    recording = evidence
    memory = recording.meta.memory
    taken = memory.peak_rss_bytes or 0
    # What a group holds besides files counts shared pages once, and those of others in it.
    held = taken if memory.group_held_bytes is None else memory.group_held_bytes
    available, limit = recording.meta.machine.memory_available_bytes, memory.limit_bytes
    room = [] if available is None else [available - taken]
    room += [] if limit is None else [limit - held]
    return max(0, min(room)) if room else None


def machine_cache_bytes() -> int:
    """The page cache that a process could use on this machine now."""
    return max(0, min([meminfo_bytes().get("MemAvailable", sys.maxsize), *_rooms()]))


def dirty_limit_bytes(filesystem: str) -> int | None:
    """The kernel's limit of dirty pages, as far as user space can tell; None without a limit.

    ``vm.dirty_bytes``, or ``vm.dirty_ratio`` of what could be dirty: free memory and the pages of
    files, here or in the smallest memory cgroup. Writers are slowed down from somewhat below.
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


@dataclass(frozen=True)
class Room:
    """The memory available for temp files, in bytes."""

    #: MemAvailable less what the query wants for itself and does not hold now.
    free_bytes: int
    swap_free_bytes: int
    #: Lowest room that a memory cgroup leaves; None without a limit.
    group_bytes: int | None
    #: The largest memory of the query itself.
    query_bytes: int


def check_memory(baseline: Recording | Counts, directory: Path | None = None) -> list[str]:
    """Instructions to put the temp files of ``baseline`` into memory.

    ``directory`` is on a tmpfs that is mounted already. Refusal with the figures where the spill
    does not fit: it would swap, run out of memory, or fill the mount.
    """
    if isinstance(baseline, Counts):
        spill, room = baseline.held_bytes, memory_room(None)
    else:
        spill, room = spill_bytes(baseline), memory_room(baseline)
    _check_room(spill, room)
    size = mount_size_bytes(spill)
    where, remedy = "DIR", f"mount -t tmpfs -o size={mount_word(size)} tmpfs DIR"
    if directory is not None:
        word = shell_word(directory)
        where, remedy = str(directory), f"mount -o remount,size={mount_word(size)} {word}"
        stat = os.statvfs(directory)
        if stat.f_blocks and stat.f_bavail * stat.f_frsize < spill:
            free = format_bytes(stat.f_bavail * stat.f_frsize)
            raise SpillTooLarge(
                f"the spill holds up to {format_bytes(spill)} and {directory} has {free} free: "
                f"first {remedy}"
            )
    held = f", which held {format_bytes(room.query_bytes)}" if room.query_bytes else ""
    return [
        f"{remedy}: the spill holds up to {format_bytes(spill)}, and "
        f"{format_bytes(_lower_bytes(room))} of memory are free beside the query{held}; "
        f"what is in {where} is charged to the memory of whoever writes it"
    ]


def is_tmpfs(directory: Path) -> bool:
    """Whether a directory lies on a tmpfs."""
    mount = mounted(str(directory.resolve()))
    return mount is not None and mount.filesystem == "tmpfs"


def memory_room(baseline: Recording | None) -> Room:
    """The memory of this machine for the temp files of a run, beside what it took if recorded."""
    memory = Memory() if baseline is None else baseline.meta.memory
    query = memory.peak_rss_bytes or 0
    lacking = 0 if baseline is None else max(0, query - _held_now_bytes(baseline))
    groups = _rooms()
    if memory.limit_bytes is not None:
        groups.append(memory.limit_bytes - query)
    meminfo = meminfo_bytes()
    return Room(
        free_bytes=meminfo["MemAvailable"] - lacking,
        swap_free_bytes=meminfo.get("SwapFree", 0),
        group_bytes=min(groups, default=None),
        query_bytes=query,
    )


def mount_size_bytes(spill: int) -> int:
    """The size to mount with: the spill and a quarter, in steps of 256 MiB."""
    return -(-round(spill * HEADROOM) // _STEP_BYTES) * _STEP_BYTES


def _check_room(spill: int, room: Room) -> None:
    holds = f"the spill holds up to {format_bytes(spill)}"
    group = room.group_bytes
    if group is not None and group < spill:
        raise SpillTooLarge(
            f"{holds}, and the memory cgroup leaves {format_bytes(max(group, 0))} beside the "
            "query: it would run out of memory"
        )
    if spill <= room.free_bytes:
        return
    beside = f"{format_bytes(max(room.free_bytes, 0))} of memory are free beside the query"
    if spill <= room.free_bytes + room.swap_free_bytes:
        swap = format_bytes(room.swap_free_bytes)
        raise SpillTooLarge(f"{holds}, and {beside}: the rest would go to swap ({swap} free)")
    raise SpillTooLarge(
        f"{holds}, and {beside}, with {format_bytes(room.swap_free_bytes)} of swap: "
        "it would run out of memory"
    )


def _lower_bytes(room: Room) -> int:
    return room.free_bytes if room.group_bytes is None else min(room.free_bytes, room.group_bytes)


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
