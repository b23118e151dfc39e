"""Checks the bundle: installed and run without network."""

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path


def check(bundle: Path) -> str:
    """Returns the result as a line. AssertionError says what failed."""
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
    """Runs in a network namespace without a way out."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(["unshare", "-rn", *words], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{words[0]}: {done.stderr}"
    return done.stdout
