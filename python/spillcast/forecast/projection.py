"""The temp I/O of a workload today and on another storage: latencies, overlap, limits, CPU time.

    T_B = T_A - w_A * IO_A - C + D + w_B * sum over (op, size) of N * L_B(op, size)

Calls that make, resize, sync, remove or look up temp files are operations too, by kind, not size.
N, T_A and IO_A come from the workload, L_B from the storage. w is the weight of a wait, 1 for one
thread and less if several overlap. C is the cost of recording outside temp I/O. D is the change of
CPU time by colder or warmer caches. docs/method.md derives the formula and lists its limits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot

from spillcast.errors import OptionInvalid
from spillcast.forecast.binding import LATENCY, MEMORY, QUEUE
from spillcast.forecast.cpu import (
    CpuChange,
    CpuSlope,
    blended,
    cpu_slope,
    machine_change,
    previous_runs_change,
    rehearsed_change,
)
from spillcast.forecast.result import DATA_READS, QUOTA, RECORDING, RUN_QUEUE, ZERO_LATENCY, Term
from spillcast.forecast.workload import CaptureOverhead, Workload
from spillcast.forecast.workload.load import (
    Load,
    counts,
    latencies,
    moved_bytes,
    operations,
    rehearsed,
    total_s,
    with_means,
)
from spillcast.forecast.workload.threads import CpuDelays, Overlap, Simulated
from spillcast.recording import WRITEBACK
from spillcast.storage.model import Estimate, behaviour_of
from spillcast.storage.observed import Rehearsal
from spillcast.storage.source import INSTANT, PROBE
from spillcast.storage.storage import Storage

#: Upper limit of the cost of recording, as a share of the time outside temp I/O.
OVERHEAD_MAX = 0.5
#: Cold reads of data files are a separate term from this share of the elapsed time on.
COLD_SHOWN = 0.01
#: The term of waits outside temp I/O, which contains CPU time if that is not known separately.
WAITS = CPU_AND_WAITS, OTHER_WAITS = "CPU and other waits", "other waits"
#: Waits for a CPU because of other programs are a term and a warning above this share of the run.
BUSY_REPORTED = 0.05
#: A limit of the storage saturates if waits for it exceed this share of the time of temp I/O.
LIMITED = 0.5
#: Relative standard error of the change of CPU time for compression.
COMPRESSING_SPREAD = 0.5
#: No storage is faster than this one.
ZERO_LATENCY_STORAGE = Storage(ZERO_LATENCY, INSTANT, [], never_slower=True)

MACHINE, WITHIN_RUN, REHEARSAL, HISTORY = "machine", "recording", "rehearsal", "history"
CAPTURE_COST, REPLAY, SPINNING = "cost", "replay", "spinning"
#: Estimators that a forecast can leave out, by name. Experiments measure the benefit of each.
ESTIMATORS: Mapping[str, str] = {
    MACHINE: "the calibrated cost of a wait on this machine",
    WITHIN_RUN: "the cost of a wait in this recording",
    REHEARSAL: "a rehearsal on the target",
    HISTORY: "previous runs on other storage",
    CAPTURE_COST: "the deduction of recording overhead",
    REPLAY: "a replay of all threads on the target",
    SPINNING: "CPU bursts that may be spinning",
}


def estimators_without(names: Collection[str]) -> Collection[str]:
    """All estimators except ``names``. OptionInvalid for an unknown name."""
    if unknown := sorted(set(names) - ESTIMATORS.keys()):
        raise OptionInvalid(
            f"without {', '.join(unknown)}: no such estimator",
            f"the estimators are {', '.join(sorted(ESTIMATORS))}",
        )
    return ESTIMATORS.keys() - set(names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Baseline:
    """Today's elapsed time of a workload in parts (s); only ``rest`` has the cost of recording."""

    workload: Workload
    #: Names of the estimators in use.
    estimators: Collection[str]
    #: Share of the time of temp I/O within the elapsed time; below 1 for unobserved overlap.
    io_share: float
    #: Temp I/O, by load.
    io_s: Sequence[float]
    #: Calls that make, resize, sync, remove or look up temp files, and writeback, by kind.
    changes_s: Sequence[float]
    #: Time outside all calls on temp files.
    remainder_s: float
    #: Cost of recording outside temp operations, and its standard error.
    outside_cost_s: float
    cost_error_s: float
    #: Upper bounds of the time that other processes kept threads from running: in total, and within
    #: the part of the remainder that is not CPU time.
    others_s: float
    run_queue_s: float
    #: Upper bound of the waits for memory in the remainder. The kernel writes temp files back
    #: during them, so the storage may change them, by an unknown amount.
    memory_stalled_s: float
    #: Reads of data files that the page cache did not serve; None if negligible.
    cold_data: Term | None
    #: The terms of the remainder and of the cost of recording, today and on the target.
    rest: Sequence[Term]
    #: CPU cost of waits within the run; None if the run does not show it.
    cpu_slope: CpuSlope | None
    #: The baseline by each part of a sample.
    sample_parts: "Sequence[Baseline]"

    @property
    def temp_s(self) -> float:
        """All calls on temp files."""
        return sum(self.io_s) + sum(self.changes_s)

    @property
    def limits_s(self) -> float:
        """Change of the elapsed time because of the target's CPUs."""
        return sum(t.forecast_s - t.baseline_s for t in self.rest if t.name != RECORDING)

    def with_run_queue(self, rest: Sequence[Term]) -> list[Term]:
        """The terms ``rest``, with notable waits for a CPU as a separate term.

        A target's savings beyond the CPU time are savings of these waits.
        """
        at, waits = next((at, term) for at, term in enumerate(rest) if term.name in WAITS)
        queue_s = min(self.run_queue_s, waits.baseline_s)
        if queue_s <= BUSY_REPORTED * self.workload.total_s:
            return list(rest)
        target_s = min(queue_s, waits.forecast_s)
        others = replace(
            waits, baseline_s=waits.baseline_s - queue_s, forecast_s=waits.forecast_s - target_s
        )
        queue = Term(RUN_QUEUE, None, None, None, queue_s, target_s)
        return [*rest[:at], others, queue, *rest[at + 1 :]]

    @property
    def min_cpu_change_s(self) -> float:
        """The largest decrease of CPU time: cold caches never cause more than half of it."""
        return -self.remainder_s / 2

    def rehearsal_on(self, storage: Storage) -> Rehearsal | None:
        """The rehearsal on a storage; None if there is none, or the estimator is left out."""
        return storage.rehearsal if REHEARSAL in self.estimators else None


