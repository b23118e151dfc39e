"""The part of the temp I/O of threads that adds to the elapsed time.

The recorded threads are simulated on a storage model, which schedules each operation. Two models
give their elapsed time. In the first, work is fixed: each thread repeats its operations, and waits
for the threads that it waited for. In the second, work moves between threads: each stretch of the
run keeps its number of active threads. Both models are more restricted than the run: the shorter
time counts.

The elapsed time less that without any latency is what temp I/O adds. Divided by the sum of
latencies, it is the weight of a wait. One thread has the weight 1, unless a CPU quota throttles it:
then a part of its waits hides behind the wait for the next period, and it is simulated too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.columns import Flags, Floats, Integers
from spillcast.forecast.workload.load import Load, operations
from spillcast.forecast.workload.resources import (
    ANY_STORAGE,
    BURST_MIN_S,
    Cpus,
    PageCache,
    Stretches,
    memory_ns,
    moving,
    page_cache_of,
    page_cache_of_counts,
    usual_page_cache,
)
from spillcast.recording.schema import size_classes
from spillcast.recording.thread_trace import NONE, ThreadTrace
from spillcast.storage.model import Behaviour
from spillcast.tables import Table, arrays_of, followed


class CpuDelays(NamedTuple):
    """Elapsed time that CPU limits add; below zero if the target has more cores."""

    source_quota_s: float
    target_quota_s: float
    target_cores_s: float


@dataclass(frozen=True)
class Simulated:
    """The recorded threads with their temp I/O on a storage."""

    #: Wait of each row of the trace, ns.
    wait_ns: Floats
    elapsed_ns: int
    #: Mean operations in flight while there are any, at least 1.
    in_flight: float
    #: Share of the time of temp I/O that operations wait for each limit of the storage.
    limited: Sequence[float]
    #: Time of operations on the storage (ns): waits for each limit, for servers, and latency.
    at_limits_ns: Sequence[float]
    queued_ns: float
    latency_ns: float
    #: Time of the storage by row, ns: 0 if memory served it.
    storage_ns: Floats
    #: Shares of the temp I/O that the storage serves, not memory: of its operations, of its time.
    missed: float
    storage_share: float


#: Upper limit of the ratio between the times of the models.
RATIO_MAX = 100.0


@dataclass(frozen=True)
class Overlap:
    """The elapsed time that the temp I/O of threads on a storage adds."""

    #: Seconds of elapsed time for a second of latency.
    io_weight: float
    #: Elapsed time if work moves between threads, and if it does not.
    dynamic_s: float
    static_s: float
    #: Elapsed time of a replay of all threads on the storage; None without one.
    replayed_s: float | None = None
    #: Seconds of elapsed time for a second of CPU time that temp I/O causes.
    cpu_weight: float = 1.0

    @property
    def elapsed_s(self) -> float:
        """The shorter time of the two models."""
        # A replay repeats the recorded division of work, so it is not evidence against moving work.
        return min(self.dynamic_s, self.static_s)

    @property
    def apart(self) -> float:
        """The longest of the models' times over the shortest."""
        models_s = [s for s in (self.dynamic_s, self.static_s, self.replayed_s) if s is not None]
        # A model may give zero time for a short part of a run.
        return min(max(max(models_s), 1e-9) / max(min(models_s), 1e-9), RATIO_MAX)


