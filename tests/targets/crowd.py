"""Processes and threads that exist before the recording and spill on command.

Prints its process id and those of its children; each writes a file of BLOCKS blocks, FILE.PID,
after one line of input, and ends at the next line or when its parent ends. With --name it renames
itself before it writes.
"""

import argparse
import os
import sys
import threading
from pathlib import Path

BLOCKS = 50


def spill(path):
    """Writes each block in a separate call."""
    with open(path, "wb", buffering=0) as file:
        for _ in range(BLOCKS):
            file.write(b"x" * 8192)
        yield


def wait(gate):
    """Waits for the next line; the end of the parent is end of file."""
    if not os.read(gate, 1):
        os._exit(0)


def member(gate, options):
    threading.stack_size(65536)
    for _ in range(options.threads - 1):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    wait(gate)
    if options.name:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(options.name)
        wait(gate)
    for _ in spill(f"{options.file}.{os.getpid()}"):
        wait(gate)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--children", type=int, default=0)
    parser.add_argument("--name")
    parser.add_argument("file")
    options = parser.parse_args()
    pids, gates = [], []
    for _ in range(options.children):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            # Only the parent may hold the write ends, so that the gates close when it ends.
            for gate in [*gates, write]:
                os.close(gate)
            member(read, options)
        pids.append(pid)
        gates.append(write)
    private, write = os.pipe()
    gates.append(write)
    main_thread = threading.Thread(target=member, args=[private, options])
    main_thread.start()
    print(os.getpid(), *pids, flush=True)
    for _ in sys.stdin:
        for gate in gates:
            os.write(gate, b"x")
    os._exit(0)


if __name__ == "__main__":
    main()
