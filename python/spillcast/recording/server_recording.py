"""Recordings of all queries of a server: their folder, and the document that lists them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.document import key, written
from spillcast.errors import OutputExists, OutputUnwritable, PathMissing, PathUnusable
from spillcast.recording.meta import EndedBy
from spillcast.recording.meta_file import is_recording
from spillcast.recording.postgres_meta import Server
from spillcast.workspace import refuse_planted_link

OTHER = "name another with -o"
SERVER_RECORDING_SCHEMA = "spillcast.server-recording/1"


@dataclass(frozen=True)
class QueryRecording:
    """Summarises the recording of one query."""

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
    ended_by: str = key("as `postgres.ended_by` of the recording", example="query")
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
    """Names a query that spilled but has no recording."""

    pid: int = key("process id of the session", example=4711)
    query: str = key("text of the query, without secrets")
    because: str = key("why there is none")


@dataclass(frozen=True)
class ServerRecording:
    """Lists the recordings of a whole server."""

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

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {"schema": SERVER_RECORDING_SCHEMA, **written(self)}


class RecordingsFolder:
    """A folder of recordings ``PID-N.spill``: new, or one that holds nothing but recordings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: _core.PartialFolder | None = None
        self._is_ours = False

    def check(self) -> None:
        """InputError if the folder cannot hold recordings."""
        path, parent = self.path, self.path.absolute().parent
        refuse_planted_link(parent)
        if path.is_symlink():
            raise PathUnusable(f"{path} is a symbolic link", "name the folder it leads to with -o")
        if not parent.is_dir():
            raise PathMissing(f"{path}: there is no directory {parent}")
        if not path.exists():
            if not os.access(parent, os.W_OK):
                raise OutputUnwritable(f"{path}: its directory is not writable", OTHER)
            return
        if not path.is_dir() or is_recording(path):
            raise OutputExists(f"{path}: exists and is not a folder of recordings", OTHER)
        if not os.access(path, os.W_OK):
            raise OutputUnwritable(f"{path} is not writable", OTHER)
        for inner in path.iterdir():
            if not is_recording(inner) and not _core.is_partial(inner.name):
                raise OutputExists(f"{path}: holds {inner.name}, which is not a recording", OTHER)
        _core.check_free(path / _ROWS)

    def make(self, *, share: bool = False) -> Path:
        """Make it, without what a recorder that was killed has left there.

        The folder in which rows stand until they are those of a query. InputError where another
        recorder writes there.
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
        """Remove the folder if it stayed empty."""
        if self._rows is not None:
            self._rows.close()
        if self._is_ours and self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()


_ROWS = "rows"
