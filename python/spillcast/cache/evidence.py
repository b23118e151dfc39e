"""Reads traces, recordings, CSV and oracleGeneral files as requests for cache lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from spillcast import _core
from spillcast.cache.rows import (
    is_csv,
    is_observed,
    of_recording,
    of_traces,
    read_csv,
    read_observed,
)
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceMixed,
    EvidenceUnsuited,
    OptionConflict,
    OptionInvalid,
    PathMissing,
    SelectionEmpty,
    first_line,
)
from spillcast.evidence.open import EvidenceFiles, find_evidence, rereadable
from spillcast.gate import check_kind, reading
from spillcast.interruptible import run_interruptibly
from spillcast.recording import Recording

LINE_BYTES = 64 << 10
#: Oracle's default block size; a trace does not contain it.
BLOCK_BYTES = 8192
_RECORD_BYTES = 24
_RECORD_HINT = "records are time u32, id u64, size u32, next i64, little-endian"
T = TypeVar("T")


@dataclass(frozen=True)
class Requests:
    """Requests for cache lines, and the names of the numbered objects."""

    core: _core.CacheRequests
    line_bytes: int
    #: Names by number.
    objects: Sequence[str]
    notes: Sequence[str] = field(default_factory=list)

    def run(self, work: Callable[[], T], on_progress: Callable[[int], None] | None) -> T:
        """Run work of the core on the requests, interruptibly; returns its result.

        InputError for impossible work and for a damaged file.
        """
        report_progress = None if on_progress is None else lambda: on_progress(self.core.requests())
        try:
            return run_interruptibly(work, self.core.cancel, report_progress)
        except ValueError as error:
            raise OptionInvalid(str(error)) from error
        except OSError as error:
            # Only an oracleGeneral file is read this late; its path is the object's name.
            fault = f"cut or damaged: {first_line(error)}"
            raise EvidenceDamaged(fault, _RECORD_HINT, self.objects[0]) from error

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """Numbers of objects. InputError for an object without I/O."""
        for name in names:
            if name not in self.objects:
                known = ", ".join(sorted(self.objects)[:12])
                raise SelectionEmpty(
                    f"--keep {name}: the evidence has no I/O on it", f"it has I/O on: {known}"
                )
        return [self.objects.index(name) for name in names]


def read_requests(
    arguments: Sequence[str],
    *,
    line_bytes: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    lenient: bool = False,
) -> Requests:
    """Read I/O from files. InputError for missing or mixed files, and for files without offsets."""
    paths = [rereadable(argument) for argument in arguments]
    for path in paths:
        check_kind(path)
    general = [path for path in paths if "oraclegeneral" in path.name.lower()]
    of_csv = any(is_csv(path) for path in paths)
    of_counts = bool(paths) and all(is_observed(path) for path in paths)
    evidence = EvidenceFiles() if general or of_csv or of_counts else find_evidence(arguments)
    if lenient and not evidence.traces:
        raise OptionConflict("--lenient is for traces")
    if general:
        if len(paths) > 1:
            raise EvidenceMixed("an oracleGeneral file is a whole trace: give it alone")
        return _oracle_general(general[0], line_bytes)
    if of_csv:
        rows = read_csv(paths)
    elif of_counts:
        rows = read_observed(paths)
    elif evidence.only_waits() == "recordings":
        if len(evidence.recordings) > 1:
            raise EvidenceMixed("several recordings were given", "simulate one at a time")
        rows = of_recording(Recording.open(evidence.recordings[0]))
    elif evidence.traces:
        rows = of_traces(evidence.traces, block_bytes, lenient=lenient)
    else:
        raise EvidenceUnsuited(
            "samples and statistics contain no offsets, so they do not show repeated reads",
            "give traces, a recording, a CSV file with offsets, or an oracleGeneral file",
        )
    line_bytes = line_bytes or LINE_BYTES
    return Requests(rows.requests(line_bytes), line_bytes, rows.objects, rows.notes)


def _oracle_general(path: Path, line_bytes: int | None) -> Requests:
    """Requests of an oracleGeneral file: each id is one line, regardless of its size."""
    if not path.is_file():
        raise PathMissing("there is no such file", where=path)
    if line_bytes is None:
        with reading(path), path.open("rb") as file:
            source = _core.ZstdReader(path) if path.suffix == ".zst" else file
            first = source.read(_RECORD_BYTES)
        line_bytes = int.from_bytes(first[12:16], "little")
        if len(first) < _RECORD_BYTES or line_bytes == 0:
            raise EvidenceDamaged(
                "not an oracleGeneral trace: it does not begin with a 24-byte record and a size",
                _RECORD_HINT,
                path,
            )
    return Requests(_core.CacheRequests.oracle_general(path), line_bytes, [path.name])
