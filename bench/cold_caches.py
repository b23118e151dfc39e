"""The CPU cost of longer waits over its forecast, for queries that are not verified.

The peer leaves CPU time unchanged. Takes about ten minutes. Recordings contain the calibration of
the machine, if `spillcast calibrate` was run before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np

from bench.queries import QUERIES, recordings
from bench.result import Result
from spillcast.engines import Lab, LabQuery
from spillcast.engines.registry import lab_of
from spillcast.forecast.projection import baseline_of, projection
from spillcast.forecast.query import workload_of_recording
from spillcast.lab.storages import SpillDirectory, named_places
from spillcast.recording import Recording
from spillcast.storage.observed import observed
from spillcast.workspace import workspace

STORAGES = ("tmpfs", "latency:0.15ms", "latency:1.2ms", "latency:5ms")
REPEAT = 3
#: The allowed distance of the mean ratio from 1.
AIM = 0.2


@dataclass(frozen=True)
class Moves:
    """The change of a query's CPU time (s) between each two storages."""

    query: str
    seen_s: np.ndarray
    likely_s: np.ndarray

    @property
    def ratio(self) -> float:
        """The measured change over the forecast one."""
        return float(self.seen_s @ self.likely_s / (self.likely_s @ self.likely_s))


def run() -> Iterator[Result]:
    """Each query, then all."""
    ratios = list[float]()
    for moves in measured():
        ratios.append(moves.ratio)
        yield _result(moves)
    spread = f"of {len(ratios)} queries {mean(ratios):.2f}, standard deviation {stdev(ratios):.2f}"
    yield Result(
        "CPU time seen over forecast", spread, "0", mean(ratios), f"1 +- {AIM}",
        abs(mean(ratios) - 1) <= AIM,
    )  # fmt: skip


def measured() -> Iterator[Moves]:
    """Each query on each storage, in turns; then from each storage to each other one."""
    with workspace() as room, named_places(STORAGES, room) as places:
        for name, queries in QUERIES.items():
            engine = lab_of(name)(room)
            for query in queries:
                yield _moves(engine, query, places, room)


def _moves(engine: Lab, query: LabQuery, places: list[SpillDirectory], room: Path) -> Moves:
    with recordings(engine, query, places, room, REPEAT) as made:
        runs = {name: list(its) for name, its in made.items()}
        cpu_s = {
            name: median(recording.meta.cpu_s or 0.0 for recording in its)
            for name, its in runs.items()
        }
        pairs = [
            (_likely_s(baseline, target), cpu_s[destination] - cpu_s[source])
            for source, destination in permutations(runs, 2)
            for baseline, target in zip(runs[source], runs[destination], strict=True)
        ]
    likely_s, seen_s = zip(*pairs, strict=True)
    return Moves(f"{engine.label}, {query.name}", np.array(seen_s), np.array(likely_s))


def _likely_s(baseline: Recording, target: Recording) -> float:
    """The changes by caches and compression."""
    return projection(baseline_of(workload_of_recording(baseline)), observed(target)).cpu_change_s


def _result(moves: Moves) -> Result:
    off_s = float(np.median(np.abs(moves.likely_s - moves.seen_s)))
    left_s, ratio = float(np.median(np.abs(moves.seen_s))), moves.ratio
    return Result(
        f"cold caches: {moves.query}",
        f"{off_s:.3f} s off, median of {len(moves.seen_s)}; seen over forecast {ratio:.2f}",
        f"{left_s:.3f} s off, where it stays as it is",
        off_s / left_s,
        "less than the peer",
        off_s < left_s,
    )
