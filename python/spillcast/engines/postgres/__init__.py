"""PostgreSQL servers: sessions, quoted names, explained errors, local processes.

Errors never show a password. Quoted names and texts are safe to paste: no line in them ends a
here-document or begins a psql command, and no setting of the session changes their meaning.
"""

import json
import os
import re
import socket
import time
from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast._core import age_s
from spillcast.errors import (
    OptionInvalid,
    PackageMissing,
    ServerUnreachable,
    ServerUnsuited,
    SpillcastError,
    StatementFailed,
)
from spillcast.evidence.postgres import MARK
from spillcast.recording.observed import proc_text, status_of
from spillcast.redaction import MASK
from spillcast.text import has_control, is_utf8

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
else:
    # Commands of a move can be printed without the driver.
    Connection = Any

CONNECT_TIMEOUT_S = 10
#: The first version that shows the leader of a parallel worker.
VERSION_MIN = 13
#: The first version that lists temp files, which ranking and moving need.
RANKED_MIN = 12
#: Names of our own sessions, so that spillcast does not observe itself.
SAMPLER = "spillcast sampler"
EXPLAINER = "spillcast explain"
MOVER = "spillcast move"
CALIBRATOR = "spillcast calibrate"
#: The schema of pg_stat_statements; no row if it is not in this database.
STATEMENTS_SCHEMA = (
    "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace "
    "where e.extname = 'pg_stat_statements'"
)
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


def open_session(dsn: str, name: str, *, version_min: int = VERSION_MIN) -> Connection:
    """Opens an autocommit session with the application name ``name``.

    InputError, without the password, for a bad DSN, for a server that refuses the connection or
    is older than ``version_min``, and for a pooler.
    """
    try:
        import psycopg
    except ImportError as error:
        reason, hint = error.msg.splitlines()[0], "pip install 'spillcast[postgres]'"
        raise PackageMissing(f"PostgreSQL needs psycopg: {reason}", hint) from None
    parts = {"connect_timeout": CONNECT_TIMEOUT_S, **_parts(dsn)}
    # This takes precedence over PGCLIENTENCODING and over a database without encoding.
    parts |= {"application_name": name, "client_encoding": "UTF8"}
    try:
        connection = psycopg.connect(autocommit=True, **parts)
    except (psycopg.OperationalError, UnicodeError) as error:
        # UnicodeError: the host name cannot be encoded.
        reason = " ".join(str(error).split())
        # The remedy repeats the question in libpq's message.
        reason = re.sub(r"connection is bad: | Is the server running .*?\?", "", reason)
        for key in SECRETS:
            secret = str(parts.get(key) or "")
            reason = reason.replace(secret, MASK) if secret else reason
        remedy = None
        if re.search(r"password|fe_sendauth", reason):
            remedy = "give the password in PGPASSWORD or ~/.pgpass"
        elif re.search(r"refused|No such file|translate host|timeout|timed out", reason):
            remedy = "is the server running, and do host and port of the DSN lead to it?"
        raise ServerUnreachable(f"PostgreSQL: {reason}", remedy) from None
    try:
        _check(connection, version_min)
        _read_any_text(connection)
        _mark_statements(connection)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def refused(kind: type[SpillcastError], problem: str, hint: str | None = None) -> Iterator[None]:
    """Raises errors of the driver as ``kind``, with the server's message after ``problem``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise kind(f"{problem}: {server_message(error)}", hint) from error


def driver_errors() -> AbstractContextManager[None]:
    """Raises errors of the driver as StatementFailed, such as when the server ends the session."""
    return refused(StatementFailed, "PostgreSQL", "start again when the server answers")


def shown_dsn(dsn: str) -> str:
    """The DSN without its passwords, as key=value pairs."""
    from psycopg.conninfo import make_conninfo

    parts = _parts(dsn).items()
    return make_conninfo(**{name: value for name, value in parts if name not in SECRETS})


def check_text(name: str, text: str) -> None:
    """InputError for an argument that is not UTF-8, which psycopg could not send."""
    if not is_utf8(text):
        raise OptionInvalid(f"{name}: its bytes are not UTF-8")


def row(connection: Connection, query: str, *values: object) -> tuple[Any, ...]:
    """The only row of a query."""
    # Not prepared: many of these queries run only once.
    record = connection.execute(query.encode(), values, prepare=False).fetchone()
    assert record is not None
    return record


def may_be_cut(connection: Connection, text: str) -> bool:
    """Whether a query's text in a session's state may be truncated."""
    query = "select setting::int from pg_settings where name = 'track_activity_query_size'"
    (size,) = row(connection, query)
    # The server truncates before a character of up to 4 bytes that does not fit; adds a zero byte.
    return len(text.encode()) >= int(size) - 4


def server_message(error: "psycopg.Error") -> str:
    """The first line of the server's error, without the statement that it quotes."""
    primary = error.diag.message_primary
    return primary or (str(error).splitlines() or ["no reason given"])[0]


