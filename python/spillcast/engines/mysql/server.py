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
_SELECT = "grant select on performance_schema.* to {user}"
#: What grants the right that is missing, by number of the error.
GRANTS = {1044: _SELECT, 1142: _SELECT, 1143: _SELECT, 1227: "grant process on *.* to {user}"}
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
        if error.args and (grant := GRANTS.get(error.args[0])):
            (account,) = rows(connection, "select current_user() name")
            name, _, host = account["name"].rpartition("@")
            hint = grant.format(user=f"'{name}'@'{host}'")
            raise PermissionDenied(f"MySQL: {message_of(error)}", hint) from None
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


@dataclass(frozen=True)
class LocalServer:
    """The server's process on this machine, and its thread of our connection."""

    pid: int
    thread: int


def local_server(connection: Connection, server: Server) -> LocalServer | str:
    """Return the server's process on this machine, or why it is not known."""
    if server.host != socket.gethostname():
        return f"the server runs on another host ({server.host})"
    query = "tid thread from information_schema.processlist where id"
    if server.flavor == "mysql":
        query = "thread_os_id thread from performance_schema.threads where processlist_id"
    try:
        with checked(connection):
            match = rows(connection, f"select {query} = connection_id()")
    except PermissionDenied as error:
        return f"{error.message} ({error.hint})"
    with suppress(OSError):
        thread = int(match[0]["thread"] or 0) if match else 0
        status = Path(f"/proc/{thread}/status").read_text()
        tgid = re.search(r"^Tgid:\s+(\d+)", status, re.MULTILINE)
        if tgid and Path(f"/proc/{tgid[1]}/comm").read_text().startswith(PROGRAMS):
            return LocalServer(int(tgid[1]), thread)
    return "the session's thread is not among those of this machine"


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

#: By file of the session temporary tablespaces: a session gets one or two, and returns them when it
#: ends.
_TABLE_CALLS = (
    "select file_name file, count_read + count_write calls "
    "from performance_schema.file_summary_by_instance "
    "where event_name = 'wait/io/file/innodb/innodb_temp_file'"
)
#: A row without a file for a session that has none.
_TABLE_FILES = (
    "select s.path file from performance_schema.threads t "
    "left join information_schema.innodb_session_temp_tablespaces s on s.id = t.processlist_id "
    "where t.processlist_id = %s"
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
        server = _MySqlSessions(connection, server_of(connection), say)
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

    def __init__(self, connection: Connection, server: Server, say: Say) -> None:
        self.connection, self.server, self._say = connection, server, say
        self.rate_hz, self.tells_end = RATE_HZ[server.flavor], server.flavor == "mariadb"
        self._local: LocalServer | str = "not asked yet"

    def sessions(self) -> list[Session]:
        """Return all sessions but our own."""
        with checked(self.connection):
            return sessions(self.connection, self.server)

    def process(self) -> tuple[int, None] | tuple[None, str]:
        """Return the thread of our own session."""
        self._local = local_server(self.connection, self.server)
        if isinstance(self._local, str):
            return None, self._local
        return self._local.thread, None

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
        if isinstance(self._local, LocalServer):
            with suppress(OSError):
                root = Path(f"/proc/{self._local.pid}/root").readlink()
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

    def table_calls(self, session: Session) -> "_TableCalls | None":
        """Count from now on, in MySQL, whose InnoDB does them in threads of its own."""
        if self.server.flavor == "mariadb":
            return None
        try:
            calls = _TableCalls(self.connection, session.id)
        except PermissionDenied as error:
            self._lack("I/O of temporary tables by other threads is not counted", error)
            return None
        try:
            calls.look()
        except PermissionDenied as error:
            self._lack("I/O of temporary tables is counted of all sessions together", error)
        return calls

    def _lack(self, consequence: str, error: PermissionDenied) -> None:
        self._say(f"{consequence}: {error.message}")
        self._say(f"  {error.hint}")


class _TableCalls:
    """Calls on the session temporary tablespaces of a session, as ``TableCalls``."""

    def __init__(self, connection: Connection, session: int) -> None:
        self._connection, self._session = connection, session
        self._calls_before = self._calls_by_file()
        self._files: set[str] = set()

    def look(self) -> bool:
        """Note the files of the session; return whether it is still there."""
        with checked(self._connection):
            listed = rows(self._connection, _TABLE_FILES, self._session)
        self._files |= {_file_name(row) for row in listed if row["file"]}
        return bool(listed)

    def total(self) -> int:
        """Return its calls; those of all sessions if its files were not seen before it ended."""
        calls, listed = self._calls_by_file(), False
        with suppress(PermissionDenied):
            listed = self.look()
        files = self._files if self._files or listed else calls.keys()
        return sum(calls[name] - self._calls_before.get(name, 0) for name in files & calls.keys())

    def _calls_by_file(self) -> dict[str, int]:
        with checked(self._connection):
            counted = rows(self._connection, _TABLE_CALLS)
        return {_file_name(row): int(row["calls"]) for row in counted}


def _file_name(row: dict[str, Any]) -> str:
    return Path(str(row["file"])).name
