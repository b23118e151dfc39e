"""How much of the temp I/O of several threads is seen in the elapsed time: they overlap, and wait.

The recorded threads are simulated on a storage, whose schedule is asked for each operation. Two
models say how long they take there. In one no work moves: each thread does what it did, and waits
for the threads it waited for. In the other, in each stretch of the run as many threads go on to
have work as had. Each holds a run to something that it is not held to, so the shorter time counts,
unless a replay of all threads on the storage itself says how far the longer is right.

The time without any latency taken off, what remains is what temp I/O adds; over the sum of
latencies it is the overlap's share of a wait. One thread has 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.forecast.load import Load, in_flight, sessions
from spillcast.forecast.threads.counted import counted_trace
from spillcast.forecast.threads.repairman import repairman_s
from spillcast.forecast.threads.stretches import Stretches
from spillcast.recording import Recording
from spillcast.recording.thread_trace import NONE, ThreadTrace, thread_trace
from spillcast.storage.behaviour import Behaviour

Array = NDArray[np.int64]
Seconds = NDArray[np.float64]


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
        """The shorter time of the two models, unless a replay says how far the longer is right.

        What it takes beyond both may be other work on the machine.
        """
        shorter_s, longer_s = sorted((self.moving_s, self.fixed_s))
        replayed_s = shorter_s if self.replayed_s is None else self.replayed_s
        return min(max(replayed_s, shorter_s), longer_s)

    @property
    def apart(self) -> float:
        """How many times as long the longest of them is as the shortest."""
        said_s = [s for s in (self.moving_s, self.fixed_s, self.replayed_s) if s is not None]
        return max(said_s) / min(said_s)


class Threads:
    """The threads of a recording. Where one did everything, all of its waits add up."""

    def __init__(self, recording: Recording, loads: Sequence[Load]) -> None:
        self._recording = recording
        self._loads = loads
        self._cores = recording.meta.machine.cpus or 0

    @cached_property
    def recorded(self) -> Overlap:
        """On the storage of the recording."""
        if not self._several:
            return self._constant
        return self.overlap(self._recorded, np.zeros(len(self._loads)))

    def on(self, behaviour: Behaviour, scale: float, changes: Mapping[str, float]) -> Simulated:
        """On a storage; the whole query does ``scale`` times what was recorded.

        Of calls that change files, ``changes`` has by event how many times as long they take there.
        """
        own, whole = self.trace, scale * sum(load.count for load in self._loads)
        share = min(1.0, int((own.temp & ~own.change).sum()) / whole)
        wait_ns = np.where(own.temp, 0, own.wait_ns)
        wait_ns[own.change] = own.wait_ns[own.change] * self._times_as_long(changes)
        return self._simulated(wait_ns, behaviour, share)

    def _times_as_long(self, changes: Mapping[str, float]) -> Seconds:
        """Of each call that changes a file; 1 where nothing is known."""
        own = self.trace
        if not own.change.any():
            return np.ones(0)
        events = self._recording.waits["event"].take(pa.array(own.source[own.change]))
        return np.array([changes.get(event, 1.0) for event in events.to_pylist()])

    def mean_s(self, simulated: Simulated) -> list[float | None]:
        """Mean wait of each load's operations; None of a load of which the trace has none."""
        waits_ns = simulated.wait_ns[self.trace.temp]
        of_load = [waits_ns[self._load_of == number] for number in range(len(self._loads))]
        return [float(waits.mean()) / 1e9 if len(waits) else None for waits in of_load]

    def unwaited(self, cpu_s: Seconds) -> Overlap:
        """Without any latency of temp I/O, where operations make more CPU time, by load."""
        return self.overlap(self._unwaited, cpu_s) if self._several else self._constant

    def overlap(
        self, simulated: Simulated, cpu_s: Seconds, replayed_s: float | None = None
    ) -> Overlap:
        """What the waits of a simulation add, where operations make more CPU time, by load.

        ``replayed_s`` is what a replay of all that the threads did took on the storage.
        """
        if not self._several:
            return self._constant
        own, wait_ns = self.trace, simulated.wait_ns
        fixed_s, moving_s = self._fixed_s(simulated), self._moving_s(wait_ns, own.cpu_ns)
        sum_s = max(float(wait_ns[own.temp].sum()), 1.0) / 1e9
        # The last one is for operations that moved nothing and belong to no load.
        cpu_ns = self._with_cpu(np.array([*cpu_s, 0.0])[self._load_of])
        more_s = float((cpu_ns - own.cpu_ns).sum()) / 1e9
        of_cpu = 1 / simulated.in_flight
        if abs(more_s) > moving_s / 1000:
            of_cpu = (self._moving_s(wait_ns, cpu_ns) - moving_s) / more_s
        found = Overlap(0.0, moving_s, fixed_s, replayed_s, float(np.clip(of_cpu, 0.0, 1.0)))
        return replace(found, of_waits=max(found.elapsed_s - self._without_s, 0.0) / sum_s)

    @cached_property
    def at_work(self) -> float:
        """How many had work while any had, those that found no CPU among them: at least 1."""
        if not self._several:
            return in_flight(self._recording)
        active_s = self._stretches.active_s
        return float((self._stretches.threads @ active_s) / max(active_s.sum(), 1e-9))

    @property
    def _constant(self) -> Overlap:
        at_once, elapsed_s = in_flight(self._recording), self._recording.elapsed_s
        return Overlap(1 / at_once, elapsed_s, elapsed_s, of_cpu=1 / at_once)

    @cached_property
    def trace(self) -> ThreadTrace:
        """What the threads did, or would have done where only counts are known."""
        if self._recording.temp_waits.num_rows:
            return thread_trace(self._recording)
        threads = sessions(self._recording)
        io_s = sum(load.total_s for load in self._loads) / in_flight(self._recording)
        return counted_trace(self._loads, threads, max(self._recording.elapsed_s - io_s, 0.0))

    @cached_property
    def _several(self) -> bool:
        """Whether there are several threads, and what they did is known."""
        return not self._recording.meta.only_counts and sessions(self._recording) > 1

    @cached_property
    def _recorded(self) -> Simulated:
        return self._simulated(self.trace.wait_ns)

    @cached_property
    def _without_s(self) -> float:
        """Elapsed time without any latency of temp I/O, by the model with which it is shorter."""
        unwaited = self._unwaited
        return min(self._fixed_s(unwaited), self._moving_s(unwaited.wait_ns, self.trace.cpu_ns))

    @cached_property
    def _unwaited(self) -> Simulated:
        return self._simulated(np.where(self.trace.temp, 0, self.trace.wait_ns))

    @cached_property
    def _load_of(self) -> Array:
        """The number of the load that each temp operation belongs to."""
        own = self.trace
        sizes, which = np.unique(own.bytes[own.temp], return_inverse=True)
        classes = np.array([_core.size_class_bytes(int(n)) for n in sizes], dtype=np.int64)[which]
        numbers = np.full(len(which), NONE)
        for number, load in enumerate(self._loads):
            matches = (classes == load.size_class_bytes) & (
                own.write[own.temp] == (load.op == "write")
            )
            numbers[matches] = number
        return numbers

    def _fixed_s(self, simulated: Simulated) -> float:
        """Elapsed time if each thread does what it did.

        What the simulation takes less with the recorded latencies than the run did is not its to
        explain, and stays.
        """
        more_ns = simulated.elapsed_ns - self._recorded.elapsed_ns
        return self._recording.elapsed_s + more_ns / 1e9

    def _moving_s(self, wait_ns: Array | Seconds, cpu_ns: Array) -> float:
        """Elapsed time if in each stretch as many threads have work as had; idle time stays."""
        recorded_s = self._shared_s(self.trace.wait_ns, self.trace.cpu_ns)
        target_s = self._shared_s(wait_ns, cpu_ns)
        grown = np.divide(target_s, recorded_s, out=np.ones_like(target_s), where=recorded_s > 0)
        return float((self._stretches.idle_s + self._stretches.active_s * grown).sum())

    def _shared_s(self, wait_ns: Array | Seconds, cpu_ns: Array) -> Seconds:
        """By stretch: how long the threads that have work take if they share the cores."""
        cpu_s = self._stretches.sums(cpu_ns / 1e9)
        io_s = self._stretches.sums(self.trace.io_ns(wait_ns) / 1e9)
        count = np.maximum(self._stretches.sums(self.trace.io.astype(float)), 1.0)
        times_s = [
            number * repairman_s(threads, self._usable_cores, cpu / number, io / number)
            for threads, number, cpu, io in zip(
                self._stretches.threads, count, cpu_s, io_s, strict=True
            )
        ]
        return np.array(times_s)

    @cached_property
    def _stretches(self) -> Stretches:
        return Stretches(self.trace, self._recording.elapsed_s)

    def _with_cpu(self, cpu_s: Seconds) -> Array:
        """CPU times of the rows where each temp operation makes so much more after it."""
        own = self.trace
        cpu_ns = own.cpu_ns.astype(float)
        more = np.zeros(len(cpu_ns))
        more[own.temp] = cpu_s * 1e9
        order = np.argsort(own.thread, kind="stable")
        same = own.thread[order][1:] == own.thread[order][:-1]
        cpu_ns[order[1:][same]] += more[order[:-1][same]]
        changed: Array = np.maximum(cpu_ns, 0).astype(np.int64)
        return changed

    @property
    def _usable_cores(self) -> int:
        return self._cores if self.trace.cpu_known and self._cores else self.trace.threads

    def _simulated(
        self, wait_ns: Array, behaviour: Behaviour | None = None, share: float = 1.0
    ) -> Simulated:
        """With these waits, or with the temp I/O on a storage of which it is such a share."""
        outcome, waited = _core.simulate(
            self.trace.batch(wait_ns),
            self._usable_cores,
            behaviour and behaviour.for_share(share),
            memory=(calibrated().memory_s * 1e9, 1e9 / calibrated().memory_bytes_per_s),
        )
        temp_ns = max(outcome["temp_ns"], 1)
        return Simulated(
            wait_ns + pa.record_batch(waited)["io_ns"].to_numpy(),
            outcome["elapsed_ns"],
            max(outcome["temp_ns"] / max(outcome["temp_busy_ns"], 1), 1.0),
            [ns / temp_ns for ns in outcome["limited_ns"]],
        )
