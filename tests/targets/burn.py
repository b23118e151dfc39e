"""A program of several processes that burn CPU time in parallel, each after a small spill."""

import argparse
import os
import time
from pathlib import Path

BYTES = 8192


def work(fd, cpu_s):
    """Writes and reads one block, and burns this much CPU time."""
    os.pwrite(fd, os.urandom(BYTES), 0)
    os.pread(fd, BYTES, 0)
    while time.thread_time() < cpu_s:
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path, required=True, help="the temp file")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cpu", type=float, default=1.0, help="seconds of each process")
    options = parser.parse_args()

    fd = os.open(options.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    children = []
    for _ in range(options.processes):
        child = os.fork()
        if not child:
            work(fd, options.cpu)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
