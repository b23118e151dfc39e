"""Files and how large they are: temp files that were there before, data files that are read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spillcast import _core
from spillcast.document import key


@dataclass(frozen=True)
class SizedFile:
    """A file and its size."""

    file: str = key("its path", example="/mnt/temp/pgsql_tmp4711.0")
    bytes: int = key("its size", unit="bytes", example=1073741824)


def open_files(pid: int) -> list[SizedFile]:
    """The files that a process and those it started have open now."""
    return [SizedFile(*sized) for sized in _core.open_files(pid).items()]


def inputs_of(read_bytes: Mapping[str, int]) -> list[SizedFile]:
    """Of other files than temp files, by name what was read of each: the largest there are."""
    return [SizedFile(*sized) for sized in _core.inputs_of(read_bytes)]


def temp_of(before: Iterable[SizedFile], folders: Iterable[str]) -> list[SizedFile]:
    """Of files that were there before, those in folders of temp files, the largest first."""
    sizes = {sized_file.file: sized_file.bytes for sized_file in before}
    return [SizedFile(*sized) for sized in _core.temp_of(sizes, list(folders))]
