"""Records the query of a session: the I/O of its thread, and samples of the thread's state."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.mysql import MEMORY_SETTINGS
from spillcast.engines.mysql.connection import (
    Connection,
    Server,
    connected,
    process_of,
    rows,
    server_of,
    thread_of,
    variables,
)
from spillcast.errors import (
    InputError,
    OptionInvalid,
    ProcessMissing,
    QueryEnded,
    ServerUnsuited,
    SessionAmbiguous,
    TimedOut,
)
from spillcast.interruptible import interrupts_reported
from spillcast.recording import Recording
from spillcast.recording.capture import AUTO, RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.record import Recorder, RunSoFar
from spillcast.recording.schema import SAMPLES
from spillcast.recording.server_meta import RecordedQuery, Sampling
from spillcast.recording.server_meta import Server as ServerAddress
from spillcast.redaction import struck_text
from spillcast.tables import Table
from spillcast.units import format_duration

#: Looks a second, by flavor. MariaDB makes a temporary table on disk for each, but tells the start
#: and the end of a statement to the millisecond.
RATE_HZ = {"mariadb": 10, "mysql": 50}
#: Intervals without a look from which no sample stands for the time.
GAP = 5
LISTED = 8
_SESSIONS = {
    "mariadb": "select id, user, db, command, time_ms / 1000 seconds, state, info, query_id, "
    "tid thread from information_schema.processlist where id <> connection_id()",
    "mysql": "select t.processlist_id id, t.processlist_user user, t.processlist_db db, "
    "t.processlist_command command, coalesce(s.timer_wait / 1e12, t.processlist_time) seconds, "
    "t.processlist_state state, t.processlist_info info, s.event_id query_id, "
    "t.thread_os_id thread from performance_schema.threads t "
    "left join performance_schema.events_statements_current s on s.thread_id = t.thread_id "
    "and s.nesting_event_id is null "
    "where t.processlist_id is not null and t.processlist_id <> connection_id()",
}


@dataclass(frozen=True)
class Session:
    """A session as the server lists it."""

    id: int
    user: str
    db: str | None
    command: str
    #: Since its statement began; of an idle session of MariaDB since that ended.
    seconds: float
    state: str | None
    info: str | None
    query_id: int | None
    thread: int | None

    @property
    def runs(self) -> bool:
        """Whether it runs a statement."""
        return self.command in ("Query", "Execute") and bool(self.info)

    def continues(self, before: "Session") -> bool:
        """Whether it still runs the statement that it ran at an earlier look."""
        same = self.info, self.query_id
        return same == (before.info, before.query_id) and self.seconds >= before.seconds

    def describe(self) -> str:
        """Return one line for a list of sessions."""
        text = " ".join(struck_text(self.info or "").split())
        return f"{self.id}  {self.user}  {format_duration(self.seconds)}  {text}"[:76]


class _Watched:
    """The target of the recorder: a thread whose end is the end of its query."""

    exit_status: int | None = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self, timeout_s: float) -> bool:
        time.sleep(timeout_s)
        return False


def sessions(connection: Connection, server: Server) -> list[Session]:
    """Return all sessions but our own that this user may see. ServerUnsuited where none can be."""
    if not server.instrumented and server.flavor == "mysql":
        raise ServerUnsuited(
            "MySQL: performance_schema is off, so the thread of a session is not known",
            "set performance_schema = ON in my.cnf and restart; record --pid records all sessions",
        )
    return [
        Session(**{**row, "seconds": float(row["seconds"] or 0)})
        for row in rows(connection, _SESSIONS[server.flavor])
    ]


def find(
    connection: Connection,
    server: Server,
    wanted: SessionSelector,
    say: Say,
    within_s: float | None,
) -> Session:
    """Wait for the session that is wanted; one that its number selects may be idle.

    InputError where it does not exist and where several match; TimedOut after ``within_s``.
    """
    try:
        pattern = re.compile(wanted.query or "", re.IGNORECASE)
    except re.error as error:
        raise OptionInvalid(f"--query '{wanted.query}': {error}", "write \\( for a (") from None
    began_s, announced = time.monotonic(), False
    while True:
        listed = sessions(connection, server)
        if wanted.backend is not None:
            listed = [session for session in listed if session.id == wanted.backend]
            if not listed:
                raise ProcessMissing(
                    f"--session {wanted.backend}: the server shows no such session",
                    "see show processlist; sessions of other users need the privilege PROCESS",
                )
        idle_too = wanted.backend is not None and wanted.query is None
        matching = [s for s in listed if idle_too or (s.runs and pattern.search(s.info or ""))]
        if len(matching) > 1:
            lines = [s.describe() for s in matching[:LISTED]]
            text = "\n    ".join([f"{len(matching)} sessions match:", *lines])
            raise SessionAmbiguous(text, "name one with --session ID")
        if matching:
            return matching[0]
        if not announced:
            announced = True
            say(f"waiting for a session with a query like '{wanted.query}'; Ctrl-C ends it")
        if within_s is not None and time.monotonic() - began_s >= within_s:
            raise TimedOut(
                f"waited {format_duration(within_s)} for a query like '{wanted.query}': none came"
            )
        time.sleep(1 / RATE_HZ[server.flavor])


def record_mysql(
    dsn: str,
    output: Path | None,
    wanted: SessionSelector,
    *,
    options: RecordOptions | None = None,
    say: Say = lambda _text: None,
    on_status: OnStatus = lambda _recorder, _status: None,
    running: Running | None = None,
) -> Recording:
    """Record the query of a session to its end, for ``options.duration_s``, or until Ctrl-C.

    InputError for a server, a session or a right that is missing, and where the query ended before
    anything was seen of it.
    """
    recorder = Recorder(output, options, running)
    with connected(dsn) as connection:
        server = server_of(connection)
        pid, because = _prepare(recorder, connection, server)
        session = find(connection, server, wanted, say, recorder.options.duration_s)
        query = _Query(connection, server, session, recorder)
        query.attach(pid, because, say)
        try:
            with interrupts_reported() as interrupted:
                return query.finish(query.follow(interrupted, on_status))
        except BaseException:
            recorder.abandon()
            raise


def _prepare(
    recorder: Recorder, connection: Connection, server: Server
) -> tuple[int | None, str | None]:
    """Make the capture ready, which takes a moment; the server's process, or why there is none."""
    thread = thread_of(connection, server)
    pid, because = process_of(thread, server)
    if pid is None:
        return None, because
    try:
        recorder.prepare(thread, "the session's thread")
    except InputError as error:
        if recorder.options.capture != AUTO:
            raise
        return None, error.message
    return pid, None


