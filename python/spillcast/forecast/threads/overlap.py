"""How much of the temp I/O of several threads is seen in the elapsed time: they overlap, and wait.

The recorded threads are simulated on a storage, whose schedule is asked for each operation. Two
models say how long they take there. In one no work moves: each thread does what it did, and waits
for the threads it waited for. In the other, in each stretch of the run as many threads go on to
have work as had. Each holds a run to something that it is not held to, so the shorter time counts.

The time without any latency taken off, what remains is what temp I/O adds; over the sum of
latencies it is the overlap's share of a wait. One thread has 1, unless a CPU quota holds it back:
then a part of its waits is hidden behind the wait for the next period, and it is simulated too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.forecast.assumptions import BURST_MIN_S
from spillcast.forecast.load import Load, operations
from spillcast.forecast.threads.cpus import At, CpuAfter, Cpus, Sharing, Stretches
from spillcast.forecast.threads.page_cache import (
    ANY_STORAGE,
    PageCache,
    memory_ns,
    page_cache_of,
    page_cache_of_counts,
)
from spillcast.recording.spill import size_classes
from spillcast.recording.thread_trace import NONE, ThreadTrace
from spillcast.storage.model import Behaviour
from spillcast.tables import Table, arrays_of


@dataclass(frozen=True)
class Simulated:
    """The recorded threads with their temp I/O on some storage."""

    #: How long each row of the trace waits, ns.
    wait_ns: NDArray[np.float64]
    elapsed_ns: int
    #: Operations in flight while there are any: at least 1.
    in_flight: float
    #: By limit of the storage, share of the temp I/O's time that operations wait for it.
    limited: Sequence[float]
    #: Time of operations on the storage, ns: by limit, for servers, and its own latency.
    at_limits_ns: Sequence[float]
    queued_ns: float
    latency_ns: float
    #: By row, ns that the storage took: 0 where memory answered.
    storage_ns: NDArray[np.float64]


#: Models of threads that are further apart than this say nothing either way.
MAX_APART = 100.0


@dataclass(frozen=True)
class Overlap:
    """What temp I/O of some latencies adds to a run."""

    #: Seconds of elapsed time for a second of latency.
    of_waits: float
    #: Elapsed time where work moves between threads, and where it does not.
    moving_s: float
    fixed_s: float
    #: Elapsed time of a replay of all threads on the storage, where there was one.
    replayed_s: float | None = None
    #: Seconds of elapsed time for a second of CPU that temp I/O makes.
    of_cpu: float = 1.0

    @property
    def elapsed_s(self) -> float:
        """The shorter time of the two models.

        A replay repeats the recorded division of work: it agrees with the model in which no work
        moves, and is no evidence against the other.
        """
        return min(self.moving_s, self.fixed_s)

    @property
    def apart(self) -> float:
        """How many times as long the longest of them is as the shortest."""
        models_s = [s for s in (self.moving_s, self.fixed_s, self.replayed_s) if s is not None]
        # Of a short part of a run a model may leave no time at all.
        return min(max(max(models_s), 1e-9) / max(min(models_s), 1e-9), MAX_APART)


Array = NDArray[np.int64]
Seconds = NDArray[np.float64]
#: Of a second of latency this much adds to the elapsed time, however many others overlap with it.
SHARE_MIN = 1e-3


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordedThreads:
    """What the threads of a run did, and the CPUs that they had; a replay on paper starts here."""

    trace: ThreadTrace
    #: Elapsed time that the trace covers.
    elapsed_s: float
    #: Threads that did temp I/O, and temp operations in flight while there are any.
    threads: int
    in_flight: float
    #: Temp operations of the run; single waits were kept of some or all of them.
    operations: int
    source: Cpus
    target: Cpus
    #: Whether the trace is made of counts, and no single wait is known.
    counted: bool = False
    #: The page cache that the engine could have used; None where that is not known.
    cache_bytes: int | None = None
    #: By row, what a read had to bring of the storage; None where the page cache is simulated.
    missing_bytes: Array | None = None
    #: Whether samples tell spinning threads from threads that work.
    sampled: bool = True
    #: By call that changes a file, its name.
    change_events: Sequence[str] = ()

    @cached_property
    def simulation(self) -> "Threads":
        """The simulation of these threads."""
        return Threads(self)

    def with_spinning(self, spun_s: float) -> "RecordedThreads | None":
        """The same where so much CPU time of long bursts was a wait for the I/O of others.

        The thread then burns what is left of each burst at its end. None without such bursts.
        """
        trace = self.trace
        bursts = long_bursts(trace)
        if self.counted or self.threads < 2 or not trace.cpu_known or not bursts.any():
            return None
        share = min(spun_s * 1e9 / float(trace.cpu_ns[bursts].sum()), 1.0)
        cpu_ns = trace.cpu_ns.copy()
        cpu_ns[bursts] = np.round((1 - share) * cpu_ns[bursts]).astype(np.int64)
        return replace(self, trace=replace(trace, cpu_ns=cpu_ns), sampled=True)


def long_bursts(trace: ThreadTrace) -> NDArray[np.bool_]:
    """Rows after a long burst of CPU time, during a tenth of which others did temp I/O."""
    bursts = trace.cpu_ns > BURST_MIN_S * 1e9
    begin_ns, end_ns = trace.start_ns[trace.temp], (trace.start_ns + trace.wait_ns)[trace.temp]
    for row in np.flatnonzero(bursts):
        last_ns, burst_ns = trace.start_ns[row], trace.cpu_ns[row]
        inside_ns = np.minimum(end_ns, last_ns) - np.maximum(begin_ns, last_ns - burst_ns)
        others = trace.thread[trace.temp] != trace.thread[row]
        bursts[row] = np.maximum(inside_ns, 0)[others].sum() >= burst_ns / 10
    return bursts


class Threads:
    """The threads of a run. Where one did everything, all of its waits add up.

    Loads are those of the recorded operations, or of more operations of the same kinds.
    """

    def __init__(self, recorded: RecordedThreads) -> None:
        self._of = recorded
        self.trace, self.source, self.target = recorded.trace, recorded.source, recorded.target
        self._unwaited_on = dict[Cpus, Simulated]()
        self._without_on_s = dict[Cpus, float]()
        self._load_numbers = dict[tuple[tuple[str, int], ...], Array]()

    @property
    def of_waits(self) -> float:
        """Seconds of elapsed time for a second of latency of its temp I/O, as it was recorded."""
        return min(max(self.recorded.of_waits, SHARE_MIN), 1.0)

    @cached_property
    def recorded(self) -> Overlap:
        """On the storage of the recording."""
        if not self._simulates:
            return self._constant
        return self._overlap(self._recorded, self.trace.cpu_ns, self.source)

    def on(
        self,
        behaviour: Behaviour | None,
        total_operations: float,
        changes: Mapping[str, float],
        page_cache: PageCache | None = None,
    ) -> Simulated:
        """On a storage, None for one of no latency; the entire query does ``total_operations``.

        Of calls that change files, ``changes`` has by event how many times as long they take there.
        """
        if behaviour is None:
            return self._unwaited(self.target)
        trace, share = self.trace, min(1.0, self._operations / total_operations)
        wait_ns = np.where(trace.temp, 0, trace.wait_ns)
        wait_ns[trace.change] = trace.wait_ns[trace.change] * np.array(
            [changes.get(event, 1.0) for event in self._of.change_events]
        )
        return self._simulated(wait_ns, self.target, behaviour, share, page_cache)

    def page_cache(self, loads: Sequence[Load]) -> PageCache | None:
        """The page cache that its temp I/O went through; None where none is known."""
        if self._of.counted:
            return page_cache_of_counts(self.trace, self._load_of(loads), loads)
        return self._recorded_page_cache

    @cached_property
    def _recorded_page_cache(self) -> PageCache | None:
        trace, room_bytes = self.trace, self._of.cache_bytes
        if room_bytes is None:
            return None
        tried = PageCache(room_bytes, np.zeros_like(trace.wait_ns))
        waits_ns = np.where(trace.temp, 0, trace.wait_ns)
        simulated = self._simulated(waits_ns, self.source, ANY_STORAGE, page_cache=tried)
        return page_cache_of(trace, simulated.storage_ns, room_bytes)

    def mean_s(self, simulated: Simulated, loads: Sequence[Load]) -> list[float | None]:
        """Mean wait of each load's operations; None of a load of which the trace has none."""
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
        cpu_s: Seconds,
        replayed_s: float | None = None,
    ) -> Overlap:
        """What the waits of a simulation add, where operations make more CPU time, by load.

        ``replayed_s`` is what a replay of all that the threads did took on the storage.
        """
        if not self._simulates:
            return self._constant
        # The last one is for operations that moved nothing and belong to no load.
        more_s = np.array([*cpu_s, 0.0])[self._load_of(loads)]
        return self._overlap(simulated, self._cpu_after.with_more(more_s), self.target, replayed_s)

    def _overlap(
        self, simulated: Simulated, cpu_ns: Array, cpus: Cpus, replayed_s: float | None = None
    ) -> Overlap:
        trace, wait_ns = self.trace, simulated.wait_ns
        fixed_s, moving_s = self._fixed_s(simulated), self._moving_s(simulated, trace.cpu_ns, cpus)
        sum_s = max(float(wait_ns[trace.temp].sum()), 1.0) / 1e9
        more_s = 0.0 if cpu_ns is trace.cpu_ns else float((cpu_ns - trace.cpu_ns).sum()) / 1e9
        of_cpu = 1 / simulated.in_flight
        if abs(more_s) > abs(moving_s) / 1000:
            of_cpu = (self._moving_s(simulated, cpu_ns, cpus) - moving_s) / more_s
        most = max(1.0, 1 / (cpus.quota_cpus or 1.0))
        whole = self._of_all(moving_s), self._of_all(fixed_s)
        result = Overlap(0.0, *whole, replayed_s, float(np.clip(of_cpu, 0.0, most)))
        more_s = result.elapsed_s - self._of_all(self._without_s(cpus))
        # An operation makes a run no longer than it takes itself.
        of_waits = float(np.clip(more_s * self._seen / sum_s, 0.0, 1.0))
        return replace(result, of_waits=of_waits)

    def spinning_s(self, simulated: Simulated) -> float:
        """What a run is shorter by if long bursts beside temp I/O of others are waits for it.

        0 where samples tell spinning from work.
        """
        if self._of.sampled or not self._several or not self.cpu_known or not self._bursts.any():
            return 0.0
        cpu_ns = np.where(self._bursts, 0, self.trace.cpu_ns)
        longer, shorter = (
            self._run(simulated.wait_ns, self.target, each)["elapsed_ns"]
            for each in (self.trace.cpu_ns, cpu_ns)
        )
        return float(max(longer - shorter, 0) / 1e9)

    @cached_property
    def _bursts(self) -> NDArray[np.bool_]:
        return long_bursts(self.trace)

    def quota_s(self, loads: Sequence[Load]) -> tuple[float, float]:
        """What quotas make longer without any latency of temp I/O, on the source and the target."""
        if not self._simulates:
            return 0.0, 0.0
        source_s, target_s = (
            (self._without_s(cpus) - self._without_s(cpus.unlimited)) / self._kept(loads)
            for cpus in (self.source, self.target)
        )
        return max(source_s, 0.0), max(target_s, 0.0)

    def cores_s(self, loads: Sequence[Load]) -> float:
        """What other cores on the target make longer without latency and quota; below 0 shorter."""
        if not self._simulates or self.source.cores == self.target.cores:
            return 0.0
        cpus = self.target.unlimited, self.source.unlimited
        target_s, source_s = map(self._without_s, cpus)
        return (target_s - source_s) / self._kept(loads)

    def _kept(self, loads: Sequence[Load]) -> float:
        """Share of the temp operations of the loads whose waits were kept."""
        return min(1.0, self._operations / max(operations(loads), 1))

    @cached_property
    def _seen(self) -> float:
        """The same of those that were recorded."""
        return min(1.0, self._operations / max(self._of.operations, 1)) or 1.0

    @cached_property
    def _operations(self) -> int:
        """Temp operations that move bytes, whose waits were kept."""
        return int((self.trace.temp & ~self.trace.change).sum())

    def _of_all(self, elapsed_s: float) -> float:
        """An elapsed time with the kept waits as the simulation says, if all others do alike."""
        recorded_s = self._of.elapsed_s
        return max(recorded_s + (elapsed_s - recorded_s) / self._seen, 0.0)

    def throttled_share(self, simulated: Simulated) -> float:
        """Share of a run on the target in which a quota holds threads back.

        Where nobody saw their CPU time it is at most that: all time between waits may be it.
        """
        if self.target.quota_ns is None:
            return 0.0
        run = self._run(simulated.wait_ns, self.target, self.trace.cpu_ns)
        return float(run["throttled_ns"] / max(run["elapsed_ns"], 1))

    @cached_property
    def at_work(self) -> float:
        """How many had work while any had, those that found no CPU among them: at least 1."""
        if not self._several:
            return self._of.in_flight
        active_s = self._stretches.active_s
        return float((self._stretches.threads @ active_s) / max(active_s.sum(), 1e-9))

    @property
    def cores_per_thread(self) -> float:
        """Cores on the target for each thread that has work; 1 at most, or where none is known."""
        return min((self.target.cores or self.at_work) / self.at_work, 1.0)

    @property
    def _constant(self) -> Overlap:
        at_once, elapsed_s = self._of.in_flight, self._of.elapsed_s
        return Overlap(1 / at_once, elapsed_s, elapsed_s, of_cpu=1 / at_once)

    @property
    def _several(self) -> bool:
        """Whether there are several threads, and what they did is known."""
        return not self._of.counted and self._of.threads > 1

    @property
    def cpu_known(self) -> bool:
        """Whether it was seen how much CPU time threads had between waits."""
        return not self._of.counted and self.trace.cpu_known

    @cached_property
    def _simulates(self) -> bool:
        """Whether waits add to the elapsed time as the simulation says."""
        quotas = self.source.quota_ns, self.target.quota_ns
        return self._several or (any(quotas) and self.cpu_known)

    @cached_property
    def _recorded(self) -> Simulated:
        return self._simulated(self.trace.wait_ns, self.source)

    def _without_s(self, cpus: Cpus) -> float:
        """Elapsed time without any latency of temp I/O, by the model with which it is shorter."""
        if cpus not in self._without_on_s:
            unwaited = self._unwaited(cpus)
            moving_s = self._moving_s(unwaited, self.trace.cpu_ns, cpus)
            self._without_on_s[cpus] = min(self._fixed_s(unwaited), moving_s)
        return self._without_on_s[cpus]

    def _unwaited(self, cpus: Cpus) -> Simulated:
        if cpus not in self._unwaited_on:
            wait_ns = np.where(self.trace.temp, 0, self.trace.wait_ns)
            self._unwaited_on[cpus] = self._simulated(wait_ns, cpus)
        return self._unwaited_on[cpus]

    def _load_of(self, loads: Sequence[Load]) -> Array:
        """The number of the load that each temp operation belongs to."""
        kinds = tuple(load.kind for load in loads)
        if kinds not in self._load_numbers:
            classes, which = self._size_classes
            number_of = np.full((len(classes), 2), NONE)
            for number, (op, size_class_bytes) in enumerate(kinds):
                number_of[classes == size_class_bytes, int(op == "write")] = number
            write = self.trace.write[self.trace.temp].astype(np.int8)
            self._load_numbers[kinds] = number_of[which, write]
        return self._load_numbers[kinds]

    @cached_property
    def _size_classes(self) -> tuple[Array, Array]:
        return size_classes(self.trace.bytes[self.trace.temp])

    def _fixed_s(self, simulated: Simulated) -> float:
        """Elapsed time if each thread does what it did.

        What the simulation takes less with the recorded latencies than the run did is not its to
        explain, and stays.
        """
        more_ns = simulated.elapsed_ns - self._recorded.elapsed_ns
        return self._of.elapsed_s + more_ns / 1e9

    def _moving_s(self, simulated: Simulated, cpu_ns: Array, cpus: Cpus) -> float:
        """Elapsed time if in each stretch as many threads have work as had; idle time stays.

        What one thread does moves nowhere.
        """
        if not self._several:
            fixed_s, cpu_ns_each = self._fixed_s(simulated), self.trace.cpu_ns
            if np.array_equal(cpu_ns, cpu_ns_each):
                return fixed_s
            more, recorded = (
                self._run(simulated.wait_ns, cpus, each) for each in (cpu_ns, cpu_ns_each)
            )
            return fixed_s + float(more["elapsed_ns"] - recorded["elapsed_ns"]) / 1e9
        return self._sharing.elapsed_s(At(simulated.wait_ns, cpu_ns, cpus))

    @cached_property
    def _sharing(self) -> Sharing:
        return Sharing(self.trace, self._stretches, self._call_ns, self.source)

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self.trace, self._of.elapsed_s)

    @cached_property
    def _cpu_after(self) -> CpuAfter:
        return CpuAfter(self.trace)

    @cached_property
    def _call_ns(self) -> Array:
        """CPU time within the temp operations that wait: what memory takes to move the bytes."""
        size = self.trace.bytes
        call_ns: Array = np.where(size > 0, memory_ns(size), 0).astype(np.int64)
        return call_ns

    def _simulated(
        self,
        wait_ns: Array,
        cpus: Cpus,
        behaviour: Behaviour | None = None,
        share: float = 1.0,
        page_cache: PageCache | None = None,
    ) -> Simulated:
        """With these waits, or with the temp I/O on a storage of which it is such a share."""
        outcome, waited = _core.simulate(
            self._batch(
                wait_ns,
                cached_ns=None if page_cache is None else page_cache.cached_ns,
                missing_bytes=None if page_cache is None else self._of.missing_bytes,
            ),
            cpus.usable(self.trace),
            behaviour and behaviour.for_share(share),
            memory=(calibrated().memory_s * 1e9, 1e9 / calibrated().memory_bytes_per_s),
            page_cache=None if page_cache is None else page_cache.for_share(share),
            quota=cpus.quota_ns if self.cpu_known else None,
        )
        temp_ns = max(outcome["temp_ns"], 1)
        times = arrays_of(waited)
        return Simulated(
            wait_ns + times["io_ns"],
            outcome["elapsed_ns"],
            max(outcome["temp_ns"] / max(outcome["temp_busy_ns"], 1), 1.0),
            [ns / temp_ns for ns in outcome["limited_ns"]],
            [sum(ns) for ns in zip(outcome["limited_ns"], outcome["served_ns"], strict=True)],
            outcome["queued_ns"],
            outcome["latency_ns"],
            times["storage_ns"],
        )

    def _batch(self, wait_ns: Array, cpu_ns: Array | None = None, **more: Array | None) -> Any:
        """The rows for the core with these waits, and CPU times, in place of those recorded."""
        replaced = {"wait_ns": wait_ns} | ({} if cpu_ns is None else {"cpu_ns": cpu_ns})
        given = {name: column for name, column in more.items() if column is not None}
        return Table({**self.trace.columns, **given, **replaced, "call_ns": self._call_ns})

    def _run(self, wait_ns: Array | Seconds, cpus: Cpus, cpu_ns: Array) -> dict[str, Any]:
        """What a run with these waits comes to, each as long as given, and with this CPU time."""
        batch = self._batch(wait_ns.astype(np.int64), cpu_ns)
        outcome: dict[str, Any]
        outcome, _ = _core.simulate(batch, cpus.usable(self.trace), quota=cpus.quota_ns)
        return outcome
