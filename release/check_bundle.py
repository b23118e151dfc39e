"""Checks the bundle: installed and run where there is no network."""

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path


def check(bundle: Path) -> str:
    """What was found, in a line. AssertionError says what failed."""
    with tempfile.TemporaryDirectory(prefix="spillcast-bundle-") as folder:
        with tarfile.open(bundle) as tar:
            tar.extractall(folder, filter="data")
        [root] = Path(folder).iterdir()
        to = Path(folder, "installed")
        _offline(str(root / "install.sh"), str(to))
        versions = [
            _offline(str(to / "bin" / name), "--version").strip()
            for name in ("spillcast-recorder", "spillcast")
        ]
        _offline(str(to / "bin" / "spillcast"), "storage", "list", "aws*")
    return f"{bundle.name}, installed without network: {', '.join(versions)}"


def _offline(*words: str) -> str:
    """Run in a network namespace that has no way out."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(["unshare", "-rn", *words], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{words[0]}: {done.stderr}"
    return done.stdout
