"""The duration of most reads and writes that memory answers, by size."""

import os
import time
from pathlib import Path

import numpy as np

from spillcast.workspace import workspace

SIZES_BYTES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
OPERATIONS = 2000
REPEAT = 5
FILE_BYTES = 64 << 20
#: The share of operations of each size that must be at least as fast.
MOST = 0.99
MEMORY = Path("/dev/shm")


def line() -> tuple[float, float]:
    """Seconds, and bytes per second, which 99 of 100 operations of each size do not exceed.

    In CPU time, as memory answers on the caller's core, and of the fastest repeat. The line through
    the smallest and the largest size is moved up to include those between.
    """
    with workspace(MEMORY) as room:
        took_s = np.array(
            [
                [np.quantile(_times_s(room / "file", size), MOST) for size in SIZES_BYTES]
                for _ in range(REPEAT)
            ]
        ).min(axis=0)
    sizes = np.array(SIZES_BYTES, dtype=float)
    slope = (took_s[-1] - took_s[0]) / (sizes[-1] - sizes[0])
    return float(np.max(took_s - slope * sizes)), float(1 / slope)


def _times_s(path: Path, size: int) -> list[float]:
    """Writes and reads in turns, through a file of which the second half of them meets data."""
    block, places, took_s = os.urandom(size), FILE_BYTES // size, list[float]()
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for number in range(max(OPERATIONS, 2 * places)):
            offset = number % places * size
            for call in (lambda at: os.pwrite(fd, block, at), lambda at: os.pread(fd, size, at)):
                start_s = time.thread_time()
                call(offset)
                took_s.append(time.thread_time() - start_s)
    finally:
        os.close(fd)
    return took_s
