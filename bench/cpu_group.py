"""A CPU cgroup with a quota, for a process and its children; in either version of cgroups."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spillcast._core import group_folders

PERIOD_US = 100_000
_NUMBERS = itertools.count()


class NoCpuGroup(Exception):
    """No group can be made here; the message says why."""


@contextmanager
def cpu_group(cpus: float | None, shares: int | None = None) -> Iterator[Path]:
    """A new, empty group with this quota of CPU time per second; unlimited for None.

    With ``shares`` it takes precedence over groups with 1024, if the kernel has version 1.
    """
    folder = _made(cpus)
    try:
        if shares is not None and (folder / "cpu.shares").exists():
            (folder / "cpu.shares").write_text(str(shares))
        yield folder
    finally:
        until = time.monotonic() + 5
        while folder.exists() and time.monotonic() < until:
            with suppress(OSError):
                folder.rmdir()
            time.sleep(0.01)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Moves this process into a group and back; processes started meanwhile stay there."""
    before = _own_group(folder.parent)
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))


def limit(folder: Path, cpus: float | None) -> None:
    """Gives a group another quota."""
    quota_us = None if cpus is None else round(cpus * PERIOD_US)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota_us or 'max'} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us or -1))


def _own_group(parent: Path) -> Path:
    """The group of this process at or below a folder."""
    return next(private for private in group_folders("cpu") if private.is_relative_to(parent))


def _made(cpus: float | None) -> Path:
    reasons = ["there are no CPU cgroups here"]
    for parent in group_folders("cpu"):
        folder = parent / f"spillcast-cpu-{next(_NUMBERS)}-{os.getpid()}"
        try:
            folder.mkdir()
            limit(folder, cpus)
            return folder
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            with suppress(OSError):
                folder.rmdir()
    raise NoCpuGroup(reasons[-1])
