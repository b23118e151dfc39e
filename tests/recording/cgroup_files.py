"""Made-up control groups as files, where this process's own would be."""

from pathlib import Path

import pytest


def group(folder, files):
    """Write the files of a group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")


def own_group(root, controller):
    """Where the own group of a controller lies below ``root``; of version 2 without one."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1] == controller]
    if not paths:
        pytest.skip(f"this kernel has no cgroup of '{controller}'")
    return root / controller / paths[0].lstrip("/")
