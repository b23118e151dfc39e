"""Space available to temp files: budget of a probe, disk quota, tmpfs, page cache."""

import ctypes
import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.errors import InputError, OptionInvalid, SpillTooLarge
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
from spillcast.units import format_bytes, format_mount_size, parse_bytes, parse_duration_s
from spillcast.workspace import free_bytes

_HINT = "write for example 60s, 4G or 60s,4G"


@dataclass(frozen=True)
class Budget:
    """Time and bytes of a probe; without ``bytes``, the share ``free_share`` of the free space."""

    time_s: float = 60.0
    bytes: int | None = None
    free_share: float = 0.1

    def limits(self, directory: Path) -> dict[str, Any]:
        """The limits of a probe of ``directory``; None bytes mean all free space but a reserve."""
        count, free = self.bytes, free_bytes(directory)
        if count is None and self.free_share < 1 and free < sys.maxsize:
            count = int(free * self.free_share)
        return {"budget_s": self.time_s, "budget_bytes": count}


#: The budget for a directory of an experiment.
ALL_FREE = Budget(free_share=1.0)


def parse_budget(text: str) -> Budget:
    """A budget from ``60s``, ``4G`` or ``60s,4G``; ``m`` is minutes, ``M`` and ``MB`` are bytes."""
    time_s: float | None = None
    count: int | None = None
    parts = text.split(",")
    if len(parts) > 1 and any(re.fullmatch(r"\s*[\d.]+\s*", part) for part in parts):
        pointed = text.replace(",", ".")
        raise OptionInvalid(f"--budget {text}: a number without a unit", f"{_HINT}; or {pointed}")
    for part in parts:
        if re.fullmatch(r"\s*[\d.]+\s*(?:[KMGTkgt]|[KMGTkmgt]?i?[bB])\s*", part):
            if count is not None:
                raise OptionInvalid(f"--budget {text}: bytes are given twice", _HINT)
            count = parse_bytes(part, "--budget")
        else:
            if time_s is not None:
                raise OptionInvalid(f"--budget {text}: the time is given twice", _HINT)
            try:
                time_s = parse_duration_s(part)
            except InputError as error:
                message = f"--budget {text}: '{part}' is neither time nor bytes"
                raise OptionInvalid(message, _HINT) from error
    return Budget(bytes=count) if time_s is None else Budget(time_s, count)


#: Linux numbers: quotactl_fd (5.14), its command Q_GETQUOTA, and the types of quota.
_QUOTACTL_FD, _GETQUOTA = 443, 0x800007
_KINDS = {"user": 0, "group": 1}
#: The kernel gives limits in blocks of this size, but usage in bytes.
_LIMIT_BYTES = 1024


@dataclass(frozen=True)
class Quota:
    """The unused part of a quota, in bytes."""

    free_bytes: int
    #: The owner, such as ``user 1000``.
    owner: str