def baseline_of(workload: Workload, estimators: Collection[str] = ESTIMATORS) -> Baseline:
    """Break down the elapsed time of a workload."""
    overlap, loads = workload.threads.recorded, workload.loads
    overhead = workload.capture_overhead if CAPTURE_COST in estimators else CaptureOverhead()
    all_io_s = workload.io_scale * total_s(loads)
    all_changes_s = workload.scale * sum(change.total_s for change in workload.changes)
    temp_s = overlap.io_weight * (all_io_s + all_changes_s)
    io_share = min(1.0, workload.total_s / temp_s) if temp_s else 1.0
    scale, io_weight = workload.scale, io_share * overlap.io_weight
    io_scale = workload.io_scale * io_weight
    recorded_io_s = [io_scale * load.total_s for load in loads]
    changes_s = [scale * io_weight * change.total_s for change in workload.changes]
    recorded_rest_s = max(workload.total_s - sum(recorded_io_s) - sum(changes_s), 0.0)
    # Operations of a kind that was not recorded contain no cost of recording.
    recorded_kinds = {load.kind for load in workload.recorded_loads}
    inside_s = [
        min(io_scale * (overhead.operation_s * load.count), recorded_s)
        if load.kind in recorded_kinds
        else 0.0
        for load, recorded_s in zip(loads, recorded_io_s, strict=True)
    ]
    outside_s = min(scale * overlap.cpu_weight * overhead.outside_s, OVERHEAD_MAX * recorded_rest_s)
    remainder_s = recorded_rest_s - outside_s
    cpu_s = _query_cpu_s(workload, remainder_s, outside_s)
    others_s = _others_s(workload)
    # Neither CPU time nor waits for a CPU are waits for memory.
    busy_s = scale * overlap.cpu_weight * (workload.cpu.total_s or 0.0)
    waited_s = max(remainder_s - busy_s, 0.0)
    run_queue_s = min(scale * others_s / workload.threads.at_work, waited_s)
    cold = _cold_data(workload, remainder_s, cpu_s)
    cost_s = outside_s + sum(inside_s)
    return Baseline(
        workload=workload,
        estimators=estimators,
        io_share=io_share,
        io_s=[s - inside for s, inside in zip(recorded_io_s, inside_s, strict=True)],
        changes_s=changes_s,
        remainder_s=remainder_s,
        outside_cost_s=outside_s,
        cost_error_s=scale * overlap.cpu_weight * overhead.error_s,
        others_s=others_s,
        run_queue_s=run_queue_s,
        memory_stalled_s=min(scale * workload.memory_stalled_s, waited_s - run_queue_s),
        cold_data=cold,
        rest=_rest(workload, remainder_s, cpu_s, cold, cost_s),
        cpu_slope=None if workload.cpu.bursts is None else cpu_slope(workload.cpu.bursts),
        sample_parts=[baseline_of(part, estimators) for part in workload.sample_parts],
    )


