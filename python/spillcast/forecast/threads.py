"""How much of the temp I/O of several threads is seen in the elapsed time: they overlap, and wait.

The recorded threads are simulated with the latencies of a storage: each burns its CPU on a core,
does its I/O, and waits for the others where it did. The time without any latency taken off, what
remains is what temp I/O adds; over the sum of the latencies it is the weight of a wait. One thread
has weight 1.
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
#: What answers as fast as this is memory: the thread stays on its core meanwhile.
MEMORY_S, MEMORY_BYTES_PER_S = 20e-6, 3e9


@dataclass(frozen=True)
class Weight:
    """What the simulation says of temp I/O at some latencies."""

    #: Seconds of elapsed time for a second of latency.
    of_waits: float
    #: The same where no thread waits for what another has to do, but as long as it did.
    of_waits_alone: float
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
        elapsed_ns = self._run(self.program.wait_ns, self.program.on_core, self.program.after)[0]
        return elapsed_ns / 1e9 / self._recording.elapsed_s

    def there(self, found: Sequence[Latency], cpu_s: NDArray[np.float64]) -> Weight:
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

    def _weight(
        self, latency_ns: Array, on_core: NDArray[np.bool_], cpu_s: NDArray[np.float64] | float
    ) -> Weight:
        own = self.program
        wait_ns = own.wait_ns.copy()
        wait_ns[own.temp] = latency_ns
        without_ns = wait_ns.copy()
        without_ns[own.temp] = 0
        alone = np.full_like(own.after, NONE)
        elapsed_ns, at_once = self._run(wait_ns, on_core, own.after)
        added_ns = elapsed_ns - self._run(without_ns, on_core, own.after)[0]
        independent_ns = self._run(wait_ns, on_core, alone)[0]
        independent_ns -= self._run(without_ns, on_core, alone)[0]
        sum_ns = max(int(latency_ns.sum()), 1)
        cpu_ns = self._with_cpu(cpu_s)
        more_ns = int((cpu_ns - own.cpu_ns).sum())
        of_cpu = 1 / max(at_once, 1.0)
        if abs(more_ns) > elapsed_ns / 1000:
            changed_ns = self._run(wait_ns, on_core, own.after, cpu_ns)[0] - elapsed_ns
            of_cpu = float(np.clip(changed_ns / more_ns, 0.0, 1.0))
        return Weight(added_ns / sum_ns, independent_ns / sum_ns, at_once, of_cpu)

    def _with_cpu(self, cpu_s: NDArray[np.float64] | float) -> Array:
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

    def _run(
        self,
        wait_ns: Array,
        on_core: NDArray[np.bool_],
        after: Array,
        cpu_ns: Array | None = None,
    ) -> tuple[int, float]:
        """Elapsed time, and operations in flight while there are any."""
        own = self.program
        cores = self._cores if own.cpu_known and self._cores else own.threads
        rows = own.batch(wait_ns, on_core, own.cpu_ns if cpu_ns is None else cpu_ns, after)
        outcome = _core.simulate(rows, cores)
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
