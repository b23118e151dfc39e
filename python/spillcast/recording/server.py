"""Recordings of all queries of a server: rows of all sessions, and the folder of recordings."""

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.columns import Field
from spillcast.document import PrintedDocument, key
from spillcast.errors import OutputExists, OutputUnwritable, PathMissing, PathUnusable
from spillcast.recording import SECOND_NS
from spillcast.recording.meta import EndedBy, is_recording
from spillcast.recording.observed import Server
from spillcast.recording.schema import SAMPLES, SIGNED, WAITS, within
from spillcast.recording.writer import Sink, TimeShift
from spillcast.tables import ParquetTable, Table, write_parquet
from spillcast.workspace import refuse_foreign_link

#: Maximum number of rows that are kept, some GB; above it the oldest are dropped.
ROWS_MAX = 50_000_000
#: The number of latest seconds that stay in memory, because more of their rows may arrive.
OPEN_SECONDS = 2
#: The name of the temporary folder of rows.
_ROWS = "rows"


class _RowsBySecond:
    """Keeps rows of one schema by second: the latest seconds in memory, earlier ones in files."""

    def __init__(self, folder: Path, fields: Sequence[Field], time: str) -> None:
        folder.mkdir(parents=True)
        self.fields, self.rows = fields, 0
        self._folder, self._time = folder, time
        self._open: dict[int, list[Table]] = {}
        self._files: dict[int, list[tuple[Path, int]]] = {}

    def add(self, batch: Table) -> None:
        if batch.num_rows == 0:
            return
        batch = batch.cast(self.fields)
        part_of = batch[self._time].values // SECOND_NS
        for part in np.unique(part_of).tolist():
            self._open.setdefault(part, []).append(batch.filter(part_of == part))
        self.rows += batch.num_rows
        self._close(before=int(part_of.max()) - OPEN_SECONDS)

    def tables(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> Iterator[Table]:
        """The rows of ``sessions``, for each second that overlaps a window."""
        for part in sorted(self._files.keys() | self._open.keys()):
            if part * SECOND_NS <= end_ns and (part + 1) * SECOND_NS > begin_ns:
                tables = [
                    ParquetTable(path, self.fields, signed=SIGNED).read()
                    for path, _ in self._files.get(part, ())
                ]
                rows = Table.concat([*tables, *self._open.get(part, ())])
                yield rows.filter(np.isin(rows["session"].values, list(sessions)))

    def forget(self, before: int) -> None:
        """Drop the seconds before ``before``."""
        for part in [part for part in self._files if part < before]:
            for path, rows in self._files.pop(part):
                path.unlink()
                self.rows -= rows
        for part in [part for part in self._open if part < before]:
            self.rows -= sum(batch.num_rows for batch in self._open.pop(part))

    @property
    def oldest(self) -> int:
        """The first second with rows; requires rows."""
        return min(self._files.keys() | self._open.keys())

    def _close(self, before: int) -> None:
        for part in [part for part in self._open if part < before]:
            table = Table.concat(self._open.pop(part))
            files = self._files.setdefault(part, [])
            path = self._folder / f"{part:08d}-{len(files)}.parquet"
            write_parquet(path, table)
            files.append((path, table.num_rows))


class SessionRows(Sink):
    """Receives the waits and samples of a capture of a whole server, for queries to select from.

    Times (ns) count from the capture's start. Single waits are complete from ``whole_from_ns`` on.
    """

    def __init__(self, folder: Path) -> None:
        self.whole_from_ns = 0
        self._folder = folder
        self._waits = _RowsBySecond(folder / "waits", WAITS, "start_ns")
        self._samples = _RowsBySecond(folder / "samples", SAMPLES, "time_ns")
        #: Pairs of a session and a second in which it did temp I/O.
        self._temp: set[tuple[int, int]] = set()

    def add_rows(self, rows: _core.Rows) -> None:
        """Take the new rows of a capture."""
        self.add_waits(rows.waits())

    def add_waits(self, rows: Any) -> None:
        """Take raw waits."""
        batch = Table.from_arrow(rows)
        self._waits.add(batch)
        temp = batch.filter(batch["temp"].values)
        seconds = temp["start_ns"].values // SECOND_NS
        self._temp.update(zip(temp["session"].to_pylist(), seconds.tolist(), strict=True))
        while self._waits.rows > ROWS_MAX:
            self._drop(self._waits.oldest + 2)

    def add_samples(self, rows: Table) -> None:
        """Take samples."""
        self._samples.add(rows)

    def discard(self) -> None:
        """Remove all rows."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def spilled(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> bool:
        """Whether any of ``sessions`` did temp I/O in the seconds of a window."""
        seconds = range(max(begin_ns, 0) // SECOND_NS, end_ns // SECOND_NS + 1)
        # Take the shorter iteration: the window may be long, or the server busy.
        if len(seconds) * len(sessions) < len(self._temp):
            return any(
                (session, second) in self._temp for session in sessions for second in seconds
            )
        return any(session in sessions and second in seconds for session, second in self._temp)

    def waits(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> Iterator[Table]:
        """The waits of ``sessions`` in a window, second by second; times count from its start."""
        clock = TimeShift(begin_ns)
        # A wait that began in the previous second may extend into the window.
        for rows in self._waits.tables(sessions, begin_ns - SECOND_NS, end_ns):
            yield clock.waits(within(rows, begin_ns, end_ns))

    def samples(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> Iterator[Table]:
        """The samples of ``sessions`` in a window, as in ``waits``."""
        for rows in self._samples.tables(sessions, begin_ns, end_ns):
            yield TimeShift(begin_ns).samples(rows.filter(rows["time_ns"].values <= end_ns))

    def forget(self, before_ns: int) -> None:
        """Drop rows from before ``before_ns``, which no query needs any more."""
        first = before_ns // SECOND_NS
        self._drop(first)
        self._temp = {(session, second) for session, second in self._temp if second >= first}

    def _drop(self, second: int) -> None:
        """Drop the rows before ``second``, but keep the second before it: its waits may overlap."""
        self.lack(second * SECOND_NS)
        self._waits.forget(second - 1)
        self._samples.forget(second - 1)

    def lack(self, at_ns: int) -> None:
        """Note that waits until ``at_ns`` are incomplete."""
        self.whole_from_ns = max(self.whole_from_ns, at_ns)


OTHER = "name another with -o"


@dataclass(frozen=True)
class QueryRecording:
    """A recording of a query, and its figures."""

    path: Path = key("its folder, a recording like any other", example="server.spills/4711-1.spill")
    pid: int = key("process id of the session", example=4711)
    user: str = key("user of the session; empty if unknown", example="etl")
    database: str = key("its database", example="dw")
    application: str = key("its `application_name`", example="nightly")
    query: str = key("text of the query, as in the recording")
    started_at: str | None = key(
        "start of the query, or of the recording if that was later",
        unit="ISO 8601",
        example="2026-11-21T14:17:11.975+00:00",
    )
    elapsed_s: float = key("since then", unit="s", example=27.9)
    before_recording_s: float = key(
        "how long it had run when the recording began", unit="s", example=0.0
    )
    ended_by: str = key("as `server.ended_by` of the recording", example="query")
    workers: int = key("its parallel workers", example=2)
    reads: int = key("reads of temp files", example=1757)
    read_bytes: int = key("bytes read of temp files", unit="bytes", example=14393344)
    writes: int = key("writes", example=1758)
    written_bytes: int = key("bytes written", unit="bytes", example=14401536)
    temp_s: float = key("sum of their durations over all processes", unit="s", example=3.9)
    temp_share: float = key(
        "share of the elapsed time, with `temp_s` divided equally among the session and its "
        "workers",
        example=0.14,
    )


@dataclass(frozen=True)
class UnkeptQuery:
    """A query that spilled but has no recording."""

    pid: int = key("process id of the session", example=4711)
    query: str = key("text of the query, without secrets")
    because: str = key("why there is none")


@dataclass(frozen=True)
class ServerRecording(PrintedDocument):
    """The recordings of a whole server."""

    SCHEMA = "spillcast.server-recording/1"

    path: Path = key("the folder of the recordings", example="server.spills")
    server: Server = key("")
    recorded_s: float = key("how long all sessions were observed", unit="s", example=300.0)
    ended_by: EndedBy = key(
        "`end` of the server, `duration`, `interrupt` or `failure` of our connection",
        example="interrupt",
    )
    failure: str | None = key("what failed; null if nothing did", example=None)
    method: str = key("the capture source", example="perf")
    lost: int = key("capture events lost", unit="reports", example=0)
    recordings: Sequence[QueryRecording] = key(
        "queries with temp I/O, in the order in which they ended"
    )
    unkept: Sequence[UnkeptQuery] = key("queries with temp I/O that have no recording")
    unassigned: int = key(
        "reads and writes of temp files that belong to no observed query",
        unit="calls",
        example=0,
    )


class RecordingsFolder:
    """A folder of recordings ``PID-N.spill``: new, or one that contains only recordings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: _core.PartialFolder | None = None
        self._is_ours = False

    def check(self) -> None:
        """InputError if the folder cannot hold recordings."""
        path, parent = self.path, self.path.absolute().parent
        refuse_foreign_link(parent)
        if path.is_symlink():
            raise PathUnusable(f"{path} is a symbolic link", "name the folder it leads to with -o")
        if not parent.is_dir():
            raise PathMissing(f"there is no directory {parent}", where=path)
        if not path.exists():
            if not os.access(parent, os.W_OK):
                raise OutputUnwritable("its directory is not writable", OTHER, path)
            return
        if not path.is_dir() or is_recording(path):
            raise OutputExists("exists and is not a folder of recordings", OTHER, path)
        if not os.access(path, os.W_OK):
            raise OutputUnwritable(f"{path} is not writable", OTHER)
        for inner in path.iterdir():
            if not is_recording(inner) and not _core.is_partial(inner.name):
                raise OutputExists(f"holds {inner.name}, which is not a recording", OTHER, path)
        _core.check_free(path / _ROWS)

    def make(self, *, share: bool = False) -> Path:
        """Create the folder, or remove the leftovers of a killed recorder from it.

        Returns the temporary folder for rows. InputError if another recorder writes there.
        """
        self._is_ours = not self.path.exists()
        if self._is_ours:
            self.path.mkdir()
            self.path.chmod(0o755 if share else 0o700)
        self._rows = _core.PartialFolder(self.path / _ROWS)
        return self._rows.path

    def next(self, pid: int) -> Path:
        """The path of the next recording of a session."""
        number = 1
        while (path := self.path / f"{pid}-{number}.spill").exists():
            number += 1
        return path

    def leave(self) -> None:
        """Remove the folder if it is empty."""
        if self._rows is not None:
            self._rows.close()
        if self._is_ours and self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()
