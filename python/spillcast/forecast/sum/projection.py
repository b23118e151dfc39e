"""The temp I/O of a run on another storage: latencies, how threads overlap, limits, caches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spillcast.forecast.latency import Latency, latencies, limited_s
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.drift import cpu_drift_s
from spillcast.forecast.threads.overlap import Overlap
from spillcast.storage import Storage

#: Latency grows with the operations in flight, and these with latency: so many turns settle both.
TURNS = 4
SETTLED = 0.02


@dataclass(frozen=True)
class Projection:
    """Seconds by load, and what they rest on."""

    latencies: Sequence[Latency]
    io_s: Sequence[float]
    weight: Overlap
    #: CPU time that caches and compression likely make more.
    drift_s: float
    #: Of DuckDB's blocks, how many are compressed there; None where it is not known.
    compressed: float | None
    #: The limit of the storage that the run would wait for.
    saturated: str | None


def project(baseline: Baseline, target: Storage) -> Projection:
    """The query's loads on ``target``. Refusal where it has no figures for them."""
    loads, threads, scale = baseline.loads, baseline.threads, baseline.scale
    at_once = float(target.facts.get("in_flight", threads.recorded.in_flight))
    for _ in range(TURNS):
        found = latencies(target, loads, at_once)
        likely_s = cpu_drift_s(baseline.recording, loads, found)
        weight = threads.on_target(found, likely_s)
        if target.source.replayed or abs(weight.in_flight / at_once - 1) < SETTLED:
            break
        at_once = weight.in_flight
    compressed = baseline.compression.on_target(found) if baseline.compression else None
    there = compressed.loads if compressed else loads
    alone_s = [load.count * lat.mean_s for load, lat in zip(there, found, strict=True)]
    least_s, limit = limited_s(target, there, scale)
    whole_s = scale * weight.of_waits * sum(alone_s)
    saturated = least_s > whole_s
    shares = alone_s if any(alone_s) else [load.count for load in there]
    io_s = [max(least_s, whole_s) * share / sum(shares) for share in shares]
    of_cpu = scale * weight.of_cpu
    count = of_cpu * np.array([load.count for load in there])
    compressing_s = of_cpu * compressed.cpu_s if compressed else 0.0
    return Projection(
        found,
        io_s,
        weight,
        max(float(np.dot(count, likely_s)) + compressing_s, baseline.least_drift_s),
        compressed.share if compressed else None,
        limit if saturated else None,
    )
