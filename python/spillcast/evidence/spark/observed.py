"""Waits for temp files of each task of Spark, from recordings of executors and an event log.

That is the time that faster storage can save. It excludes the queueing for a core at the end of a
wait. It also excludes time in which the CPU time of the executor's threads needs all cores: the
compiler and the garbage collector may run while tasks wait, and delay tasks that do not wait.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from spillcast.columns import Floats, Integers
from spillcast.errors import EvidenceMixed, TimesUnknown
from spillcast.evidence.spark import Application, ObservedTasks
from spillcast.recording.meta import Meta
from spillcast.recording.recording import Recording

#: Kinds of temp files, as in engines/spark.
SPILL, SHUFFLE = "spill", "shuffle"


def observed(application: Application, recordings: Sequence[Recording]) -> Application:
    """The application with the waits of its tasks.

    Recordings are of all or some executors, and may cover a part of the run. Waits are divided
    among the tasks that ran at the same time in proportion to their bytes per second. InputError if
    the recordings are of another run.
    """
    for recording in recordings:
        recording.need_io()
        if not recording.meta.raw.whole or recording.meta.started_at is None:
            raise TimesUnknown(
                "single waits were kept for parts of the run only",
                "record again without --slices",
                recording.path,
            )
    launched_ms, finished_ms, moved = (
        np.array(column, dtype=np.float64) for column in application.core.local_io()
    )
    waits, bursts = map(_joined, zip(*map(_waits_and_cpu, recordings), strict=True))
    spans_ms = [_span_ms(recording.meta) for recording in recordings]
    begin_ms, end_ms = min(begin for begin, _ in spans_ms), max(end for _, end in spans_ms)
    recorded = (launched_ms >= begin_ms) & (finished_ms <= end_ms)
    coverage = _coverage(application, recordings)
    covered = coverage * moved.sum() / max(moved[recorded].sum(), 1)
    if not moved[recorded].any() or not covered:
        paths = ", ".join(str(recording.path) for recording in recordings)
        raise EvidenceMixed(
            f"recorded no temp files of {application.log.id}",
            f"give the recordings of its executors, made while {application.path} was written",
            paths,
        )
    task_waits_s = _divided(*waits, launched_ms, finished_ms, moved)
    # Executors that were not recorded are assumed to wait the same time per byte.
    task_waits_s /= min(covered, 1.0)
    # Without waits, the cores would still be busy for this long.
    cores = sum(recording.meta.machine.cpus or np.inf for recording in recordings)
    busy_s = (_until(*bursts, finished_ms) - _until(*bursts, launched_ms)) / cores
    took_s = (finished_ms - launched_ms) / 1e3
    task_waits_s = np.minimum(task_waits_s, np.maximum(took_s - busy_s, 0.0))
    s_per_byte = task_waits_s[recorded].sum() / moved[recorded].sum()
    task_waits_s = np.where(recorded, task_waits_s, s_per_byte * moved)
    caches = [_page_cache_bytes(recording.meta) for recording in recordings]
    known = [cache_bytes for cache_bytes in caches if cache_bytes is not None]
    tasks = ObservedTasks(task_waits_s.tolist(), min(known, default=None), coverage)
    return replace(application, observed=tasks)


def _waits_and_cpu(recording: Recording) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """The middle of each wait for a temp file, in ms since 1970, and its time in s; the end of each
    burst of CPU time of any thread, and its length in s.
    """
    begin_ms, _ = _span_ms(recording.meta)
    capture = recording.meta.capture
    # A wait ends when its thread is scheduled again, so the run queue delay is subtracted.
    queue_s = capture.run_queue_delay_s / max(capture.switches or 0, 1)
    waits, bursts = list[tuple[Floats, Floats]](), list[tuple[Floats, Floats]]()
    io_threads = _temp_io_threads(recording)
    for rows in recording.whole.batches("waits"):
        start_ms = begin_ms + rows["start_ns"].values / 1e6
        bursts.append((start_ms, rows["cpu_before_ns"].filled(0) / 1e9))
        # A call that did not block copied from or to the page cache.
        is_wait = rows["temp"].values & (rows["blocked"].filled(True) != 0)
        is_wait &= np.isin(rows["session"].values, io_threads)
        elapsed_s = rows["elapsed_ns"].values[is_wait] / 1e9
        middle_ms = start_ms[is_wait] + 1e3 * elapsed_s / 2
        waits.append((middle_ms, np.maximum(elapsed_s - queue_s, 0.0)))
    return _joined(waits), _joined(bursts)


def _temp_io_threads(recording: Recording) -> Integers:
    """Threads that read or write temp files: others, such as Spark's cleaners, only remove them."""
    sessions = [np.zeros(0, dtype=np.int64)]
    for rows in recording.whole.batches("waits"):
        sessions.append(rows["session"].values[rows["temp"].values & rows["op"].is_valid()])
    return np.unique(np.concatenate(sessions))


