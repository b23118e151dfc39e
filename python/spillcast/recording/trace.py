"""Extended SQL traces (10046): profiles without rows, and rows as Parquet files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillcast import _core
from spillcast.errors import InputError
from spillcast.interruptible import run_interruptibly

Progress = Callable[[int], None]
TABLES = ("waits", "calls", "statements")


@dataclass(frozen=True)
class Traces:
    """What was read: groups, and lines, rows, damage and sessions of each file."""

    paths: list[Path]
    groups: pa.Table
    files: list[Mapping[str, Any]]

    def sessions(self) -> list[Mapping[str, Any]]:
        """Where the time of each session of each file went, in microseconds."""
        return [session for file in self.files for session in file["sessions"]]

    def first_second(self) -> int:
        """Second of the database's clock in which the first session began."""
        return min((s["first_tim_us"] or 0 for s in self.sessions()), default=0) // 1_000_000

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
    reader, watch = _reader(paths, lenient, on_progress)
    with _Failures():
        groups, facts = run_interruptibly(lambda: reader.profile(list(by)), reader.cancel, watch)
    return Traces(list(paths), pa.table(pa.record_batch(groups)), facts["files"])


def spool_traces(
    paths: Sequence[Path],
    folder: Path,
    *,
    lenient: bool = False,
    on_progress: Progress | None = None,
) -> Traces:
    """Write all rows to ``waits.parquet``, ``calls.parquet`` and ``statements.parquet``."""
    reader, watch = _reader(paths, lenient, on_progress)
    writers: dict[str, pq.ParquetWriter] = {}

    def take(*tables: _core.Table) -> None:
        for name, table in zip(TABLES, tables, strict=True):
            batch = pa.record_batch(table)
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", batch.schema)
            writers[name].write_batch(batch)

    try:
        with _Failures():
            facts = run_interruptibly(lambda: reader.rows(take), reader.cancel, watch)
    finally:
        for writer in writers.values():
            writer.close()
    return Traces(list(paths), pa.table({}), facts["files"])


def _reader(
    paths: Sequence[Path], lenient: bool, on_progress: Progress | None
) -> tuple[_core.TraceReader, Callable[[], None] | None]:
    reader = _core.TraceReader([str(path) for path in paths], lenient=lenient)
    if on_progress is None:
        return reader, None
    return reader, lambda: on_progress(reader.progress())


class _Failures:
    """Turns the reader's errors into errors a person can act on."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ValueError):
            raise InputError(str(error)) from error
        if isinstance(error, OSError):
            raise InputError(f"{error.filename}: {error.strerror}") from error
