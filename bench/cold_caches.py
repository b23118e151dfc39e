"""What longer waits cost a query in CPU time, over what is forecast: queries that are not verified.

The constants of spillcast.forecast.sum.drift were taken from these. The peer is to leave CPU time
as it is. Takes about ten minutes.
"""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np

from bench.queries import QUERIES, recordings
from bench.result import Result
from spillcast.engines.engine import Lab
from spillcast.engines.registry import lab_of
from spillcast.engines.workload import Workload
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


def run() -> Iterator[Result]:
    """Each query on each storage, by turns; then from each storage to each other one."""
    ratios = list[float]()
    with workspace() as room, named_places(STORAGES, room) as places:
        for name, queries in QUERIES.items():
            engine = lab_of(name)(room)
            for query in queries:
                likely_s, seen_s = _moves(engine, query, places, room)
                ratio = float(seen_s @ likely_s / (likely_s @ likely_s))
                ratios.append(ratio)
                off_s = float(np.median(np.abs(likely_s - seen_s)))
                yield _result(f"{engine.label}, {query.name}", seen_s, ratio, off_s)
    spread = f"of {len(ratios)} queries {mean(ratios):.2f}, standard deviation {stdev(ratios):.2f}"
    yield Result(
        "CPU time seen over forecast", spread, "0", mean(ratios), f"1 +- {AIM}",
        abs(mean(ratios) - 1) <= AIM,
    )  # fmt: skip


def _moves(
    engine: Lab, query: Workload, places: list[Place], room: Path
) -> tuple[np.ndarray, np.ndarray]:
    """By how much CPU time (s) is forecast to move, and was seen to, for each two storages."""
    with recordings(engine, query, places, room, REPEAT) as made:
        baselines = {name: [Baseline.of(one, None) for one in runs] for name, runs in made.items()}
        cpu_s = {
            name: median(one.recording.meta.cpu_s or 0.0 for one in runs)
            for name, runs in baselines.items()
        }
        pairs = [
            (project(one, observed(other.recording)).drift_s, cpu_s[target] - cpu_s[source])
            for source, target in permutations(baselines, 2)
            for one, other in zip(baselines[source], baselines[target], strict=True)
        ]
    likely_s, seen_s = np.array(pairs).T
    return likely_s, seen_s


def _result(name: str, seen_s: np.ndarray, ratio: float, off_s: float) -> Result:
    left_s = float(np.median(np.abs(seen_s)))
    return Result(
        f"cold caches: {name}",
        f"{off_s:.3f} s off, median of {len(seen_s)}; seen over forecast {ratio:.2f}",
        f"{left_s:.3f} s off, where it stays as it is",
        off_s / left_s,
        "less than the peer",
        off_s < left_s,
    )
