"""Joins a memory group, then reads or writes pages of a file in a given order; prints the bytes.

The order: ``scan`` reads all pages in order, ``times`` over; ``zipf`` reads single pages, some far
more often; ``spill`` writes all pages, syncs and reads them back ``times`` over.
"""

import argparse
import os
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--group")
parser.add_argument("--pages", type=int, required=True)
parser.add_argument("--pattern", choices=["scan", "zipf", "spill"], required=True)
parser.add_argument("--times", type=int, default=2)
parser.add_argument("--page-bytes", type=int, default=4096)
requested = parser.parse_args()

if requested.pattern == "zipf":
    draw = random.Random(1)
    weights = [1 / (rank + 1) for rank in range(requested.pages)]
    pages = list(range(requested.pages))
    draw.shuffle(pages)
    order = draw.choices(pages, weights, k=requested.times * requested.pages)
else:
    order = list(range(requested.pages)) * requested.times
offsets = [page * requested.page_bytes for page in order]
if requested.group:
    Path(requested.group, "cgroup.procs").write_text(str(os.getpid()))
fd = os.open(requested.file, os.O_RDWR | os.O_CREAT)
# No readahead: only requested pages are read.
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
if requested.pattern == "spill":
    block = bytes(requested.page_bytes)
    for page in range(requested.pages):
        os.pwrite(fd, block, page * requested.page_bytes)
    os.fdatasync(fd)
for offset in offsets:
    os.pread(fd, requested.page_bytes, offset)
os.close(fd)
