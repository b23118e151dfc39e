"""What longer waits cost a query in CPU time, over what is forecast: queries that are not verified.

The peer is to leave CPU time as it is. Takes about ten minutes. `fitted` takes from the same runs
what calibrated.toml says of memory that a query goes through.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np

from bench.queries import QUERIES, recordings
from bench.result import Result
from spillcast.calibrated import calibrated
from spillcast.engines.engine import Lab
from spillcast.engines.registry import lab_of
from spillcast.engines.workload import Workload
from spillcast.forecast.rest.machine import machine_change
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.projection import project
from spillcast.lab.named_places import named_places
from spillcast.lab.storages import Place
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.15ms", "latency:1.2ms", "latency:5ms")
REPEAT = 3
#: The mean of the ratios is to be so near to 1.
AIM = 0.2
#: Shares of memory gone through that are tried: 7 % apart.
TRIED = np.geomspace(0.02, 1.0, 59)


@dataclass(frozen=True)
class Moves:
    """By how much CPU time (s) of a query moves between each two storages."""

    query: str
    seen_s: np.ndarray
    #: As forecast with each of the shares tried, a row each.
    likely_s: np.ndarray

    def ratio(self, row: int) -> float:
        """Seen over forecast."""
        likely_s = self.likely_s[row]
        return float(self.seen_s @ likely_s / (likely_s @ likely_s))


def run() -> Iterator[Result]:
    """With the present constants: each query, then all."""
    row, ratios = int(np.argmin(np.abs(TRIED - calibrated().touched))), list[float]()
    for moves in measured():
        ratios.append(moves.ratio(row))
        yield _result(moves, row)
    spread = f"of {len(ratios)} queries {mean(ratios):.2f}, standard deviation {stdev(ratios):.2f}"
    yield Result(
        "CPU time seen over forecast", spread, "0", mean(ratios), f"1 +- {AIM}",
        abs(mean(ratios) - 1) <= AIM,
    )  # fmt: skip


def fitted() -> tuple[float, float]:
    """The share with which as much is forecast as was seen; how far queries are off, relatively."""
    ratios = np.array([[moves.ratio(row) for row in range(len(TRIED))] for moves in measured()])
    best = int(np.argmin(np.abs(ratios.mean(axis=0) - 1)))
    return float(TRIED[best]), float(ratios[:, best].std(ddof=1) / ratios[:, best].mean())


def measured() -> Iterator[Moves]:
    """Each query on each storage, by turns; then from each storage to each other one."""
    with workspace() as room, named_places(STORAGES, room) as places:
        for name, queries in QUERIES.items():
            engine = lab_of(name)(room)
            for query in queries:
                yield _moves(engine, query, places, room)


def _moves(engine: Lab, query: Workload, places: list[Place], room: Path) -> Moves:
    with recordings(engine, query, places, room, REPEAT) as made:
        runs = {name: [Baseline.of(one, None) for one in its] for name, its in made.items()}
        cpu_s = {
            name: median(one.recording.meta.cpu_s or 0.0 for one in its)
            for name, its in runs.items()
        }
        pairs = [
            (_likely_s(baseline, target), cpu_s[there] - cpu_s[here])
            for here, there in permutations(runs, 2)
            for baseline, target in zip(runs[here], runs[there], strict=True)
        ]
    likely_s, seen_s = zip(*pairs, strict=True)
    return Moves(f"{engine.label}, {query.name}", np.array(seen_s), np.array(likely_s).T)


def _likely_s(baseline: Baseline, target: Baseline) -> list[float]:
    """With each of the shares tried; what compression moves is in all of them."""
    projection = project(baseline, observed(target.recording))
    moved = (baseline.recording, baseline.loads, projection.latencies)
    others_s = projection.drift_s - machine_change(*moved).total_s
    return [others_s + machine_change(*moved, touched).total_s for touched in TRIED]


def _result(moves: Moves, row: int) -> Result:
    off_s = float(np.median(np.abs(moves.likely_s[row] - moves.seen_s)))
    left_s, ratio = float(np.median(np.abs(moves.seen_s))), moves.ratio(row)
    return Result(
        f"cold caches: {moves.query}",
        f"{off_s:.3f} s off, median of {len(moves.seen_s)}; seen over forecast {ratio:.2f}",
        f"{left_s:.3f} s off, where it stays as it is",
        off_s / left_s,
        "less than the peer",
        off_s < left_s,
    )
