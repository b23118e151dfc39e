"""One tar for servers without network: the wheel, its dependencies, the recorder, install.sh."""

import argparse
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from release.build import TOOLS
from release.platforms import Platform, requested
from release.tree import ROOT
from release.wheel import DIST, wheel_of

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The oldest C libraries for which the dependencies have wheels.
_PLATFORMS = {
    False: ("manylinux_2_28", "manylinux_2_17", "manylinux2014"),
    True: ("musllinux_1_2",),
}


def build(item: Platform, pythons: list[str], extras: str) -> Path:
    """The bundle of a platform. SystemExit if its wheel or its recorder was not built."""
    wheel, recorder = wheel_of(item), DIST / f"spillcast-recorder-{item.machine}"
    if wheel is None or not recorder.exists():
        raise SystemExit(f"{item.name}: run make wheel recorder first")
    name = f"spillcast-{wheel.name.split('-')[1]}-{item.name}"
    with tempfile.TemporaryDirectory(prefix="spillcast-bundle-") as folder:
        root = Path(folder) / name
        (root / "wheels").mkdir(parents=True)
        for python in pythons:
            _download(wheel, extras, python, item, root / "wheels")
        shutil.copy2(wheel, root / "wheels")
        shutil.copy2(recorder, root)
        shutil.copy2(ROOT / "release" / "install.sh", root)
        (root / "install.sh").chmod(0o755)
        path = DIST / f"{name}.tar.gz"
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            tar.add(root, name)
    return path


def _download(wheel: Path, extras: str, python: str, item: Platform, to: Path) -> None:
    """Downloads the wheels of its dependencies for one version of Python."""
    platforms = [f"{name}_{item.machine}" for name in _PLATFORMS[item.musl]]
    command = [TOOLS / "python", "-m", "pip", "download", "--quiet", "--dest", to]
    command += ["--only-binary", ":all:", "--python-version", python]
    command += [word for name in platforms for word in ("--platform", name)]
    subject = f"{wheel}[{extras}]" if extras else str(wheel)
    subprocess.run([*map(str, command), subject], check=True)


def main() -> None:
    """Makes the bundle of each requested platform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", nargs="*", default=[])
    parser.add_argument("--python", nargs="*", default=list(PYTHONS))
    parser.add_argument("--extras", default="", help="such as sql,report")
    options = parser.parse_args()
    for item in requested(options.platform):
        if wheel_of(item) is None:
            print(f"skipped {item.name}: there is no wheel of it in {DIST}")
            continue
        path = build(item, options.python, options.extras)
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
