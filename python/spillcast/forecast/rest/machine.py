"""What the machine tells of CPU time: after a longer wait a thread finds its caches colder.

`spillcast calibrate` measures it with real work. Without that there is the loop through memory that
ends every recording, which is a guess.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.meta import CpuCache, Machine
from spillcast.recording.wait_cost import WaitCost

Array = NDArray[np.float64]
#: CPU time that waits of some lengths add, s, for so much of it between two waits without them, s.
Extra = Callable[[Array, float], Array]
#: A root is halved in so many times, to a millionth of a millionth.
HALVINGS = 40
#: Where the machine was not calibrated: memory that a query goes through in its CPU time, over what
#: the loop goes through in the same, which only reads; and how far off what follows may be.
TOUCHED = 0.15
GUESS_ERROR = 1.0


def machine_change(
    recording: Recording, loads: Sequence[Load], found: Sequence[Latency]
) -> CpuChange:
    """CPU time that operations likely take more on the target, with latencies ``found``.

    Below 0 where waits get shorter, and zero where nothing was measured. The error is how far
    queries differ, where the machine was calibrated, and all of it where it was not.
    """
    extra, error = _extra(recording.meta.machine)
    count = counts(loads)
    recorded_s = np.array([load.mean_s for load in loads])
    target_s = np.array([lat.mean_s for lat in found])
    warm_s = _warm_cpu_s(extra, recorded_s, count, _cpu_per_operation_s(recording, loads))
    change_s = extra(target_s, warm_s) - extra(recorded_s, warm_s)
    return CpuChange("machine", change_s, count, error * abs(float(count @ change_s)))


def _extra(machine: Machine) -> tuple[Extra, float]:
    """What waits cost on a machine, and how far off that may be, relative."""
    if machine.calibration is not None:
        cost: WaitCost = machine.calibration.cost
        return cost.extra_s, cost.spread
    return lambda wait_s, warm_s: _guessed_s(machine.caches, wait_s, warm_s), GUESS_ERROR


def _guessed_s(caches: Sequence[CpuCache], wait_s: Array, warm_cpu_s: float) -> Array:
    """What the loop says: each cache is cold, as far as the work between waits goes through it."""
    extra_s: Array = np.zeros(len(wait_s))
    for cache in caches:
        waits_ns, costs_ns = np.array([(0, 0), *cache.cold_ns], dtype=float).T
        part = min(1.0, TOUCHED * warm_cpu_s * 1e9 / cache.warm_ns)
        extra_s += part * np.interp(wait_s * 1e9, waits_ns, costs_ns) / 1e9
    return extra_s


def _warm_cpu_s(extra: Extra, recorded_s: Array, count: Array, cpu_s: float) -> float:
    """CPU time between two waits, less what waits added: what is ``cpu_s`` with that."""
    least_s, most_s = 0.0, cpu_s
    for _ in range(HALVINGS):
        middle_s = (least_s + most_s) / 2
        added_s = float(count @ extra(recorded_s, middle_s) / count.sum())
        if middle_s + added_s > cpu_s:
            most_s = middle_s
        else:
            least_s = middle_s
    return (least_s + most_s) / 2


def _cpu_per_operation_s(recording: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = recording.meta.cpu_s
    if cpu_s is None:
        cpu_s = max(recording.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return cpu_s / sum(load.count for load in loads)
