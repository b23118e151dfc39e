"""Servers of MySQL and MariaDB: connections, facts, and the ranking of statements that spill."""

import configparser
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from spillcast.engines.ranking import (
    FORECAST_MAX,
    Ranked,
    RankRequest,
    ServerRanking,
    with_gains,
)
from spillcast.engines.registry import MYSQL
from spillcast.errors import (
    InputError,
    OptionInvalid,
    PackageMissing,
    PermissionDenied,
    Refusal,
    ServerUnreachable,
    ServerUnsuited,
    StatementFailed,
)
from spillcast.evidence.counts import Bounds, Counts, OpCounts, TempCounts
from spillcast.fleet.snapshots import DatabaseSpill
from spillcast.recording.meta import ObservedEngine
from spillcast.redaction import STRUCK, struck_text
from spillcast.text import shell_word

#: A connection of PyMySQL, which has no types.
Connection = Any

CONNECT_TIMEOUT_S = 10
PORT = 3306
_SELECT = "grant select on performance_schema.* to {user}"
#: The statement that grants the missing right, by number of the error.
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
    """Open an autocommit session. InputError for a bad DSN, and if the server refuses it."""
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
            # MySQL 8 encrypts a password that is sent without TLS.
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


def server_of(connection: Connection) -> MysqlServer:
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
    return MysqlServer(flavor, version, str(answer["host"]), bool(answer["instrumented"]))


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
    """The server's process on this machine, and the thread that serves our connection."""

    pid: int
    thread: int


def local_server(
    connection: Connection, server: MysqlServer
) -> tuple[LocalServer, None] | tuple[None, str]:
    """Return the server's process on this machine, or why it is not known."""
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
    with suppress(OSError):
        thread = int(match[0]["thread"] or 0) if match else 0
        status = Path(f"/proc/{thread}/status").read_text()
        tgid = re.search(r"^Tgid:\s+(\d+)", status, re.MULTILINE)
        if tgid and Path(f"/proc/{tgid[1]}/comm").read_text().startswith(PROGRAMS):
            return LocalServer(int(tgid[1]), thread), None
    return None, "the session's thread is not among those of this machine"


def parts_of(dsn: str) -> dict[str, Any]:
    """Return the arguments of PyMySQL's ``connect`` for a DSN. OptionInvalid for none."""
    parts: dict[str, Any] = {}
    if "MYSQL_PWD" in os.environ:
        parts["password"] = os.environ["MYSQL_PWD"]
    defaults = Path.home() / ".my.cnf"
    path = Path(os.path.expanduser(dsn.removeprefix("--defaults-file=")))
    if re.match(r"(mysql|mariadb)://", dsn):
        try:
            url = urlsplit(dsn)
            parts |= {"host": url.hostname or "localhost", "port": url.port or PORT}
        except ValueError:
            raise OptionInvalid("the DSN's host or port cannot be right", _HINT) from None
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
    if defaults.is_file():
        try:
            # PyMySQL reads the file in the same way.
            configparser.RawConfigParser(allow_no_value=True).read(defaults)
        except (configparser.Error, UnicodeDecodeError):
            raise OptionInvalid(f"{defaults}: not a defaults file of MySQL", _HINT) from None
        parts["read_default_file"] = str(defaults)
    return parts


def client_command(dsn: str, program: str) -> str:
    """The command of a client that reaches the server of ``dsn``; the password is not in it."""
    parts = parts_of(dsn)
    if "unix_socket" in parts:
        options = {"socket": parts["unix_socket"]}
    elif "host" in parts:
        # Of localhost a client takes the default socket.
        options = {"protocol": "TCP", "host": parts["host"], "port": parts["port"]}
    else:
        options = {"defaults-file": parts["read_default_file"]}
    options |= {"user": parts["user"]} if "user" in parts else {}
    words = [f"--{name}={shell_word(str(value))}" for name, value in options.items()]
    # The client asks for it; it takes those of MYSQL_PWD and ~/.my.cnf by itself.
    words += ["--password"] if parts.get("password") != os.environ.get("MYSQL_PWD") else []
    return " ".join([program, *words])


