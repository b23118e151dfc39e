"""The temp I/O of a workload on another storage: latencies, how threads overlap, what limits it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

from spillcast.errors import FiguresMissing
from spillcast.forecast.assumptions import COLD_SHOWN, COMPRESSING_SPREAD, LIMITED, OBSERVED_MOST
from spillcast.forecast.cpu import cpu_change
from spillcast.forecast.load import Latency, counts, latencies, operations, rehearsed
from spillcast.forecast.result import DATA_READS, QUOTA, RECORDING, Term
from spillcast.forecast.threads.overlap import Overlap
from spillcast.forecast.threads.page_cache import missed, storage_share
from spillcast.forecast.workload import TempChanges, Workload, per_workload
from spillcast.storage.model import behaviour_of
from spillcast.storage.source import INSTANT
from spillcast.storage.storage import Storage

#: The storage that none can be faster than.
ZERO_LATENCY = Storage("zero-latency storage", INSTANT, [])


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
    #: Of the blocks of an engine that compresses some, how many would be; None where not known.
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
    #: What the run is shorter by if long bursts of CPU time beside temp I/O of others are waits.
    spinning_s: float

    @property
    def temp_s(self) -> float:
        """All calls on temp files."""
        return self.changes_s + sum(self.io_s)

    def taking(self, workload: Workload, total_s: float) -> "Projection":
        """One that adds up to a measured elapsed time: what is not temp I/O gives way."""
        today, temp_s = breakdown(workload), self.temp_s
        fits = min(1.0, total_s / temp_s) if temp_s else 1.0
        return replace(
            self,
            io_s=[fits * s for s in self.io_s],
            changes_s=fits * self.changes_s,
            changes_kept_s=fits * self.changes_kept_s,
            drift_s=total_s - fits * temp_s - today.remainder_s - today.limits_s,
        )


def projection(workload: Workload, storage: Storage, *, cached: bool = False) -> Projection:
    """The workload's temp I/O on a storage, through the page cache or not.

    FiguresMissing where the storage has none for what the workload does.
    """
    loads, threads = workload.loads, workload.threads
    _check_figures(workload, storage)
    changes = _changes_on(storage, workload.changes)
    page_cache = threads.page_cache(loads) if cached else None
    behaviour = None if storage.source.instant else behaviour_of(storage, access="buffered")
    total_operations = workload.scale * operations(loads)
    simulated = threads.on(behaviour, total_operations, changes.times, page_cache)
    target_latencies = [
        latency if mean_s is None else latency.at(mean_s)
        for latency, mean_s in zip(
            latencies(storage, loads, simulated.in_flight),
            threads.mean_s(simulated, loads),
            strict=True,
        )
    ]
    rehearsal = None if "rehearsal" in workload.without else storage.rehearsal
    if rehearsal is not None:
        target_latencies = rehearsed(target_latencies, loads, rehearsal)
    compression = workload.compression
    compressed = compression.on_target(target_latencies) if compression else None
    compressing_s = compressed.cpu_s if compressed else 0.0
    cpu = cpu_change(workload, target_latencies, rehearsal, compressing_s)
    overlap = threads.overlap(simulated, loads, cpu.each_s, _replayed_s(workload, storage))
    done = compressed.loads if compressed else loads
    io_wait_s = workload.io_scale * overlap.of_waits
    wait_s, cpu_s = workload.scale * overlap.of_waits, workload.io_scale * overlap.of_cpu
    drift_s = float(counts(done) @ cpu.each_s) + compressing_s
    limiting = max(range(len(storage.limits)), key=lambda at: simulated.limited[at], default=None)
    saturated = limiting is not None and simulated.limited[limiting] > LIMITED
    return Projection(
        latencies=target_latencies,
        io_s=[
            io_wait_s * load.count * latency.mean_s
            for load, latency in zip(done, target_latencies, strict=True)
        ],
        changes_s=wait_s * changes.total_s,
        changes_kept_s=wait_s * changes.kept_s,
        overlap=overlap,
        drift_s=max(cpu_s * drift_s, breakdown(workload).min_drift_s),
        drift_error_s=cpu_s * hypot(cpu.error_s, COMPRESSING_SPREAD * compressing_s),
        compressed=compressed.share if compressed else None,
        saturated=storage.limits[limiting].name if limiting is not None and saturated else None,
        missed=None if page_cache is None else missed(threads.trace, simulated.storage_ns),
        storage_share=storage_share(threads.trace, simulated.wait_ns, simulated.storage_ns),
        throttled_share=threads.throttled_share(simulated),
        spinning_s=workload.scale * threads.spinning_s(simulated),
    )


def total_s(workload: Workload, on_storage: Projection) -> float:
    """The elapsed time of a workload with its temp I/O as projected."""
    today = breakdown(workload)
    return today.remainder_s + today.limits_s + on_storage.drift_s + on_storage.temp_s


@dataclass(frozen=True)
class _Changes:
    """What a storage says of calls that change temp files."""

    #: Latency on the target over the recorded one, by call; what is absent is not known.
    times: dict[str, float]
    #: Seconds of all calls, and of those of which nothing is known, which are kept.
    total_s: float
    kept_s: float


def _changes_on(storage: Storage, changes: Sequence[TempChanges]) -> _Changes:
    """The same calls on a storage; those that it has no figures for take what they took."""
    if storage.source.instant:
        return _Changes({}, 0.0, 0.0)
    known = {change.event: change.mean_s for change in storage.changes if change.count}
    times = {
        change.event: change.count * known[change.event] / change.total_s
        for change in changes
        if change.event in known and change.total_s > 0
    }
    kept_s = sum(change.total_s for change in changes if change.event not in times)
    moved_s = sum(change.total_s * times.get(change.event or "", 0.0) for change in changes)
    return _Changes(times, moved_s + kept_s, kept_s)


def _check_figures(workload: Workload, storage: Storage) -> None:
    if storage.source.instant:
        return
    for op in sorted({load.op for load in workload.loads}):
        if not any(group.count for group in storage.of(op)):
            raise FiguresMissing(
                f"{storage.name} has no figures for {op}s, which the query does: measure {op}s too"
            )


def _replayed_s(workload: Workload, storage: Storage) -> float | None:
    """How long a replay of the whole recording took on the target, as long as nothing was cut."""
    facts = storage.facts
    complete = (
        storage.source.replayed
        and facts.get("closed_loop")
        and facts.get("like") == workload.name
        and workload.quality.all_waits
        and not facts.get("steps_skipped")
        and not facts.get("prefilled_bytes")
        and facts.get("byte_share") == 1
        and facts.get("think_scale") == 1
    )
    return facts["elapsed_ns"] / 1e9 if complete else None


@dataclass(frozen=True)
class Breakdown:
    """Parts of today's elapsed time, s. What recording cost is in none but ``cost_s``."""

    #: Temp I/O, by load.
    io_s: Sequence[float]
    #: Calls that make, resize, sync or remove temp files.
    changes_s: float
    #: The time outside of all calls on temp files.
    remainder_s: float
    #: What recording cost, the part of it outside of temp operations, and the standard error of
    #: that part.
    cost_s: float
    outside_cost_s: float
    cost_error_s: float
    #: Of the time that threads were ready without a CPU, the most that others caused; and of the
    #: remainder, the most of it that may go away with them.
    others_s: float
    ready_s: float
    #: Reads of data files that memory did not answer; None if negligible.
    cold_data: Term | None
    #: The terms of the remainder and of what recording cost, today and on the target.
    rest: Sequence[Term]

    @property
    def temp_s(self) -> float:
        """All calls on temp files."""
        return sum(self.io_s) + self.changes_s

    @property
    def limits_s(self) -> float:
        """What other CPUs on the target than today's make longer; below 0 shorter."""
        return sum(t.forecast_s - t.baseline_s for t in self.rest if t.name != RECORDING)

    @property
    def min_drift_s(self) -> float:
        """The most that CPU time may shrink by: cold caches never are most of what it takes."""
        return -self.remainder_s / 2


