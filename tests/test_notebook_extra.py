"""The example notebook runs in a clean environment with only the extra ``notebook``."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def packages(extra):
    """The packages of an extra of pyproject.toml, including those of the extras it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, wanted = project["optional-dependencies"], [*project["dependencies"]]
    pending = [extra]
    while pending:
        for package in extras[pending.pop()]:
            if package.startswith("spillcast["):
                pending += package.removeprefix("spillcast[").removesuffix("]").split(",")
            else:
                wanted.append(package)
    return wanted


@pytest.fixture
def clean(tmp_path):
    """The Python of an environment with the extra's packages and this checkout."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages("notebook")], check=True)
    [site] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "spillcast.pth").write_text(str(ROOT / "python"))
    return python


def test_the_notebook_runs_in_a_clean_environment(clean, tmp_path):
    command = [clean, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", NOTEBOOK,
               "--output-dir", tmp_path]  # fmt: skip
    paths = {"PATH": f"{clean.parent}:{os.environ['PATH']}", "IPYTHONDIR": str(tmp_path),
             "JUPYTER_PREFER_ENV_PATH": "1"}  # fmt: skip
    subprocess.run(command, check=True, env={**os.environ, **paths})
    assert (tmp_path / NOTEBOOK.name).exists()
