"""Connections to somebody's PostgreSQL server: errors in words, passwords never shown."""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.errors import InputError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_TIMEOUT_S = 10
#: A server process found by its number started when its session did, or it is another's.
START_TOLERANCE_S = 10.0
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")


def connect(dsn: str, **changes: str) -> "Connection":
    """Connect, every statement a transaction of its own; ``changes`` replace parts of the DSN.

    InputError where the DSN cannot be read or the server does not let us in, without the password.
    """
    try:
        import psycopg
    except ImportError:
        raise InputError("PostgreSQL wants psycopg", "pip install 'spillcast[postgres]'") from None
    parts: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "spillcast"}
    parts |= _parts(dsn) | changes
    try:
        return psycopg.connect(autocommit=True, **parts)
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        for name in SECRETS:
            secret = str(parts.get(name) or "")
            said = said.replace(secret, "***") if secret else said
        raise InputError(f"PostgreSQL: {said}", _remedy(said)) from None


def shown_dsn(dsn: str, **changes: str) -> str:
    """The DSN without its passwords, as key=value pairs."""
    from psycopg.conninfo import make_conninfo

    parts = {**_parts(dsn), **changes}
    return make_conninfo(**{name: value for name, value in parts.items() if name not in SECRETS})


def row(connection: "Connection", query: str, *values: object) -> tuple[Any, ...]:
    """The only row of a query."""
    # Not prepared: the texts are of this program, and some are for one use.
    found = connection.execute(query.encode(), values, prepare=False).fetchone()
    assert found is not None
    return found


def is_pooled(connection: "Connection") -> bool:
    """Whether something between us and the server answers for it, such as PgBouncer.

    The process that the handshake names is then not the one that runs the statements.
    """
    (pid,) = row(connection, "select pg_backend_pid()")
    return bool(pid != connection.info.backend_pid)


def local_process(connection: "Connection") -> int | None:
    """The server process of a connection; None where it does not run on this machine."""
    pid, started = row(
        connection,
        "select pid, extract(epoch from backend_start)::float from pg_stat_activity "
        "where pid = pg_backend_pid()",
    )
    try:
        name, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return None
    ticks = int(fields.split()[19])
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    same = abs(time.time() - seconds - started) < START_TOLERANCE_S
    return int(pid) if "postgres" in name and same else None


def _parts(dsn: str) -> dict[str, Any]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(dsn)
    except ProgrammingError:
        # libpq's own words may hold a piece of the password.
        hint = "write for example 'host=/run/postgresql dbname=dw user=postgres'"
        raise InputError("the DSN is neither key=value pairs nor postgresql://", hint) from None
    named = [str(parts.get(name) or "") for name in ("host", "port", "dbname")]
    if "@" in "".join(named) or not re.fullmatch(r"[0-9,]*", named[1]):
        # What was taken for them may be a piece of the password too.
        hint = "in a password of such an address write @ as %40 and / as %2F"
        raise InputError("the DSN's host, port or database cannot be right", hint)
    return parts


def _remedy(said: str) -> str | None:
    if re.search(r"password|fe_sendauth", said):
        return "give the password in PGPASSWORD or ~/.pgpass"
    if re.search(r"refused|No such file|translate host|timeout|timed out", said):
        return "is the server running, and do host and port of the DSN lead to it?"
    return None
