"""Leftovers of a test session: processes, mounts, control groups, eBPF programs.

Other sessions may run on the same machine. Processes of this one inherit an environment variable,
its mounts are in its directories, and a control group whose creator has ended is a leftover.
"""

import atexit
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

import forked

VARIABLE = "SPILLCAST_TEST_SESSION"
#: The process that begins a session, None in its forks.
FIRST = None if VARIABLE in os.environ else os.getpid()
#: The name of the session, equal in all workers of pytest-xdist, which inherit it.
SESSION = os.environ.setdefault(VARIABLE, secrets.token_hex(4))
#: Clusters of PostgreSQL that all processes of a user copy.
TEMPLATES = Path(tempfile.gettempdir(), f"spillcast-templates-{SESSION}-{os.geteuid()}")
#: Measurements made once for all tests: the machine's caches, and the cost of observing.
CACHE = Path(tempfile.gettempdir(), f"spillcast-cache-{SESSION}")
if FIRST is not None:
    CACHE.mkdir()
    CACHE.chmod(0o777)
GROUP_NAME = re.compile(r"spillcast-(?:probe-\d+-(\d+)|(\d+)-.+)")
#: Ending a process, a mount and a janitor takes a moment.
PATIENCE_S = 10
#: Leftovers that workers reported when they ended.
REPORTED = []


@atexit.register
def remove_shared():
    """Removes those of all users, once the processes that inherited the session have ended."""
    if os.getpid() == FIRST:
        for folder in (CACHE, *TEMPLATES.parent.glob(f"spillcast-templates-{SESSION}-*")):
            shutil.rmtree(folder, ignore_errors=True)


def processes():
    """Processes of this session other than this one: pid and command line."""
    marker = f"{VARIABLE}={SESSION}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(process.name) == os.getpid():
                continue
            if marker in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield int(process.name), words.strip()


def mounts(*folders):
    """Mount points in these directories, or in a directory with the name of the session."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1]
        if SESSION in point or any(Path(point).is_relative_to(folder) for folder in folders):
            yield point


def groups(root="/sys/fs/cgroup"):
    """Control groups made by a process that is gone."""
    for folder, names, _ in os.walk(root):
        for name in names:
            made = GROUP_NAME.fullmatch(name)
            if made and not Path("/proc", made[1] or made[2]).exists():
                yield str(Path(folder, name))


#: Groups of earlier sessions.
GROUPS_BEFORE = frozenset(groups())


def open_bpf():
    """The eBPF programs and maps that this process holds."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if "bpf" in (link := os.readlink(descriptor)) and link.startswith("anon_inode"):
                yield link


def left(folders):
    """A description of each leftover."""
    yield from (f"process {pid}: {words}" for pid, words in processes())
    yield from (f"mount {point}" for point in mounts(*folders))
    yield from (f"control group {path}" for path in groups() if path not in GROUPS_BEFORE)


def left_at_last(folders):
    """The leftovers that remain after a while."""
    deadline = time.monotonic() + PATIENCE_S
    while (result := list(left(folders))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return result


def end_processes(but=()):
    """Kills the processes of this session, except those with these names."""
    for pid, _ in processes():
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() not in but:
                os.kill(pid, signal.SIGKILL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Called where a worker has ended."""
    REPORTED.extend(getattr(node, "workeroutput", {}).get("leftovers", []))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    """After all fixtures are undone and all workers have ended: fails where anything is left."""
    yield
    forked.close()
    if lab := sys.modules.get("spillcast.lab.run"):
        lab.resident_memory.release()
    held = [f"held by a test process: {link}" for link in open_bpf()]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["leftovers"] = held
        return
    basetemp = session.config._tmp_path_factory.getbasetemp()
    leftovers = [*REPORTED, *held, *left_at_last([basetemp])]
    # Guards and janitors undo what the other processes did, also outside of the test directories.
    end_processes(but=("spillcast-guard", "sh"))
    left_at_last([basetemp])
    end_processes()
    for point in mounts(basetemp):
        subprocess.run(["umount", "--lazy", point], check=False)
    if leftovers:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        print("\nThe tests left behind:", *leftovers, sep="\n  ")
