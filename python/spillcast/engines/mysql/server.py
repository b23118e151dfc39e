"""Servers of MySQL and MariaDB: connections, facts of the server, recording of a session.

``record_mysql`` records the I/O of a session's thread, and samples of the thread's state.
"""

import configparser
import os
import re
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.live import Session, record_listed
from spillcast.engines.mysql import MEMORY_SETTINGS
from spillcast.errors import (
    OptionInvalid,
    PackageMissing,
    PermissionDenied,
    ServerUnreachable,
    ServerUnsuited,
    SpillcastError,
    StatementFailed,
)
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.record import Recorder
from spillcast.recording.server_meta import Server as ServerAddress
from spillcast.redaction import STRUCK

#: A connection of PyMySQL, which has no types.
Connection = Any

CONNECT_TIMEOUT_S = 10
PORT = 3306
#: Numbers of errors for a right that is missing.
REFUSED = (1044, 1142, 1143, 1227)
#: Names of the server's process.
PROGRAMS = ("mysqld", "mariadbd")
_HINT = "write mysql://USER@HOST/DATABASE, or the path of a socket or of a defaults file"


@dataclass(frozen=True)
class Server:
    """A server as it answered when the connection was opened."""

    flavor: str
    version: str
    host: str
    #: Whether performance_schema is on.
    instrumented: bool


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Yield an autocommit session of ``dsn``. InputError for a bad DSN and for a refusal."""
    try:
        import pymysql
    except ImportError:
        raise PackageMissing("MySQL needs PyMySQL", "pip install 'spillcast[mysql]'") from None
    parts = parts_of(dsn)
    try:
        connection = pymysql.connect(
            autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, charset="utf8mb4", **parts
        )
    except (pymysql.Error, OSError, UnicodeError, RuntimeError) as error:
        reason = message_of(error)
        if secret := parts.get("password"):
            reason = reason.replace(secret, STRUCK)
        hint = "are host, port and socket right, and does the server run?"
        if isinstance(error, RuntimeError):
            # Of MySQL 8's way to take a password without TLS.
            hint = "pip install cryptography, or connect by the server's socket"
        elif "denied" in reason:
            hint = "give the password in MYSQL_PWD or in [client] of ~/.my.cnf"
        raise ServerUnreachable(f"MySQL: {reason}", hint) from None
    try:
        with checked(connection):
            yield connection
    finally:
        with suppress(pymysql.Error):
            connection.close()


@contextmanager
def checked(connection: Connection) -> Iterator[None]:
    """Raise errors of the driver as PermissionDenied or StatementFailed."""
    import pymysql

    try:
        yield
    except pymysql.Error as error:
        if error.args and error.args[0] in REFUSED:
            user = str(connection.user, "utf-8", "replace")
            raise PermissionDenied(
                f"MySQL: {message_of(error)}",
                f"grant process on *.* to {user}; grant select on performance_schema.* to {user}",
            ) from None
        raise StatementFailed(f"MySQL: {message_of(error)}") from None


def server_of(connection: Connection) -> Server:
    """Describe the server. ServerUnsuited behind a proxy that pools sessions."""
    (answer,) = rows(
        connection,
        "select version() version, @@hostname host, @@performance_schema instrumented, "
        "connection_id() id",
    )
    if answer["id"] != connection.thread_id():
        raise ServerUnsuited(
            "MySQL: a proxy that pools sessions (such as ProxySQL) is in front of the server",
            "give the server's own host and port, or its socket",
        )
    version = str(answer["version"])
    flavor = "mariadb" if "mariadb" in version.lower() else "mysql"
    return Server(flavor, version, str(answer["host"]), bool(answer["instrumented"]))


def rows(connection: Connection, query: str, *values: object) -> list[dict[str, Any]]:
    """Return the rows of a query, with column names in lower case."""
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        names = [column[0].lower() for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def variables(connection: Connection, *names: str) -> dict[str, str]:
    """Return global variables, without those that this server does not have."""
    marks = ", ".join(["%s"] * len(names))
    query = f"show global variables where variable_name in ({marks})"
    return {row["variable_name"]: row["value"] for row in rows(connection, query, *names)}


def thread_of(connection: Connection, server: Server) -> int | None:
    """Return the server's thread of this connection, as the kernel numbers it; None if hidden."""
    query = "tid thread from information_schema.processlist where id"
    if server.instrumented:
        query = "thread_os_id thread from performance_schema.threads where processlist_id"
    elif server.flavor == "mysql":
        return None
    match = rows(connection, f"select {query} = connection_id()")
    return match[0]["thread"] if match else None


