"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence

import numpy as np

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording


def cpu_drift_s(baseline: Recording, loads: Sequence[Load], found: Sequence[Latency]) -> float:
    """Seconds of CPU that the run takes more on the target than on the baseline; mostly below 0.

    What a wait costs afterwards is measured on the machine when a recording ends, for a thread that
    uses all the cache a core can get, as one that spills does. Zero where nothing was measured.
    """
    costs = baseline.meta["machine"].get("cold_cache_ns")
    if not costs:
        return 0.0
    waits_ns, extra_ns = np.array([(0, 0), *costs], dtype=float).T

    def cost_s(wait_s: float) -> float:
        return float(np.interp(wait_s * 1e9, waits_ns, extra_ns)) / 1e9

    return sum(
        load.count * (cost_s(lat.mean_s) - cost_s(load.mean_s))
        for load, lat in zip(loads, found, strict=True)
    )
