"""Sizes of the page cache: for the engine, for a probe, and for dirty pages."""

import sys
from pathlib import Path

from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.memory import meminfo_bytes, memory_groups

#: File systems whose pages are the storage itself.
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
_VM = Path("/proc/sys/vm")


def engine_cache_bytes(recording: Recording) -> int | None:
    """The page cache that the engine could have used; None if the recording lacks it."""
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


def cache_bound_bytes(like: Recording, replay: _core.Probe) -> int | None:
    """The limit for the replay's page cache; None if it needs none.

    Held to it is what would have less in the engine's place, unless twice the working set fits. A
    share of the working set gets that share of the cache, for it then fits as well or as badly.
    """
    if replay.filesystem in IN_MEMORY:
        return None
    cache_bytes = machine_cache_bytes()
    engine = engine_cache_bytes(like)
    cache = cache_bytes if engine is None else min(cache_bytes, engine)
    bound = int(cache * replay.byte_share)
    if bound >= cache_bytes or cache >= 2 * replay.working_set_bytes:
        return None
    return bound


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
