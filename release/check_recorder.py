"""Checks the recorder: one static file that runs without anything else."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from release.recorder import SIZE_MAX_BYTES


def check(recorder: Path) -> str:
    """Returns the result as a line. AssertionError names the broken promise."""
    size = recorder.stat().st_size
    assert size <= SIZE_MAX_BYTES, f"{recorder.name}: {size:,} bytes"
    answer = subprocess.run(
        ["readelf", "-lW", recorder], capture_output=True, text=True, check=True
    )
    assert "INTERP" not in answer.stdout, f"{recorder.name}: wants a loader"
    return f"{recorder.name}: static, {size / 1e6:.1f} MB"


def check_runs(recorder: Path) -> str:
    """Like ``check``, for a native one, run as root in a root directory without other files."""
    ldd = subprocess.run(["ldd", recorder], capture_output=True, text=True)
    words = ldd.stdout + ldd.stderr
    assert "not a dynamic executable" in words or "statically linked" in words, words
    if os.geteuid() != 0:
        return "runs in an empty root: skipped, this is not root"
    with tempfile.TemporaryDirectory() as root:
        shutil.copy2(recorder, Path(root, "r"))
        answer = subprocess.run(["chroot", root, "/r", "--version"], capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        bare = ["chroot", root, "/r", "record", "--", "/r"]
        refused = subprocess.run(bare, capture_output=True, text=True)
        assert refused.returncode == 2, refused.stderr
        assert "mount -t proc" in refused.stderr, refused.stderr
    return f"runs in an empty root: {answer.stdout.strip()}; without /proc it says what mends that"


def check_emulated(recorder: Path, emulator: str) -> str:
    """Like ``check``, for one of another processor, run in QEMU."""
    with tempfile.TemporaryDirectory() as folder:
        version = _output([emulator, recorder, "--version"]).strip()
        probe = _output([emulator, recorder, "probe", folder, "--budget", "2s"])
    groups = json.loads(probe)["groups"]
    assert {item["op"] for item in groups} == {"read", "write"}, probe
    return f"runs by {emulator}: {version}; its probe measured {len(groups)} groups"


def _output(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