@per_workload
def breakdown(workload: Workload) -> Breakdown:
    """Break down the elapsed time of a workload."""
    overlap, loads = workload.threads.recorded, workload.loads
    io_scale, scale = workload.io_scale * overlap.of_waits, workload.scale
    recorded_io_s = [io_scale * load.total_s for load in loads]
    changes_s = scale * overlap.of_waits * sum(change.total_s for change in workload.changes)
    recorded_rest_s = max(workload.total_s - sum(recorded_io_s) - changes_s, 0.0)
    inside_s = [
        min(io_scale * cost_s, recorded_s)
        for cost_s, recorded_s in zip(_operation_costs_s(workload), recorded_io_s, strict=True)
    ]
    cost = workload.capture_cost
    outside_s = min(scale * overlap.of_cpu * cost.outside_s, OBSERVED_MOST * recorded_rest_s)
    remainder_s = recorded_rest_s - outside_s
    cpu_s = _query_cpu_s(workload, remainder_s, outside_s)
    others_s = _others_s(workload)
    max_ready_s = remainder_s - (cpu_s or 0.0)
    cold = _cold_data(workload, remainder_s, cpu_s)
    cost_s = outside_s + sum(inside_s)
    return Breakdown(
        io_s=[s - inside for s, inside in zip(recorded_io_s, inside_s, strict=True)],
        changes_s=changes_s,
        remainder_s=remainder_s,
        cost_s=cost_s,
        outside_cost_s=outside_s,
        cost_error_s=scale * overlap.of_cpu * cost.error_s,
        others_s=others_s,
        ready_s=min(scale * others_s / workload.threads.at_work, max_ready_s),
        cold_data=cold,
        rest=_rest(workload, remainder_s, cpu_s, cold, cost_s),
    )


