"""A wheel installed into a separate virtual environment, without a compiler on PATH."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

NEWEST_TRIED = 14
#: Directories that every server has; nothing else is on PATH.
PROGRAMS = ("cat", "env", "ls", "rm", "seq", "sh", "sleep")


class Installed:
    """A virtual environment, with a separate home directory beside it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.bin, self.home = folder / "venv" / "bin", folder / "home"
        self.home.mkdir(parents=True, mode=0o777)
        self.home.chmod(0o777)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
        self._programs = folder / "programs"
        self._programs.mkdir()
        for name in PROGRAMS:
            (self._programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")

    def install(self, subject: str, *options: str) -> float:
        """Installs by pip, only from wheels; returns the seconds that it took."""
        began = time.monotonic()
        command = ["pip", "install", "--quiet", "--only-binary", ":all:", *options, subject]
        done = self.run(*command)
        assert done.returncode == 0, f"pip install {subject}: {done.stderr}"
        return time.monotonic() - began

    def run(self, *words: object, under: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Runs one of its programs, with PATH limited to them and to the base directories."""
        program, *arguments = map(str, words)
        kept = {
            name: value for name, value in os.environ.items() if name.startswith(("PIP", "SSL"))
        }
        env = kept | {
            "PATH": f"{self.bin}:{self._programs}",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
        }
        command = [*under, str(self.bin / program), *arguments]
        return subprocess.run(command, env=env, cwd=self.home, capture_output=True, text=True)

    @property
    def packages(self) -> set[str]:
        """The names of its packages."""
        done = self.run("pip", "list", "--format", "freeze")
        return {line.partition("==")[0].lower() for line in done.stdout.splitlines()}

    @property
    def size_mb(self) -> float:
        """The size of its packages, without pip."""
        done = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        pip = ("pip", "setuptools", "pkg_resources", "_distutils")
        return sum(
            path.stat().st_blocks * 512
            for item in Path(done.stdout.strip()).iterdir()
            if not item.name.startswith(pip)
            for path in (item.rglob("*") if item.is_dir() else [item])
            if path.is_file()
        ) / 1e6  # fmt: skip


def pythons() -> list[Path]:
    """The newest of each version of Python from 3.11, on PATH or installed by pyenv."""
    result: dict[str, Path] = {}
    for minor in range(11, NEWEST_TRIED + 1):
        name = f"python3.{minor}"
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python"))
        on_path = [Path(path)] if (path := shutil.which(name)) else []
        for python in [*kept[-1:], *on_path]:
            if name not in result and _runs(python):
                result[name] = python
    if sys.prefix == sys.base_prefix:
        result.setdefault(f"python3.{sys.version_info.minor}", Path(sys.executable))
    return list(result.values())


def _runs(python: Path) -> bool:
    return subprocess.run([python, "-m", "venv", "--help"], capture_output=True).returncode == 0
