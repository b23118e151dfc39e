"""Maps a file that is not cached, touches pages far apart, and prints the major faults."""

import mmap
import os
import resource
import sys

STEP = 1 << 20


def main(path, pages):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for _ in range(pages):
        os.write(fd, os.urandom(STEP))
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    sum(mapped[page * STEP] for page in range(pages))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(usage.ru_majflt - before, usage.ru_majflt)


main(sys.argv[1], int(sys.argv[2]))
