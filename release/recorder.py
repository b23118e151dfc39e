"""Builds the recorder: one static file for each processor, with both preload libraries in it."""

import argparse
import shutil
import sys
from pathlib import Path

from release.build import cargo, preload_library
from release.platforms import Platform, missing_toolchain, requested
from release.tree import ROOT, TREE, copied
from release.wheel import DIST

SIZE_MAX_BYTES = 8_000_000


def build(machine: str, profile: str) -> Path:
    """The recorder of a processor. SystemExit if a release build is too large."""
    copied()
    libraries = {}
    for item in (Platform(machine, False), Platform(machine, True)):
        kept = TREE.parent / f"preload-{item.name}.so"
        shutil.copy2(preload_library(item, profile), kept)
        libraries[f"SPILLCAST_PRELOAD_{'MUSL' if item.musl else 'GNU'}"] = str(kept)
    # A release is optimised for size.
    profile = "recorder" if profile == "release" else profile
    target = cargo(Platform(machine, True), profile, "spillcast-recorder", libraries, strip=True)
    path = DIST / f"spillcast-recorder-{machine}"
    shutil.copy2(target / "spillcast-recorder", path)
    if profile == "recorder" and path.stat().st_size > SIZE_MAX_BYTES:
        raise SystemExit(f"{path.name}: {path.stat().st_size:,} bytes, 8 MB at the most")
    return path


def main() -> None:
    """Builds what is requested; a processor without a toolchain is skipped by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--platform", nargs="*", default=[])
    options = parser.parse_args()
    DIST.mkdir(exist_ok=True)
    for machine in dict.fromkeys(item.machine for item in requested(options.platform)):
        both = (missing_toolchain(Platform(machine, musl)) for musl in (False, True))
        if reason := next(filter(None, both), None):
            print(f"skipped recorder {machine}: {reason}", file=sys.stderr)
            continue
        path = build(machine, options.profile)
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
