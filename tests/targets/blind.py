"""I/O without read or write calls: maps a temp file (``mmap``), or sets up ``io_uring`` or
``libaio``."""

import ctypes
import mmap
import os
import platform
import sys
import time

IO_URING_SETUP = 425
IO_URING_PARAMS_BYTES = 120
IO_SETUP = 206 if platform.machine() == "x86_64" else 0
SIZE = 1 << 20


def age_s():
    """How long ago this process began."""
    with open("/proc/self/stat") as stat:
        begun_ticks = int(stat.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - begun_ticks / os.sysconf("SC_CLK_TCK")


def main(how, directory):
    fd = os.open(os.path.join(directory, "duckdb_temp_blind"), os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x" * SIZE, 0)
    os.pread(fd, SIZE, 0)
    if how == "mmap":
        mapped = mmap.mmap(fd, SIZE)
        mapped[:4] = b"mmap"
    elif how == "libaio":
        context = ctypes.c_ulong(0)
        assert ctypes.CDLL(None).syscall(IO_SETUP, 8, ctypes.byref(context)) == 0
    else:
        parameters = ctypes.create_string_buffer(IO_URING_PARAMS_BYTES)
        ring = ctypes.CDLL(None, use_errno=True).syscall(IO_URING_SETUP, 1, parameters)
        if ring < 0:
            sys.exit(f"io_uring: {os.strerror(ctypes.get_errno())}")
    # A recorder looks at a process again before its age has doubled.
    time.sleep(1 + 2 * age_s())


main(*sys.argv[1:])
