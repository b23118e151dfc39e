"""Cargo builds for a platform, with zig as linker and C library instead of a container.

zig's linker knows the symbols of every glibc, so any machine builds wheels for old systems.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from release.platforms import Platform
from release.tree import TREE, commit, target_folder

#: The folder of the tools of release/requirements.txt, whose Python runs this program.
TOOLS = Path(sys.executable).parent


def environment(**more: str) -> dict[str, str]:
    """The environment of all builds: the tools come first on PATH."""
    paths = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    known = {"PATH": paths, "SPILLCAST_COMMIT": commit(), "CARGO_TARGET_DIR": str(target_folder())}
    return dict(os.environ) | known | more


def cargo(
    item: Platform, profile: str, package: str, extra: Mapping[str, str], *, strip: bool = False
) -> Path:
    """Builds a package; returns the folder of its output."""
    command = ["cargo", "zigbuild", "--quiet", "--locked", "--profile", profile]
    command += ["--package", package, "--target", item.zig_target]
    command += ["--config", f"profile.{profile}.strip='symbols'"] if strip else []
    subprocess.run(command, cwd=TREE, env=environment(**extra), check=True)
    return target_folder() / item.target / profile


def preload_library(item: Platform, profile: str) -> Path:
    """The library that recorded commands preload, for a platform's C library."""
    # Rust links musl statically by default, and then builds no dynamic libraries.
    name = f"CARGO_TARGET_{item.target.upper().replace('-', '_')}_RUSTFLAGS"
    flags = {name: "-Ctarget-feature=-crt-static"} if item.musl else {}
    return cargo(item, profile, "spillcast-preload", flags, strip=True) / "libspillcast_preload.so"
