"""Files of tables, cold or warm: dropped from the page cache, or read into it."""

import os
from collections.abc import Iterable
from pathlib import Path

CHUNK_BYTES = 1 << 20


def chill(files: Iterable[Path]) -> None:
    """Drop what the page cache holds of files; one in memory, such as of tmpfs, stays there."""
    for file in files:
        with file.open("rb", buffering=0) as opened:
            # What is dirty is not dropped.
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(files: Iterable[Path]) -> None:
    """Read files to their ends, so that the page cache holds them."""
    buffer = bytearray(CHUNK_BYTES)
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass
