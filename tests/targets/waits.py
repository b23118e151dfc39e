"""A program that spills by plan and works after each operation, longer after a longer wait or not.

Prints one JSON line: the number of operations, and the times between two (s).
"""

import argparse
import json
import os
import time
from pathlib import Path

BYTES = 8192


def work(cpu_s):
    """Burns this much CPU time in this thread."""
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--operations", type=int, default=12000)
    parser.add_argument("--cpu", type=float, default=100e-6, help="seconds after each operation")
    parser.add_argument("--feels", type=float, default=0.0, help="CPU for each second of waiting")
    parser.add_argument("--until", type=Path, help="go on until this file is there")
    options = parser.parse_args()

    fd = os.open(options.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    data, gaps, number = os.urandom(BYTES), [], 0
    while number < options.operations or (options.until and not options.until.exists()):
        start, cpu = time.monotonic(), time.thread_time()
        os.pwrite(fd, data, number % 1024 * BYTES)
        # All time in which this thread was not on the CPU: a wait, whatever caused it.
        waited = max(0.0, time.monotonic() - start - (time.thread_time() - cpu))
        gaps.append(waited)
        work(options.cpu + options.feels * min(waited, 0.003))
        number += 1
    print(json.dumps({"operations": number, "waits": gaps}), flush=True)


if __name__ == "__main__":
    main()
