"""The control groups of a process: their folders, in both versions of the kernel's interface."""

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def group_folders(
    pid: int | str = "self", controller: str = "memory", cgroups: Path = CGROUPS
) -> Iterator[Path]:
    """The folders of the groups that control a process, innermost first.

    Version 2 has one tree for all controllers, version 1 one for each. In a container the root may
    be its own group.
    """
    for line in read(Path(f"/proc/{pid}/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = cgroups / "unified" if (cgroups / "unified").is_dir() else cgroups
        elif controller in controllers.split(","):
            together = cgroups / controllers
            root = together if together.is_dir() else cgroups / controller
        else:
            continue
        group = root / path.lstrip("/")
        while group != root and root in group.parents:
            yield group
            group = group.parent
        yield root


def read(path: Path) -> str:
    """The text of a small file; empty where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
