"""What a wait costs in CPU time once it is over: fitted to runs, asked for any wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.document import key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

#: Work between two waits, CPU time, that a share is stated for.
WORK_S = 1e-4
#: What is tried, from, to and how many: how fast a cost settles, and how it grows with the work
#: between waits. Longer work meets more of what went cold, but no more than in proportion.
SETTLES_S = (1e-4, 1e-2, 25)
POWERS = (0.0, 1.0, 11)
#: Of fewer queries nothing is known of how they differ: the cost may be all wrong.
QUERIES_MIN = 3
UNKNOWN_SPREAD = 1.0


@dataclass(frozen=True)
class Point:
    """A recorded run of a query on a storage."""

    engine: str = key("its name and version", example="DuckDB 2.0.0")
    query: str = key("the query's name", example="join of amounts")
    storage: str = key("where it spilled to", example="latency:1.5ms")
    repeat: int = key("the number of the run there, from 0", example=0)
    operations: int = key("temp reads and writes", example=612)
    latency_s: float = key("mean time of one", unit="s", example=0.00163)
    read_latency_s: float = key("of a read; 0 without any", unit="s", example=0.00161)
    write_latency_s: float = key("of a write; 0 without any", unit="s", example=0.00165)
    cpu_s: float = key("CPU time outside I/O calls", unit="s", example=0.71)
    cpu_per_operation_s: float = key("of that, by operation", unit="s", example=0.00116)
    process_cpu_s: float = key("CPU time with that within calls", unit="s", example=0.92)
    run_queue_delay_s: float = key("time it was runnable without a CPU", unit="s", example=0.004)
    elapsed_s: float = key("how long it took", unit="s", example=1.93)


@dataclass(frozen=True)
class Chase:
    """Reads of memory in an order that no prefetcher follows, again and again, and after waits."""

    bytes: int = key("memory that is gone through", unit="bytes", example=1048576)
    hops: int = key("cache lines that are read", example=3000)
    dependent: bool = key("whether each read tells where the next one is", example=True)
    waited: str = key("how: `not`, `spinning` or `sleeping`", example="sleeping")
    wait_ns: int = key("how long", unit="ns", example=500000)
    elapsed_ns: int = key("CPU time of the reads then, median", unit="ns", example=223000)


@dataclass(frozen=True)
class WaitCost:
    """CPU time that a wait costs once it is over, and how far queries differ in it."""

    share: float = key(
        "CPU time that long waits add to 100 us of it between two waits, relative", example=0.42
    )
    power: float = key("of the CPU time between waits, in which the cost grows", example=0.85)
    settles_s: float = key("after this wait 63 % of the cost are reached", unit="s", example=0.0021)
    spread: float = key(
        "standard deviation of queries' measured cost over the fitted one, relative", example=0.35
    )

    def extra_s(self, wait_s: "Array", warm_cpu_s: float) -> "Array":
        """CPU time (s) that waits add to work that takes ``warm_cpu_s`` without waiting."""
        return self.share * _of_work(warm_cpu_s, self.power) * _settled(wait_s, self.settles_s)


@dataclass(frozen=True)
class MachineCalibration:
    """What a recording tells of the calibration of its machine."""

    measured_at_s: float = key("when, by the clock of the day", unit="s since 1970", example=1.8e9)
    queries: int = key("queries that it rests on", example=9)
    cost: WaitCost = key("")


@dataclass(frozen=True)
class _Query:
    """What a query took more on slow storages than on the fastest, by operation."""

    warm_cpu_s: float
    least_wait_s: float
    waits_s: "Array"
    more_s: "Array"

    def predicted_s(self, cost: WaitCost) -> "Array":
        import numpy as np

        least_s = cost.extra_s(np.array([self.least_wait_s]), self.warm_cpu_s)
        return cost.extra_s(self.waits_s, self.warm_cpu_s) - least_s


def fit(points: Sequence[Point]) -> WaitCost | None:
    """The cost that explains best by which share each query's CPU time grew with its waits.

    That is least squares, every query of the same weight, whatever its operations take. The fastest
    storage of a query is where its caches are taken to be warm. None without a query that ran on
    two storages.
    """
    queries = _queries(points)
    if not queries:
        return None
    found = _fitted(queries, UNKNOWN_SPREAD)
    if len(queries) < QUERIES_MIN:
        return found
    off = [
        _ratio(one, _fitted([other for other in queries if other is not one], 0.0)) - 1
        for one in queries
    ]
    spread = (sum(each**2 for each in off) / len(off)) ** 0.5
    return WaitCost(found.share, found.power, found.settles_s, spread)


def queries_of(points: Sequence[Point]) -> int:
    """How many queries a fit of these rests on."""
    return len(_queries(points))


def _fitted(queries: Sequence[_Query], spread: float) -> WaitCost:
    """The best of all that is tried; each has a best share, by least squares."""
    import numpy as np

    more = np.concatenate([one.more_s / one.warm_cpu_s for one in queries])
    best: tuple[float, WaitCost] | None = None
    for settles_s in np.geomspace(*SETTLES_S):
        for power in np.linspace(*POWERS):
            tried = WaitCost(1.0, float(power), float(settles_s), spread)
            shape = np.concatenate([one.predicted_s(tried) / one.warm_cpu_s for one in queries])
            share = max(float(shape @ more) / float(shape @ shape), 0.0)
            left = float(((more - share * shape) ** 2).sum())
            if best is None or left < best[0]:
                best = left, WaitCost(share, tried.power, tried.settles_s, spread)
    assert best is not None
    return best[1]


def _ratio(query: _Query, cost: WaitCost) -> float:
    """What waits cost a query over what is predicted; all of them together."""
    predicted_s = float(query.predicted_s(cost).sum())
    return float(query.more_s.sum()) / predicted_s if predicted_s else 1 + UNKNOWN_SPREAD


def _queries(points: Sequence[Point]) -> list[_Query]:
    import numpy as np

    by_query: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for point in points:
        storages = by_query.setdefault((point.engine, point.query), {})
        storages.setdefault(point.storage, []).append(point)
    found = []
    for storages in by_query.values():
        waits_s, cpu_s = _medians(storages)
        if len(waits_s) > 1 and cpu_s[0] > 0:
            more_s = np.array(cpu_s[1:]) - cpu_s[0]
            found.append(_Query(cpu_s[0], waits_s[0], np.array(waits_s[1:]), more_s))
    return found


def _medians(storages: Mapping[str, Sequence[Point]]) -> tuple[list[float], list[float]]:
    """Waits and CPU time by operation, of each storage, the fastest first."""
    from statistics import median

    pairs = sorted(
        (
            median(one.latency_s for one in runs),
            median(one.cpu_per_operation_s for one in runs),
        )
        for runs in storages.values()
    )
    return [wait_s for wait_s, _ in pairs], [cpu_s for _, cpu_s in pairs]


def _of_work(warm_cpu_s: float, power: float) -> float:
    """CPU time that a share of 1 is of, for so much between two waits."""
    return float(WORK_S * (warm_cpu_s / WORK_S) ** power)


def _settled(wait_s: "Array", settles_s: float) -> "Array":
    """Share of the cost that is reached after waits."""
    import numpy as np

    settled: Array = -np.expm1(-np.asarray(wait_s) / settles_s)
    return settled
