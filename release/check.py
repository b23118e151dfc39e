"""Checks wheels: their platform tags, and the whole loop from clean virtual environments."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from release import check_bundle, check_recorder, inspect, loop
from release.installed import Installed, pythons
from release.platforms import PLATFORMS, native
from release.wheel import DIST, wheel_of

#: Large packages of extras, which the base package does not install.
NO_BASE = {"duckdb", "pandas", "polars", "pyarrow"}


def main() -> None:
    """Checks every wheel of dist, and runs the native one; ``--quick``: one Python, no charts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    result = {item: wheel for item in PLATFORMS if (wheel := wheel_of(item)) is not None}
    if not result:
        raise SystemExit(f"no wheel in {DIST}: run make wheel")
    passed, skipped = 0, 0
    for item in PLATFORMS:
        if item not in result:
            skipped += _skip(f"wheel {item.name}", "not built")
            continue
        print(f"{item.name}: {inspect.check(result[item], item)}", flush=True)
        passed += 1
        if item.machine != native().machine:
            skipped += _skip(
                f"loop {item.name}", "another processor: there is no Python of it here"
            )
        elif item != native():
            skipped += _skip(f"loop {item.name}", "another C library than that of Python here")
    if native() in result:
        target = pythons()
        for python in target[:1] if options.quick else target:
            more = check_loops(
                result[native()], python, charts=python == target[0] and not options.quick
            )
            passed += more
    for recorder in sorted(DIST.glob("spillcast-recorder-*")):
        print(check_recorder.check(recorder), flush=True)
        passed += 1
        machine = recorder.name.rpartition("-")[2]
        if machine == native().machine:
            print(check_recorder.check_runs(recorder), flush=True)
        elif shutil.which(f"qemu-{machine}"):
            print(check_recorder.check_emulated(recorder, f"qemu-{machine}"), flush=True)
        else:
            skipped += _skip(f"running {recorder.name}", f"install qemu-user for qemu-{machine}")
    if not options.quick:
        for bundle in sorted(DIST.glob(f"spillcast-*-{native().name}.tar.gz")):
            print(check_bundle.check(bundle), flush=True)
            passed += 1
    print(f"wheel-check: {passed} passed, 0 failed, {skipped} skipped")


def check_loops(wheel: Path, python: Path, *, charts: bool) -> int:
    """The loop in a clean environment of one Python, in every way; returns the number of loops."""
    with tempfile.TemporaryDirectory(prefix="spillcast-wheel-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        installed = Installed(python, folder)
        version = installed.run("python", "--version").stdout.strip()
        seconds = installed.install(str(wheel))
        print(f"{version}: installed in {seconds:.0f} s, {installed.size_mb:.0f} MB", flush=True)
        large = installed.packages & NO_BASE
        assert not large, f"the base package installs {', '.join(sorted(large))}"
        if charts:
            installed.install(f"{wheel}[report]")
            print(f"{version}: with the extra report {installed.size_mb:.0f} MB", flush=True)
        count = 0
        for way, under, captures in loop.ways(installed):
            if os.geteuid() != 0 and way != "with perf events refused":
                _skip(f"loop {way}", "this is not root")
                continue
            method = loop.run(installed, under, captures, charts=charts)
            print(f"{version}: record, probe, forecast, report {way}: {method}", flush=True)
            count += 1
    return count


def _skip(subject: str, reason: str) -> int:
    print(f"skipped {subject}: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
