"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording

Array = NDArray[np.float64]
#: Share of the usual cost that is taken: the middle between a query that feels nothing and all.
FELT = 0.5


def cpu_drift_s(
    baseline: Recording, loads: Sequence[Load], found: Sequence[Latency]
) -> tuple[Array, Array]:
    """Seconds of CPU that an operation makes more on the target than on the baseline, by load.

    What is likely, and the most.

    What a wait costs afterwards is measured on the machine when a recording ends: for a thread that
    works with the cache a core usually gets, and for one that has a part of the last level to
    itself. A thread that works for less time between two waits than it takes to go through that
    cache meets only a part of it cold. How much of it a query feels is not known; half is taken.
    Both are below 0 where waits get shorter, and zero where nothing was measured.
    """
    machine = baseline.meta["machine"]
    costs = machine.get("cold_cache_ns")
    if not costs:
        return np.zeros(len(loads)), np.zeros(len(loads))
    waits_ns, usual_ns, most_ns = np.array([(0, 0, 0), *costs], dtype=float).T
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    there_ns = np.array([lat.mean_s * 1e9 for lat in found])
    work_ns = _work_between_waits_ns(baseline, loads)

    def drift_s(extra_ns: Array, warm_ns: float) -> Array:
        extra_here_ns = np.interp(here_ns, waits_ns, extra_ns)
        share = np.minimum(1.0, work_ns / (warm_ns + extra_here_ns))
        change_s: Array = share * (np.interp(there_ns, waits_ns, extra_ns) - extra_here_ns) / 1e9
        return change_s

    warm_ns = machine.get("warm_cache_ns", (1.0, 1.0))
    return FELT * drift_s(usual_ns, warm_ns[0]), drift_s(most_ns, warm_ns[1])


def _work_between_waits_ns(baseline: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = baseline.meta.get("cpu_s")
    if cpu_s is None:
        cpu_s = max(baseline.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return float(cpu_s) * 1e9 / sum(load.count for load in loads)
