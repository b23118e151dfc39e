"""What the machine tells of CPU time: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.calibrated import calibrated
from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, counts
from spillcast.recording import Recording
from spillcast.recording.meta import CpuCache

Array = NDArray[np.float64]
#: A root is halved in so many times, to a millionth of a millionth.
HALVINGS = 40


def machine_change(
    recording: Recording,
    loads: Sequence[Load],
    found: Sequence[Latency],
    touched: float | None = None,
) -> CpuChange:
    """CPU time that operations likely take more on the target, with latencies ``found``.

    What a wait costs afterwards is measured on the machine when a recording ends, for a thread that
    works with the cache a core usually gets. One that goes through less between two waits meets
    only that part of it cold. Below 0 where waits get shorter, and zero where nothing was measured.
    ``touched`` is the memory that a query goes through in its CPU time, over what the measurement
    goes through in the same, which only reads; by default as calibrated.
    """
    touched = calibrated().touched if touched is None else touched
    caches = [_Cache.of(about, touched) for about in recording.meta.machine.caches]
    recorded_ns = np.array([load.mean_s * 1e9 for load in loads])
    target_ns = np.array([lat.mean_s * 1e9 for lat in found])
    work_ns = _warm_work_ns(caches, recorded_ns, _work_between_waits_ns(recording, loads))
    change_s = np.zeros(len(loads))
    for cache in caches:
        extra_ns = cache.extra_ns(target_ns) - cache.extra_ns(recorded_ns)
        change_s += cache.part(work_ns) * extra_ns / 1e9
    count = counts(loads)
    error_s = calibrated().touched_spread * abs(float(count @ change_s))
    return CpuChange("machine", change_s, count, error_s)


@dataclass(frozen=True)
class _Cache:
    """What a wait costs on the machine afterwards, for one of a core's caches."""

    warm_ns: float
    #: Lengths of waits and the CPU time that each adds, from none on.
    waits_ns: Array
    costs_ns: Array
    touched: float

    @staticmethod
    def of(about: CpuCache, touched: float) -> "_Cache":
        waits_ns, costs_ns = np.array([(0, 0), *about.cold_ns], dtype=float).T
        return _Cache(float(about.warm_ns), waits_ns, costs_ns, touched)

    def extra_ns(self, waits_ns: Array) -> Array:
        """After waits, for one who goes through all of it until the next."""
        found: Array = np.interp(waits_ns, self.waits_ns, self.costs_ns)
        return found

    def part(self, work_ns: Array) -> Array:
        """How much of it is gone through in so much CPU time."""
        found: Array = np.minimum(1.0, self.touched * work_ns / self.warm_ns)
        return found


def _warm_work_ns(caches: Sequence[_Cache], recorded_ns: Array, work_ns: float) -> Array:
    """CPU time between two waits, less what was cold here: what takes ``work_ns`` with that."""
    least, most = np.zeros(len(recorded_ns)), np.full(len(recorded_ns), work_ns)
    extra_ns = [cache.extra_ns(recorded_ns) for cache in caches]
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        cold = [cache.part(middle) * ns for cache, ns in zip(caches, extra_ns, strict=True)]
        longer = middle + sum(cold) > work_ns
        least, most = np.where(longer, least, middle), np.where(longer, middle, most)
    found: Array = (least + most) / 2
    return found


def _work_between_waits_ns(recording: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = recording.meta.cpu_s
    if cpu_s is None:
        cpu_s = max(recording.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return cpu_s * 1e9 / sum(load.count for load in loads)
