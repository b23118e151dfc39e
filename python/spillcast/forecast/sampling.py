"""Large recordings: which are forecast from a sample of their waits."""

import pyarrow.compute as pc

from spillcast.forecast.result import Forecast
from spillcast.forecast.threads.page_cache import memory_ns
from spillcast.recording import Recording
from spillcast.recording.cached_reads import PageCacheRoom
from spillcast.recording.completeness import went_on
from spillcast.recording.sample import sampled
from spillcast.storage.memory import engine_cache_bytes
from spillcast.storage.rehearse import KEPT

#: Recordings of fewer waits are taken whole; others by about so many of them.
WHOLE_ROWS, SAMPLE_ROWS = 1_000_000, 256_000
#: Where more than this share of the temp operations were as fast as memory, a page cache may have
#: answered them.
FAST_MOST = 0.005
#: With a larger error a recording is taken whole after all, if it has no more waits than these.
ERROR_MOST, EXACT_ROWS_MOST = 0.05, 20_000_000


def sample_of(recording: Recording) -> Recording:
    """A sample of a recording's waits; the recording itself where that is small, or all count.

    All count of a query that went on, for what is to come of it is told by all that was done; and
    where one that was rehearsed is set beside it. Where a page cache may have answered temp I/O, it
    is asked what it held of some regions of the files.
    """
    if recording.waits_in_memory or recording.meta.raw.rows < WHOLE_ROWS:
        return recording
    if went_on(recording.meta) or (recording.path / KEPT).exists():
        return recording
    room_bytes, room = engine_cache_bytes(recording), None
    if room_bytes is not None and _fast_share(recording) > FAST_MOST:
        room = PageCacheRoom(room_bytes, lambda took_ns, size: took_ns <= memory_ns(size))
    return sampled(recording, SAMPLE_ROWS, room)


def too_unsure(forecast: Forecast) -> bool:
    """Whether a forecast from a sample is to be made of all waits instead."""
    sample = forecast.sampled
    return sample is not None and (sample.error > ERROR_MOST and sample.of_waits <= EXACT_ROWS_MOST)


def _fast_share(recording: Recording) -> float:
    """Of the temp operations, those that took no longer than memory does."""
    seconds = recording.temp_seconds
    count = seconds["count"].to_numpy()
    if not count.sum():
        return 0.0
    usual_ns = memory_ns(seconds["bytes"].to_numpy() / count.clip(1))
    row = pc.list_parent_indices(seconds["latency_ns"]).to_numpy()
    latency_ns, counts = (
        pc.list_flatten(seconds[name]).to_numpy() for name in ("latency_ns", "latency_count")
    )
    return float(counts[latency_ns <= usual_ns[row]].sum() / count.sum())
