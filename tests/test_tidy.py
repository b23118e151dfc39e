"""Taste, held by tests: import direction, file openings and lengths, verbs in the documentation."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from spillcast.cli import VERBS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "spillcast"
LINES_MAX = 400
#: What every room may use, and the rooms from the ground up; rooms of one floor do not meet.
EVERYWHERE = {
    "spillcast.calibrated",
    "spillcast.errors",
    "spillcast.interruptible",
    "spillcast.tabular",
    "spillcast.units",
    "spillcast.workspace",
}
FLOORS = (
    {"_core"},
    {"recording"},
    {"profile"},
    {"cache"},
    {"storage"},
    {"forecast"},
    {"fleet"},
    {"engines"},
    {"lab"},
    {"report"},
    {"cli"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def python_files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


def imports(path):
    """The spillcast modules that a file imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("spillcast"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}: a relative import"
            if node.module == "spillcast":
                yield from (f"spillcast.{alias.name}" for alias in node.names)
            elif (node.module or "").startswith("spillcast."):
                yield node.module


def room_of(module):
    return module.split(".")[1]


@pytest.mark.parametrize("path", python_files("python/spillcast"), ids=name)
def test_a_room_imports_from_its_own_floor_or_below(path):
    inside = path.relative_to(PACKAGE).parts
    room = Path(inside[0]).stem
    if room in {"__init__", "__main__"}:
        pytest.skip("the front door opens on every room")
    if f"spillcast.{room}" in EVERYWHERE:
        assert set(imports(path)) <= EVERYWHERE
        return
    for module in imports(path):
        if module in EVERYWHERE or room_of(module) == room:
            continue
        assert FLOOR[room_of(module)] < FLOOR[room], f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", python_files("python", "tests", "bench"), ids=name)
def test_a_file_says_what_it_is_for_and_is_short(path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring, "a file begins with a line that says its job"
    assert docstring.splitlines()[0].endswith((".", ":")) or "\n" in docstring
    assert len(text.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_documented(verb):
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    used = re.compile(rf"spillcast {verb}\b")
    assert any(used.search(text.read_text()) for text in texts), f"spillcast {verb}: undocumented"


def test_every_verb_is_a_file_and_every_file_a_verb():
    helpers = {"__init__", "live", "options", "output", "progress", "record_postgres", "stage"}
    helpers |= {"storage_list", "sweep_io_size", "sweep_memory", "tree"}
    assert {path.stem for path in (PACKAGE / "cli").glob("*.py")} - helpers == set(VERBS)


def test_no_index_address_is_committed():
    # Put together here, so that this file does not hold them.
    words = [
        "index" + "-url",
        "files.python" + "hosted.org",
        "pypi" + ".org/simple",
        "regi" + "stry+",
    ]
    command = ["git", "-C", str(ROOT), "grep", "--name-only", "--fixed-strings"]
    for word in words:
        found = subprocess.run([*command, word], capture_output=True, text=True)
        if found.returncode > 1:
            pytest.skip(f"git cannot search here: {found.stderr.strip()}")
        allowed = {"Makefile", "Cargo.lock"}
        assert set(found.stdout.splitlines()) <= allowed, word
