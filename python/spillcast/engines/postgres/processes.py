"""Finds the processes of PostgreSQL sessions on this machine, and their temp directories."""

import os
import re
import socket
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from spillcast._core import age_s
from spillcast.engines.postgres.connection import Connection, row

#: A local process with a session's number is the server's if both started within this time.
START_TOLERANCE_S = 10.0
#: The calls by which PostgreSQL reads and writes temp files and tables (preadv: several buffers
#: at once), and opens, closes, shortens and removes files.
CALLS = ("pread64", "preadv", "pwrite64", "openat", "open", "close", "ftruncate", "unlink")
#: How long a child may take to set its title, and its leader to appear in a sample.
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
    # Both are ages: the clocks of this machine and of the server may differ.
    if process_s is not None and abs(process_s - session_s) < START_TOLERANCE_S:
        return int(pid), None
    return None, "the server's processes are not among those of this machine"


def postmaster(pid: int) -> int | None:
    """The server's parent process, which starts all sessions and workers; None if unknown."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    match = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
    return int(match[1]) if match else None


def children(pid: int) -> frozenset[int]:
    """The child processes of a server; empty if the server has ended."""
    try:
        return _numbers(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    except OSError:
        return frozenset()


@lru_cache(maxsize=1)
def _numbers(text: str) -> frozenset[int]:
    # Called many times a second, mostly with the same text.
    return frozenset(map(int, text.split()))


class Workers:
    """Finds the parallel workers among the children of a server, and the leader of each."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster, self._children = postmaster, children(postmaster)
        #: Children that may still prove to be workers, and when each was first seen.
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
            title = ""
            with suppress(OSError):
                title = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
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
    """Whether an address belongs to this machine: a socket can be bound to no other."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True