def shown_dsn(dsn: str) -> str:
    """Return the DSN without its password."""
    return re.sub(r"(?<=://)([^:@/]*):.*@", r"\1@", dsn)


def message_of(error: Exception) -> str:
    """Return the first line of a driver's error, without its number."""
    text = str(error.args[1] if len(error.args) > 1 else error)
    return (text.splitlines() or ["no reason given"])[0]


#: Timers of performance_schema are in picoseconds.
PS = 1e-12
#: Without statements on the server's own tables, such as ours: they make temporary tables, too.
_STATEMENTS = """
select digest, digest_text, sum(count_star) calls, sum(sum_timer_wait) elapsed,
       sum(sum_created_tmp_disk_tables) disk_tables, sum(sum_sort_merge_passes) merge_passes
  from performance_schema.events_statements_summary_by_digest
 where digest_text not like '%performance_schema%' and digest_text not like '%information_schema%'
 group by digest, digest_text
"""
_SUMS = (
    "sum(count_read) read_count, sum(sum_number_of_bytes_read) read_bytes,"
    " sum(sum_timer_read) read_ps, sum(count_write) write_count,"
    " sum(sum_number_of_bytes_write) written_bytes, sum(sum_timer_write) written_ps"
)
_EVENTS = (
    "('wait/io/file/sql/io_cache', 'wait/io/file/sql/hash_join', 'wait/io/file/aria/MAD', "
    "'wait/io/file/aria/MAI', 'wait/io/file/myisam/dfile', 'wait/io/file/myisam/kfile', "
    "'wait/io/file/innodb/innodb_temp_file')"
)
#: I/O on all files of these kinds, and on those of them that are no temp files.
_FILES = (
    f"select {_SUMS} from performance_schema.file_summary_by_event_name "
    f"where event_name in {_EVENTS}"
)
_OTHER_FILES = (
    f"select {_SUMS} from performance_schema.file_summary_by_instance "
    f"where event_name in {_EVENTS} "
    "and file_name not rlike '#sql|/#innodb_temp/|/temp_[0-9]+[.]ibt'"
)
#: The most words of a statement in the command that records it.
PATTERN_WORDS = 6
_STATUS = ("created_tmp_files", "created_tmp_disk_tables", "sort_merge_passes", "uptime")


def rank_mysql(dsn: str, request: RankRequest) -> ServerRanking:
    """Rank the statements that spill. InputError if the server is down or counts nothing."""
    unseen = [
        "temp I/O of a statement: the server counts its temporary tables on disk and merge passes, "
        "not their bytes and time, so it took at most as long as the statement"
    ]
    with connected(dsn) as connection:
        server = server_of(connection)
        names = ", ".join(f"'{name}'" for name in _STATUS)
        answer = rows(connection, f"show global status where variable_name in ({names})")
        status = {row["variable_name"].lower(): int(row["value"]) for row in answer}
        if not server.instrumented:
            raise ServerUnsuited(
                "MySQL: performance_schema is off, so no statement is counted; since its start "
                f"the server made {status['created_tmp_disk_tables']:,} temporary tables on disk, "
                f"{status['created_tmp_files']:,} other temp files and "
                f"{status['sort_merge_passes']:,} merge passes",
                "set performance_schema = ON in the server's my.cnf and restart it",
            )
        counted = rows(connection, _STATEMENTS)
        try:
            with checked(connection):
                temp = _temp_files(connection)
        except PermissionDenied as error:
            temp = None
            unseen.append(f"bytes and times of temp files: {error.message} ({error.hint})")
        settings = variables(connection, *MYSQL.settings, "tmpdir")
    spilling = [row for row in counted if row["disk_tables"] or row["merge_passes"]]
    spilling.sort(key=lambda row: row["elapsed"], reverse=True)
    statements = [
        _ranked(row, temp, server, request if at < FORECAST_MAX else None)
        for at, row in enumerate(spilling)
    ]
    files = status["created_tmp_files"] + status["created_tmp_disk_tables"]
    uptime_s = float(status["uptime"])
    if server.flavor == "mariadb":
        unseen.append("temp files of sorts: MariaDB times only temporary tables on disk")
    record = None
    if statements and (pattern := _pattern(statements[0].query or "")):
        address, quoted = shell_word(shown_dsn(dsn)), shell_word(pattern)
        record = f"spillcast record --mysql {address} --query {quoted} -o run.spill"
    return ServerRanking(
        source=shown_dsn(dsn),
        window_s=uptime_s,
        statements=statements,
        targets=request.targets,
        confidence=request.confidence,
        statements_seen=len(counted),
        elapsed_s=sum(float(row["elapsed"]) for row in counted) * PS,
        databases=[]
        if temp is None
        else [DatabaseSpill(server.host, files, temp.writes.bytes, None, _timed_s(temp) or None)],
        database_temp_bytes=None if temp is None else temp.writes.bytes,
        settings={**settings, **{name: str(value) for name, value in status.items()}},
        unseen=unseen,
        record=record,
        memory="sort_buffer_size or tmp_table_size",
    )


