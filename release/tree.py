"""A copy of the sources to build from.

A library of another platform must not lie beside the modules in development. The binding refuses
to compile without its preload library, because maturin silently omits a missing one.
"""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
TREE = ROOT / "build" / "release" / "tree"
#: The file with the commit, beside the modules of a wheel.
COMMIT = Path("python", "spillcast", "commit.txt")
_SOURCES = (
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "crates",
    "pyproject.toml",
    "python",
)


def copied() -> Path:
    """The copy, brought up to date; unchanged files keep their modification time, for cargo."""
    wanted = {path.relative_to(ROOT) for name in _SOURCES for path in _files(ROOT / name)}
    for path in wanted:
        target = TREE / path
        if not _same(ROOT / path, target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target)
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        if path.relative_to(TREE) not in wanted:
            path.unlink()
    (TREE / COMMIT).write_text(f"{commit()}\n")
    return TREE


def commit() -> str:
    """The commit that is built, with a + if files differ; empty if unknown."""
    git = ["git", "-C", str(ROOT)]
    try:
        result = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True)
    except FileNotFoundError:
        return ""
    return result.stdout.decode().strip() + "+" * bool(changed.stdout.strip())


def target_folder() -> Path:
    """Cargo's target folder."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    # Bytecode appears and is renamed while other processes import from the copied tree.
    items = (item for item in path.rglob("*") if "__pycache__" not in item.parts)
    return [item for item in items if item.is_file() and item.suffix != ".so"]


def _same(item: Path, other: Path) -> bool:
    if not other.exists():
        return False
    a, b = item.stat(), other.stat()
    return (a.st_size, a.st_mtime_ns) == (b.st_size, b.st_mtime_ns)
