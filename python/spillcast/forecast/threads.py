"""How much of the temp I/O of several threads is seen in the elapsed time: they overlap, and wait.

Engines give work to whichever thread is free. So in each stretch of a run as many threads stay at
work, on a core or in I/O, as there were: what they have to do, over their number, is its time. The
time without any latency taken off, what remains is what temp I/O adds; over the sum of latencies it
is the weight of a wait. One thread has weight 1.

A simulation in which each thread does what it did, and waits for the threads it waited for, says
beside it what would come of it if work could not move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load, in_flight, processes, sessions
from spillcast.recording import Recording
from spillcast.recording.program import NONE, Program, program

Array = NDArray[np.int64]
Flags = NDArray[np.bool_]
Seconds = NDArray[np.float64]
#: What answers as fast as this is memory: the thread stays on its core meanwhile.
MEMORY_S, MEMORY_BYTES_PER_S = 20e-6, 3e9


#: Stretches of equal time that a run is cut into; each keeps its own number of threads at work.
STRETCHES = 10


@dataclass(frozen=True)
class Weight:
    """What temp I/O of some latencies adds to a run."""

    #: Seconds of elapsed time for a second of latency.
    of_waits: float
    #: The same where no work moves from thread to thread: the simulation.
    of_waits_simulated: float
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
    def program(self) -> Program:
        """What the threads did."""
        return program(self._recording)

    @cached_property
    def here(self) -> Weight:
        """On the storage of the recording."""
        if not self.simulated:
            return self._constant
        latency_ns = self.program.wait_ns[self.program.temp]
        return self._weight(latency_ns, self.program.on_core, 0)

    @cached_property
    def fidelity(self) -> float:
        """Elapsed time as simulated over that of the recording; 1 where nothing is simulated.

        A recording of slices tells nothing, and the simulation is taken to be right.
        """
        whole = sum(load.count for load in self._loads)
        if not self.simulated or self.program.temp.sum() < 0.99 * whole:
            return 1.0
        elapsed_ns = self._simulated_ns(self.program.wait_ns, self.program.on_core)[0]
        return elapsed_ns / 1e9 / self._recording.elapsed_s

    def there(self, found: Sequence[Latency], cpu_s: Seconds) -> Weight:
        """On a storage of these latencies, where each operation makes so much more CPU time."""
        if not self.simulated:
            return self._constant
        latency_ns = np.zeros(len(self._load_of), dtype=np.int64)
        on_core = self.program.on_core.copy()
        temp = np.flatnonzero(self.program.temp)
        for number, (load, latency) in enumerate(zip(self._loads, found, strict=True)):
            which = self._load_of == number
            latency_ns[which] = _drawn_ns(latency, int(which.sum()))
            memory_s = MEMORY_S + load.mean_bytes / MEMORY_BYTES_PER_S
            on_core[temp[which]] = latency.mean_s <= memory_s
        # The last one is for operations that moved nothing and belong to no load.
        return self._weight(latency_ns, on_core, np.array([*cpu_s, 0.0])[self._load_of])

    @property
    def _constant(self) -> Weight:
        at_once = in_flight(self._recording)
        return Weight(1 / at_once, 1 / at_once, at_once, 1 / at_once)

    @cached_property
    def _load_of(self) -> Array:
        """The number of the load that each temp operation belongs to."""
        waits = self._recording.waits.sort_by("start_ns")
        rows = waits.take(pa.array(self.program.source[self.program.temp]))
        size = rows["bytes"].fill_null(0).to_numpy()
        sizes, which = np.unique(size, return_inverse=True)
        classes = np.array([_core.size_class_bytes(int(n)) for n in sizes], dtype=np.int64)[which]
        write = pa.compute.equal(rows["op"].cast(pa.string()), "write").to_numpy()
        numbers = np.full(len(size), NONE)
        for number, load in enumerate(self._loads):
            matches = (classes == load.size_class_bytes) & (write == (load.op == "write"))
            numbers[matches] = number
        return numbers

    def _weight(self, latency_ns: Array, on_core: Flags, cpu_s: Seconds | float) -> Weight:
        own = self.program
        wait_ns = own.wait_ns.copy()
        wait_ns[own.temp] = latency_ns
        without_ns = np.where(own.temp, 0, own.wait_ns)
        elapsed_ns, at_once = self._simulated_ns(wait_ns, on_core)
        simulated_ns = elapsed_ns - self._simulated_ns(without_ns, on_core)[0]
        kept_s = self._kept_s(wait_ns, own.cpu_ns)
        sum_s = max(int(latency_ns.sum()), 1) / 1e9
        cpu_ns = self._with_cpu(cpu_s)
        more_s = float((cpu_ns - own.cpu_ns).sum()) / 1e9
        of_cpu = 1 / max(at_once, 1.0)
        if abs(more_s) > kept_s / 1000:
            of_cpu = float(np.clip((self._kept_s(wait_ns, cpu_ns) - kept_s) / more_s, 0.0, 1.0))
        return Weight(
            (kept_s - self._kept_s(without_ns, own.cpu_ns)) / sum_s,
            simulated_ns / 1e9 / sum_s,
            at_once,
            of_cpu,
        )

    def _kept_s(self, wait_ns: Array, cpu_ns: Array) -> float:
        """Elapsed time if in each stretch as many threads stay at work as there were.

        The time that nobody worked stays. No stretch takes less than its CPU time over the cores.
        """
        own = self.program
        idle_s, at_work = self._at_work
        least_s = self._by_stretch(cpu_ns) / self._usable_cores
        work_s = self._by_stretch(cpu_ns + own.at_work_ns(wait_ns)) / at_work
        return float((idle_s + np.maximum(work_s, least_s)).sum())

    @cached_property
    def _at_work(self) -> tuple[Seconds, Seconds]:
        """By stretch: seconds in which nobody worked, and how many threads did in the others."""
        own = self.program
        work_ns = own.at_work_ns(own.wait_ns)
        edges_s = np.linspace(0, self._recording.elapsed_s, STRETCHES + 1)
        active_s = np.diff(_covered(own.start_ns - own.cpu_ns, own.start_ns + work_ns, edges_s))
        busy_s = self._by_stretch(own.cpu_ns + work_ns)
        at_work = np.clip(busy_s / np.maximum(active_s, 1e-9), 1.0, own.threads)
        # A row that ends in the next stretch is counted where it begins: all adds up in the end.
        idle_s = self._recording.elapsed_s - (busy_s / at_work).sum()
        return np.full(STRETCHES, max(idle_s, 0.0) / STRETCHES), at_work

    def _by_stretch(self, ns: Array) -> Seconds:
        """Seconds by stretch, of times by row; a row belongs to the stretch that it begins in."""
        return np.bincount(self._stretch, ns / 1e9, STRETCHES).astype(np.float64)

    @cached_property
    def _stretch(self) -> Array:
        stretch = self.program.start_ns / 1e9 / self._recording.elapsed_s * STRETCHES
        number: Array = np.clip(stretch, 0, STRETCHES - 1).astype(np.int64)
        return number

    @property
    def _usable_cores(self) -> int:
        return self._cores if self.program.cpu_known and self._cores else self.program.threads

    def _with_cpu(self, cpu_s: Seconds | float) -> Array:
        """CPU times of the rows where each temp operation makes so much more after it."""
        own = self.program
        cpu_ns = own.cpu_ns.astype(float)
        more = np.zeros(len(cpu_ns))
        more[own.temp] = cpu_s
        more *= 1e9
        order = np.argsort(own.thread, kind="stable")
        same = own.thread[order][1:] == own.thread[order][:-1]
        cpu_ns[order[1:][same]] += more[order[:-1][same]]
        changed: Array = np.maximum(cpu_ns, 0).astype(np.int64)
        return changed

    def _simulated_ns(self, wait_ns: Array, on_core: Flags) -> tuple[int, float]:
        """Elapsed time if each thread does what it did, and operations in flight meanwhile."""
        outcome = _core.simulate(self.program.batch(wait_ns, on_core), self._usable_cores)
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


def _covered(start_ns: Array, end_ns: Array, until_s: Seconds) -> Seconds:
    """Seconds before each instant that at least one of the intervals covers."""
    order = np.argsort(start_ns, kind="stable")
    start, end = start_ns[order] / 1e9, end_ns[order] / 1e9
    reached = np.maximum.accumulate(end)
    begins = np.maximum(start, np.concatenate([start[:1], reached[:-1]]))
    length = np.maximum(end - begins, 0.0)
    kept = length > 0
    begins, length = begins[kept], length[kept]
    at_s = np.stack([begins, begins + length], axis=1).ravel()
    so_far = np.concatenate([[0.0], np.cumsum(length)])
    covered = np.stack([so_far[:-1], so_far[1:]], axis=1).ravel()
    return np.interp(until_s, at_s, covered) if at_s.size else np.zeros_like(until_s)
