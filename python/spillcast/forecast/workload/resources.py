"""Resources that the threads of a run share: CPUs, a CPU quota, the page cache of temp files."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, floor, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.columns import Flags, Floats, Integers
from spillcast.errors import OptionInvalid
from spillcast.forecast.workload.load import Load
from spillcast.recording.thread_trace import ThreadTrace
from spillcast.storage.model import fixed_behaviour
from spillcast.tables import Table

#: Share of the page cache that may be dirty before writers wait: the default of vm.dirty_ratio.
DIRTY_SHARE = 0.2
#: The kernel's default period of a quota.
PERIOD_S = 0.1
#: The kernel's least quota in its longest period.
QUOTA_CPUS_MIN = 0.001
#: CPU time of this length without a call, during temp I/O of other threads, may be a spinning wait.
BURST_MIN_S = 0.5


@dataclass(frozen=True)
class Cpus:
    """The CPUs of a run; None if unknown, or not limited."""

    cores: int | None
    #: CPU time per second of the quota, and its period.
    quota_cpus: float | None = None
    period_s: float = PERIOD_S

    def adjusted(self, cpus: int | None, quota_cpus: float | None) -> "Cpus":
        """The CPUs with the given numbers instead. OptionInvalid for an impossible quota."""
        if quota_cpus is not None and not QUOTA_CPUS_MIN <= quota_cpus < inf:
            raise OptionInvalid(
                f"--cpu-quota {quota_cpus:g}: not a CPU quota",
                f"give {QUOTA_CPUS_MIN} CPUs or more, such as 0.4; those of the machine mean no "
                "quota",
            )
        cores = self.cores if cpus is None else cpus
        quota_cpus = self.quota_cpus if quota_cpus is None else quota_cpus
        return self.limited(cores, quota_cpus, self.period_s)

    @classmethod
    def limited(cls, cores: int | None, quota_cpus: float | None, period_s: float) -> "Cpus":
        """The CPUs with a quota, unless the quota is as large as all cores."""
        if quota_cpus is None or (cores is not None and quota_cpus >= cores):
            return cls(cores)
        return cls(cores, quota_cpus, period_s)

    def usable(self, trace: ThreadTrace) -> int:
        """Cores that the threads of a trace can use concurrently."""
        return self.cores if trace.cpu_known and self.cores else trace.threads

    def cpu_s_per_s(self, trace: ThreadTrace) -> float:
        """Upper limit of the CPU time per second of the threads of a trace."""
        return min(self.usable(trace), self.quota_cpus or inf, trace.threads)

    @property
    def quota_text(self) -> str:
        """``a CPU quota of 0.5 CPUs``."""
        return f"a CPU quota of {self.quota_cpus:g} CPUs"

    @property
    def quota_ns(self) -> tuple[int, int] | None:
        """CPU time of each period, and its length; None without a quota."""
        if self.quota_cpus is None:
            return None
        period_ns = round(self.period_s * 1e9)
        return round(self.quota_cpus * period_ns), period_ns


#: Number of slices of the run; the number of active threads in a slice is taken as constant.
STRETCHES = 100


class Stretches:
    """The stretches of a run of threads that shared ``cpus`` and took ``elapsed_s``.

    A thread is active while it is on a core, waits for one, or waits for I/O. ``call_ns`` is the
    CPU time within each wait.
    """

    def __init__(self, trace: ThreadTrace, elapsed_s: float, call_ns: Integers, cpus: Cpus) -> None:
        self._trace, self._call_ns, self._cpus = trace, call_ns, cpus
        self._recorded_s, self._stretch_ns = elapsed_s, elapsed_s * 1e9 / STRETCHES
        self._work_ns = trace.start_ns - trace.cpu_ns - trace.ready_ns
        self._end_ns = trace.start_ns + trace.io_ns(trace.wait_ns)

    def of_waits(self, values: Floats) -> Floats:
        """Sums of values by stretch, each spread over the wait of its row."""
        return self._spread(self._trace.start_ns, self._end_ns, values)

    def of_work(self, values: Floats) -> Floats:
        """Sums of values by stretch, each spread over the time before the wait of its row."""
        return self._spread(self._work_ns, self._trace.start_ns, values)

    @cached_property
    def active_s(self) -> Floats:
        """Seconds by stretch with at least one active thread."""
        rows = Table({"begin_ns": self._work_ns, "end_ns": self._end_ns})
        return np.array(_core.covered_ns(rows, self._stretch_ns, STRETCHES)) / 1e9

    @cached_property
    def threads(self) -> Floats:
        """Mean number of active threads while any is active, at least 1."""
        work_s = self._spread(self._work_ns, self._end_ns, (self._end_ns - self._work_ns) / 1e9)
        threads = work_s / np.maximum(self.active_s, 1e-9)
        return np.clip(threads, 1.0, max(self._trace.threads, 1))

    def elapsed_s(self, wait_ns: Integers | Floats, cpu_ns: Integers, cpus: Cpus) -> float:
        """Elapsed time with other waits and CPU times of the rows (ns), on other CPUs."""
        recorded_s, target_s = self._recorded_busy_s, self._busy_s(wait_ns, cpu_ns, cpus)
        left_s = self.active_s - recorded_s
        times = np.divide(target_s, recorded_s, out=np.ones_like(target_s), where=recorded_s > 0)
        # Time that the model does not explain, such as other work on the CPUs, does not grow.
        grows = (times > 1) & (left_s > 0)
        took_s = np.where(grows, target_s + left_s, self.active_s * times)
        return float((self._recorded_s / STRETCHES - self.active_s + took_s).sum())

    @cached_property
    def _recorded_busy_s(self) -> Floats:
        return self._busy_s(self._trace.wait_ns, self._trace.cpu_ns, self._cpus)

    def _busy_s(self, wait_ns: Integers | Floats, cpu_ns: Integers, cpus: Cpus) -> Floats:
        """Time by stretch that the active threads take for their CPU time and I/O."""
        trace = self._trace
        cpu_s = self.of_work(cpu_ns / 1e9)
        io_s = self.of_waits(trace.io_ns(wait_ns) / 1e9)
        cores = cpus.usable(trace)
        times_s = [
            repairman_s(threads, cores, cpu, io)
            for threads, cpu, io in zip(self.threads, cpu_s, io_s, strict=True)
        ]
        if cpus.quota_cpus is None or not trace.cpu_known:
            return np.array(times_s)
        call_ns = np.where(trace.on_core, wait_ns, np.minimum(self._call_ns, wait_ns))
        charged_s = cpu_s + self.of_waits(trace.io_ns(call_ns) / 1e9)
        return np.maximum(times_s, charged_s / cpus.quota_cpus)

    def _spread(self, begin_ns: Integers, end_ns: Integers, values: Floats) -> Floats:
        """Sums by stretch; time before the run counts in the first, time after it in the last."""
        columns = {"begin_ns": begin_ns, "end_ns": end_ns, "values": values}
        return np.array(_core.spread(Table(columns), self._stretch_ns, STRETCHES))


def repairman_s(threads: float, cores: int, cpu_s: float, latency_s: float) -> float:
    """Time of threads for a total CPU time and I/O latency, by the machine repairman model.

    A fraction of a thread is interpolated.
    """
    whole = floor(threads)
    below_s = _whole_repairman_s(whole, cores, cpu_s, latency_s)
    if threads == whole:
        return below_s
    above_s = _whole_repairman_s(whole + 1, cores, cpu_s, latency_s)
    return below_s + (threads - whole) * (above_s - below_s)


def _whole_repairman_s(threads: int, cores: int, cpu_s: float, latency_s: float) -> float:
    if threads <= cores or cpu_s <= 0:
        return (cpu_s + latency_s) / threads
    if latency_s <= 0:
        return cpu_s / cores
    # Logarithms of the odds of k threads on cores or in the run queue, against no thread.
    odds = [0.0]
    for k in range(1, threads + 1):
        odds.append(odds[-1] + log((threads - k + 1) * cpu_s / (min(k, cores) * latency_s)))
    most = max(odds)
    weights = [exp(odd - most) for odd in odds]
    on_cores = sum(weight * min(k, cores) for k, weight in enumerate(weights)) / sum(weights)
    return cpu_s / on_cores


#: A storage that takes any time at all, to see which operations miss the cache.
ANY_STORAGE = fixed_behaviour(1e-6, 1e-6)
#: Least share of the cacheable operations that were as fast as memory if a page cache served them.
SERVED_MIN = 0.5
#: Memory for temp files where none is free: enough to read ahead and to write back, and at most
#: this share of the files, or what each thread reads ahead.
LEAST_CACHE_BYTES, LEAST_CACHE_SHARE, AHEAD_BYTES = 32 << 20, 1 / 8, 256 << 10
#: More memory than any machine has.
UNLIMITED_BYTES = sys.maxsize


@dataclass(frozen=True)
class PageCache:
    """The page cache in front of a storage, and the time of each row that it serves."""

    free_bytes: int
    #: By row of the thread trace, ns.
    cached_ns: Integers

    def without_free_memory(self, trace: ThreadTrace, share: float) -> "PageCache":
        """The same where no memory is free for temp files; ``share`` of the query is simulated.

        It still reads ahead and writes back, in larger operations than those of the engine.
        """
        written, moved = (
            float(trace.bytes[rows].sum()) for rows in (trace.temp & trace.write, trace.temp)
        )
        ahead = min(AHEAD_BYTES * trace.threads, moved / 4)
        least = min(LEAST_CACHE_BYTES, LEAST_CACHE_SHARE * written)
        free_bytes = min(self.free_bytes * share, max(least, ahead))
        return replace(self, free_bytes=int(free_bytes / share))

    def slowed(self, factor: float) -> "PageCache":
        """The same with ``factor`` times the time of rows."""
        return replace(self, cached_ns=(factor * self.cached_ns).astype(np.int64))

    def for_share(self, share: float) -> tuple[int, int]:
        """Its size, and the limit of dirty bytes, for a share of a query."""
        free_bytes = int(self.free_bytes * share)
        return free_bytes, int(free_bytes * DIRTY_SHARE)


def page_cache_of(trace: ThreadTrace, storage_ns: Floats, free_bytes: int) -> PageCache | None:
    """The page cache of a recording's threads, by their waits; None without a page cache.

    ``storage_ns`` is the time of any storage behind a cache of that size, by row. If most of the
    operations that the cache would have served were slow, the engine bypasses it, or the file
    system has no page cache.
    """
    served = moving(trace) & (storage_ns == 0)
    usual_ns = memory_ns(trace.bytes)
    fast = trace.temp & (trace.wait_ns <= usual_ns)
    if not served.any() or fast[served].mean() < SERVED_MIN:
        return None
    # Served operations take their recorded time; others the usual time, scaled like the fast ones.
    scale = np.median(trace.wait_ns[fast] / usual_ns[fast])
    cached_ns = np.where(fast | served, trace.wait_ns, scale * usual_ns).astype(np.int64)
    return PageCache(free_bytes, cached_ns)


def page_cache_of_counts(
    trace: ThreadTrace, load_of: Integers, loads: Sequence[Load]
) -> PageCache | None:
    """A page cache that holds all files, if all operations were as fast as memory, else None.

    Counts do not show the size of the memory.
    """
    mean_ns = np.array([load.mean_s * 1e9 for load in loads])
    if (mean_ns > memory_ns(np.array([load.mean_bytes for load in loads]))).any():
        return None
    cached_ns = np.zeros(len(trace.temp), dtype=np.int64)
    cached_ns[trace.temp] = mean_ns[load_of].astype(np.int64)
    return PageCache(UNLIMITED_BYTES, cached_ns)


#: Least time of an operation that the page cache serves.
MEMORY_OPERATION_S = 1e-6


def usual_page_cache(trace: ThreadTrace) -> PageCache:
    """A page cache of any size: an operation takes between the least and the most of memory."""
    cached_ns = np.sqrt(MEMORY_OPERATION_S * 1e9 * memory_ns(trace.bytes))
    return PageCache(UNLIMITED_BYTES, np.where(trace.temp, cached_ns, 0).astype(np.int64))


def moving(trace: ThreadTrace) -> Flags:
    """The temp operations that move bytes."""
    return trace.temp & (trace.bytes > 0)


def memory_ns(size_bytes: NDArray[Any]) -> Floats:
    """The longest time (ns) that an operation of each size takes if memory serves it."""
    return np.asarray(1e9 * calibrated().in_memory_s(size_bytes))
