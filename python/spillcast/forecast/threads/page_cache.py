"""The page cache that temp I/O met where it was recorded, and will meet before other storage."""

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
#: A storage that takes some time, for who asks only what a cache leaves to it.
ANY_STORAGE = fixed_behaviour(1e-6, 1e-6)
#: Of the operations that memory could have answered, so many were answered as fast as that.
SEEN = 0.5
#: More than any machine has.
NO_BOUND_BYTES = sys.maxsize


@dataclass(frozen=True)
class PageCache:
    """What memory there is before a storage, and how long each row takes that it answers."""

    room_bytes: int
    #: By row of the thread trace, ns.
    cached_ns: NDArray[np.int64]

    def for_share(self, share: float) -> tuple[int, int]:
        """Its bytes, and how many of them may be dirty, for so small a share of a query."""
        room_bytes = int(self.room_bytes * share)
        return room_bytes, int(room_bytes * DIRTY_SHARE)


def page_cache_of(trace: ThreadTrace, storage_ns: Ns, room_bytes: int) -> PageCache | None:
    """The page cache of a recording's threads, by what their waits say; None where there was none.

    ``storage_ns`` is, by row, what any storage would have taken behind a cache of that room. Where
    most of what the cache would have answered was slow, the engine goes around it, or the file
    system has none.
    """
    answered = _moving(trace) & (storage_ns == 0)
    usual_ns = memory_ns(trace.bytes)
    fast = trace.temp & (trace.wait_ns <= usual_ns)
    if not answered.any() or fast[answered].mean() < SEEN:
        return None
    # What was answered takes as long again; the others as much of the usual as the fast ones took.
    part = np.median(trace.wait_ns[fast] / usual_ns[fast])
    cached_ns = np.where(fast | answered, trace.wait_ns, part * usual_ns).astype(np.int64)
    return PageCache(room_bytes, cached_ns)


def page_cache_of_counts(
    trace: ThreadTrace, load_of: NDArray[np.int64], loads: Sequence[Load]
) -> PageCache | None:
    """One that holds all, where each kind of operation was as fast as memory; else None.

    How much memory there is no count tells.
    """
    mean_ns = np.array([load.mean_s * 1e9 for load in loads])
    if (mean_ns > memory_ns(np.array([load.mean_bytes for load in loads]))).any():
        return None
    cached_ns = np.zeros(len(trace.temp), dtype=np.int64)
    cached_ns[trace.temp] = mean_ns[load_of].astype(np.int64)
    return PageCache(NO_BOUND_BYTES, cached_ns)


def missed(trace: ThreadTrace, storage_ns: Ns) -> float:
    """Share of the temp operations for which the storage had to do something, by row so long."""
    moving = _moving(trace)
    return float((storage_ns[moving] > 0).mean()) if moving.any() else 0.0


def storage_share(trace: ThreadTrace, wait_ns: Ns, storage_ns: Ns) -> float:
    """Share of the temp I/O's time that the storage takes, and memory does not."""
    moving = _moving(trace)
    waits_ns = float(wait_ns[moving].sum())
    return float(storage_ns[moving].sum()) / waits_ns if waits_ns else 1.0


def _moving(trace: ThreadTrace) -> NDArray[np.bool_]:
    """The temp operations that move bytes."""
    return trace.temp & (trace.bytes > 0)


def memory_ns(size_bytes: NDArray[Any]) -> NDArray[np.float64]:
    """The longest that memory takes for operations of these sizes."""
    known = calibrated()
    longest: NDArray[np.float64] = 1e9 * (known.memory_s + size_bytes / known.memory_bytes_per_s)
    return longest
