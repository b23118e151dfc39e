"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording


def cpu_drift_s(
    baseline: Recording, loads: Sequence[Load], found: Sequence[Latency]
) -> tuple[float, float]:
    """Seconds of CPU that the run takes more on the target than on the baseline, and at the most.

    What a wait costs afterwards is measured on the machine when a recording ends: for a thread that
    works with the cache a core usually gets, and for one that has a part of the last level to
    itself. Both are below 0 where waits get shorter, and zero where nothing was measured.
    """
    costs = baseline.meta["machine"].get("cold_cache_ns")
    if not costs:
        return 0.0, 0.0
    waits_ns, usual_ns, most_ns = np.array([(0, 0, 0), *costs], dtype=float).T
    here_ns = [load.mean_s * 1e9 for load in loads]
    there_ns = [lat.mean_s * 1e9 for lat in found]
    count = [load.count for load in loads]

    def drift_s(extra_ns: NDArray[np.float64]) -> float:
        change_ns = np.interp(there_ns, waits_ns, extra_ns) - np.interp(here_ns, waits_ns, extra_ns)
        return float(np.dot(count, change_ns) / 1e9)

    return drift_s(usual_ns), drift_s(most_ns)
