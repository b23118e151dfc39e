"""CPU time that changes with the storage: after a longer wait a thread finds its caches colder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.recording import Recording
from spillcast.recording.response import responses

Array = NDArray[np.float64]
#: Memory that a query goes through in its CPU time, over what the machine's measurement goes
#: through in the same: it reads and does nothing else. Between what two machines asked for, of
#: queries that are not among the verified.
TOUCHED = 0.15
#: Standard error of what caches cost a query, relative to what follows from that, on one of them.
FELT_ERROR = 0.43
#: How far the response to delays that come and go may be from that to waits that stay.
PASSING = FELT_ERROR
#: A measured share with a larger standard error is not used.
ERROR_MAX = 0.5
#: A root is halved in so many times, to a millionth of a millionth.
HALVINGS = 40


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
    caches = [_Cache.of(about) for about in baseline.meta["machine"].get("caches", [])]
    here_ns = np.array([load.mean_s * 1e9 for load in loads])
    work_ns = _warm_work_ns(caches, here_ns, _work_between_waits_ns(baseline, loads))
    change_s = np.zeros(len(loads))
    for cache in caches:
        extra_ns = cache.extra_ns(there_ns) - cache.extra_ns(here_ns)
        change_s += cache.part(work_ns) * extra_ns / 1e9
    return change_s


@dataclass(frozen=True)
class _Cache:
    """What a wait costs on the machine afterwards, for one of a core's caches."""

    warm_ns: float
    #: Lengths of waits and the CPU time that each adds, from none on.
    waits_ns: Array
    costs_ns: Array

    @staticmethod
    def of(about: Mapping[str, Any]) -> "_Cache":
        waits_ns, costs_ns = np.array([(0, 0), *about["cold_ns"]], dtype=float).T
        return _Cache(float(about["warm_ns"]), waits_ns, costs_ns)

    def extra_ns(self, waits_ns: Array) -> Array:
        """After waits, for one who goes through all of it until the next."""
        found: Array = np.interp(waits_ns, self.waits_ns, self.costs_ns)
        return found

    def part(self, work_ns: Array) -> Array:
        """How much of it is gone through in so much CPU time."""
        found: Array = np.minimum(1.0, TOUCHED * work_ns / self.warm_ns)
        return found


def _warm_work_ns(caches: Sequence[_Cache], here_ns: Array, work_ns: float) -> Array:
    """CPU time between two waits, less what was cold here: what takes ``work_ns`` with that."""
    least, most = np.zeros(len(here_ns)), np.full(len(here_ns), work_ns)
    extra_ns = [cache.extra_ns(here_ns) for cache in caches]
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        cold = [cache.part(middle) * ns for cache, ns in zip(caches, extra_ns, strict=True)]
        longer = middle + sum(cold) > work_ns
        least, most = np.where(longer, least, middle), np.where(longer, middle, most)
    found: Array = (least + most) / 2
    return found


def _work_between_waits_ns(baseline: Recording, loads: Sequence[Load]) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    cpu_s = baseline.meta.get("cpu_s")
    if cpu_s is None:
        cpu_s = max(baseline.elapsed_s - sum(load.total_s for load in loads), 0.0)
    return float(cpu_s) * 1e9 / sum(load.count for load in loads)