def process_of(thread: int | None, server: Server) -> tuple[int, None] | tuple[None, str]:
    """Return the server process of a thread on this machine, or why there is none."""
    if server.host != socket.gethostname():
        return None, f"the server runs on another host ({server.host})"
    with suppress(OSError):
        status = Path(f"/proc/{thread}/status").read_text()
        match = re.search(r"^Tgid:\s+(\d+)", status, re.MULTILINE)
        if match and Path(f"/proc/{match[1]}/comm").read_text().startswith(PROGRAMS):
            return int(match[1]), None
    return None, "the session's thread is not among those of this machine"


def parts_of(dsn: str) -> dict[str, Any]:
    """Return the arguments of PyMySQL's ``connect`` for a DSN. OptionInvalid for none."""
    parts: dict[str, Any] = {}
    if "MYSQL_PWD" in os.environ:
        parts["password"] = os.environ["MYSQL_PWD"]
    defaults = Path.home() / ".my.cnf"
    path = Path(dsn.removeprefix("--defaults-file=")).expanduser()
    if re.match(r"(mysql|mariadb)://", dsn):
        try:
            url = urlsplit(dsn)
            parts |= {"host": url.hostname or "localhost", "port": url.port or PORT}
        except ValueError:
            raise OptionInvalid("the DSN's host or port cannot be right", _HINT) from None
        given = {"user": url.username, "password": url.password, "database": url.path.lstrip("/")}
        parts |= {name: unquote(value) for name, value in given.items() if value}
        options = dict(parse_qsl(url.query))
        if unknown := set(options) - {"unix_socket", "socket"}:
            raise OptionInvalid(f"the DSN has an unknown option {min(unknown)}", _HINT)
        if named := options.get("unix_socket") or options.get("socket"):
            parts["unix_socket"] = named
    elif path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        parts["unix_socket"] = str(path)
    elif path.is_file():
        defaults = path
    else:
        raise OptionInvalid("the DSN is neither mysql:// nor the path of a file or socket", _HINT)
    if defaults.is_file():
        try:
            # As PyMySQL reads it.
            configparser.RawConfigParser(allow_no_value=True).read(defaults)
        except (configparser.Error, UnicodeDecodeError):
            raise OptionInvalid(f"{defaults}: not a defaults file of MySQL", _HINT) from None
        parts["read_default_file"] = str(defaults)
    return parts


def shown_dsn(dsn: str) -> str:
    """Return the DSN without its password."""
    return re.sub(r"(?<=://)([^:@/]*):.*@", r"\1@", dsn)


def message_of(error: Exception) -> str:
    """Return the first line of a driver's error, without its number."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    return (text.splitlines() or ["no reason given"])[0]


#: Samples a second, by flavor. MariaDB makes a temporary table on disk for each, but reports the
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

#: By file of the session temporary tablespaces, which sessions get in turn.
_TABLE_CALLS = (
    "select file_name file, count_read + count_write calls "
    "from performance_schema.file_summary_by_instance "
    "where event_name = 'wait/io/file/innodb/innodb_temp_file'"
)
_TABLE_FILES = (
    "select path file from information_schema.innodb_session_temp_tablespaces where id = %s"
)


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
        self._calls_before: dict[str, int] = {}

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

    def count_table_calls(self) -> None:
        """Note the counts of all files of session temporary tablespaces, which MySQL has."""
        self._calls_before = {} if self.server.flavor == "mariadb" else self._calls_by_file()

    def table_calls(self, session: Session) -> int | None:
        """Return the reads and writes of a session's tablespaces since then."""
        if not self._calls_before:
            return None
        try:
            with checked(self.connection):
                files = rows(self.connection, _TABLE_FILES, session.id)
            calls = self._calls_by_file()
        except SpillcastError:
            return None
        names = {Path(str(row["file"])).name for row in files}
        return sum(calls[name] - self._calls_before.get(name, 0) for name in names & calls.keys())

    def _calls_by_file(self) -> dict[str, int]:
        with checked(self.connection):
            counted = rows(self.connection, _TABLE_CALLS)
        return {Path(str(row["file"])).name: int(row["calls"]) for row in counted}