def _pattern(digest: str) -> str:
    """A pattern of the statement's longest run of words, with any white space between them."""
    runs = re.findall(r"[A-Za-z_]\w*(?: (?:[A-Za-z_]\w*))*", digest.replace("`", ""))
    words = max(runs, key=len, default="").split()
    return r"\W+".join(words[:PATTERN_WORDS])


def _temp_files(connection: Connection) -> TempCounts:
    """The I/O on temp files since the server's start, by its own counts and times."""
    [total], [other] = rows(connection, _FILES), rows(connection, _OTHER_FILES)
    sums = {name: int(total[name] or 0) - int(other[name] or 0) for name in total}
    return TempCounts(
        OpCounts.timed(sums["read_count"], sums["read_bytes"], sums["read_ps"] * PS),
        OpCounts.timed(sums["write_count"], sums["written_bytes"], sums["written_ps"] * PS),
    )


def _timed_s(temp: TempCounts) -> float:
    return (temp.reads.total_ns + temp.writes.total_ns) / 1e9


def _ranked(
    row: dict[str, Any], temp: TempCounts | None, server: MysqlServer, request: RankRequest | None
) -> Ranked:
    calls, elapsed_s = int(row["calls"]), float(row["elapsed"]) * PS
    ranked = Ranked(
        queryid=row["digest"],
        query=struck_text(row["digest_text"]),
        calls=calls,
        elapsed_s=elapsed_s,
        temp_bytes=None,
        temp_s=(0.0, elapsed_s),
        disk_tables=int(row["disk_tables"]),
        merge_passes=int(row["merge_passes"]),
    )
    if request is None:
        return replace(ranked, refused=f"only the {FORECAST_MAX} longest are forecast")
    if temp is None:
        return replace(ranked, refused="the latency of temp files is not known; record it")
    if not _timed_s(temp) or not elapsed_s:
        return replace(
            ranked, refused="the server timed no temp file, so none's latency is known; record it"
        )
    try:
        counts = _counts(temp, elapsed_s / calls, server)
        return with_gains(ranked, counts.at_bounds(), calls, request)
    except (InputError, Refusal) as error:
        return replace(ranked, refused=error.message)


def _counts(temp: TempCounts, elapsed_s: float, server: MysqlServer) -> Counts:
    """One call, with operations of the mean size and latency; the total time has bounds."""
    counts = Counts(
        path=Path("performance_schema"),
        elapsed_s=elapsed_s,
        reads=temp.reads,
        writes=temp.writes,
        source="figures",
        engine=ObservedEngine(server.flavor, server.version),
        counts_follow_time=True,
    )
    middle = counts.with_total_s(elapsed_s / 2)
    reason = "the server does not time the temp files of a statement"
    return replace(middle, time_bounds=Bounds(0.0, elapsed_s, reason, "record the query"))
