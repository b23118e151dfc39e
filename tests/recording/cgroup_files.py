"""Made-up control groups as files, at the path of this process's own group."""

from pathlib import Path

import pytest


def group(folder, files):
    """Write the files of a group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")


def own_group(root, controller):
    """The path below ``root`` of this process's group; version 2 without a controller."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1] == controller]
    if not paths:
        pytest.skip(f"this kernel has no cgroup of '{controller}'")
    return root / controller / paths[0].lstrip("/")
