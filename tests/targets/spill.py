"""A program that spills by plan: an exact number of reads and writes of known sizes and offsets.

Prints one JSON line: every operation on the temp file and on the base file, and a digest of all
data it read, which depends only on the seed.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

SIZES = (1000, 4096, 8192, 49152, 229376, 262144)
REGION_BYTES = 64 << 20
#: The file stays open long enough for an observer that inspects descriptors from outside.
LINGER_S = 0.5


class Worker:
    """One thread's share of the plan, and its account of its operations."""

    def __init__(self, number, options, temp_fd):
        self.number = number
        self.options = options
        self.temp_fd = temp_fd
        self.rng = random.Random(f"{options.seed}-{number}")
        # Writes are pieces of it, as drawing every byte takes longer than writing it.
        self.drawn = self.rng.randbytes(2 * max(SIZES))
        self.account = []
        self.digest = hashlib.sha256()

    def run(self):
        base_fd = os.open(self.options.base, os.O_RDONLY)
        try:
            self.positioned(base_fd)
            self.sequential()
            time.sleep(LINGER_S)
        finally:
            os.close(base_fd)

    def positioned(self, base_fd):
        """pwrite and pread on the shared temp file, with pread on the base file in between."""
        end, written = self.number * REGION_BYTES, []
        for size in self.rng.choices(SIZES, k=self.options.writes):
            begin = self.rng.randrange(max(SIZES))
            count = os.pwrite(self.temp_fd, self.drawn[begin : begin + size], end)
            self.did("write", "pwrite64", count, end, self.options.file)
            written.append((end, size))
            end += size
        for number in range(self.options.reads):
            offset, size = self.rng.choice(written)
            self.read(os.pread(self.temp_fd, size, offset), "pread64", offset, self.options.file)
            if number % 4 == 0:
                offset = 512 * self.rng.randrange(100)
                self.read(os.pread(base_fd, 512, offset), "pread64", offset, self.options.base)

    def sequential(self):
        """write, writev, lseek, read and readv on this worker's own temp file."""
        if not self.options.sequential:
            return
        path = f"{self.options.file}.{self.number}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.unlink(path)
        parts = [self.rng.randbytes(size) for size in (8192, 4096, 1000)]
        self.did("write", "write", os.write(fd, parts[0]), 0, path)
        self.did("write", "writev", os.writev(fd, parts), 8192, path)
        os.lseek(fd, 4096, os.SEEK_SET)
        self.read(os.read(fd, 6000), "read", 4096, path)
        buffers = [bytearray(1000), bytearray(2000)]
        os.readv(fd, buffers)
        self.read(b"".join(buffers), "readv", 10096, path)
        os.lseek(fd, -1000, os.SEEK_END)
        self.read(os.read(fd, 4096), "read", 20480, path)
        self.own_fd = fd

    def read(self, data, event, offset, path):
        self.digest.update(data)
        self.did("read", event, len(data), offset, path)

    def did(self, op, event, count, offset, path):
        self.account.append([threading.get_native_id(), event, op, count, offset, str(path)])
        if self.options.pause:
            time.sleep(self.options.pause)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path, required=True, help="the temp file")
    parser.add_argument("--base", type=Path, required=True, help="a file that is only read")
    parser.add_argument("--unlink", action="store_true", help="unlink the temp file at once")
    parser.add_argument("--remove", action="store_true", help="remove the temp file at the end")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fork", action="store_true", help="a forked child does a share too")
    parser.add_argument("--gate", action="store_true", help="say ready, wait for a line, then work")
    parser.add_argument("--sequential", action="store_true")
    parser.add_argument("--reads", type=int, default=60, help="of the temp file, by each worker")
    parser.add_argument("--writes", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each operation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    temp_fd = os.open(options.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    if options.unlink:
        os.unlink(options.file)
    child = fork_worker(options, temp_fd) if options.fork else None
    workers = [Worker(number, options, temp_fd) for number in range(options.threads)]
    if options.threads == 1 and not options.gate:
        workers[0].run()
    else:
        run_in_threads(workers, options.gate)
    if options.remove:
        os.unlink(options.file)
    account = [done for worker in workers for done in worker.account]
    results = [worker.digest.hexdigest() for worker in workers]
    if child is not None:
        theirs = child.read()
        account += theirs["account"]
        results.append(theirs["result"])
    print(json.dumps({"account": account, "result": results}), flush=True)


def run_in_threads(workers, gate):
    """Runs all workers in parallel; with ``gate`` their threads exist before the work starts."""
    opened = threading.Event()

    def wait_and_run(worker):
        opened.wait()
        worker.run()

    # Daemon threads, so that one waiting for the event does not keep an interrupted program alive.
    threads = [
        threading.Thread(target=wait_and_run, args=(worker,), daemon=True) for worker in workers
    ]
    for thread in threads:
        thread.start()
    if gate:
        print("ready", flush=True)
        sys.stdin.readline()
    opened.set()
    for thread in threads:
        thread.join()


class Child:
    """A forked child, and the pipe that returns its account."""

    def __init__(self, pid, pipe):
        self.pid = pid
        self.pipe = pipe

    def read(self):
        with os.fdopen(self.pipe) as pipe:
            text = pipe.read()
        os.waitpid(self.pid, 0)
        return json.loads(text)


def fork_worker(options, temp_fd):
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid:
        os.close(ours)
        return Child(pid, theirs)
    worker = Worker(1000, options, temp_fd)
    worker.run()
    with os.fdopen(ours, "w") as pipe:
        json.dump({"account": worker.account, "result": worker.digest.hexdigest()}, pipe)
    os._exit(0)


if __name__ == "__main__":
    main()
