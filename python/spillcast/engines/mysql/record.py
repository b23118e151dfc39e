"""Records a session's query on MySQL or MariaDB: I/O of its thread, samples of its state."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from spillcast.engines import Notify, OnStatus, SessionSelector, mysql
from spillcast.engines.activity import ActiveStatement, ProcessTempFiles, SessionState
from spillcast.engines.live import (
    SessionRecorder,
    only_session,
    prepare,
    session_line,
    wait_for_session,
)
from spillcast.engines.registry import MYSQL
from spillcast.errors import (
    OptionInvalid,
    PermissionDenied,
    ProcessMissing,
    ServerUnsuited,
    SpillcastError,
)
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.observed import Server
from spillcast.recording.record import Recorder
from spillcast.redaction import masked_text

#: Samples per second, by flavor. Each sample makes MariaDB create a temporary table on disk, but it
#: reports the start and end of a statement to the millisecond.
RATE_HZ = {"mariadb": 10, "mysql": 50}
#: Columns of ``ListedSession``.
_SESSIONS = {
    "mariadb": "select id, user, db `database`, "
    "command in ('Query', 'Execute') and coalesce(length(info), 0) > 0 runs, "
    "coalesce(time_ms, 0) / 1e3 seconds, state, info query, query_id, "
    "tid thread from information_schema.processlist where id <> connection_id()",
    "mysql": "select t.processlist_id id, t.processlist_user user, t.processlist_db `database`, "
    "t.processlist_command in ('Query', 'Execute') "
    "and coalesce(length(t.processlist_info), 0) > 0 runs, "
    "coalesce(s.timer_wait / 1e12, t.processlist_time, 0) + 0e0 seconds, "
    "t.processlist_state state, t.processlist_info query, s.event_id query_id, "
    "t.thread_os_id thread from performance_schema.threads t "
    "left join performance_schema.events_statements_current s on s.thread_id = t.thread_id "
    "and s.nesting_event_id is null "
    "where t.processlist_id is not null and t.processlist_id <> connection_id()",
}

#: Calls by file of the session temporary tablespaces. A session keeps its one or two tablespaces
#: until it ends.
_TABLE_CALLS = (
    "select file_name file, count_read + count_write calls "
    "from performance_schema.file_summary_by_instance "
    "where event_name = 'wait/io/file/innodb/innodb_temp_file'"
)
#: Files of a session; a session without a tablespace has one row, without a file.
_TABLE_FILES = (
    "select s.path file from performance_schema.threads t "
    "left join information_schema.innodb_session_temp_tablespaces s on s.id = t.processlist_id "
    "where t.processlist_id = %s"
)


@dataclass(frozen=True)
class ListedSession:
    """A session in the server's list of sessions."""

    id: int
    user: str
    database: str | None
    runs: bool
    #: The time since its statement began; in an idle session of MariaDB, since the statement ended.
    seconds: float
    state: str | None
    query: str | None
    #: Differs for each execution.
    query_id: int | None
    #: The kernel's ID of its thread; None if the server does not show it.
    thread: int | None

    def describe(self) -> str:
        """Returns one line for a list of sessions."""
        return session_line(self.id, self.user, self.seconds, self.query or "")


def record_mysql(
    dsn: str,
    output: Path | None,
    wanted: SessionSelector,
    *,
    options: RecordOptions | None = None,
    notify: Notify = lambda _text: None,
    on_status: OnStatus = lambda _recorder, _status: None,
    running: Running | None = None,
) -> Recording:
    """Records the query of a session to its end, for ``options.duration_s``, or until Ctrl-C.

    InputError if a server, a session or a privilege is missing, and if the query ended before a
    sample showed it.
    """
    recorder = Recorder(output, options, running)
    with mysql.connected(dsn) as connection:
        server = mysql.server_of(connection)
        local, reason = mysql.local_server(connection, server)
        absent_because = prepare(recorder, None if local is None else local.thread, reason, notify)
        selected = wait_for_session(
            lambda: chosen(listed(connection, server), wanted),
            wanted,
            notify,
            within_s=recorder.options.duration_s,
            look_s=1 / RATE_HZ[server.flavor],
        )
        if absent_because is None and selected.thread is None:
            absent_because = "the server does not show the session's thread"
        runs = selected.runs and wanted.backend is None
        session = _MySqlSession(recorder, connection, server, local, selected, notify, runs=runs)
        session.begin(absent_because, notify)
        return session.until_the_end(on_status)


