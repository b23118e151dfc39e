"""Processes that read one cached file as fast as they can; prints reads a second of all of them."""

import os
import sys
import time

SIZE = 8192


def main(room: str, processes: int, reads: int) -> None:
    """Fork, read, and report the rate from the first start to the last end."""
    path = os.path.join(room, "duckdb_temp_bench")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.truncate(fd, 1 << 20)
    start = time.monotonic()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            for i in range(reads):
                os.pread(fd, SIZE, (i & 127) * SIZE)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    print(processes * reads / (time.monotonic() - start), flush=True)
    os.unlink(path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
