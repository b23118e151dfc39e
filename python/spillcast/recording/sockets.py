"""Whether processes have a connection to a server open."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from spillcast.recording.cgroups import read
from spillcast.recording.memory import LOOKS_SHARE, family

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_ESTABLISHED, _LISTENING, _CONNECTED = "01", "0A", "03"


class SocketWatch:
    """Whether a process or those it started were seen with a connection to a server."""

    def __init__(self, pid: int) -> None:
        self._pid, self._due_s = pid, 0.0
        self.found = False

    def look(self) -> None:
        """Look once more where due, until there was one."""
        if self.found or time.monotonic() < self._due_s:
            return
        before_s = time.thread_time()
        self.found = has_server_connection(self._pid)
        self._due_s = time.monotonic() + (time.thread_time() - before_s) / LOOKS_SHARE


def has_server_connection(pid: int) -> bool:
    """Whether a process or one it started holds a connected socket of its own, as a client."""
    # What was inherited from the recorder, as a terminal of ssh, is none of theirs.
    sockets = {socket for process in family(pid) for socket in _sockets(process)} - _sockets(
        os.getpid()
    )
    return bool(sockets) and not sockets.isdisjoint(_connected(pid))


def _sockets(pid: int) -> set[str]:
    """The inodes of the sockets that a process has open."""
    inodes = set[str]()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if (named := _SOCKET.fullmatch(os.readlink(entry.path))) is not None:
                    inodes.add(named[1])
    return inodes


def _connected(pid: int) -> set[str]:
    """Inodes of connected sockets in the process's network, but those that a server accepted."""
    inodes = set[str]()
    for name in ("tcp", "tcp6"):
        rows = _rows(pid, name)
        listening = {_port(row) for row in rows if row[3] == _LISTENING}
        inodes |= {row[9] for row in rows if row[3] == _ESTABLISHED and _port(row) not in listening}
    # What a server accepted has the server's path.
    clients = (row for row in _rows(pid, "unix") if len(row) == 7 and row[5] == _CONNECTED)
    return inodes | {row[6] for row in clients}


def _rows(pid: int, name: str) -> list[list[str]]:
    return [line.split() for line in read(Path(f"/proc/{pid}/net/{name}")).splitlines()[1:]]


def _port(row: list[str]) -> str:
    """The local port of a row of TCP."""
    return row[1].rpartition(":")[2]
