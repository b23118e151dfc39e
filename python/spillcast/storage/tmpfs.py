"""Temp files in memory: whether a spill fits beside the query, and what to mount."""

import os
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import SpillTooLarge
from spillcast.recording import Recording
from spillcast.recording.machine import command_of
from spillcast.recording.memory import meminfo_bytes, memory_groups, resident_bytes
from spillcast.recording.observed import mounted
from spillcast.recording.spill import spill_bytes
from spillcast.units import format_bytes
from spillcast.visible import shell_word

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


def check(baseline: Recording, directory: Path | None = None) -> list[str]:
    """Instructions to put the temp files of ``baseline`` into memory.

    ``directory`` is on a tmpfs that is mounted already. Refusal with the figures where the spill
    does not fit: it would swap, run out of memory, or fill the mount.
    """
    spill = spill_bytes(baseline)
    room = memory_room(baseline)
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
        f"{remedy}: the spill holds up to {format_bytes(spill)}, and {format_bytes(_least(room))} "
        f"of memory are free beside the query{held}; "
        f"what is in {where} is charged to the memory of whoever writes it"
    ]


def is_tmpfs(directory: Path) -> bool:
    """Whether a directory lies on a tmpfs."""
    mount = mounted(str(directory.resolve()))
    return mount is not None and mount.filesystem == "tmpfs"


def memory_room(baseline: Recording) -> Room:
    """The memory of this machine for the temp files of ``baseline`` during its run."""
    memory = baseline.meta.memory
    query = memory.peak_rss_bytes or 0
    lacking = max(0, query - _held_now_bytes(baseline))
    groups = [group.limit_bytes - group.held_bytes for group in memory_groups()]
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


def _least(room: Room) -> int:
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
