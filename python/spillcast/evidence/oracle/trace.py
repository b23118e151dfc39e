"""Extended SQL traces (10046), profiled without rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spillcast import _core
from spillcast.errors import EvidenceDamaged, OptionConflict
from spillcast.evidence.oracle.trace_window import ALWAYS, Window, nothing_inside, windows_us
from spillcast.evidence.same_file import Repeated, distinct
from spillcast.interruptible import run_interruptibly

Progress = Callable[[int], None]
#: Standard input, which is read once.
STDIN = Path("-")
#: What rows of traces are in, in the order in which a reader hands them on.
TABLES = ("waits", "calls", "statements", "row_sources", "binds")

#: Groups of a profile, or nothing, and what was read of each file.
Read = tuple[list[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Traces:
    """Holds the result of reading: groups, and lines, rows, damage and sessions of each file.

    ``repeated`` are files that hold what another one does: they are not among ``paths``.
    """

    paths: list[Path]
    groups: list[dict[str, Any]]
    files: list[Mapping[str, Any]]
    repeated: list[Repeated] = field(default_factory=list)

    def sessions(self) -> list[Mapping[str, Any]]:
        """Where the time of each session of each file went, in microseconds."""
        return [session for file in self.files for session in file["sessions"]]

    def first_second(self) -> int:
        """Second of the database's clock in which the first session began."""
        firsts = [session["first_tim_us"] for session in self.sessions()]
        return min((first for first in firsts if first is not None), default=0) // 1_000_000

    def check(self, window: Window) -> None:
        """InputError where nothing lies in the window that was asked for."""
        if window != ALWAYS and not any(f["waits"] + f["calls"] for f in self.files):
            raise nothing_inside(window)

    def waits(self) -> int:
        """The number of lines in all files."""
        return sum(file["waits"] for file in self.files)

    def damaged(self) -> list[dict[str, Any]]:
        """The first damaged lines of each file, with what is wrong."""
        return [
            {"file": str(path), "line": line, "what": problem}
            for path, file in zip(self.paths, self.files, strict=True)
            for line, problem in file["damage"]
        ]

    def damaged_count(self) -> int:
        """Damaged lines in all."""
        return sum(file["damaged"] for file in self.files)

    def unmeasured(self) -> int:
        """The number of waits of impossible length, which are in no group and no time."""
        return sum(file["waits_unmeasured"] for file in self.files)


def read_once(paths: Sequence[Path], read: Callable[[list[Path]], Read]) -> Traces:
    """Read traces, each once, however often it is given: also as a compressed copy.

    A copy that is packed otherwise is known when it was read; then the others are read again.
    """
    kept, repeated = distinct(paths)
    groups, facts = read(kept)
    copies = _copies(kept, facts["files"])
    if copies and STDIN not in kept:
        gone = {again for again, _ in copies}
        kept = [path for path in kept if path not in gone]
        repeated = [*repeated, *copies]
        groups, facts = read(kept)
    return Traces(kept, groups, facts["files"], repeated)


def _copies(paths: Sequence[Path], files: Sequence[Mapping[str, Any]]) -> list[Repeated]:
    """Files of which all that was counted is that of another: no two sessions share each us."""
    first: dict[str, Path] = {}
    copies = []
    for path, file in zip(paths, files, strict=True):
        if not any(session["first_tim_us"] for session in file["sessions"]):
            continue
        same = first.setdefault(repr(sorted(file.items())), path)
        if same != path:
            copies.append((path, same))
    return copies


def profile_traces(
    paths: Sequence[Path],
    by: Sequence[str],
    *,
    calls: bool = True,
    lenient: bool = False,
    on_progress: Progress | None = None,
    window: Window = ALWAYS,
    quantiles: Mapping[str, float] = MappingProxyType({}),
) -> Traces:
    """Count waits and CPU by the dimensions in ``by``; without ``calls`` waits alone.

    Groups have ``quantiles`` of their latencies (us), the shares below them by name.
    The dimensions are those of ``_core.TraceReader.profile``.
    InputError where there are no trace lines or a file cannot be read.
    """

    def read(kept: list[Path]) -> Read:
        reader, watch = open_reader(kept, lenient, on_progress, window)
        with ReadFailures():
            return run_interruptibly(
                lambda: reader.profile(list(by), calls=calls, quantiles=list(quantiles.items())),
                reader.cancel,
                watch,
            )

    traces = read_once(paths, read)
    traces.check(window)
    return traces


def open_reader(
    paths: Sequence[Path],
    lenient: bool,
    on_progress: Progress | None,
    window: Window = ALWAYS,
) -> tuple[_core.TraceReader, Callable[[], None] | None]:
    """A reader of some traces, and what to call now and then while it works.

    InputError where no line of them can lie in the window.
    """
    windows = [] if window == ALWAYS else _windows_us(paths, lenient, window)
    reader = _core.TraceReader([str(path) for path in paths], lenient=lenient, windows_us=windows)
    if on_progress is None:
        return reader, None
    return reader, lambda: on_progress(reader.progress())


def _windows_us(paths: Sequence[Path], lenient: bool, window: Window) -> list[tuple[int, int]]:
    """The window by each file's clock, for which the files are read once more."""
    if STDIN in paths:
        raise OptionConflict(
            "--since and --until: standard input cannot be read twice", "give a file"
        )
    reader = _core.TraceReader([str(path) for path in paths], lenient=lenient)
    with ReadFailures():
        _, facts = run_interruptibly(lambda: reader.profile([]), reader.cancel)
    return windows_us(paths, facts["files"], window)


class ReadFailures:
    """Turn the reader's errors into InputErrors with a remedy."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError):
            raise EvidenceDamaged(str(error)) from error
        if isinstance(error, OSError):
            raise EvidenceDamaged(f"{error.filename}: {error.strerror}") from error
