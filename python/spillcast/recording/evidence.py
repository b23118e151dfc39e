"""What the files on a command line are: recordings, traces, ASH exports or statistics."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from spillcast.errors import InputError

TRACES = ("*.trc", "*.trc.gz", "*.trc.zst")
ASH_SUFFIXES = (".csv", ".parquet")
_WORDS = {
    "recordings": "recordings",
    "traces": "traces",
    "ash": "ASH exports",
    "statistics": "statistics",
}


@dataclass(frozen=True)
class Evidence:
    """Paths by kind; ``-`` among the traces is standard input."""

    recordings: list[Path] = field(default_factory=list)
    traces: list[Path] = field(default_factory=list)
    ash: list[Path] = field(default_factory=list)
    statistics: list[Path] = field(default_factory=list)

    def only_kind(self) -> str:
        """The kind of all of it, as a field's name. InputError where kinds are mixed."""
        kinds = {field.name: getattr(self, field.name) for field in fields(self)}
        given = [kind for kind, paths in kinds.items() if paths]
        if len(given) != 1:
            raise InputError(
                f"{' and '.join(_WORDS[kind] for kind in given)} are mixed",
                "give files of one kind at a time",
            )
        return given[0]


def find_evidence(arguments: Sequence[str | Path]) -> Evidence:
    """Sort files, folders and patterns by kind. InputError for what is not there or is empty."""
    evidence = Evidence()
    for argument in map(str, arguments):
        for path in _expand(argument):
            _kind_of(path, evidence).extend(_files(path))
    return evidence


def _expand(argument: str) -> list[Path]:
    path = Path(argument)
    if argument == "-" or path.exists() or path.suffix == ".spill":
        return [path]
    if found := sorted(glob.glob(argument, recursive=True)):
        return [Path(name) for name in found]
    raise InputError(f"{argument}: there is no such file or folder")


def _kind_of(path: Path, evidence: Evidence) -> list[Path]:
    if path.suffix == ".spill" or (path / "meta.json").exists():
        return evidence.recordings
    if path.suffix.lower() not in ASH_SUFFIXES:
        return evidence.traces
    return evidence.statistics if _holds_statistics(path) else evidence.ash


def _holds_statistics(path: Path) -> bool:
    """Whether the headings of a CSV file are those of spooled session statistics."""
    with path.open("rb") as file:
        head = file.read(4096).lower()
    return b"accumulated" in head and b"value" in head and b"sample_time" not in head


def _files(path: Path) -> list[Path]:
    if not path.is_dir() or path.suffix == ".spill" or (path / "meta.json").exists():
        return [path]
    found = sorted(file for pattern in TRACES for file in path.rglob(pattern))
    if not found:
        raise InputError(f"{path}: the folder holds no traces ({', '.join(TRACES)})")
    return found
