"""Builds one wheel per platform, each with its preload library, and the wheel of the lab."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from release.build import TOOLS, environment, preload_library
from release.platforms import Platform, missing_toolchain, requested
from release.tree import ROOT, TREE, copied

DIST = ROOT / "dist"
#: Libraries that a wheel must contain.
LIBRARIES = ("spillcast/_core.abi3.so", "spillcast/_preload.so")


def build(item: Platform, profile: str) -> Path:
    """The wheel of a platform."""
    copied()
    library = preload_library(item, profile)
    shutil.copy2(library, TREE / "python" / "spillcast" / "_preload.so")
    command = [TOOLS / "maturin", "build", "--quiet", "--locked", "--zig", "--profile", profile]
    command += ["--target", item.target, "--compatibility", item.tag, "--out", DIST]
    subprocess.run(list(map(str, command)), cwd=TREE, env=environment(), check=True)
    wheel = wheel_of(item)
    assert wheel is not None, f"maturin made no wheel for {item.name}"
    check_whole(wheel)
    return wheel


def build_lab() -> Path:
    """The wheel of spillcast-lab, which is pure Python."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    # Built from a copy, as setuptools leaves folders beside the sources.
    with tempfile.TemporaryDirectory() as folder:
        left_out = shutil.ignore_patterns("__pycache__", "build")
        copy = shutil.copytree(ROOT / "lab", Path(folder) / "lab", ignore=left_out)
        subprocess.run([*command, "--no-deps", "--wheel-dir", DIST, copy], check=True)
    return next(DIST.glob("spillcast_lab-*.whl"))


def wheel_of(item: Platform) -> Path | None:
    """The wheel of a platform; None if it was not built."""
    return next(iter(DIST.glob(f"spillcast-*{item.tag}_{item.machine}*.whl")), None)


def check_whole(wheel: Path) -> None:
    """SystemExit if a wheel lacks a library."""
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in LIBRARIES:
        if name not in names:
            wheel.unlink()
            raise SystemExit(f"{wheel.name}: lacks {name}; it was removed")


def main() -> None:
    """Builds what is requested; a platform without a toolchain is skipped by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--platform", nargs="*", default=[])
    options = parser.parse_args()
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("spillcast[-_]*.whl"):
        old.unlink()
    for item in requested(options.platform):
        if (reason := missing_toolchain(item)) is not None:
            print(f"skipped {item.name}: {reason}", file=sys.stderr)
            continue
        wheel = build(item, options.profile)
        print(f"{wheel.relative_to(ROOT)}  {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    print(build_lab().relative_to(ROOT))


if __name__ == "__main__":
    main()
