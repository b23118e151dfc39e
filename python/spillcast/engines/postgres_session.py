"""Connections to a PostgreSQL server by a DSN: refused in words, and no word tells a password."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillcast.errors import InputError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

#: The first version that tells whom a parallel worker serves.
VERSION_MIN = 13
CONNECT_S = 10
#: Our own sessions go by these names, so that spillcast does not watch itself.
SAMPLER = "spillcast sampler"
EXPLAINER = "spillcast explain"
MOVER = "spillcast move"
#: Parts of a DSN that are never printed.
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_FORM = "write it as postgresql://USER@HOST:PORT/DBNAME or 'host=... dbname=... user=...'"
_MEND = (
    ("password authentication failed", "put the password into PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "put the password into PGPASSWORD or ~/.pgpass"),
    ("no pg_hba.conf entry", "pg_hba.conf of the server decides who may connect from where"),
    ("Connection refused", "is the server running, and at this address?"),
    ("No such file or directory", "is the server running, and its socket in this directory?"),
    ("could not translate host name", "is the host's name right?"),
    ("timeout expired", "is the server's address right, and no firewall between?"),
)


@dataclass(frozen=True)
class Address:
    """Where a server is and as whom it is asked: all of a DSN that may be kept."""

    host: str
    port: int
    dbname: str
    user: str


def connect(dsn: str, name: str) -> "Connection":
    """A session that announces itself as ``name``, every statement a transaction of its own.

    A password comes from the DSN, PGPASSWORD or ~/.pgpass, as for every client of PostgreSQL.
    InputError says what is wrong, without it.
    """
    psycopg = _psycopg()
    parts = _parts(dsn)
    defaults = {} if "connect_timeout" in parts else {"connect_timeout": CONNECT_S}
    try:
        connection: Connection = psycopg.connect(
            dsn, autocommit=True, **{**defaults, "application_name": name}
        )
    except psycopg.Error as error:
        raise _refused(error, parts) from None
    try:
        _check_server(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def address(connection: "Connection") -> Address:
    """Where a connection leads."""
    info = connection.info
    return Address(info.host or info.hostaddr, info.port, info.dbname, info.user)


def shown_dsn(dsn: str) -> str:
    """The DSN as key=value pairs, without its passwords."""
    from psycopg.conninfo import make_conninfo

    return make_conninfo(**{k: v for k, v in _parts(dsn).items() if k not in SECRETS})


def row(connection: "Connection", query: str, *values: object) -> tuple[Any, ...]:
    """The only row of a query."""
    found = connection.execute(query.encode(), values).fetchone()
    assert found is not None
    return found


def what_it_says(error: "psycopg.Error") -> str:
    """The server's own first line of an error, without the statement it quotes."""
    primary = error.diag.message_primary
    return primary or (str(error).splitlines() or ["no reason given"])[0]


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        hint = "pip install 'spillcast[postgres]'"
        raise InputError("PostgreSQL wants the package psycopg", hint) from None
    return psycopg


def _parts(dsn: str) -> Mapping[str, Any]:
    """The DSN in its parts. What cannot be read is not quoted: it may be a part of a password."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(dsn)
    except Error:
        raise InputError("PostgreSQL: the DSN cannot be read", _FORM) from None
    named = [str(parts.get(name) or "") for name in ("host", "port", "dbname")]
    if "@" in "".join(named) or not re.fullmatch(r"[0-9,]*", named[1]):
        hint = "in a password of such an address write @ as %40 and / as %2F"
        raise InputError("PostgreSQL: the DSN's host, port or database cannot be right", hint)
    return parts


def _refused(error: "psycopg.Error", parts: Mapping[str, Any]) -> InputError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = re.sub(r"^connection (?:failed|is bad): ", "", lines[0] if lines else "no reason given")
    for secret in (parts.get("password"), os.environ.get("PGPASSWORD")):
        if secret:
            told = told.replace(str(secret), "***")
    mend = next((hint for words, hint in _MEND if words in told), None)
    return InputError(f"PostgreSQL: {told}", mend)


def _check_server(connection: "Connection") -> None:
    """InputError where something else than a server of a known version answers."""
    import psycopg

    try:
        pids = {
            connection.execute("select pg_backend_pid()").fetchall()[0][0] for _ in range(2)
        } | {connection.info.backend_pid}
    except psycopg.Error as error:
        raise InputError(
            f"PostgreSQL: what answers is no PostgreSQL server: {what_it_says(error)}",
            "connect to the server itself, not to a pooler's console",
        ) from None
    if len(pids) > 1:
        raise InputError(
            "PostgreSQL: a connection pooler (such as pgbouncer) stands before the server",
            "give the server's own host and port",
        )
    if connection.info.server_version < VERSION_MIN * 10_000:
        version = connection.info.parameter_status("server_version")
        raise InputError(
            f"PostgreSQL: the server is PostgreSQL {version}, which does not tell whom a parallel "
            f"worker serves",
            f"watched are versions from {VERSION_MIN} on; record --pid observes one process",
        )