def _others_s(workload: Workload) -> float:
    """Upper bound of the time that threads were runnable without a CPU because of other processes.

    While a quota throttles the run, all runnable threads wait for the quota.
    """
    cpu, threads = workload.cpu, workload.threads
    if not (throttled_s := cpu.throttled_s):
        return cpu.run_queue_others_s
    throttled_s *= max(threads.at_work / (threads.source.cores or 1), 1.0)
    return min(cpu.run_queue_others_s, max(cpu.run_queue_s - throttled_s, 0.0))


def _query_cpu_s(workload: Workload, remainder_s: float, outside_cost_s: float) -> float | None:
    """CPU time of the remainder; None if it cannot be separated from waits."""
    if workload.cpu.total_s is None or workload.threads.number > 1:
        return None
    cpu_s = max(workload.cpu.total_s * workload.scale - outside_cost_s, 0.0)
    return None if cpu_s > remainder_s else cpu_s


def _cold_data(workload: Workload, remainder_s: float, cpu_s: float | None) -> Term | None:
    """The term of reads of data files, which do not depend on the storage of temp files."""
    reads, scale = workload.data_reads, workload.scale
    if reads is None:
        return None
    cold_s = min(scale * reads.elapsed_s, remainder_s - (cpu_s or 0.0))
    if cold_s < COLD_SHOWN * workload.total_s:
        return None
    count, size = (n if n is None else round(scale * n) for n in (reads.count, reads.bytes))
    return Term(DATA_READS, None, size, count, cold_s, cold_s)


def _rest(
    workload: Workload, remainder_s: float, cpu_s: float | None, cold: Term | None, cost_s: float
) -> list[Term]:
    """The terms of CPU time, waits and cold data; one thread has a separate term for CPU time.

    On the target only its CPUs change them, and there is no cost of recording.
    """

    def unchanged(name: str, s: float) -> Term:
        return Term(name, None, None, None, s, s)

    threads, loads = workload.threads, workload.loads
    other_s = remainder_s - (cold.baseline_s if cold else 0.0)
    delays = CpuDelays(*(workload.scale * added_s for added_s in threads.cpu_delays(loads)))
    throttled_s = min(delays.source_quota_s, other_s - (cpu_s or 0.0))
    more_s = delays.target_quota_s - delays.source_quota_s
    throttled_target_s = max(throttled_s + more_s, 0.0)
    other_s -= throttled_s
    if cpu_s is None:
        terms = [unchanged(CPU_AND_WAITS, other_s)]
    else:
        terms = [unchanged("CPU", cpu_s), unchanged(OTHER_WAITS, other_s - cpu_s)]
    terms[0] = replace(terms[0], forecast_s=max(terms[0].baseline_s + delays.target_cores_s, 0.0))
    if max(throttled_s, throttled_target_s) > 0:
        terms.append(Term(QUOTA, None, None, None, throttled_s, throttled_target_s))
    if cold is not None:
        terms.append(cold)
    if cost_s > 0:
        terms.append(Term(RECORDING, None, None, None, cost_s, 0.0))
    return terms