class _Quota(ctypes.Structure):
    """struct if_dqblk of the kernel."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("hard", "soft", "used", "files_hard", "files_soft")),
        *((name, ctypes.c_uint64) for name in ("files", "time", "files_time")),
        ("valid", ctypes.c_uint32),
    )


def quota_of(directory: Path) -> Quota | None:
    """The quota with the least space left for the owner of a directory; None if unknown.

    The owner is assumed to be the engine's user; in a world-writable directory it is this user.
    Root has no quota. The free space of the file system already accounts for project quotas.
    """
    about = directory.stat()
    user = os.geteuid() if about.st_mode & stat.S_IWOTH else about.st_uid
    ids = {"user": user, "group": about.st_gid if about.st_mode & stat.S_ISGID else 0}
    quotas = [
        Quota(left, f"{kind} {number}")
        for kind, number in ids.items()
        if number and (left := quota_left_bytes(directory, kind, number)) is not None
    ]
    return min(quotas, key=lambda quota: quota.free_bytes, default=None)


def quota_facts(directory: Path) -> dict[str, Any]:
    """The facts of a probe about the quota of a directory; empty without one."""
    quota = quota_of(directory)
    if quota is None:
        return {}
    return {"quota_free_bytes": quota.free_bytes, "quota_of": quota.owner}


def quota_left_bytes(directory: Path, kind: str, number: int) -> int | None:
    """Bytes that the user or group (``kind``) with this ID may still write there.

    None if there is no limit, or it cannot be read.
    """
    if sys.platform != "linux":
        return None
    quota = _Quota()
    command = (_GETQUOTA << 8) | _KINDS[kind]
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        failed = call(_QUOTACTL_FD, descriptor, command, number, ctypes.byref(quota))
    finally:
        os.close(descriptor)
    limit = quota.hard or quota.soft
    return None if failed or not limit else max(limit * _LIMIT_BYTES - quota.used, 0)


_VM = Path("/proc/sys/vm")


def machine_cache_bytes() -> int:
    """The page cache that a process could use on this machine now."""
    return max(0, min([meminfo_bytes().get("MemAvailable", sys.maxsize), *_cgroups_free_bytes()]))


def dirty_limit_bytes(filesystem: str) -> int | None:
    """The kernel's limit of dirty pages, as far as user space can read it; None without a limit.

    FUSE (including virtiofs) has its own limit, or no page cache. Otherwise it is
    ``vm.dirty_bytes``, or the share ``vm.dirty_ratio`` of free memory and file pages, of the
    machine or of the smallest memory cgroup. The kernel throttles writers below it.
    """
    if filesystem in IN_MEMORY or filesystem.startswith(("fuse", "virtiofs")):
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
    return max(0, min([dirtyable, *_cgroups_free_bytes()])) * ratio // 100


def _cgroups_free_bytes() -> list[int]:
    """The memory left in each cgroup of this process, in bytes."""
    return [group.limit_bytes - group.held_bytes for group in memory_groups()]


SHARED_MEMORY = Path("/dev/shm")
#: Size of a tmpfs mount over the recorded spill: the next run may spill a little more.
HEADROOM = 1.25
_STEP_BYTES = 256 << 20


def tmpfs_advice(baseline: Recording | Counts, directory: Path | None = None) -> list[str]:
    """Instructions to put the temp files of ``baseline`` into memory.

    ``directory`` is on a mounted tmpfs, if given. Refusal with the figures if the spill does not
    fit: it would swap, run out of memory, or fill the mount.
    """
    if isinstance(baseline, Counts):
        spill, memory, held_now = baseline.held_bytes, Memory(), 0
    else:
        spill, memory = baseline.held_bytes, baseline.meta.memory
        held_now = _current_resident_bytes(baseline)
    query = memory.peak_rss_bytes or 0
    groups = _cgroups_free_bytes()
    if memory.limit_bytes is not None:
        groups.append(memory.limit_bytes - (memory.group_held_bytes or query))
    meminfo = meminfo_bytes()
    # The query will also need the part of its memory that it does not hold now.
    free = meminfo["MemAvailable"] - max(0, query - held_now)
    _check_fits(spill, free, meminfo.get("SwapFree", 0), groups)
    # The spill plus a quarter, rounded up to 256 MiB.
    size = -(-round(spill * HEADROOM) // _STEP_BYTES) * _STEP_BYTES
    where, remedy = "DIR", f"mount -t tmpfs -o size={format_mount_size(size)} tmpfs DIR"
    if directory is not None:
        word = shell_word(directory)
        where, remedy = str(directory), f"mount -o remount,size={format_mount_size(size)} {word}"
        if (left := free_bytes(directory)) < spill:
            raise SpillTooLarge(
                f"the spill holds up to {format_bytes(spill)} and {directory} has "
                f"{format_bytes(left)} free: first {remedy}"
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


def _check_fits(spill: int, free: int, swap: int, groups: Sequence[int]) -> None:
    """Refusal if the spill does not fit into free memory, or into what a memory cgroup leaves."""
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


def check_free_space(recording: Recording, directory: Path) -> None:
    """Refusal if the query's writes could fill the directory's storage or memory."""
    if is_tmpfs(directory):
        tmpfs_advice(recording, directory)
    wrote, free, limit = recording.written_bytes.temp, free_bytes(directory), ""
    quota = quota_of(directory)
    if quota is not None and quota.free_bytes < free:
        free, limit = quota.free_bytes, f" by the quota of {quota.owner}"
    if wrote > free:
        raise SpillTooLarge(
            f"{directory} has {format_bytes(free)} free{limit}, the query wrote "
            f"{format_bytes(wrote)}: a rehearsal could fill it"
        )


def _current_resident_bytes(baseline: Recording) -> int:
    """The current memory of the recorded process, if it still runs on this machine."""
    engine = baseline.meta.engine
    if engine.pid is None or not baseline.meta.machine.is_current:
        return 0
    if command_of(engine.pid) != engine.command:
        return 0
    return resident_bytes(engine.pid) or 0
