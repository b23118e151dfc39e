"""Tracepoints of the kernel that a session of tests keeps in use.

When the last perf event of a tracepoint is closed, the kernel waits some 30 ms for all CPUs. So
each recording by perf events would end seconds later, unless other, disabled events remain open.
"""

import ctypes
import os
import platform
import re
import struct
from contextlib import suppress
from pathlib import Path

CALLS = Path(__file__).parents[1] / "crates" / "spillcast-calls" / "src" / "call.rs"
CALL = re.compile(r'^    \w+ "(\w+)" SYS_\w+,$', re.MULTILINE)
OTHERS = ("sched/sched_waking", "task/task_rename")
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432
FSCONFIG_CREATE, CLOEXEC = 6, 1
PERF_TYPE_TRACEPOINT, ATTRIBUTES_BYTES, DISABLED, PERF_CLOEXEC = 2, 64, 1, 8
LIBC = ctypes.CDLL(None, use_errno=True)


def hold():
    """Keeps all tracepoints of recordings in use until this process ends, where it may."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return
    with suppress(OSError):
        tracefs = mounted_tracefs()
        for name in tracepoints():
            with suppress(FileNotFoundError), open(name, opener=below(tracefs)) as file:
                attributes = disabled_event(int(file.read()))
                called(number, attributes, 0, -1, -1, PERF_CLOEXEC)
        os.close(tracefs)


def tracepoints():
    """The files with the numbers of the tracepoints."""
    calls = CALL.findall(CALLS.read_text())
    edges = [f"syscalls/sys_{edge}_{call}" for call in calls for edge in ("enter", "exit")]
    return [f"events/{name}/id" for name in (*edges, *OTHERS)]


def mounted_tracefs():
    """A descriptor of tracefs, mounted for this process alone."""
    context = called(FSOPEN, b"tracefs", CLOEXEC)
    try:
        called(FSCONFIG, context, FSCONFIG_CREATE, None, None, 0)
        return called(FSMOUNT, context, CLOEXEC, 0)
    finally:
        os.close(context)


def below(folder):
    """An opener of files in a folder."""
    return lambda path, flags: os.open(path, flags, dir_fd=folder)


def disabled_event(tracepoint):
    """The attributes of an event of a tracepoint, as perf_event_open(2) lays them out."""
    head = struct.pack(
        "<2I5Q", PERF_TYPE_TRACEPOINT, ATTRIBUTES_BYTES, tracepoint, 1, 0, 0, DISABLED
    )
    return head.ljust(ATTRIBUTES_BYTES, b"\0")


def called(number, *arguments):
    """The result of a system call; OSError if it fails."""
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "the system call failed")
    return result
