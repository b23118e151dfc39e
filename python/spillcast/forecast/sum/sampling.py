"""Large recordings: which are forecast from a sample of their waits, and what that leaves open."""

from collections.abc import Callable
from math import hypot, sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.forecast.load import sessions
from spillcast.forecast.result import Forecast, Sampled
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.threads.page_cache import memory_ns
from spillcast.recording import Recording
from spillcast.recording.cached_reads import PageCacheRoom
from spillcast.recording.completeness import went_on
from spillcast.recording.sample import PARTS, sampled
from spillcast.stats import NORMAL_95
from spillcast.storage.memory import engine_cache_bytes
from spillcast.storage.rehearse import KEPT

#: Recordings of fewer waits are taken whole; others by about so many of them.
WHOLE_ROWS, SAMPLE_ROWS = 1_000_000, 256_000
#: Where more than this share of the temp operations were as fast as memory, a page cache may have
#: answered them.
FAST_MOST = 0.005
#: With a larger error a recording is taken whole after all, if it has no more waits than these.
ERROR_MOST, EXACT_ROWS_MOST = 0.05, 20_000_000
#: No sample is taken to be surer: what its windows have in common its parts do not show.
ERROR_LEAST = 0.0025
#: Of Student's distribution with as many degrees of freedom as there are parts less one: the 95 %
#: quantile, over that of a normal distribution.
FEW_PARTS = 2.353 / NORMAL_95


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


def sampled_of(baseline: Baseline, elapsed_s: Callable[[Baseline], float]) -> Sampled | None:
    """What a sample leaves open of what it says; None of a recording that is whole, or a part.

    By how far apart what each part of it says is, which rests on a PARTS-th as many waits. What all
    say alike is that threads of a window seem to work less side by side at its ends, where what one
    of them does lies outside.
    """
    if (sample := baseline.recording.sample) is None or not baseline.parts:
        return None
    log_elapsed = np.log([max(elapsed_s(part), 1e-9) for part in baseline.parts])
    scatter = FEW_PARTS * float(log_elapsed.std(ddof=1)) / sqrt(PARTS)
    threads = sessions(baseline.recording)
    ends = threads * len(sample.slices_s) / sample.rows if threads > 1 else 0.0
    error = hypot(scatter, ends, ERROR_LEAST if threads > 1 else 0.0)
    return Sampled(sample.rows, baseline.recording.meta.raw.rows, error)


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
    usual_ns = memory_ns(seconds["bytes"].to_numpy() / np.maximum(count, 1))
    row = pa.compute.list_parent_indices(seconds["latency_ns"]).to_numpy()
    latency_ns, counts = (
        pa.compute.list_flatten(seconds[name]).to_numpy()
        for name in ("latency_ns", "latency_count")
    )
    return float(counts[latency_ns <= usual_ns[row]].sum() / count.sum())
