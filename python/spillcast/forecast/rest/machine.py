"""What the machine tells of CPU time: after a longer wait a thread finds its caches colder.

`spillcast calibrate` measures it with real work. Without that there is the loop through memory that
ends every recording, which is a guess.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.meta import CpuCache
from spillcast.recording.wait_cost import WaitCost

Array = NDArray[np.float64]
#: A root is halved in so many times, to a millionth of a millionth.
HALVINGS = 40
#: Where the machine was not calibrated: memory that a query goes through in its CPU time, over what
#: the loop goes through in the same, which only reads; and how far off that ten queries were, a
#: relative standard deviation.
TOUCHED = 0.15
GUESS_ERROR = 0.6


def machine_change(
    recording: Recording,
    loads: Sequence[Load],
    latencies: Sequence[Latency],
    cores_each: float = 1.0,
) -> CpuChange:
    """CPU time that operations likely take more on the target, with latencies ``found``.

    Below 0 where waits get shorter, and zero where nothing was measured. The error is how far
    queries differ from what is said. It was measured with one thread. Where threads have less than
    a core each, ``cores_each``, another of them takes the core and its caches whatever the storage:
    only that share of a thread's waits leaves a core to nobody else of the query.
    """
    calibration, count = recording.meta.machine.calibration, counts(loads)
    if calibration is None:
        change_s, error = _guessed(recording, loads, latencies), GUESS_ERROR
    else:
        cost = calibration.cost_of(recording.meta.engine.name)
        pairs = zip(loads, latencies, strict=True)
        change_s = np.array(
            [_moved_s(cost, recording, load, latency.mean_s) for load, latency in pairs]
        )
        error = cost.spread
    change_s = cores_each * change_s
    return CpuChange("machine", change_s, count, error * abs(float(count @ change_s)))


def _moved_s(cost: WaitCost, recording: Recording, load: Load, target_s: float) -> float:
    """CPU time that what follows an operation of a load takes more, on average."""
    bursts = recording.bursts
    if bursts is not None and (its := bursts.after(load.op)).any():
        return cost.moved_s(bursts.cpu_s[its], bursts.wait_s[its], target_s)
    work_s = np.array([_cpu_per_operation_s(recording)])
    return cost.moved_s(work_s, np.array([load.mean_s]), target_s)


def _guessed(recording: Recording, loads: Sequence[Load], latencies: Sequence[Latency]) -> Array:
    """By load, as the loop through memory says."""
    caches, count = recording.meta.machine.caches, counts(loads)
    recorded_s = np.array([load.mean_s for load in loads])
    target_s = np.array([latency.mean_s for latency in latencies])
    warm_s = _warm_cpu_s(caches, recorded_s, count, _cpu_per_operation_s(recording))
    moved: Array = _guess_s(caches, target_s, warm_s) - _guess_s(caches, recorded_s, warm_s)
    return moved


def _guess_s(caches: Sequence[CpuCache], wait_s: Array, warm_cpu_s: float) -> Array:
    """What the loop says: each cache is cold, as far as the work between waits goes through it."""
    extra_s: Array = np.zeros(len(wait_s))
    for cache in caches:
        waits_ns, costs_ns = np.array([(0, 0), *cache.cold_ns], dtype=float).T
        part = min(1.0, TOUCHED * warm_cpu_s * 1e9 / cache.warm_ns)
        extra_s += part * np.interp(wait_s * 1e9, waits_ns, costs_ns) / 1e9
    return extra_s


def _warm_cpu_s(caches: Sequence[CpuCache], recorded_s: Array, count: Array, cpu_s: float) -> float:
    """CPU time between two waits, less what waits added: what is ``cpu_s`` with that."""
    least_s, most_s = 0.0, cpu_s
    for _ in range(HALVINGS):
        middle_s = (least_s + most_s) / 2
        added_s = float(count @ _guess_s(caches, recorded_s, middle_s) / count.sum())
        if middle_s + added_s > cpu_s:
            most_s = middle_s
        else:
            least_s = middle_s
    return (least_s + most_s) / 2


def _cpu_per_operation_s(recording: Recording) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s, temp = recording.meta.cpu_s, recording.meta.temp
    if cpu_s is None:
        cpu_s = max(recording.elapsed_s - temp.total_s, 0.0)
    return cpu_s / max(temp.operations, 1)
