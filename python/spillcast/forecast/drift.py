"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording
from spillcast.recording.response import responses

Array = NDArray[np.float64]
#: Share of the usual cost that is taken where nothing shows how much a query feels, the middle
#: between nothing and all; and its standard error, that of anything in between.
FELT = 0.5
FELT_ERROR = 12**-0.5
#: How far the response to delays that come and go may be from that to waits that stay: as far as
#: what is taken without them, for a third to all of it was seen (docs/method.md).
PASSING = FELT_ERROR
#: A measured share with a larger standard error is not used.
ERROR_MAX = 0.5


def cpu_drift_s(
    baseline: Recording, loads: Sequence[Load], found: Sequence[Latency], felt: float | str
) -> tuple[Array, Array]:
    """Seconds of CPU that an operation makes more on the target than on the baseline, by load.

    What is likely, if the query feels a share ``felt`` of it or half where that is not known, and
    the most.

    What a wait costs afterwards is measured on the machine when a recording ends: for a thread that
    works with the cache a core usually gets, and for one that has a part of the last level to
    itself. A thread that works for less time between two waits than it takes to go through that
    cache meets only a part of it cold. Both are below 0 where waits get shorter, and zero where
    nothing was measured.
    """
    there_ns = np.array([lat.mean_s * 1e9 for lat in found])
    usual_s, most_s = _change_s(baseline, loads, there_ns)
    return (FELT if isinstance(felt, str) else felt) * usual_s, most_s


def felt(baseline: Recording, loads: Sequence[Load]) -> float | str:
    """Share of the machine's cost of cold caches that the query feels; or why it is not known.

    Half, and as much nearer to what a perturbed run showed as that is surer.
    """
    found = responses(baseline)
    if isinstance(found, str):
        return found
    count = np.array([load.count for load in loads])
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    usual_s = [_change_s(baseline, loads, here_ns + one.delay_s * 1e9)[0] for one in found]
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
    return max((sure * share + known * FELT) / (sure + known), 0.0)


def _change_s(baseline: Recording, loads: Sequence[Load], there_ns: Array) -> tuple[Array, Array]:
    """CPU time (s) that an operation makes more with other latencies, by load: usual and most."""
    machine = baseline.meta["machine"]
    costs = machine.get("cold_cache_ns")
    if not costs:
        return np.zeros(len(loads)), np.zeros(len(loads))
    waits_ns, usual_ns, most_ns = np.array([(0, 0, 0), *costs], dtype=float).T
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    work_ns = _work_between_waits_ns(baseline, loads)

    def drift_s(extra_ns: Array, warm_ns: float) -> Array:
        extra_here_ns = np.interp(here_ns, waits_ns, extra_ns)
        share = np.minimum(1.0, work_ns / (warm_ns + extra_here_ns))
        change_s: Array = share * (np.interp(there_ns, waits_ns, extra_ns) - extra_here_ns) / 1e9
        return change_s

    warm_ns = machine.get("warm_cache_ns", (1.0, 1.0))
    return drift_s(usual_ns, warm_ns[0]), drift_s(most_ns, warm_ns[1])


def _work_between_waits_ns(baseline: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = baseline.meta.get("cpu_s")
    if cpu_s is None:
        cpu_s = max(baseline.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return float(cpu_s) * 1e9 / sum(load.count for load in loads)
