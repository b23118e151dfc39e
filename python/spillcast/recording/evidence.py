"""What the files on a command line are: recordings, traces or ASH exports."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spillcast.errors import InputError

TRACES = ("*.trc", "*.trc.gz", "*.trc.zst")
ASH_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Evidence:
    """Paths by kind; ``-`` among the traces is standard input."""

    recordings: list[Path] = field(default_factory=list)
    traces: list[Path] = field(default_factory=list)
    ash: list[Path] = field(default_factory=list)

    def only_kind(self) -> str:
        """``recording``, ``trace`` or ``ash``. InputError where kinds are mixed."""
        kinds = {"recording": self.recordings, "trace": self.traces, "ash": self.ash}
        given = [kind for kind, paths in kinds.items() if paths]
        if len(given) != 1:
            raise InputError(
                "recordings, traces and ASH exports are mixed", "give files of one kind at a time"
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
    return evidence.ash if path.suffix.lower() in ASH_SUFFIXES else evidence.traces


def _files(path: Path) -> list[Path]:
    if not path.is_dir() or path.suffix == ".spill" or (path / "meta.json").exists():
        return [path]
    found = sorted(file for pattern in TRACES for file in path.rglob(pattern))
    if not found:
        raise InputError(f"{path}: the folder holds no traces ({', '.join(TRACES)})")
    return found
