"""The temp I/O of a run on another storage: latencies, how threads overlap, what limits it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from spillcast.errors import CpuTimeUnknown, FiguresMissing
from spillcast.forecast.assumptions import COMPRESSING_SPREAD, LIMITED
from spillcast.forecast.changes import changes_on
from spillcast.forecast.cpu import counts, cpu_change
from spillcast.forecast.latency import Latency, latencies, rehearsed
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.cpu_limits import unknown_limits
from spillcast.forecast.threads.page_cache import missed, storage_share
from spillcast.forecast.threads.simulated import Overlap
from spillcast.storage import Storage
from spillcast.storage.model import behaviour_of


@dataclass(frozen=True)
class Projection:
    """Seconds by load, and what they rest on."""

    latencies: Sequence[Latency]
    io_s: Sequence[float]
    #: Of the calls that change temp files; and of those of which the target tells nothing.
    changes_s: float
    changes_kept_s: float
    overlap: Overlap
    #: CPU time that caches and compression likely make more, and its standard error.
    drift_s: float
    drift_error_s: float
    #: Of DuckDB's blocks, how many are compressed there; None where it is not known.
    compressed: float | None
    #: The limit of the storage that the run would wait for.
    saturated: str | None
    #: Where a page cache lies before the storage, the share of the operations that it leaves to it;
    #: None where there is none.
    missed: float | None
    #: Share of the temp I/O's time that the storage takes.
    storage_share: float
    #: Share of the run in which a CPU quota holds threads back.
    throttled_share: float


def project(baseline: Baseline, target: Storage, *, cached: bool = False) -> Projection:
    """The query's loads on ``target``, through the page cache or not.

    Refusal where it has no figures for them.
    """
    loads, threads, scale = baseline.loads, baseline.threads, baseline.scale
    for op in sorted({load.op for load in loads}):
        if not any(group.count for group in target.of(op)):
            raise FiguresMissing(
                f"{target.name} has no figures for {op}s, which the query does: measure {op}s too"
            )
    changes = changes_on(target, baseline.changes)
    page_cache = threads.page_cache if cached else None
    behaviour = behaviour_of(target, access="buffered")
    simulated = threads.on(behaviour, scale, changes.times, page_cache)
    if (reason := unknown_limits(baseline, simulated)) is not None:
        raise CpuTimeUnknown(reason)
    target_latencies = [
        latency if mean_s is None else latency.at(mean_s)
        for latency, mean_s in zip(
            latencies(target, loads, simulated.in_flight), threads.mean_s(simulated), strict=True
        )
    ]
    if target.rehearsal is not None and "rehearsal" not in baseline.without:
        target_latencies = rehearsed(target_latencies, loads, target.rehearsal)
    compressed = baseline.compression.on_target(target_latencies) if baseline.compression else None
    compressing_s = compressed.cpu_s if compressed else 0.0
    cpu = cpu_change(
        baseline.recording,
        loads,
        target_latencies,
        target,
        baseline.without,
        compressing_s=compressing_s,
        cores_each=threads.cores_each,
    )
    overlap = threads.overlap(simulated, cpu.each_s, _replayed_s(baseline, target))
    done = compressed.loads if compressed else loads
    wait_s, cpu_s = scale * overlap.of_waits, baseline.io_scale * overlap.of_cpu
    io_wait_s = baseline.io_scale * overlap.of_waits
    drift_s = float(counts(done) @ cpu.each_s) + compressing_s
    most = max(range(len(target.limits)), key=lambda at: simulated.limited[at], default=None)
    saturated = most is not None and simulated.limited[most] > LIMITED
    return Projection(
        latencies=target_latencies,
        io_s=[
            io_wait_s * load.count * lat.mean_s
            for load, lat in zip(done, target_latencies, strict=True)
        ],
        changes_s=wait_s * changes.total_s,
        changes_kept_s=wait_s * changes.kept_s,
        overlap=overlap,
        drift_s=max(cpu_s * drift_s, baseline.least_drift_s),
        drift_error_s=cpu_s * hypot(cpu.error_s, COMPRESSING_SPREAD * compressing_s),
        compressed=compressed.share if compressed else None,
        saturated=target.limits[most].name if most is not None and saturated else None,
        missed=None if page_cache is None else missed(threads.trace, simulated.storage_ns),
        storage_share=storage_share(threads.trace, simulated.wait_ns, simulated.storage_ns),
        throttled_share=threads.throttled_share(simulated),
    )


def _replayed_s(baseline: Baseline, target: Storage) -> float | None:
    """How long a replay of the whole recording took on the target, as long as nothing was cut."""
    facts, recording = target.facts, baseline.recording
    whole = (
        target.source.replayed
        and facts.get("closed_loop")
        and facts.get("like") == recording.path.name
        and recording.meta.raw.whole
        and not facts.get("steps_skipped")
        and not facts.get("prefilled_bytes")
        and facts.get("byte_share") == 1
        and facts.get("think_scale") == 1
    )
    return facts["elapsed_ns"] / 1e9 if whole else None
