"""The processes of a PostgreSQL session on this machine: whether they are here, what is theirs."""

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.engines.postgres_session import Connection

#: The server tells a start in microseconds of its clock, /proc in seconds since a rounded boot.
STARTED_TOLERANCE_S = 10.0
#: What a parallel worker calls itself, with its leader's process id after it.
WORKER_TITLE = "parallel worker for PID {pid}"


def not_here(connection: "Connection", pid: int, started_s: float) -> str | None:
    """Why the server's process ``pid`` cannot be observed on this machine; None where it can.

    ``started_s`` is its start in seconds since the epoch by the server's clock: a process of the
    same number that some other server or container knows by it is told apart by that.
    """
    row = connection.execute("select host(inet_server_addr())").fetchone()
    host = row[0] if row else None
    if host is not None and not _is_ours(host):
        return f"the server runs on another host ({host})"
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        started = _started_s(pid)
    except OSError:
        name, started = "", 0.0
    known = "postgres" in name or name == "postmaster"
    if not known or abs(started - started_s) > STARTED_TOLERANCE_S:
        return f"the server's process {pid} is not among those of this machine"
    return None


def postmaster(pid: int) -> int | None:
    """The process that starts a server's sessions and workers: the parent of them all."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else None


def temp_directories(pid: int) -> list[Path]:
    """Where the server of a process writes temp files, whether they are there yet or not.

    A server stands in its data directory and reaches its tablespaces through links in there, which
    asks for no right within the database. Empty where that may not be seen.
    """
    try:
        data = Path(os.readlink(f"/proc/{pid}/cwd"))
        tablespaces = [Path(os.path.realpath(link)) for link in (data / "pg_tblspc").iterdir()]
        versions = [folder for path in tablespaces for folder in path.glob("PG_*")]
    except OSError:
        return []
    return [folder / "pgsql_tmp" for folder in (data / "base", *versions)]


def cpu_s(pid: int) -> float | None:
    """CPU time of a process of one thread; None where it is not here."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _is_ours(host: str) -> bool:
    """Whether an address is one of this machine: only such can be bound to."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _started_s(pid: int) -> float:
    """Start of a process in seconds since the epoch. OSError where there is none."""
    # The name in parentheses may hold blanks; start time is field 22, the 20th after it.
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    boot_s = re.findall(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)[0]
    return int(boot_s) + ticks / os.sysconf("SC_CLK_TCK")