def _joined(parts: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Times and lengths of several parts, sorted by time."""
    times, lengths = (
        np.concatenate([np.zeros(0), *columns]) for columns in zip(*parts, strict=True)
    )
    order = np.argsort(times, kind="stable")
    return times[order], lengths[order]


def _until(times: Floats, lengths: Floats, until: Floats) -> Floats:
    """The sums of the lengths up to each time in ``until``."""
    sums = np.concatenate([[0.0], np.cumsum(lengths)])
    total: Floats = sums[np.searchsorted(times, until, side="right")]
    return total


def _divided(
    waited_ms: Floats, waits_s: Floats, launched_ms: Floats, finished_ms: Floats, moved: Floats
) -> Floats:
    """Waits by task: each wait is divided among the tasks running then, by their bytes per ms."""
    rate = moved / np.maximum(finished_ms - launched_ms, 1.0)
    times = np.concatenate([launched_ms, finished_ms])
    order = np.argsort(times, kind="stable")
    total_rate = np.concatenate([[0.0], np.cumsum(np.concatenate([rate, -rate])[order])])
    rate_then = total_rate[np.searchsorted(times[order], waited_ms, side="right")]
    # If no task runs, the sum is 0 except for rounding errors.
    runs = rate_then > 1e-9 * rate.max(initial=0.0)
    s_per_rate = np.divide(waits_s, rate_then, out=np.zeros(len(waits_s)), where=runs)
    begin, end = (_until(waited_ms, s_per_rate, ms) for ms in (launched_ms, finished_ms))
    divided: Floats = rate * (end - begin)
    return divided


def _span_ms(meta: Meta) -> tuple[float, float]:
    """Start and end of a recording, in ms since 1970."""
    assert meta.started_at is not None
    begin_ms = datetime.fromisoformat(meta.started_at).timestamp() * 1e3
    return begin_ms, begin_ms + 1e3 * max(meta.recorded_s, meta.elapsed_s)


def _coverage(application: Application, recordings: Sequence[Recording]) -> float:
    """The share of the application's temp I/O that was recorded.

    By local reads of shuffles, if any: the log may count a shuffle's spills as spill or as shuffle.
    """
    kinds = [kind for recording in recordings for kind in recording.meta.temp_kinds]
    stages = application.log.stages
    if read_bytes := sum(stage.shuffle_read_local_bytes for stage in stages):
        return sum(kind.read_bytes for kind in kinds if kind.kind == SHUFFLE) / read_bytes
    spill_bytes = sum(stage.spill_bytes for stage in stages)
    written_bytes = sum(kind.written_bytes for kind in kinds if kind.kind == SPILL)
    return written_bytes / max(spill_bytes, 1)


def _page_cache_bytes(meta: Meta) -> int | None:
    """Memory that the process left unused: the lesser of its machine's and its cgroup's."""
    memory, room = meta.memory, []
    resident = memory.peak_rss_bytes or 0
    if memory.limit_bytes is not None:
        room.append(memory.limit_bytes - (memory.group_held_bytes or resident))
    if meta.machine.memory_available_bytes is not None:
        # The available memory excludes the memory of a process that was already running.
        taken_bytes = resident if meta.before is None else 0
        room.append(meta.machine.memory_available_bytes - taken_bytes)
    return max(min(room), 1) if room else None