#: Least weight of a wait, regardless of how many waits overlap with it.
SHARE_MIN = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class Threads:
    """The threads of a run with their waits and CPU times, simulated on storages.

    Loads in its methods are of the recorded operations, or of more operations of the same kinds.
    """

    trace: ThreadTrace
    #: Elapsed time that the trace covers.
    elapsed_s: float
    #: Threads with temp I/O, and mean number of temp operations in flight while there are any.
    number: int
    in_flight: float
    #: Temp operations of the run; some or all of their single waits were kept.
    operations: int
    source: Cpus
    target: Cpus
    #: Whether the trace is synthetic, made of counts.
    counted: bool = False
    #: Whether counted operations pass through the page cache of the kernel.
    buffered: bool = False
    #: Size of the page cache that the engine could use; None if unknown.
    cache_bytes: int | None = None
    #: Bytes of each read that missed the page cache; None if the page cache is simulated.
    missing_bytes: Integers | None = None
    #: Whether samples separate spinning threads from working ones.
    sampled: bool = True
    #: Names of the calls that change files, in the order of the trace.
    change_events: Sequence[str] = ()
    _unwaited_on: dict[Cpus, Simulated] = field(default_factory=dict, init=False)
    _without_on_s: dict[Cpus, float] = field(default_factory=dict, init=False)
    _load_numbers: dict[tuple[tuple[str, int], ...], Integers] = field(
        default_factory=dict, init=False
    )

    @property
    def io_weight(self) -> float:
        """Seconds of elapsed time for a second of latency in the recording."""
        return min(max(self.recorded.io_weight, SHARE_MIN), 1.0)

    @cached_property
    def recorded(self) -> Overlap:
        """The overlap on the storage of the recording."""
        if not self._simulates:
            return self._constant
        return self._overlap(self._recorded, self.trace.cpu_ns, self.source)

    def on(
        self,
        behaviour: Behaviour | None,
        total_operations: float,
        change_ratios: Mapping[str | None, float],
        page_cache: PageCache | None = None,
    ) -> Simulated:
        """The threads on a storage, None for zero latency; the query does ``total_operations``.

        ``change_ratios`` has the ratio of latencies of each event that changes files.
        """
        if behaviour is None:
            return self._without_waits(self.target)
        trace = self.trace
        wait_ns = np.where(trace.temp, 0, trace.wait_ns)
        wait_ns[trace.change] = trace.wait_ns[trace.change] * np.array(
            [change_ratios.get(event, 1.0) for event in self.change_events]
        )
        # Only whole threads of counts are simulated. A mean number of threads, ``more`` times as
        # many, waits longer for limits, not for latencies, which are simulated shorter.
        more = self.in_flight / self.number if self.counted else 1.0
        if more != 1:
            behaviour = behaviour.slowed(1 / more)
            page_cache = page_cache and page_cache.slowed(1 / more)
        kept = self._kept(total_operations)
        simulated = self._simulated(wait_ns, self.target, behaviour, kept, page_cache)
        return replace(simulated, wait_ns=simulated.wait_ns * more)

    def page_cache(self, loads: Sequence[Load]) -> PageCache | None:
        """The page cache in front of the temp files; None if unknown."""
        if self.counted:
            return page_cache_of_counts(self.trace, self._load_of(loads), loads)
        return self._recorded_page_cache

    def read_ahead(self, total_operations: float) -> PageCache | None:
        """The page cache where no memory is free; None if the engine bypasses it, or unknown.

        The query does ``total_operations``.
        """
        if self.counted:
            cache = usual_page_cache(self.trace) if self.buffered else None
        else:
            cache = self._recorded_page_cache if self.missing_bytes is None else None
        return cache and cache.without_free_memory(self.trace, self._kept(total_operations))

    @cached_property
    def _recorded_page_cache(self) -> PageCache | None:
        trace, free_bytes = self.trace, self.cache_bytes
        if free_bytes is None:
            return None
        tried = PageCache(free_bytes, np.zeros_like(trace.wait_ns))
        waits_ns = np.where(trace.temp, 0, trace.wait_ns)
        simulated = self._simulated(waits_ns, self.source, ANY_STORAGE, page_cache=tried)
        return page_cache_of(trace, simulated.storage_ns, free_bytes)

    def mean_s(self, simulated: Simulated, loads: Sequence[Load]) -> list[float | None]:
        """Mean wait of each load's operations; None if the trace has none of them."""
        waits_ns = simulated.wait_ns[self.trace.temp]
        which = self._load_of(loads) + 1
        counts = np.bincount(which, minlength=len(loads) + 1)[1:].tolist()
        sums_ns = np.bincount(which, waits_ns, len(loads) + 1)[1:].tolist()
        return [
            sum_ns / count / 1e9 if count else None
            for sum_ns, count in zip(sums_ns, counts, strict=True)
        ]

    def overlap(
        self,
        simulated: Simulated,
        loads: Sequence[Load],
        cpu_s: Floats,
        replayed_s: float | None = None,
    ) -> Overlap:
        """The overlap in a simulation, with ``cpu_s`` more CPU time per operation of each load.

        ``replayed_s`` is the elapsed time of a replay of all threads on the storage.
        """
        if not self._simulates:
            return self._constant
        # The last value is for operations that moved no bytes and so belong to no load.
        more_s = np.array([*cpu_s, 0.0])[self._load_of(loads)]
        return self._overlap(simulated, self._cpu_with_more_ns(more_s), self.target, replayed_s)

    def _overlap(
        self, simulated: Simulated, cpu_ns: Integers, cpus: Cpus, replayed_s: float | None = None
    ) -> Overlap:
        trace, wait_ns = self.trace, simulated.wait_ns
        lower_s = self._lower_s(cpus)
        static_s = max(self._static_s(simulated), lower_s)
        dynamic_s = max(self._dynamic_s(simulated, trace.cpu_ns, cpus), lower_s)
        sum_s = max(float(wait_ns[trace.temp].sum()), 1.0) / 1e9
        more_s = float((cpu_ns - trace.cpu_ns).sum()) / 1e9
        cpu_weight = 1 / simulated.in_flight
        if abs(more_s) > abs(dynamic_s) / 1000:
            cpu_weight = (self._dynamic_s(simulated, cpu_ns, cpus) - dynamic_s) / more_s
        cpu_weight = min(max(cpu_weight, 0.0), max(1.0, 1 / (cpus.quota_cpus or 1.0)))
        models_s = self._of_all(dynamic_s), self._of_all(static_s)
        result = Overlap(0.0, *models_s, replayed_s, cpu_weight)
        more_s = result.elapsed_s - self._of_all(self._without_s(cpus))
        # An operation adds at most its own latency to the elapsed time.
        io_weight = float(np.clip(more_s * self._recorded_share / sum_s, 0.0, 1.0))
        return replace(result, io_weight=io_weight)

    def spinning_s(self, simulated: Simulated) -> float:
        """Time saved if long CPU bursts during others' temp I/O are waits; 0 if samples show it."""
        if self.sampled or not self._bursts.any():
            return 0.0
        cpu_ns = np.where(self._bursts, 0, self.trace.cpu_ns)
        longer, shorter = (
            self._run(simulated.wait_ns, self.target, burst_ns)["elapsed_ns"]
            for burst_ns in (self.trace.cpu_ns, cpu_ns)
        )
        return float(max(longer - shorter, 0) / 1e9)

    def with_spinning(self, spun_s: float) -> "Threads | None":
        """The threads with ``spun_s`` of long CPU bursts as waits; None without such bursts."""
        trace, bursts = self.trace, self._bursts
        if not bursts.any():
            return None
        share = min(spun_s * 1e9 / float(trace.cpu_ns[bursts].sum()), 1.0)
        cpu_ns = trace.cpu_ns.copy()
        cpu_ns[bursts] = np.round((1 - share) * cpu_ns[bursts]).astype(np.int64)
        return replace(self, trace=replace(trace, cpu_ns=cpu_ns), sampled=True)

    @cached_property
    def _bursts(self) -> Flags:
        """Rows after long CPU bursts; in a tenth or more of each, other threads did temp I/O."""
        trace = self.trace
        bursts = (trace.cpu_ns > BURST_MIN_S * 1e9) & (self._several and self.trace.cpu_known)
        begin_ns, end_ns = trace.start_ns[trace.temp], (trace.start_ns + trace.wait_ns)[trace.temp]
        for row in np.flatnonzero(bursts):
            last_ns, burst_ns = trace.start_ns[row], trace.cpu_ns[row]
            inside_ns = np.minimum(end_ns, last_ns) - np.maximum(begin_ns, last_ns - burst_ns)
            others = trace.thread[trace.temp] != trace.thread[row]
            bursts[row] = np.maximum(inside_ns, 0)[others].sum() >= burst_ns / 10
        return bursts

    def cpu_delays(self, loads: Sequence[Load]) -> CpuDelays:
        """The elapsed time that CPU limits add to the run without any latency of temp I/O."""
        if not self._simulates:
            return CpuDelays(0.0, 0.0, 0.0)
        kept = self._kept(operations(loads))
        source_s, target_s = (self._without_s(cpus) for cpus in (self.source, self.target))
        source_free_s, target_free_s = (
            self._without_s(Cpus(cpus.cores)) for cpus in (self.source, self.target)
        )
        return CpuDelays(
            source_quota_s=max(source_s - source_free_s, 0.0) / kept,
            target_quota_s=max(target_s - target_free_s, 0.0) / kept,
            target_cores_s=(target_free_s - source_free_s) / kept,
        )

    def _kept(self, total_operations: float) -> float:
        """Kept waits of temp operations that move bytes, over ``total_operations``."""
        kept = int((self.trace.temp & ~self.trace.change).sum())
        return min(1.0, kept / max(total_operations, 1))

    @cached_property
    def _recorded_share(self) -> float:
        """Share of the recorded temp operations whose waits were kept."""
        return self._kept(self.operations) or 1.0

    def _of_all(self, elapsed_s: float) -> float:
        """The elapsed time with all waits, from the simulated one with the kept waits."""
        recorded_s = self.elapsed_s
        return max(recorded_s + (elapsed_s - recorded_s) / self._recorded_share, 0.0)

    def throttled_share(self, simulated: Simulated) -> float:
        """Share of a run in which the target's quota throttles threads.

        It is an upper bound if the CPU time of threads is unknown.
        """
        if self.target.quota_ns is None:
            return 0.0
        run = self._run(simulated.wait_ns, self.target, self.trace.cpu_ns)
        return float(run["throttled_ns"] / max(run["elapsed_ns"], 1))

    @cached_property
    def at_work(self) -> float:
        """Mean number of active or runnable threads while there are any, at least 1."""
        if not self._several:
            return self.in_flight
        active_s = self._stretches.active_s
        threads_s = float(self._stretches.threads @ active_s)
        return max(threads_s / max(float(active_s.sum()), 1e-9), 1.0)

    @property
    def cores_per_thread(self) -> float:
        """Cores of the target per active thread, at most 1; 1 if unknown."""
        return min((self.target.cores or self.at_work) / self.at_work, 1.0)

    @property
    def _constant(self) -> Overlap:
        weight, elapsed_s = 1 / self.in_flight, self.elapsed_s
        return Overlap(weight, elapsed_s, elapsed_s, cpu_weight=weight)

    @property
    def _several(self) -> bool:
        """Whether there are several threads whose single waits are known."""
        return not self.counted and self.number > 1

    @cached_property
    def _simulates(self) -> bool:
        """Whether the simulation gives the overlap."""
        quotas = self.source.quota_ns, self.target.quota_ns
        return self._several or (any(quotas) and self.trace.cpu_known)

    @cached_property
    def _recorded(self) -> Simulated:
        return self._simulated(self.trace.wait_ns, self.source)

    def _without_s(self, cpus: Cpus) -> float:
        """Elapsed time without any latency of temp I/O, by the model that gives the shorter one."""
        if cpus not in self._without_on_s:
            without_waits = self._without_waits(cpus)
            dynamic_s = self._dynamic_s(without_waits, self.trace.cpu_ns, cpus)
            lower_s = self._lower_s(cpus)
            self._without_on_s[cpus] = max(min(self._static_s(without_waits), dynamic_s), lower_s)
        return self._without_on_s[cpus]

    def _without_waits(self, cpus: Cpus) -> Simulated:
        if cpus not in self._unwaited_on:
            wait_ns = np.where(self.trace.temp, 0, self.trace.wait_ns)
            self._unwaited_on[cpus] = self._simulated(wait_ns, cpus)
        return self._unwaited_on[cpus]

    def _load_of(self, loads: Sequence[Load]) -> Integers:
        """The index of the load that each temp operation belongs to."""
        kinds = tuple(load.kind for load in loads)
        if kinds not in self._load_numbers:
            classes, which = size_classes(self.trace.bytes[self.trace.temp])
            number_of = np.full((len(classes), 2), NONE)
            for number, (op, size_class_bytes) in enumerate(kinds):
                number_of[classes == size_class_bytes, int(op == "write")] = number
            write = self.trace.write[self.trace.temp].astype(np.int8)
            self._load_numbers[kinds] = number_of[which, write]
        return self._load_numbers[kinds]

    def _static_s(self, simulated: Simulated) -> float:
        """Elapsed time if no work moves between threads.

        The part of the recorded time that the simulation of the recording does not explain is kept.
        A simulation that takes longer than the recording couples threads too strongly; it is
        scaled.
        """
        elapsed_s, recorded_s = self.elapsed_s, self._recorded.elapsed_ns / 1e9
        more_s = simulated.elapsed_ns / 1e9 - recorded_s
        return elapsed_s + more_s * min(elapsed_s / max(recorded_s, 1e-9), 1.0)

    def _lower_s(self, cpus: Cpus) -> float:
        """Lower bound by the CPU time of all threads on all CPUs; 0 if unknown."""
        if not self.trace.cpu_known or None in (cpus.cores, self.source.cores):
            return 0.0
        source, target = self.source.cpu_s_per_s(self.trace), cpus.cpu_s_per_s(self.trace)
        return min(float(self.trace.cpu_ns.sum()) / 1e9, self.elapsed_s * source) / target

    def _dynamic_s(self, simulated: Simulated, cpu_ns: Integers, cpus: Cpus) -> float:
        """Elapsed time if each stretch keeps its active threads; one thread's work cannot move."""
        if not self._several:
            static_s, wait_ns = self._static_s(simulated), simulated.wait_ns
            if np.array_equal(cpu_ns, self.trace.cpu_ns):
                return static_s
            more = self._run(wait_ns, cpus, cpu_ns)
            recorded = self._run(wait_ns, cpus, self.trace.cpu_ns)
            return static_s + float(more["elapsed_ns"] - recorded["elapsed_ns"]) / 1e9
        return self._stretches.elapsed_s(simulated.wait_ns, cpu_ns, cpus)

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self.trace, self.elapsed_s, self._call_ns, self.source)

    @cached_property
    def _followed(self) -> tuple[Integers, Integers]:
        """Rows that are followed by another row of their thread, and the following rows."""
        return followed(self.trace.thread)

    def _cpu_with_more_ns(self, more_s: Floats) -> Integers:
        """CPU times before all waits, with ``more_s`` after each temp operation."""
        more_ns = np.zeros(len(self.trace.cpu_ns))
        more_ns[self.trace.temp] = more_s * 1e9
        row, following = self._followed
        cpu_ns = self.trace.cpu_ns.astype(float)
        cpu_ns[following] += more_ns[row]
        changed: Integers = np.maximum(cpu_ns, 0).astype(np.int64)
        return changed

    @cached_property
    def _call_ns(self) -> Integers:
        """CPU time within waiting temp operations: the time of memory to copy their bytes."""
        size = self.trace.bytes
        call_ns: Integers = np.where(size > 0, memory_ns(size), 0).astype(np.int64)
        return call_ns

    def _simulated(
        self,
        wait_ns: Integers,
        cpus: Cpus,
        behaviour: Behaviour | None = None,
        share: float = 1.0,
        page_cache: PageCache | None = None,
    ) -> Simulated:
        """A simulation of these waits, or of temp I/O on a storage for a share of the query."""
        columns = {"wait_ns": wait_ns}
        if page_cache is not None:
            columns["cached_ns"] = page_cache.cached_ns
            if self.missing_bytes is not None:
                columns["missing_bytes"] = self.missing_bytes
        outcome, waited = _core.simulate(
            self._batch(columns),
            cpus.usable(self.trace),
            behaviour and behaviour.for_share(share),
            memory=(calibrated().memory_s * 1e9, 1e9 / calibrated().memory_bytes_per_s),
            page_cache=None if page_cache is None else page_cache.for_share(share),
            quota=cpus.quota_ns if self.trace.cpu_known else None,
        )
        temp_ns = max(outcome["temp_ns"], 1)
        times, limited_ns = arrays_of(waited), outcome["limited_ns"]
        moves, all_wait_ns = moving(self.trace), wait_ns + times["io_ns"]
        storage_ns, io_ns = times["storage_ns"][moves], float(all_wait_ns[moves].sum())
        return Simulated(
            wait_ns=all_wait_ns,
            elapsed_ns=outcome["elapsed_ns"],
            in_flight=max(outcome["temp_ns"] / max(outcome["temp_busy_ns"], 1), 1.0),
            limited=[ns / temp_ns for ns in limited_ns],
            at_limits_ns=list(map(sum, zip(limited_ns, outcome["served_ns"], strict=True))),
            queued_ns=outcome["queued_ns"],
            latency_ns=outcome["latency_ns"],
            storage_ns=times["storage_ns"],
            missed=float((storage_ns > 0).mean()) if moves.any() else 0.0,
            storage_share=float(storage_ns.sum()) / io_ns if io_ns else 1.0,
        )

    def _batch(self, columns: Mapping[str, Integers]) -> Any:
        """The rows for the simulation, with ``columns`` in place of the recorded columns."""
        return Table({**self.trace.columns, **columns, "call_ns": self._call_ns})

    def _run(self, wait_ns: Integers | Floats, cpus: Cpus, cpu_ns: Integers) -> dict[str, Any]:
        """The totals of a simulated run with fixed waits and these CPU times."""
        batch = self._batch({"wait_ns": wait_ns.astype(np.int64), "cpu_ns": cpu_ns})
        outcome: dict[str, Any]
        outcome, _ = _core.simulate(batch, cpus.usable(self.trace), quota=cpus.quota_ns)
        return outcome
