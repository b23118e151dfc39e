"""Records the query of a session: the I/O of its thread, and samples of the thread's state."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.live import Session, record_listed
from spillcast.engines.mysql import MEMORY_SETTINGS
from spillcast.engines.mysql.connection import (
    Connection,
    Server,
    checked,
    connected,
    process_of,
    rows,
    server_of,
    thread_of,
    variables,
)
from spillcast.errors import ServerUnsuited
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.record import Recorder
from spillcast.recording.server_meta import Server as ServerAddress

#: Looks a second, by flavor. MariaDB makes a temporary table on disk for each, but reports the
#: start and the end of a statement to the millisecond.
RATE_HZ = {"mariadb": 10, "mysql": 50}
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
        server = _MySqlSessions(connection, server_of(connection))
        return record_listed(server, recorder, wanted, say, on_status)


def sessions(connection: Connection, server: Server) -> list[Session]:
    """Return all sessions but our own that this user may see. ServerUnsuited where none can be."""
    if not server.instrumented and server.flavor == "mysql":
        raise ServerUnsuited(
            "MySQL: performance_schema is off, so the thread of a session is not known",
            "set performance_schema = ON in my.cnf and restart; record --pid records all sessions",
        )
    return [
        Session(
            id=row["id"],
            user=row["user"],
            database=row["db"],
            runs=row["command"] in ("Query", "Execute") and bool(row["info"]),
            seconds=float(row["seconds"] or 0),
            state=row["state"],
            query=row["info"],
            query_id=row["query_id"],
            thread=row["thread"],
        )
        for row in rows(connection, _SESSIONS[server.flavor])
    ]


class _MySqlSessions:
    """The sessions of a server of MySQL or MariaDB, as ``ListedSessions``."""

    hint = "see show processlist; sessions of other users need the privilege PROCESS"

    def __init__(self, connection: Connection, server: Server) -> None:
        self.connection, self.server = connection, server
        self.rate_hz, self.tells_end = RATE_HZ[server.flavor], server.flavor == "mariadb"

    def sessions(self) -> list[Session]:
        """Return all sessions but our own."""
        with checked(self.connection):
            return sessions(self.connection, self.server)

    def process(self) -> tuple[int, None] | tuple[None, str]:
        """Return the thread of our own session."""
        thread = thread_of(self.connection, self.server)
        pid, because = process_of(thread, self.server)
        self._pid = pid
        return (thread, None) if thread is not None and because is None else (None, because or "")

    def temp_places(self) -> Sequence[Path]:
        """Return the directories and files that hold temp data, as this machine sees them."""
        named = variables(
            self.connection,
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
            root = Path(f"/proc/{self._pid}/root").readlink()
            places = [root / str(place).lstrip("/") for place in places]
        return places

    def describe(self, session: Session) -> ObservedEngine:
        """Return engine, version, address and settings."""
        connection = self.connection
        return ObservedEngine(
            name=self.server.flavor,
            version=self.server.version,
            server=ServerAddress(
                self.server.host,
                connection.port or 0,
                session.database or "",
                str(connection.user, "utf-8", "replace"),
            ),
            pid=session.thread,
            settings=variables(connection, *MEMORY_SETTINGS, "tmpdir"),
        )
