"""Clients of servers, which do no temp I/O themselves: their servers are to be recorded."""

import os

from spillcast.recording.meta import Meta

_PROCESS = "--pid PID of the server's process"
#: Programs that only talk to a server, and the option that records it.
_CLIENTS = {
    **dict.fromkeys(("psql", "pgcli", "pgbench"), "--postgres DSN"),
    **dict.fromkeys(("sqlplus", "sqlcl", "mysql", "mariadb", "beeline", "sqlcmd"), _PROCESS),
}
#: A program that waits for less than this share of its run does work of its own.
_WAITED = 0.5


def server_to_record(meta: Meta) -> str | None:
    """That a run without temp I/O only waited for a server, and how to record that; None if not."""
    command = meta.engine.command
    name = os.path.basename(command[0]) if command else ""
    if (option := _CLIENTS.get(name)) is not None:
        return f"{name} is only the client; record the server: {option}"
    busy_s = (meta.cpu_s or 0.0) + meta.other_io.total_s
    if meta.server_connection and busy_s < (1 - _WAITED) * meta.elapsed_s:
        return (
            "it mostly waited, with a connection to a server open; if the server runs the query, "
            f"record the server: --postgres DSN, or {_PROCESS}"
        )
    return None
