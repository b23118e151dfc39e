"""Memory that the host keeps for this virtual machine, so that each run finds it in one state.

A virtual machine returns free memory to its host within a second (free page reporting of
virtio-balloon). The first use of a page then waits for the host: by up to 2 s/GiB in huge pages,
which would count as time of the query, in one run and not in the next.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: What a verified query allocates, roughly.
RESIDENT_BYTES = 512 << 20
#: Least memory that others find free, as a multiple.
SPARED = 4


class ResidentMemory:
    """Memory in use between runs, which a run gets at its start."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._memory: mmap.mmap | None = None

    @contextmanager
    def released(self) -> Iterator[None]:
        """The memory is free for a run meanwhile, and in use again afterwards."""
        self._hold()
        self._release()
        try:
            yield
        finally:
            self._hold()

    def _hold(self) -> None:
        """Use every page of it, as far as others have enough."""
        if self._memory is not None or _available_bytes() < SPARED * self._size_bytes:
            return
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, self._size_bytes, flags=flags)
        self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._memory[:: mmap.PAGESIZE] = bytes(self._size_bytes // mmap.PAGESIZE)

    def _release(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _available_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE


resident_memory = ResidentMemory(RESIDENT_BYTES)
