"""Extended SQL traces (10046), profiled without rows."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.errors import InputError
from spillcast.interruptible import run_interruptibly

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Traces:
    """What was read: groups, and lines, rows, damage and sessions of each file."""

    paths: list[Path]
    groups: list[dict[str, Any]]
    files: list[Mapping[str, Any]]

    def sessions(self) -> list[Mapping[str, Any]]:
        """Where the time of each session of each file went, in microseconds."""
        return [session for file in self.files for session in file["sessions"]]

    def first_second(self) -> int:
        """Second of the database's clock in which the first session began."""
        return min((s["first_tim_us"] or 0 for s in self.sessions()), default=0) // 1_000_000

    def waits_before_us(self, *, lenient: bool = False) -> int:
        """Of the waits that files begin with, what lies before their first time.

        A session is in a wait when tracing begins; ``elapsed_us`` does not hold it. Reads the first
        rows of each file again.
        """
        found = 0
        for path, file in zip(self.paths, self.files, strict=True):
            times = [session["first_tim_us"] for session in file["sessions"]]
            start_us = _first_wait_us(path, lenient)
            if start_us is not None and None not in times:
                found += max(0, min(times) - start_us)
        return found

    def damaged(self) -> list[dict[str, Any]]:
        """The first damaged lines of each file, with what is wrong."""
        return [
            {"file": str(path), "line": line, "what": what}
            for path, file in zip(self.paths, self.files, strict=True)
            for line, what in file["damage"]
        ]

    def damaged_count(self) -> int:
        """Damaged lines in all."""
        return sum(file["damaged"] for file in self.files)


class _Enough(Exception):
    """Ends a reading of rows."""


def _first_wait_us(path: Path, lenient: bool) -> int | None:
    """When the first wait of a file began; None where there is none."""
    import pyarrow as pa

    starts: list[int] = []

    def take(waits: _core.Table, _calls: _core.Table, _statements: _core.Table) -> None:
        batch = pa.record_batch(waits)
        starts.extend(batch["start_ns"].slice(0, 1).to_pylist())
        raise _Enough

    reader, _ = open_reader([path], lenient, None)
    with ReadFailures(), suppress(_Enough):
        reader.rows(take)
    return starts[0] // 1_000 if starts else None


def profile_traces(
    paths: Sequence[Path],
    by: Sequence[str] = (),
    *,
    lenient: bool = False,
    on_progress: Progress | None = None,
) -> Traces:
    """Count waits and CPU by event and call and by the dimensions in ``by``.

    The dimensions are those of ``_core.TraceReader.profile``. InputError where there are no trace
    lines or a file cannot be read.
    """
    reader, watch = open_reader(paths, lenient, on_progress)
    with ReadFailures():
        groups, facts = run_interruptibly(lambda: reader.profile(list(by)), reader.cancel, watch)
    return Traces(list(paths), groups, facts["files"])


def open_reader(
    paths: Sequence[Path], lenient: bool, on_progress: Progress | None
) -> tuple[_core.TraceReader, Callable[[], None] | None]:
    """A reader of some traces, and what to call now and then while it works."""
    reader = _core.TraceReader([str(path) for path in paths], lenient=lenient)
    if on_progress is None:
        return reader, None
    return reader, lambda: on_progress(reader.progress())


class ReadFailures:
    """Turns the reader's errors into errors a person can act on."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError):
            raise InputError(str(error)) from error
        if isinstance(error, OSError):
            raise InputError(f"{error.filename}: {error.strerror}") from error