def _operation_costs_s(workload: Workload) -> Sequence[float]:
    """What recording cost within the operations of each load, if they are of a recorded kind."""
    kinds = {load.kind for load in workload.recorded_loads}
    each_s = workload.capture_cost.operation_s
    return [each_s * load.count if load.kind in kinds else 0.0 for load in workload.loads]


def _others_s(workload: Workload) -> float:
    """Of the time that threads were ready without a CPU, the most that other processes caused.

    While a quota holds a CPU back, all threads that wait for it wait for the quota.
    """
    cpu, threads = workload.cpu, workload.threads
    if not (throttled_s := cpu.throttled_s):
        return cpu.run_queue_others_s
    throttled_s *= max(threads.at_work / (threads.source.cores or 1), 1.0)
    return min(cpu.run_queue_others_s, max(cpu.run_queue_s - throttled_s, 0.0))


def _query_cpu_s(workload: Workload, remainder_s: float, outside_cost_s: float) -> float | None:
    """CPU time of the remainder; None where it is not told apart from waits."""
    if workload.cpu.total_s is None or workload.recorded_threads.threads > 1:
        return None
    cpu_s = max(workload.cpu.total_s * workload.scale - outside_cost_s, 0.0)
    return None if cpu_s > remainder_s else cpu_s


def _cold_data(workload: Workload, remainder_s: float, cpu_s: float | None) -> Term | None:
    """Reads of data files, which take as long wherever temp files are."""
    reads, scale = workload.data_reads, workload.scale
    if reads is None:
        return None
    cold_s = min(scale * reads.elapsed_s, remainder_s - (cpu_s or 0.0))
    if cold_s < COLD_SHOWN * workload.total_s:
        return None
    count, size = (n if n is None else round(scale * n) for n in (reads.count, reads.bytes))
    return Term(DATA_READS, None, size, count, cold_s, cold_s)


def _rest(
    workload: Workload,
    remainder_s: float,
    cpu_s: float | None,
    cold: Term | None,
    cost_s: float,
) -> list[Term]:
    """CPU time, other waits and cold data; CPU time apart for one thread.

    They stay, but for what other CPUs on the target change. What recording cost does not.
    """

    def stays(name: str, s: float) -> Term:
        return Term(name, None, None, None, s, s)

    threads, loads = workload.threads, workload.loads
    other_s = remainder_s - (cold.baseline_s if cold else 0.0)
    quota_s, quota_target_s = (workload.scale * s for s in threads.quota_s(loads))
    held_s = min(quota_s, other_s - (cpu_s or 0.0))
    held_target_s = max(held_s + quota_target_s - quota_s, 0.0)
    other_s -= held_s
    if cpu_s is None:
        terms = [stays("CPU and other waits", other_s)]
    else:
        terms = [stays("CPU", cpu_s), stays("other waits", other_s - cpu_s)]
    target_s = max(terms[0].baseline_s + workload.scale * threads.cores_s(loads), 0.0)
    terms[0] = replace(terms[0], forecast_s=target_s)
    if max(held_s, held_target_s) > 0:
        terms.append(Term(QUOTA, None, None, None, held_s, held_target_s))
    if cold is not None:
        terms.append(cold)
    if cost_s > 0:
        terms.append(Term(RECORDING, None, None, None, cost_s, 0.0))
    return terms
