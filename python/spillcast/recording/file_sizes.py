"""Files and how large they are: temp files that were there before, data files that are read."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast.document import key
from spillcast.recording.memory import family

#: More files tell no more of how far a query is.
FILES_MAX = 64
_DELETED = " (deleted)"
_NO_DATA = ("/dev/", "/proc/", "/sys/")


@dataclass(frozen=True)
class SizedFile:
    """A file and its size."""

    file: str = key("its path", example="/mnt/temp/pgsql_tmp4711.0")
    bytes: int = key("its size", unit="bytes", example=1073741824)


def open_files(pid: int) -> list[SizedFile]:
    """The files that a process and those it started have open now."""
    sizes: dict[str, int] = {}
    for member in family(pid):
        folder = Path(f"/proc/{member}/fd")
        try:
            numbers = os.listdir(folder)
        except OSError:
            continue
        for number in numbers:
            try:
                name = os.readlink(folder / number)
                if name.startswith("/") and not name.startswith(_NO_DATA):
                    size = os.stat(folder / number).st_size
                    sizes[name.removesuffix(_DELETED)] = size
            except OSError:
                continue
    return [SizedFile(name, size) for name, size in sizes.items()]


def inputs_of(read_bytes: Mapping[str, int]) -> list[SizedFile]:
    """Of other files than temp files, by name what was read of each: the largest there are."""
    sized_files = []
    for name, count in read_bytes.items():
        if not count or name.startswith(_NO_DATA) or not name.startswith("/"):
            continue
        with suppress(OSError):
            sized_files.append(SizedFile(name, os.stat(name).st_size))
    return _largest(sized_files)


def temp_of(before: Iterable[SizedFile], folders: Iterable[str]) -> list[SizedFile]:
    """Of files that were there before, those in folders of temp files, the largest first."""
    known = {folder.rstrip("/") for folder in folders}
    return _largest(
        sized_file
        for sized_file in before
        if sized_file.bytes and os.path.dirname(sized_file.file) in known
    )


def _largest(files: Iterable[SizedFile]) -> list[SizedFile]:
    return sorted(files, key=lambda sized_file: (-sized_file.bytes, sized_file.file))[:FILES_MAX]