def listed(connection: mysql.Connection, server: mysql.MysqlServer) -> list[ListedSession]:
    """The sessions that this user may see, except ours. ServerUnsuited if there are no threads."""
    if not server.instrumented and server.flavor == "mysql":
        raise ServerUnsuited(
            "MySQL: performance_schema is off, so the thread of a session is not known",
            "set performance_schema = ON in my.cnf and restart; record --pid records all sessions",
        )
    with mysql.checked(connection):
        return [ListedSession(**row) for row in mysql.rows(connection, _SESSIONS[server.flavor])]


def chosen(sessions: Sequence[ListedSession], wanted: SessionSelector) -> ListedSession | None:
    """Returns the selected session; if it is selected by number, it may be idle."""
    try:
        pattern = re.compile(wanted.query or "", re.IGNORECASE)
    except re.error as error:
        raise OptionInvalid(f"--query '{wanted.query}': {error}", "write \\( for a (") from None
    if wanted.backend is not None:
        sessions = [session for session in sessions if session.id == wanted.backend]
        if not sessions:
            raise ProcessMissing(
                f"--session {wanted.backend}: the server shows no such session",
                "see show processlist; sessions of other users need the privilege PROCESS",
            )
    idle_too = wanted.backend is not None and wanted.query is None
    matching = [s for s in sessions if idle_too or (s.runs and pattern.search(s.query or ""))]
    return only_session(matching, ListedSession.describe, "name one with --session ID")


class MySqlActivity:
    """The ``Activity`` of one session, by the local clock, because the server shows only ages."""

    def __init__(
        self,
        list_sessions: Callable[[], Sequence[ListedSession]],
        session: int,
        *,
        reports_end: bool,
        process: int | None = None,
        calls: "TableCalls | None" = None,
    ) -> None:
        """``reports_end`` if the seconds of an idle session count from its statement's end."""
        self.process = process
        self._list, self._session, self._reports_end = list_sessions, session, reports_end
        self._calls = calls
        #: Converts CLOCK_MONOTONIC, which cannot be set, to the time of day.
        self._offset_s = time.time() - time.monotonic()
        #: The session when it last ran a statement, and the start of that statement.
        self._last: ListedSession | None = None
        self._began_s = 0.0

    def sessions(self) -> list[SessionState]:
        """Returns the state of the session; empty once it has ended."""
        sessions = [session for session in self._list() if session.id == self._session]
        now_s = time.monotonic() + self._offset_s
        return [self._state(session, now_s) for session in sessions]

    def _state(self, session: ListedSession, now_s: float) -> SessionState:
        began_s = now_s - session.seconds
        if session.runs:
            # Ages are rounded, so a statement keeps the start from its first sample.
            last = self._last
            if (
                last is None
                or (session.query, session.query_id) != (last.query, last.query_id)
                or session.seconds < last.seconds
            ):
                self._began_s = began_s
            self._last = session
        return SessionState(
            pid=session.id,
            leader=None,
            wait_event=session.state or None,
            query_id=None,
            now_s=now_s,
            state="active" if session.runs else "idle",
            query_start_s=self._began_s,
            xact_start_s=self._began_s,
            state_change_s=began_s if self._reports_end else now_s,
            text_hash=hash(session.query),
        )

    def statements(self, pids: Iterable[int]) -> list[ActiveStatement]:
        """Returns the current or last statement of the session."""
        last = self._last
        if last is None or last.id not in pids:
            return []
        text, database = last.query or "", last.database or ""
        return [ActiveStatement(last.id, hash(last.query), text, user=last.user, database=database)]

    def temp_files(self) -> list[ProcessTempFiles]:
        """Returns no files, because temp files have no names; notes the session's tablespaces."""
        if self._calls is not None:
            with suppress(SpillcastError):
                self._calls.look()
        return []


