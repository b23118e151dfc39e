"""How much of the temp I/O of several threads is seen in the elapsed time: they overlap, and wait.

Two models say how long the recorded threads take with other latencies. In one, work moves: in each
stretch of the run as many threads go on to have work as had. In the other none does: a simulation
in which each thread does what it did, and waits for the threads it waited for. Each holds a run to
something that it is not held to, so the shorter time counts.

The time without any latency taken off, what remains is what temp I/O adds; over the sum of
latencies it is the weight of a wait. One thread has weight 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load, in_flight, processes, sessions
from spillcast.forecast.threads.repairman import repairman_s
from spillcast.forecast.threads.stretches import Stretches
from spillcast.recording import Recording
from spillcast.recording.thread_trace import NONE, ThreadTrace, thread_trace

Array = NDArray[np.int64]
Flags = NDArray[np.bool_]
Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Overlap:
    """What temp I/O of some latencies adds to a run."""

    #: Seconds of elapsed time for a second of latency.
    of_waits: float
    #: Elapsed time where work moves between threads, and where it does not.
    moving_s: float
    fixed_s: float
    #: Operations in flight while there are any.
    in_flight: float
    #: Seconds of elapsed time for a second of CPU that temp I/O makes.
    of_cpu: float = 1.0


class Threads:
    """The threads of a recording. Where one did everything, all weights are 1."""

    def __init__(self, recording: Recording, loads: Sequence[Load]) -> None:
        self._recording = recording
        self._loads = loads
        self._cores = int(recording.meta["machine"].get("cpus") or 0)

    @cached_property
    def simulated(self) -> bool:
        """Whether there is something to simulate: several threads, whose waits are known."""
        if processes(self._recording) is not None or self._recording.temp_waits.num_rows == 0:
            return False
        return sessions(self._recording) > 1

    @cached_property
    def trace(self) -> ThreadTrace:
        """What the threads did."""
        return thread_trace(self._recording)

    @cached_property
    def recorded(self) -> Overlap:
        """On the storage of the recording."""
        if not self.simulated:
            return self._constant
        none_s = np.zeros(len(self._load_of))
        return self._weight(self.trace.wait_ns, self.trace.on_core, none_s)

    def on_target(self, found: Sequence[Latency], cpu_s: Seconds) -> Overlap:
        """On a storage of these latencies, where each operation makes so much more CPU time."""
        if not self.simulated:
            return self._constant
        own = self.trace
        temp = np.flatnonzero(own.temp)
        wait_ns, on_core = own.wait_ns.copy(), own.on_core.copy()
        wait_ns[temp] = 0
        for number, (load, latency) in enumerate(zip(self._loads, found, strict=True)):
            which = temp[self._load_of == number]
            wait_ns[which] = _drawn_ns(latency, len(which))
            # Where memory answers, the thread stays on its core meanwhile.
            on_core[which] = calibrated().memory_answers(latency.mean_s, load.mean_bytes)
        # The last one is for operations that moved nothing and belong to no load.
        return self._weight(wait_ns, on_core, np.array([*cpu_s, 0.0])[self._load_of])

    @property
    def _constant(self) -> Overlap:
        at_once, elapsed_s = in_flight(self._recording), self._recording.elapsed_s
        return Overlap(1 / at_once, elapsed_s, elapsed_s, at_once, 1 / at_once)

    @cached_property
    def _load_of(self) -> Array:
        """The number of the load that each temp operation belongs to."""
        rows = self._recording.waits.take(pa.array(self.trace.source[self.trace.temp]))
        size = rows["bytes"].fill_null(0).to_numpy()
        sizes, which = np.unique(size, return_inverse=True)
        classes = np.array([_core.size_class_bytes(int(n)) for n in sizes], dtype=np.int64)[which]
        write = pa.compute.equal(rows["op"].cast(pa.string()), "write").to_numpy()
        numbers = np.full(len(size), NONE)
        for number, load in enumerate(self._loads):
            matches = (classes == load.size_class_bytes) & (write == (load.op == "write"))
            numbers[matches] = number
        return numbers

    def _weight(self, wait_ns: Array, on_core: Flags, cpu_s: Seconds) -> Overlap:
        own = self.trace
        fixed_s, at_once = self._fixed_s(wait_ns, on_core)
        moving_s = self._moving_s(wait_ns, own.cpu_ns)
        without_ns = np.where(own.temp, 0, wait_ns)
        without_s = min(
            self._fixed_s(without_ns, on_core)[0], self._moving_s(without_ns, own.cpu_ns)
        )
        sum_s = max(int(wait_ns[own.temp].sum()), 1) / 1e9
        cpu_ns = self._with_cpu(cpu_s)
        more_s = float((cpu_ns - own.cpu_ns).sum()) / 1e9
        of_cpu = 1 / max(at_once, 1.0)
        if abs(more_s) > moving_s / 1000:
            of_cpu = (self._moving_s(wait_ns, cpu_ns) - moving_s) / more_s
        return Overlap(
            max(min(fixed_s, moving_s) - without_s, 0.0) / sum_s,
            moving_s,
            fixed_s,
            at_once,
            float(np.clip(of_cpu, 0.0, 1.0)),
        )

    def _moving_s(self, wait_ns: Array, cpu_ns: Array) -> float:
        """Elapsed time if in each stretch as many threads have work as had; idle time stays."""
        recorded_s = self._shared_s(self.trace.wait_ns, self.trace.cpu_ns)
        target_s = self._shared_s(wait_ns, cpu_ns)
        grown = np.divide(target_s, recorded_s, out=np.ones_like(recorded_s), where=recorded_s > 0)
        return float((self._stretches.idle_s + self._stretches.active_s * grown).sum())

    def _shared_s(self, wait_ns: Array, cpu_ns: Array) -> Seconds:
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

    def _fixed_s(self, wait_ns: Array, on_core: Flags) -> tuple[float, float]:
        """Elapsed time if each thread does what it did, and operations in flight meanwhile.

        What the simulation takes less with the recorded latencies than the run did is not its to
        explain, and stays.
        """
        elapsed_ns, at_once = self._simulated(wait_ns, on_core)
        return self._recording.elapsed_s + (elapsed_ns - self._recorded_ns[0]) / 1e9, at_once

    @cached_property
    def _recorded_ns(self) -> tuple[int, float]:
        return self._simulated(self.trace.wait_ns, self.trace.on_core)

    def _simulated(self, wait_ns: Array, on_core: Flags) -> tuple[int, float]:
        outcome = _core.simulate(self.trace.batch(wait_ns, on_core), self._usable_cores)
        at_once = outcome["temp_ns"] / max(outcome["temp_busy_ns"], 1)
        return outcome["elapsed_ns"], max(at_once, 1.0)


def _drawn_ns(latency: Latency, count: int) -> Array:
    """So many latencies as the storage's histogram has them, whose mean is its mean."""
    weights = latency.histogram[:, 1]
    if not count or not weights.sum():
        return np.full(count, round(latency.mean_s * 1e9), dtype=np.int64)
    middle = (np.arange(count) + 0.5) / count * weights.sum()
    drawn = latency.histogram[np.searchsorted(np.cumsum(weights), middle), 0]
    np.random.default_rng(0).shuffle(drawn)
    mean = drawn.mean()
    scaled = drawn * (latency.mean_s / mean) if mean else drawn
    rounded: Array = np.rint(scaled * 1e9).astype(np.int64)
    return rounded