@dataclass(frozen=True, eq=False, kw_only=True)
class Projection:
    """The elapsed time on a storage in parts (s), and the intermediate results behind them."""

    baseline: Baseline
    storage: Storage
    #: Whether the page cache of the recording may serve temp I/O there.
    cached: bool
    simulated: Simulated
    latencies: Sequence[Estimate]
    #: Temp I/O, by load.
    io_s: Sequence[float]
    #: Calls that change temp files, by kind, and the sum of those without figures of the target.
    changes_s: Sequence[float]
    changes_kept_s: float
    #: Time outside temp I/O, without ``cpu_change_s``.
    rest_s: float
    #: Change of CPU time by caches and compression, and its standard error.
    cpu_change_s: float
    cpu_change_error_s: float
    overlap: Overlap
    #: Share of an engine's blocks that would be compressed; None if unknown.
    compressed: float | None
    #: Share of the operations that miss the page cache; None without one.
    missed: float | None
    #: Whether readahead and writeback are assumed, before the figures of a device.
    reads_ahead: bool

    @property
    def workload(self) -> Workload:
        """The workload of the baseline."""
        return self.baseline.workload

    @property
    def loads(self) -> list[Load]:
        """The loads of the workload with the latencies of the storage."""
        return with_means(self.workload.loads, (latency.mean_s for latency in self.latencies))

    @cached_property
    def throttled_share(self) -> float:
        """Share of the run in which a CPU quota throttles threads."""
        return self.workload.threads.throttled_share(self.simulated)

    @cached_property
    def spinning_s(self) -> float:
        """Time saved if long CPU bursts during other threads' temp I/O are waits."""
        if SPINNING not in self.baseline.estimators:
            return 0.0
        return self.workload.scale * self.workload.threads.spinning_s(self.simulated)

    @cached_property
    def uncached_s(self) -> float | None:
        """The elapsed time without the page cache; None if none is assumed."""
        return None if self.missed is None else projection(self.baseline, self.storage).total_s

    @property
    def saturated(self) -> str | None:
        """The limit that temp I/O waits for most; None for less than LIMITED of its time."""
        shares = zip(self.simulated.limited, self.storage.limits, strict=False)
        share, limit = max(shares, key=lambda pair: pair[0], default=(0.0, None))
        # Writeback waits for a limit as well, while the page cache serves the query.
        share = min(share, self.simulated.storage_share)
        return limit.name if limit is not None and share > LIMITED else None

    @property
    def causes_s(self) -> dict[str, float]:
        """Temp I/O by cause of waits, in proportion to the causes in the simulation."""
        simulated, io_s = self.simulated, sum(self.io_s)
        causes_ns = {LATENCY: simulated.latency_ns, QUEUE: simulated.queued_ns}
        for limit, ns in zip(self.storage.limits, simulated.at_limits_ns, strict=False):
            causes_ns[limit.name] = causes_ns.get(limit.name, 0.0) + ns
        total_ns = sum(causes_ns.values())
        if not total_ns:
            # The simulation has no waits: all time is latency.
            causes_ns[LATENCY] = total_ns = 1.0
        share = simulated.storage_share
        causes_s = {
            cause: io_s * share * ns / total_ns
            for cause, ns in causes_ns.items()
            if cause != QUEUE or ns
        }
        return causes_s | ({MEMORY: io_s * (1 - share)} if share < 1 else {})

    @property
    def temp_s(self) -> float:
        """All calls on temp files."""
        return sum(self.changes_s) + sum(self.io_s)

    @property
    def total_s(self) -> float:
        """The elapsed time."""
        return self.rest_s + self.cpu_change_s + self.temp_s

    def with_total(self, total_s: float) -> "Projection":
        """The projection with a measured elapsed time; the time outside temp I/O is fitted."""
        temp_s = self.temp_s
        factor = min(1.0, total_s / temp_s) if temp_s else 1.0
        return replace(
            self,
            io_s=[factor * s for s in self.io_s],
            changes_s=[factor * s for s in self.changes_s],
            changes_kept_s=factor * self.changes_kept_s,
            cpu_change_s=total_s - factor * temp_s - self.rest_s,
        )


