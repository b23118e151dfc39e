"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording
from spillcast.recording.response import responses

Array = NDArray[np.float64]
#: Memory that a query goes through in its CPU time, over what the machine's measurement goes
#: through in the same: it reads and does nothing else. Of queries that are not among the verified.
TOUCHED = 0.06
#: Standard error of what caches cost a query, relative to what follows from that; of the same.
FELT_ERROR = 0.43
#: How far the response to delays that come and go may be from that to waits that stay.
PASSING = FELT_ERROR
#: A measured share with a larger standard error is not used.
ERROR_MAX = 0.5


def cpu_drift_s(
    baseline: Recording, loads: Sequence[Load], found: Sequence[Latency], felt: float | str
) -> Array:
    """Seconds of CPU that an operation likely makes more on the target than here, by load.

    What a wait costs afterwards is measured on the machine when a recording ends, for a thread that
    works with the cache a core usually gets. One that goes through less between two waits meets
    only that part of it cold. ``felt`` is the query's own share of that, where it was measured.
    Below 0 where waits get shorter, and zero where nothing was measured.
    """
    there_ns = np.array([lat.mean_s * 1e9 for lat in found])
    return (1.0 if isinstance(felt, str) else felt) * _change_s(baseline, loads, there_ns)


def felt(baseline: Recording, loads: Sequence[Load]) -> float | str:
    """What caches cost the query over what is likely; or why it is not known.

    1, and as much nearer to what a perturbed run showed as that is surer.
    """
    found = responses(baseline)
    if isinstance(found, str):
        return found
    count = np.array([load.count for load in loads])
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    usual_s = [_change_s(baseline, loads, here_ns + one.delay_s * 1e9) for one in found]
    expected_s = np.array([np.dot(count, change_s) / count.sum() for change_s in usual_s])
    extra_s = np.array([one.extra_cpu_s for one in found])
    error_s = np.maximum([one.error_s for one in found], 1e-9)
    # Both delays have one share, each as sure as its error is small.
    weight = float(np.sum((expected_s / error_s) ** 2))
    if weight * ERROR_MAX**2 < 1:
        return "what the delays did to its CPU time is too small against its noise"
    share = float(np.sum(expected_s * extra_s / error_s**2)) / weight
    # What was measured and what is known without it, each as sure as its error is small.
    sure, known = 1 / (1 / weight + PASSING**2), FELT_ERROR**-2
    return max((sure * share + known) / (sure + known), 0.0)


def _change_s(baseline: Recording, loads: Sequence[Load], there_ns: Array) -> Array:
    """CPU time (s) that an operation likely makes more with other latencies, by load."""
    machine = baseline.meta["machine"]
    costs = machine.get("cold_cache_ns")
    if not costs:
        return np.zeros(len(loads))
    # Some recordings hold figures of a larger set beside these.
    waits_ns, extra_ns = np.array([(0, 0), *(cost[:2] for cost in costs)], dtype=float).T
    warm_ns = float(np.min(machine["warm_cache_ns"]))
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    extra_here_ns = np.interp(here_ns, waits_ns, extra_ns)
    work_ns = TOUCHED * _work_between_waits_ns(baseline, loads)
    # The work was longer by what was cold here.
    part = np.minimum(1.0, work_ns / (warm_ns + TOUCHED * extra_here_ns))
    change_s: Array = part * (np.interp(there_ns, waits_ns, extra_ns) - extra_here_ns) / 1e9
    return change_s


def _work_between_waits_ns(baseline: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = baseline.meta.get("cpu_s")
    if cpu_s is None:
        cpu_s = max(baseline.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return float(cpu_s) * 1e9 / sum(load.count for load in loads)