class _MySqlSession(SessionRecorder):
    option = "--session"

    def __init__(
        self,
        recorder: Recorder,
        connection: mysql.Connection,
        server: mysql.MysqlServer,
        local: mysql.LocalServer | None,
        session: ListedSession,
        notify: Notify,
        *,
        runs: bool,
    ) -> None:
        self._connection, self._local = connection, local
        self._calls = _table_calls(connection, server, session.id, notify)
        self._engine = ObservedEngine(
            name=server.flavor,
            version=server.version,
            server=Server(
                server.host,
                connection.port or 0,
                session.database or "",
                str(connection.user, "utf-8", "replace"),
            ),
            pid=session.thread,
            settings=mysql.variables(connection, *MYSQL.settings, "tmpdir"),
        )
        self.rate_hz = self.rate_alone_hz = RATE_HZ[server.flavor]
        activity = MySqlActivity(
            partial(listed, connection, server),
            session.id,
            reports_end=server.flavor == "mariadb",
            process=None if local is None else local.thread,
            calls=self._calls,
        )
        super().__init__(recorder, activity, session.id, session.thread or 0, runs=runs)

    def observe(self) -> None:
        places = _temp_places(self._connection, self._local)
        self.recorder.observe(self, temp_dirs=places, only_calls=True, watch_memory=False)

    def describe_engine(self) -> ObservedEngine:
        return replace(self._engine, query=masked_text(self.query.text))

    def finish(self, ended_by: EndedBy) -> Recording:
        self.sampler.stop()
        if self._calls is not None:
            with suppress(SpillcastError):
                self.table_calls = self._calls.total()
        return super().finish(ended_by)


def _temp_places(connection: mysql.Connection, local: mysql.LocalServer | None) -> Sequence[Path]:
    """The directories and files with temp data, by their paths on this machine."""
    names = ("tmpdir", "datadir", "innodb_temp_tablespaces_dir", "innodb_temp_data_file_path")
    values = mysql.variables(connection, *names)
    tmpdir, datadir, tablespaces, data_file = (values.get(name, "") for name in names)
    places = [Path(path) for path in tmpdir.split(":") if path]
    # Both may be relative to the data directory.
    for path in (tablespaces, data_file.partition(":")[0]):
        if path:
            places.append(Path(datadir or "/", path))
    if local is not None:
        with suppress(OSError):
            root = Path(f"/proc/{local.pid}/root").readlink()
            places = [root / str(place).lstrip("/") for place in places]
    return places


def _table_calls(
    connection: mysql.Connection, server: mysql.MysqlServer, session: int, notify: Notify
) -> "TableCalls | None":
    """Starts counting calls on temporary tables; other threads make such calls only in MySQL."""
    if server.flavor == "mariadb":
        return None
    calls, consequence = None, "by other threads is not counted"
    try:
        calls = TableCalls(connection, session)
        consequence = "is counted of all sessions together"
        calls.look()
    except PermissionDenied as error:
        notify(f"I/O of temporary tables {consequence}: {error.message}")
        notify(f"  {error.hint}")
    return calls


class TableCalls:
    """Counts the calls of all threads on the temporary tablespaces of a session."""

    def __init__(self, connection: mysql.Connection, session: int) -> None:
        self._connection, self._session = connection, session
        self._calls_before = self._calls_by_file()
        self._files: set[str] = set()

    def look(self) -> bool:
        """Notes the files of the session; returns whether the session still exists."""
        with mysql.checked(self._connection):
            answer = mysql.rows(self._connection, _TABLE_FILES, self._session)
        self._files |= {_file_name(row) for row in answer if row["file"]}
        return bool(answer)

    def total(self) -> int:
        """The session's calls, or those of all sessions if it ended before its files were known."""
        calls, exists = self._calls_by_file(), False
        with suppress(PermissionDenied):
            exists = self.look()
        files = self._files if self._files or exists else calls.keys()
        return sum(calls[name] - self._calls_before.get(name, 0) for name in files & calls.keys())

    def _calls_by_file(self) -> dict[str, int]:
        with mysql.checked(self._connection):
            counted = mysql.rows(self._connection, _TABLE_CALLS)
        return {_file_name(row): int(row["calls"]) for row in counted}


def _file_name(row: dict[str, Any]) -> str:
    return Path(str(row["file"])).name
