"""A memory cgroup for one process, removed with it, also when its owner is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from spillcast import _core
from spillcast.workspace import undone_by

_PREFIX = "spillcast-probe-"
_NUMBERS = count()
#: The file that limits a group, in either version of cgroups.
_LIMITS = ("memory.max", "memory.limit_in_bytes")
#: Waits until the owner's end of the pipe closes, however that comes, then for the group to empty.
_JANITOR = """trap "" INT TERM HUP; cat >/dev/null
n=0; until rmdir "$1" 2>/dev/null || [ $n -ge 300 ]; do n=$((n+1)); sleep 0.1; done"""


class NoMemoryGroup(Exception):
    """Raised if no memory cgroup can be created or joined; the message says why."""


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """A new, empty memory cgroup with a limit. NoMemoryGroup if it cannot be created."""
    folder = _make(limit_bytes)
    with undone_by(_JANITOR, "spillcast-janitor", folder):
        yield folder


def join(folder: Path) -> None:
    """Move this process into a group, which counts its memory from now on."""
    try:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise NoMemoryGroup(f"{folder} cannot be joined: {error.strerror}") from error


def _make(limit_bytes: int) -> Path:
    """Below the innermost group of this process that takes one with a limit."""
    reasons = []
    for parent in _core.group_folders("memory"):
        _remove_stale(parent)
        folder = parent / f"{_PREFIX}{next(_NUMBERS)}-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        try:
            limit = next(folder / name for name in _LIMITS if (folder / name).exists())
            limit.write_text(str(limit_bytes))
        except (OSError, StopIteration) as error:
            folder.rmdir()
            reason = error.strerror if isinstance(error, OSError) else "it controls no memory"
            reasons.append(f"{parent}: {reason}")
            continue
        return folder
    raise NoMemoryGroup(reasons[0] if reasons else "there are no memory cgroups here")


def _remove_stale(parent: Path) -> None:
    """Remove the groups of owners that ended together with their janitors."""
    for folder in parent.glob(_PREFIX + "*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            with suppress(OSError):
                folder.rmdir()