def projection(baseline: Baseline, storage: Storage, *, cached: bool = False) -> Projection:
    """The workload on a storage. FiguresMissing if the storage has none for one of its ops."""
    workload = baseline.workload
    loads, threads = workload.loads, workload.threads
    change_ratios = _change_ratios(storage, workload)
    replayed_s = _replayed_s(workload, storage) if REPLAY in baseline.estimators else None
    page_cache = threads.page_cache(loads) if cached else None
    behaviour = None if storage.source is INSTANT else behaviour_of(storage, access="buffered")
    total_operations = workload.scale * operations(loads)
    in_front = page_cache
    if page_cache is None and storage.source.of_device:
        in_front = threads.read_ahead(total_operations)
    simulated = threads.on(behaviour, total_operations, change_ratios, in_front)
    means_s = threads.mean_s(simulated, loads)
    if page_cache is not None and moved_bytes(loads, "write") <= page_cache.free_bytes:
        # The cache holds all that was written, so it serves the ops that were not recorded, too.
        means_s = [
            load.mean_s if mean_s is None else mean_s
            for load, mean_s in zip(loads, means_s, strict=True)
        ]
    target_latencies = [
        latency if mean_s is None else latency.at(mean_s)
        for latency, mean_s in zip(
            latencies(storage, loads, simulated.in_flight), means_s, strict=True
        )
    ]
    rehearsal = baseline.rehearsal_on(storage)
    if rehearsal is not None:
        target_latencies = rehearsed(target_latencies, loads, rehearsal)
    compression = workload.compression
    compressed = compression.on_target(target_latencies) if compression else None
    compressing_s = compressed.cpu_s if compressed else 0.0
    cpu = _cpu_change(baseline, target_latencies, rehearsal, compressing_s)
    overlap = threads.overlap(simulated, loads, cpu.each_s, replayed_s)
    target_loads = compressed.loads if compressed else loads
    on_target = with_means(target_loads, (latency.mean_s for latency in target_latencies))
    io_weight = baseline.io_share * overlap.io_weight
    io_wait_s, wait_s = workload.io_scale * io_weight, workload.scale * io_weight
    cpu_s = workload.io_scale * overlap.cpu_weight
    cpu_change_s = float(counts(target_loads) @ cpu.each_s) + compressing_s
    return Projection(
        baseline=baseline,
        storage=storage,
        cached=cached,
        simulated=simulated,
        latencies=target_latencies,
        io_s=[io_wait_s * load.total_s for load in on_target],
        changes_s=[
            wait_s * change.total_s * change_ratios.get(change.event, 1.0)
            for change in workload.changes
        ],
        changes_kept_s=wait_s
        * sum(change.total_s for change in workload.changes if change.event not in change_ratios),
        rest_s=baseline.remainder_s + baseline.limits_s,
        cpu_change_s=max(cpu_s * cpu_change_s, baseline.min_cpu_change_s),
        cpu_change_error_s=cpu_s * hypot(cpu.error_s, COMPRESSING_SPREAD * compressing_s),
        overlap=overlap,
        compressed=compressed.share if compressed else None,
        missed=None if page_cache is None else simulated.missed,
        reads_ahead=in_front is not page_cache,
    )


def _cpu_change(
    baseline: Baseline,
    latencies: Sequence[Estimate],
    rehearsal: Rehearsal | None,
    compressing_s: float,
) -> CpuChange:
    """Change of the CPU time of operations on a target, by all known estimates."""
    workload, loads, cpu = baseline.workload, baseline.workload.loads, baseline.workload.cpu
    changes = list[CpuChange | None]()
    if MACHINE in baseline.estimators and (cpu.wait_cost is not None or cpu.caches):
        cores = workload.threads.cores_per_thread
        changes.append(machine_change(cpu, loads, latencies, cores))
    if WITHIN_RUN in baseline.estimators and baseline.cpu_slope is not None:
        changes.append(baseline.cpu_slope.change(loads, latencies))
    if rehearsal is not None:
        changes.append(rehearsed_change(cpu, loads, rehearsal, compressing_s))
    if HISTORY in baseline.estimators:
        changes.append(previous_runs_change(cpu.previous_runs, cpu, loads, latencies))
    return blended(loads, changes)


def _change_ratios(storage: Storage, workload: Workload) -> dict[str | None, float]:
    """Latency of calls that change temp files, over the recorded one, by kind if known."""
    if storage.source is INSTANT:
        return dict.fromkeys((change.event for change in workload.changes), 0.0)
    mean_s = {change.event: change.mean_s for change in storage.changes if change.count}
    ratios = dict[str | None, float]()
    for change in workload.changes:
        if change.event in mean_s and change.total_s > 0:
            ratios[change.event] = change.count * mean_s[change.event] / change.total_s
        elif change.event == WRITEBACK and change.total_s > 0:
            ratios[WRITEBACK] = _writeback_ratio(storage, workload.recorded_loads, change.total_s)
    return ratios


def _writeback_ratio(storage: Storage, loads: Sequence[Load], writeback_s: float) -> float:
    """Ratio of target to recorded waits for writeback: that of writes including writeback.

    A write to the page cache costs time later. A storage's figures contain the entire cost of a
    write, or were measured with a page cache as small as the recorded one, so no wait grows.
    """
    writes = [load for load in loads if load.op == "write"]
    recorded_s = total_s(writes) + writeback_s
    target = with_means(writes, (each.mean_s for each in latencies(storage, writes, 1.0)))
    return min(total_s(target) / recorded_s, 1.0)


def _replayed_s(workload: Workload, storage: Storage) -> float | None:
    """Elapsed time of a replay of the entire recording on the target; None without one."""
    facts = storage.facts
    complete = (
        storage.source is PROBE
        and facts.get("closed_loop")
        and facts.get("like") == workload.name
        and workload.quality.all_waits
        and not facts.get("steps_skipped")
        and not facts.get("prefilled_bytes")
        and facts.get("byte_share") == 1
        and facts.get("think_scale") == 1
        and facts.get("elapsed_ns")
    )
    return facts["elapsed_ns"] / 1e9 if complete else None