class _Query:
    """The query of a session while it is recorded."""

    def __init__(
        self, connection: Connection, server: Server, session: Session, recorder: Recorder
    ) -> None:
        self.connection, self.server = connection, server
        self.session, self.recorder = session, recorder
        self._rate_hz = RATE_HZ[server.flavor]
        self._looked_ns = time.monotonic_ns()
        self._settings = variables(connection, *MEMORY_SETTINGS, "tmpdir")
        #: Since when it ran at the first look; None while the session is idle.
        self._before_s: float | None = session.seconds if session.runs else None
        self._text = session.info if session.runs else None
        self._failure: str | None = None
        self._ended_ns: int | None = None
        self._samples = self._ticks = self._discarded = 0
        self._gap_s = 0.0
        recorder.run_so_far = lambda: RunSoFar(self._began_ns or None, self._known("duration"))

    def attach(self, pid: int | None, because: str | None, say: Say) -> None:
        """Capture the calls of the session's thread, or only samples where that is refused."""
        recorder, thread = self.recorder, self.session.thread
        if pid is not None and thread is not None:
            try:
                places = temp_places(self.connection, pid)
                recorder.observe(
                    _Watched(thread), temp_dirs=places, only_calls=True, watch_memory=False
                )
            except InputError as error:
                if recorder.options.capture != AUTO:
                    raise
                because = error.message
        if because is not None:
            say(f"only the session's states are recorded, not its I/O: {because}")
            recorder.observe_from_afar(_Watched(thread or 0), because)
        for notice in recorder.new_notices():
            say(notice)
        self._attached_ns = time.monotonic_ns()
        self._began_ns = self._attached_ns if self.session.runs else 0
        if self._before_s is not None:
            self._before_s += (self._attached_ns - self._looked_ns) / 1e9
        self._looked_ns = self._attached_ns
        self._cpu_s = time.thread_time()

    def follow(self, interrupted: Event, on_status: OnStatus) -> EndedBy:
        """Look at the session until its query ends; what ended the recording."""
        limit_s = self.recorder.options.duration_s
        while True:
            time.sleep(1 / self._rate_hz)
            if (ended_by := self._look()) is not None:
                return ended_by
            self.recorder.collect()
            status = {"samples": self._samples, "processes": 1, "waiting": not self._began_ns}
            try:
                on_status(self.recorder, {**self.recorder.status(), **status})
            except KeyboardInterrupt:
                # A key of the live view.
                interrupted.set()
            since_ns = self._began_ns or self._attached_ns
            over = limit_s is not None and time.monotonic_ns() - since_ns >= limit_s * 1e9
            if interrupted.is_set() or over:
                if not self._began_ns and interrupted.is_set():
                    raise KeyboardInterrupt
                if not self._began_ns:
                    raise TimedOut(f"session {self.session.id} began no query")
                return "interrupt" if interrupted.is_set() else "duration"

    def _look(self) -> EndedBy | None:
        import pymysql

        try:
            listed = sessions(self.connection, self.server)
        except pymysql.Error as error:
            self._failure = f"the connection to the server was lost: {error.args[-1]}"
            return "failure"
        now_ns, before_ns = time.monotonic_ns(), self._looked_ns
        self._looked_ns = now_ns
        session = next((s for s in listed if s.id == self.session.id), None)
        if not self._began_ns:
            if session is None:
                raise QueryEnded(f"session {self.session.id} has ended without a query")
            if session.runs:
                self._began_ns = max(before_ns, now_ns - round(session.seconds * 1e9))
                self._before_s, self._text, self.session = 0.0, session.info, session
            elif session.query_id != self.session.query_id:
                raise QueryEnded(
                    f"session {session.id} ran a query between two looks, which are "
                    f"{format_duration(1 / self._rate_hz)} apart: it is too short to record"
                )
            return None
        if session is None or not session.continues(self.session):
            # What MariaDB tells of the session's next state began when this statement ended.
            exact = session is not None and self.server.flavor == "mariadb"
            if session is not None and exact:
                self._ended_ns = max(before_ns, now_ns - round(session.seconds * 1e9))
            return "end"
        since_s, self.session = (now_ns - before_ns) / 1e9, session
        self._ticks += 1
        if since_s >= GAP / self._rate_hz:
            self._discarded, self._gap_s = self._discarded + 1, self._gap_s + since_s
            return None
        self._samples += 1
        sample = {
            "time_ns": now_ns - self.recorder.origin_ns,
            "session": session.id,
            "event": session.state or None,
            "weight_us": round(since_s * 1e6),
        }
        self.recorder.add_samples(Table.from_rows([sample], SAMPLES))
        return None

    def finish(self, ended_by: EndedBy) -> Recording:
        """Keep the recording."""
        elapsed_s = self._elapsed_s
        extra = self._known(ended_by)
        return self.recorder.finish(elapsed_s=elapsed_s, started_ns=self._began_ns, extra=extra)

    @property
    def _elapsed_s(self) -> float:
        return ((self._ended_ns or time.monotonic_ns()) - self._began_ns) / 1e9

    def _known(self, ended_by: EndedBy) -> dict[str, Any]:
        connection, before_s = self.connection, self._before_s or 0.0
        elapsed_s = before_s + self._elapsed_s
        began = datetime.now(UTC) - timedelta(seconds=elapsed_s)
        return {
            "ended_by": ended_by,
            "engine": ObservedEngine(
                name=self.server.flavor,
                version=self.server.version,
                server=ServerAddress(
                    self.server.host,
                    connection.port or 0,
                    self.session.db or "",
                    str(connection.user, "utf-8", "replace"),
                ),
                pid=self.session.thread,
                query=struck_text(self._text or ""),
                settings=self._settings,
            ),
            "server": RecordedQuery(
                backend=self.session.id,
                query_started_at=began.isoformat(timespec="milliseconds"),
                query_elapsed_s=elapsed_s,
                before_recording_s=before_s,
                ended_by="query" if ended_by == "end" else ended_by,
                failure=self._failure,
                workers=[],
                workers_not_attached=0,
                temp_files=[],
            ),
            "sampling": Sampling(
                self._rate_hz,
                self._samples,
                self._ticks,
                self._discarded,
                self._gap_s,
                GAP / self._rate_hz,
                time.thread_time() - self._cpu_s,
                None,
            ),
        }


def temp_places(connection: Connection, pid: int) -> Sequence[Path]:
    """Return the directories and files that hold temp data, as this machine sees them."""
    named = variables(
        connection,
        "tmpdir",
        "datadir",
        "innodb_temp_tablespaces_dir",
        "innodb_temp_data_file_path",
    )
    data = Path(named.get("datadir", "/"))
    places = [Path(text) for text in named.get("tmpdir", "").split(":") if text]
    if session_spaces := named.get("innodb_temp_tablespaces_dir"):
        places.append(data / session_spaces)
    if shared_space := named.get("innodb_temp_data_file_path", "").partition(":")[0]:
        places.append(data / shared_space)
    with suppress(OSError):
        root = Path(f"/proc/{pid}/root").readlink()
        places = [root / str(place).lstrip("/") for place in places]
    return places
