"""Files that are given twice: under one name, by a link, or as a copy."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from os import stat_result
from pathlib import Path

#: A repeated file, and the one that it equals.
Repeated = tuple[Path, Path]


def distinct(paths: Sequence[Path]) -> tuple[list[Path], list[Repeated]]:
    """The files without those that are there already, and these.

    Known by device and inode, or by their bytes; only files of one size are read for that. What is
    no plain file, or cannot be looked at, is kept: whoever reads it says why.
    """
    by_path = {path: status for path in paths if (status := _status(path)) is not None}
    by_inode: dict[tuple[int, int], Path] = {}
    for path, status in by_path.items():
        by_inode.setdefault((status.st_dev, status.st_ino), path)
    sizes = Counter(by_path[path].st_size for path in by_inode.values())
    by_content: dict[tuple[int, bytes], Path] = {}
    kept: dict[Path, None] = {}
    repeated: list[Repeated] = []
    for path in paths:
        first = path
        if (of := by_path.get(path)) is not None:
            first = by_inode[of.st_dev, of.st_ino]
            if sizes[of.st_size] > 1 and of.st_size and (digest := _digest(first)) is not None:
                first = by_content.setdefault((of.st_size, digest), first)
        if of is not None and (first != path or path in kept):
            repeated.append((path, first))
        else:
            kept[path] = None
    return list(kept), repeated


def repeated_words(repeated: Sequence[Repeated]) -> list[str]:
    """A note about files that were given twice and count once."""
    return [
        f"{again} is given twice and counts once"
        if again == first
        else f"{again} holds the same as {first} and counts once"
        for again, first in repeated
    ]


def _status(path: Path) -> stat_result | None:
    try:
        return path.stat() if path.is_file() else None
    except OSError:
        return None


def _digest(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:
        return None
