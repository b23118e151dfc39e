"""The page cache in front of temp files, in the recording and on another storage."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.forecast.assumptions import DIRTY_SHARE
from spillcast.forecast.load import Load
from spillcast.recording.thread_trace import ThreadTrace
from spillcast.storage.model import fixed_behaviour

Ns = NDArray[np.float64]
#: Any storage that takes time, to find out which operations miss the cache.
ANY_STORAGE = fixed_behaviour(1e-6, 1e-6)
#: Least share of the cacheable operations that were as fast as memory if a page cache served them.
SEEN = 0.5
#: More than any machine has.
NO_BOUND_BYTES = sys.maxsize


@dataclass(frozen=True)
class PageCache:
    """The memory in front of a storage, and the time of each row that it serves."""

    room_bytes: int
    #: By row of the thread trace, ns.
    cached_ns: NDArray[np.int64]

    def for_share(self, share: float) -> tuple[int, int]:
        """Its size, and the limit of dirty bytes, for a share of a query."""
        room_bytes = int(self.room_bytes * share)
        return room_bytes, int(room_bytes * DIRTY_SHARE)


def page_cache_of(trace: ThreadTrace, storage_ns: Ns, room_bytes: int) -> PageCache | None:
    """The page cache of a recording's threads, by their waits; None if there was none.

    ``storage_ns`` is the time of any storage behind a cache of that size, by row. If most of the
    operations that the cache would have served were slow, the engine bypasses it, or the file
    system has none.
    """
    answered = _moving(trace) & (storage_ns == 0)
    usual_ns = memory_ns(trace.bytes)
    fast = trace.temp & (trace.wait_ns <= usual_ns)
    if not answered.any() or fast[answered].mean() < SEEN:
        return None
    # Served operations take their recorded time; others the same part of the usual as fast ones.
    part = np.median(trace.wait_ns[fast] / usual_ns[fast])
    cached_ns = np.where(fast | answered, trace.wait_ns, part * usual_ns).astype(np.int64)
    return PageCache(room_bytes, cached_ns)


def page_cache_of_counts(
    trace: ThreadTrace, load_of: NDArray[np.int64], loads: Sequence[Load]
) -> PageCache | None:
    """A page cache that holds everything if all operations were as fast as memory, else None.

    Counts do not show how much memory there is.
    """
    mean_ns = np.array([load.mean_s * 1e9 for load in loads])
    if (mean_ns > memory_ns(np.array([load.mean_bytes for load in loads]))).any():
        return None
    cached_ns = np.zeros(len(trace.temp), dtype=np.int64)
    cached_ns[trace.temp] = mean_ns[load_of].astype(np.int64)
    return PageCache(NO_BOUND_BYTES, cached_ns)


def missed(trace: ThreadTrace, storage_ns: Ns) -> float:
    """Share of the temp operations that miss the page cache; ``storage_ns`` is 0 for the others."""
    moving = _moving(trace)
    return float((storage_ns[moving] > 0).mean()) if moving.any() else 0.0


def storage_share(trace: ThreadTrace, wait_ns: Ns, storage_ns: Ns) -> float:
    """Share of the time of temp I/O that the storage takes, not memory."""
    moving = _moving(trace)
    waits_ns = float(wait_ns[moving].sum())
    return float(storage_ns[moving].sum()) / waits_ns if waits_ns else 1.0


def _moving(trace: ThreadTrace) -> NDArray[np.bool_]:
    """The temp operations that move bytes."""
    return trace.temp & (trace.bytes > 0)


def memory_ns(size_bytes: NDArray[Any]) -> NDArray[np.float64]:
    """The longest time of memory for operations of these sizes."""
    known = calibrated()
    longest: NDArray[np.float64] = 1e9 * (known.memory_s + size_bytes / known.memory_bytes_per_s)
    return longest
