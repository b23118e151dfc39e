"""Limits of a probe: time, bytes that its files hold at once, and disk quotas."""

import ctypes
import os
import re
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from spillcast.errors import InputError, OptionInvalid
from spillcast.units import parse_bytes, parse_duration_s

_HINT = "write for example 60s, 4G or 60s,4G"


class Limits(TypedDict):
    """A budget for the core. Without ``budget_bytes`` it is all free space but a reserve."""

    budget_s: float
    budget_bytes: int | None


@dataclass(frozen=True)
class Budget:
    """Time and bytes of a probe; without ``bytes`` the share ``free_share`` of the free space."""

    time_s: float = 60.0
    bytes: int | None = None
    free_share: float = 0.1

    def limits(self, directory: Path) -> Limits:
        """The limits for a probe of ``directory``."""
        count = self.bytes
        if count is None and self.free_share < 1:
            stats = os.statvfs(directory)
            # A file system without a limit of space reports 0 blocks.
            if stats.f_blocks:
                count = int(stats.f_bavail * stats.f_frsize * self.free_share)
        return {"budget_s": self.time_s, "budget_bytes": count}


def all_that_is_free(budget: Budget | None) -> Budget:
    """The budget with all free space, unless it states bytes."""
    return replace(budget or Budget(), free_share=1.0)


#: The budget for a directory of an experiment.
OWNED = all_that_is_free(None)


def parse_budget(text: str) -> Budget:
    """A budget from ``60s``, ``4G`` or ``60s,4G``; m are minutes, M and MB are bytes."""
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
            count = parse_bytes(part)
        else:
            if time_s is not None:
                raise OptionInvalid(f"--budget {text}: the time is given twice", _HINT)
            try:
                time_s = parse_duration_s(part)
            except InputError as error:
                message = f"--budget {text}: '{part}' is neither time nor bytes"
                raise OptionInvalid(message, _HINT) from error
    return Budget(bytes=count) if time_s is None else Budget(time_s, count)


#: Numbers of Linux: the call that takes an open directory (5.14), its command, kinds of quota.
_QUOTACTL_FD, _GETQUOTA = 443, 0x800007
_KINDS = {"user": 0, "group": 1}
#: The kernel counts limits in blocks of this size, and usage in bytes.
_LIMIT_BYTES = 1024


@dataclass(frozen=True)
class Quota:
    """The unused part of a quota, in bytes."""

    free_bytes: int
    #: The owner, such as ``user 1000``.
    whose: str


class _Quota(ctypes.Structure):
    """struct if_dqblk of the kernel."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("hard", "soft", "used", "files_hard", "files_soft")),
        *((name, ctypes.c_uint64) for name in ("files", "time", "files_time")),
        ("valid", ctypes.c_uint32),
    )


def quota_of(directory: Path) -> Quota | None:
    """The quota with the least space left for the owner of a directory; None if none is known.

    The owner is the engine's user; in a directory that all may write to, it is this user. Root has
    no quota. The free space of the file system already accounts for project quotas.
    """
    about = directory.stat()
    user = os.geteuid() if about.st_mode & stat.S_IWOTH else about.st_uid
    ids = {"user": user, "group": about.st_gid if about.st_mode & stat.S_ISGID else 0}
    quotas = [
        Quota(left, f"{kind} {number}")
        for kind, number in ids.items()
        if number and (left := left_bytes(directory, kind, number)) is not None
    ]
    return min(quotas, key=lambda quota: quota.free_bytes, default=None)


def room_facts(directory: Path) -> dict[str, Any]:
    """The facts of a probe about the quota of a directory; empty without one."""
    quota = quota_of(directory)
    if quota is None:
        return {}
    return {"quota_free_bytes": quota.free_bytes, "quota_of": quota.whose}


def left_bytes(directory: Path, kind: str, number: int) -> int | None:
    """Bytes that the ``kind`` (``user`` or ``group``) of this number may still write there.

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
