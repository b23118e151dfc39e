"""How much the page cache takes before writers must wait for the storage."""

from pathlib import Path

from spillcast.recording.memory import meminfo_bytes, memory_groups

_VM = Path("/proc/sys/vm")


def dirty_limit_bytes() -> int | None:
    """The kernel's limit of dirty pages as best known from outside; None where it says nothing.

    ``vm.dirty_bytes``, or ``vm.dirty_ratio`` of what could be dirty: free memory and the pages of
    files, here or in the smallest memory cgroup. Writers are slowed down from somewhat below.
    """
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
    rooms = [group.limit_bytes - group.held_bytes for group in memory_groups()]
    return max(0, min(dirtyable, *rooms)) * ratio // 100 if rooms else dirtyable * ratio // 100
