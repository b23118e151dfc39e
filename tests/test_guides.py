"""What the guides print is what spillcast prints: every command of a console block is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness import environment, spillcast
from oracle_files import ROOT, make_example


def make_io(directory):
    """Write ckbig.csv and day.csv."""
    make = ROOT / "examples" / "cache" / "make_example.py"
    subprocess.run([sys.executable, make, directory], check=True)


GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
#: A line that stands for any lines which the guide leaves out.
LEFT_OUT = "..."
#: What a guide's commands find in their directory.
PREPARE = {"oracle.md": make_example, "flash-cache.md": make_io}


def commands(guide):
    """Command and output, as the guide's console blocks have them."""
    blocks = re.findall(r"^```console\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def matches(expected, printed):
    """Whether lines are those expected, where ``...`` stands for any."""
    parts = [re.escape(line + "\n") for line in expected.splitlines()]
    pattern = "".join("(?:.*\n)*?" if p == re.escape(LEFT_OUT + "\n") else p for p in parts)
    return re.fullmatch(pattern, printed) is not None


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    def prepared(guide):
        path = tmp_path_factory.getbasetemp() / "guides" / guide.stem
        if not path.exists():
            path.mkdir(parents=True)
            PREPARE.get(guide.name, lambda _: None)(path)
        return path

    return prepared


@pytest.mark.parametrize(
    ("guide", "command", "output"),
    [(guide, *pair) for guide in GUIDES for pair in commands(guide)],
    ids=lambda value: value.name if isinstance(value, Path) else value[:60],
)
def test_the_guide_prints_what_spillcast_prints(directory, guide, command, output):
    program, *arguments = shlex.split(command)
    assert program == "spillcast"
    environ = environment()
    environ.pop("COLUMNS", None)
    result = spillcast(*arguments, cwd=directory(guide), env=environ)
    assert result.returncode == 0, result.stderr
    if not matches(output, result.stdout):
        assert result.stdout == output


def test_lines_left_out():
    assert matches("a\n...\nc\n", "a\nb\nb\nc\n")
    assert matches("a\n...\nc\n", "a\nc\n")
    assert not matches("a\n...\nc\n", "a\nb\n")
    assert not matches("a\nc\n", "a\nb\nc\n")
    assert not matches("a.c\n", "abc\n")