def text_of_server(cell: bytes | bytearray | memoryview) -> str:
    """Decodes a text. Bytes of a database in another encoding are replaced."""
    return str(cell, "utf-8", "replace")


def _read_any_text(connection: Connection) -> None:
    """Makes a connection decode text and JSON with ``text_of_server``."""
    from psycopg.adapt import Loader
    from psycopg.types.json import set_json_loads

    class AnyText(Loader):
        def load(self, data: bytes | bytearray | memoryview) -> str:
            return text_of_server(data)

    for type_name in ("text", "name", "varchar", "bpchar"):
        connection.adapters.register_loader(type_name, AnyText)

    def loads(data: str | bytes) -> Any:
        return json.loads(data if isinstance(data, str) else text_of_server(data))

    set_json_loads(loads, connection)
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        # As UTF8, the server would refuse bytes that are not UTF-8.
        connection.execute("set client_encoding = sql_ascii")


def _mark_statements(connection: Connection) -> None:
    """Appends the mark to each statement: statistics may drop a comment at its beginning."""
    import psycopg
    from psycopg.sql import Composable

    class MarkedCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            if isinstance(query, Composable):
                query = query.as_bytes(self)
            text = query.encode() if isinstance(query, str) else query
            marked = text.rstrip(b"; \t\r\n") + b"\n" + MARK.encode()
            return super().execute(marked, params, **options)

    connection.cursor_factory = MarkedCursor


def _check(connection: Connection, version_min: int) -> None:
    hint = "connect to the server itself, not to a pooler's console"
    with refused(ServerUnsuited, "PostgreSQL: this is not a PostgreSQL server", hint):
        (pid,) = row(connection, "select pg_backend_pid()")
    # Behind a pooler, statements run in another process than the handshake named.
    if pid != connection.info.backend_pid:
        raise ServerUnsuited(
            "PostgreSQL: a connection pooler (such as pgbouncer) is in front of the server",
            "give the server's own host and port",
        )
    if connection.info.server_version < version_min * 10_000:
        version = connection.info.parameter_status("server_version")
        raise ServerUnsuited(
            f"PostgreSQL: version {version} is too old",
            f"spillcast postgres and move need {RANKED_MIN}, record --postgres {VERSION_MIN}; "
            "plans, logs, rows of pg_stat_statements and record --pid are for any version",
        )


def _parts(dsn: str) -> dict[str, Any]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    check_text("the DSN", dsn)
    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:
        # libpq's message may contain a part of the password.
        hint = "write for example dbname=dw, or 'host=/run/postgresql dbname=dw user=postgres'"
        raise OptionInvalid("the DSN is neither key=value pairs nor postgresql://", hint) from None
    host, port, database = (str(parts.get(name) or "") for name in ("host", "port", "dbname"))
    if "@" in host + port + database or not re.fullmatch(r"[0-9,]*", port):
        # They may contain a part of the password, so the error does not show them.
        hint = "in a password of such an address write @ as %40 and / as %2F"
        raise OptionInvalid("the DSN's host, port or database is invalid", hint)
    return parts


def literal(text: str) -> str:
    """A string constant that does not depend on the setting standard_conforming_strings."""
    quoted = text.replace("'", "''")
    if "\\" not in text and not has_control(text):
        return f"'{quoted}'"
    return "E'" + "".join(map(_escaped, quoted.replace("\\", "\\\\"))) + "'"


