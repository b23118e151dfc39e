"""Sessions of ours that watch a PostgreSQL server: named, and sure of whom they talk to."""

from typing import TYPE_CHECKING

from spillcast.engines.postgres_connection import connect, is_pooled
from spillcast.errors import InputError
from spillcast.recording.postgres_meta import Server

if TYPE_CHECKING:
    import psycopg

    from spillcast.engines.postgres_connection import Connection

#: The first version that tells whom a parallel worker serves.
VERSION_MIN = 13
#: Our own sessions go by these names, so that spillcast does not watch itself.
SAMPLER = "spillcast sampler"
EXPLAINER = "spillcast explain"
MOVER = "spillcast move"


def open_session(dsn: str, name: str) -> "Connection":
    """A session that announces itself as ``name``.

    InputError where there is none, and where a pooler or a server of an unknown version answers.
    """
    connection = connect(dsn, application_name=name)
    try:
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def address(connection: "Connection") -> Server:
    """Where a connection leads."""
    info = connection.info
    return Server(info.host or info.hostaddr, info.port, info.dbname, info.user)


def what_it_says(error: "psycopg.Error") -> str:
    """The server's own first line of an error, without the statement it quotes."""
    primary = error.diag.message_primary
    return primary or (str(error).splitlines() or ["no reason given"])[0]


def _check(connection: "Connection") -> None:
    import psycopg

    try:
        pooled = is_pooled(connection)
    except psycopg.Error as error:
        raise InputError(
            f"PostgreSQL: what answers is no PostgreSQL server: {what_it_says(error)}",
            "connect to the server itself, not to a pooler's console",
        ) from None
    if pooled:
        raise InputError(
            "PostgreSQL: a connection pooler (such as pgbouncer) stands before the server",
            "give the server's own host and port",
        )
    if connection.info.server_version < VERSION_MIN * 10_000:
        version = connection.info.parameter_status("server_version")
        raise InputError(
            f"PostgreSQL: version {version} does not tell whom a parallel worker serves",
            f"watched are versions from {VERSION_MIN} on; record --pid observes one process",
        )
