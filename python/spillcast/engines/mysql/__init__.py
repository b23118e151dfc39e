"""MySQL and its fork MariaDB: connections, and facts about the server."""

import configparser
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from spillcast.errors import (
    OptionInvalid,
    PackageMissing,
    PermissionDenied,
    ServerUnreachable,
    ServerUnsuited,
    StatementFailed,
)
from spillcast.recording.observed import proc_text, status_of
from spillcast.redaction import MASK
from spillcast.text import shell_word

#: A connection of PyMySQL, which has no type annotations.
Connection = Any

CONNECT_TIMEOUT_S = 10
PORT = 3306
_SELECT = "grant select on performance_schema.* to {user}"
#: The statement that grants the missing privilege, by error number.
GRANTS = {1044: _SELECT, 1142: _SELECT, 1143: _SELECT, 1227: "grant process on *.* to {user}"}
PROGRAMS = ("mysqld", "mariadbd")
_HINT = "write mysql://USER@HOST/DATABASE, or the path of a socket or of a defaults file"


@dataclass(frozen=True)
class MysqlServer:
    """Facts about a server."""

    flavor: str
    version: str
    host: str
    instrumented: bool


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """Opens an autocommit session. InputError for a bad DSN, and if the server refuses it."""
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
            reason = reason.replace(secret, MASK)
        hint = "check the host, port and socket, and that the server is running"
        if isinstance(error, RuntimeError):
            # PyMySQL needs a package to encrypt the password that MySQL 8 gets without TLS.
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
    """Raises errors of the driver as PermissionDenied or StatementFailed."""
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


def server_of(connection: Connection) -> MysqlServer:
    """Describes the server. ServerUnsuited behind a proxy that pools sessions."""
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
    return MysqlServer(flavor, version, str(answer["host"]), bool(answer["instrumented"]))


def rows(connection: Connection, query: str, *values: object) -> list[dict[str, Any]]:
    """Returns the rows of a query, with column names in lower case."""
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        names = [column[0].lower() for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def variables(connection: Connection, *names: str) -> dict[str, str]:
    """Returns global variables, without those that this server does not have."""
    marks = ", ".join(["%s"] * len(names))
    query = f"show global variables where variable_name in ({marks})"
    return {row["variable_name"]: row["value"] for row in rows(connection, query, *names)}


@dataclass(frozen=True)
class LocalServer:
    """The server's process on this machine, and the thread that serves our connection."""

    pid: int
    thread: int


def local_server(
    connection: Connection, server: MysqlServer
) -> tuple[LocalServer, None] | tuple[None, str]:
    """Returns the server's process on this machine, or why it is unknown."""
    if server.host != socket.gethostname():
        return None, f"the server runs on another host ({server.host})"
    query = "tid thread from information_schema.processlist where id"
    if server.flavor == "mysql":
        query = "thread_os_id thread from performance_schema.threads where processlist_id"
    try:
        with checked(connection):
            match = rows(connection, f"select {query} = connection_id()")
    except PermissionDenied as error:
        return None, f"{error.message} ({error.hint})"
    thread = int(match[0]["thread"] or 0) if match else 0
    pid = status_of(thread).get("Tgid")
    if pid is not None and proc_text(f"{pid}/comm").startswith(PROGRAMS):
        return LocalServer(int(pid), thread), None
    return None, "the session's thread is not among those of this machine"


def parts_of(dsn: str) -> dict[str, Any]:
    """Returns the arguments of PyMySQL's ``connect`` for a DSN. OptionInvalid if it is invalid."""
    parts: dict[str, Any] = {}
    if "MYSQL_PWD" in os.environ:
        parts["password"] = os.environ["MYSQL_PWD"]
    # The path stays as it is for a user without a home.
    defaults = Path(os.path.expanduser("~/.my.cnf"))
    path = Path(os.path.expanduser(dsn.removeprefix("--defaults-file=")))
    if re.match(r"(mysql|mariadb)://", dsn):
        try:
            url = urlsplit(dsn)
            parts |= {"host": url.hostname or "localhost", "port": url.port or PORT}
        except ValueError:
            raise OptionInvalid("the DSN's host or port is invalid", _HINT) from None
        login = {"user": url.username, "password": url.password, "database": url.path.lstrip("/")}
        parts |= {name: unquote(value) for name, value in login.items() if value}
        options = dict(parse_qsl(url.query))
        if unknown := set(options) - {"unix_socket", "socket"}:
            raise OptionInvalid(f"the DSN has an unknown option {min(unknown)}", _HINT)
        if socket_path := options.get("unix_socket") or options.get("socket"):
            parts["unix_socket"] = socket_path
    elif os.path.exists(path) and path.is_socket():
        parts["unix_socket"] = str(path)
    elif os.path.isfile(path):
        defaults = path
    else:
        raise OptionInvalid("the DSN is neither mysql:// nor the path of a file or socket", _HINT)
    if os.path.isfile(defaults):
        try:
            # PyMySQL reads the file in the same way.
            configparser.RawConfigParser(allow_no_value=True).read(defaults)
        except (configparser.Error, UnicodeDecodeError):
            # Imported here because connecting does not otherwise need the readers of text.
            from spillcast.evidence.recognise import refuse_other_kinds

            refuse_other_kinds(defaults, "defaults file of MySQL")
            raise OptionInvalid("not a defaults file of MySQL", _HINT, defaults) from None
        parts["read_default_file"] = str(defaults)
    return parts


def client_command(dsn: str, program: str) -> str:
    """The command of a client that connects to the server of ``dsn``, without the password."""
    parts = parts_of(dsn)
    if "unix_socket" in parts:
        options = {"socket": parts["unix_socket"]}
    elif "host" in parts:
        # For localhost, a client would use the default socket.
        options = {"protocol": "TCP", "host": parts["host"], "port": parts["port"]}
    else:
        options = {"defaults-file": parts["read_default_file"]}
    options |= {"user": parts["user"]} if "user" in parts else {}
    words = [f"--{name}={shell_word(str(value))}" for name, value in options.items()]
    # The client prompts for the password, unless it takes it from MYSQL_PWD or ~/.my.cnf.
    words += ["--password"] if parts.get("password") != os.environ.get("MYSQL_PWD") else []
    return " ".join([program, *words])


def shown_dsn(dsn: str) -> str:
    """Returns the DSN without its password."""
    return re.sub(r"(?<=://)([^:@/]*):.*@", r"\1@", dsn)


def message_of(error: Exception) -> str:
    """Returns the first line of a driver's error, without its number."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    return (text.splitlines() or ["no reason given"])[0]