def identifier(name: str) -> str:
    """A quoted identifier."""
    quoted = name.replace('"', '""')
    if not has_control(name):
        return f'"{quoted}"'
    letters = quoted.replace("\\", "\\\\")
    points = (f"\\{ord(letter):04x}" if has_control(letter) else letter for letter in letters)
    return 'U&"' + "".join(points) + '"'


def shown_name(name: str) -> str:
    """An identifier in a hint, quoted only if necessary."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else identifier(name)


def _escaped(letter: str) -> str:
    if not has_control(letter):
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) > 0x7F else f"\\x{ord(letter):02x}"


#: The maximum difference between the ages of a session and of its local process.
START_TOLERANCE_S = 10.0
#: The system calls by which PostgreSQL reads and writes temp files and tables (preadv reads several
#: buffers), and opens, closes, truncates and unlinks files.
CALLS = ("pread64", "preadv", "pwrite64", "openat", "open", "close", "ftruncate", "unlink")
#: The maximum time until a child has set its title, and until its leader appears in a sample.
PENDING_S = 2.0
TITLES = "postgres: "
#: The title of a parallel worker.
WORKER_TITLE = "parallel worker for PID {pid}"


def local_process(connection: Connection) -> tuple[int, None] | tuple[None, str]:
    """The server process of a connection, or the reason why it is not on this machine."""
    host, pid, session_s = row(
        connection,
        "select host(inet_server_addr()), pid, "
        "extract(epoch from clock_timestamp() - backend_start)::float "
        "from pg_stat_activity where pid = pg_backend_pid()",
    )
    if host is not None and not _is_local(host):
        return None, f"the server runs on another host ({host})"
    process_s = age_s(pid, "postgres")
    # Ages are compared, because the clocks of this machine and of the server may differ.
    if process_s is not None and abs(process_s - session_s) < START_TOLERANCE_S:
        return int(pid), None
    return None, "the server's processes are not among those of this machine"


def postmaster(pid: int) -> int | None:
    """The server's parent process, which starts all sessions and workers; None if unknown."""
    parent = status_of(pid).get("PPid")
    return None if parent is None else int(parent)


def children(pid: int) -> frozenset[int]:
    """The child processes of a server; empty if the server has ended."""
    return _numbers(proc_text(f"{pid}/task/{pid}/children"))


@lru_cache(maxsize=1)
def _numbers(text: str) -> frozenset[int]:
    # Called many times a second, mostly with the same text.
    return frozenset(map(int, text.split()))


class Workers:
    """Finds the parallel workers among the children of a server, and the leader of each."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster, self._children = postmaster, children(postmaster)
        #: Children that may still turn out to be workers, and when each was first seen.
        self._pending: dict[int, float] = dict.fromkeys(self._children, time.monotonic())

    def new_workers(self, running: Container[int]) -> Iterator[tuple[int, int]]:
        """Pairs of leader and new worker, for leaders that are among the ``running`` sessions.

        Samples alone may miss a worker that lives only for a moment.
        """
        alive, now_s = children(self._postmaster), time.monotonic()
        if alive is self._children and not self._pending:
            return
        self._pending |= dict.fromkeys(alive - self._children, now_s)
        self._children = alive
        for pid, since_s in list(self._pending.items()):
            title = proc_text(f"{pid}/cmdline")
            # Before it sets its title, a child has the postmaster's command line.
            title = title if title.startswith(TITLES) else ""
            match = re.search(WORKER_TITLE.format(pid=r"(\d+)"), title)
            leader = int(match[1]) if match else None
            if leader is not None and leader in running:
                yield leader, pid
            elif now_s - since_s < PENDING_S and (match or (not title and pid in alive)):
                continue
            del self._pending[pid]


def temp_directories(pid: int) -> list[Path]:
    """The directories of temp files of a process's server; empty if they are not readable."""
    # The server's working directory is its data directory, with links to its tablespaces.
    try:
        data = Path(os.readlink(f"/proc/{pid}/cwd"))
        tablespaces = [Path(os.path.realpath(link)) for link in (data / "pg_tblspc").iterdir()]
        versions = [folder for path in tablespaces for folder in path.glob("PG_*")]
    except OSError:
        return []
    return [folder / "pgsql_tmp" for folder in (data / "base", *versions)]


def _is_local(host: str) -> bool:
    """Whether an address belongs to this machine: a socket can only be bound to such addresses."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
