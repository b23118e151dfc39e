"""Processes that share the work of a query: while one waits for temp I/O, the others go on.

Each is in turn on one of m CPUs for the time c and in temp I/O for the time L. That is the machine
repairman, a closed queueing network; with one process it is N * (c + L), with a CPU for each of P
processes N * (c + L) / P, and with no latency N * c / min(P, m).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np
import pyarrow as pa

from spillcast.forecast.load import Load, processes
from spillcast.recording import Recording

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Shared:
    """A run whose temp operations several processes do."""

    #: Operations of each second, and by how many processes: not whole where some did few.
    seconds: Sequence[tuple[int, float]]
    count: int
    #: CPU time between two operations of a process.
    cpu_s: float
    cpus: int

    @property
    def processes(self) -> float:
        """How many, over the whole run."""
        counted = sum(count for count, _ in self.seconds)
        return sum(count * processes for count, processes in self.seconds) / counted

    def elapsed_s(self, latency_s: float) -> float:
        """How long CPU time and temp I/O take together where an operation takes so long."""
        counted = sum(count for count, _ in self.seconds)
        per_operation_s = sum(
            count * self._per_operation_s(processes, latency_s) for count, processes in self.seconds
        )
        return self.count * per_operation_s / counted

    def added_s(self, here_s: float, here_latency_s: float, there_latency_s: float) -> float:
        """Elapsed time that temp I/O adds at another latency, where it adds ``here_s`` at this."""
        change_s = self.elapsed_s(there_latency_s) - self.elapsed_s(here_latency_s)
        return max(0.0, here_s + change_s)

    def _per_operation_s(self, processes: float, latency_s: float) -> float:
        """Between whole numbers of processes, in proportion."""
        least = floor(processes)
        times_s = [repairman_s(n, self.cpus, self.cpu_s, latency_s) for n in (least, least + 1)]
        return float(np.interp(processes, (least, least + 1), times_s))


def repairman_s(processes: int, cpus: int, cpu_s: float, latency_s: float) -> float:
    """Mean time from one operation to the next, whichever process does it."""
    if cpu_s <= 0:
        return latency_s / processes
    if latency_s <= 0:
        return cpu_s / min(processes, cpus)
    # Odds of k processes on the CPUs or waiting for one, against none.
    odds = [1.0]
    for k in range(1, processes + 1):
        odds.append(odds[-1] * (processes - k + 1) * cpu_s / (min(k, cpus) * latency_s))
    at_work = sum(weight * min(k, cpus) for k, weight in enumerate(odds)) / sum(odds)
    return cpu_s / at_work


def shared(recording: Recording, loads: Sequence[Load]) -> Shared | None:
    """None where one process does all, or where nothing tells how much each did and worked."""
    cpu_s = recording.meta.get("cpu_s")
    waits = recording.temp_waits
    if cpu_s is None or processes(recording) is not None or waits.num_rows == 0:
        return None
    sessions = len(pa.compute.unique(waits["session"]))
    if sessions == 1:
        return None
    count = sum(load.count for load in loads)
    cpus = int(recording.meta["machine"].get("cpus") or sessions)
    return Shared(_by_second(waits), count, float(cpu_s) / count, cpus)


def _by_second(waits: pa.Table) -> list[tuple[int, float]]:
    """Operations and processes of each second; a process that did few counts as a part of one."""
    second = waits["start_ns"].to_numpy() // SECOND_NS
    sessions = np.unique(waits["session"].to_numpy(), return_inverse=True)[1]
    cells, counts = np.unique(np.column_stack([second, sessions]), axis=0, return_counts=True)
    found = []
    for one in np.unique(second):
        each = counts[cells[:, 0] == one].astype(float)
        found.append((int(each.sum()), float(each.sum() ** 2 / (each**2).sum())))
    return found
