"""The change of CPU time on the target. After a longer wait a thread finds its caches colder.

The estimates are averaged with weights from their errors:

- The machine: `spillcast calibrate` measures what waits cost real queries. Without it, the loop
  through memory at the end of every recording gives a rough estimate.
- The recording: CPU bursts after operations of the same kind, size, thread and stretch of the run
  do the same work, so the slope of their CPU time over the wait is the cost of a wait.
- A rehearsal: the CPU time of the query's first operations on both storages.
- Previous runs on other storage: the one with longer waits takes more CPU time, either as the cost
  of waits or because threads poll for the I/O of others. The excess over the machine's calibration,
  beyond its error, is polling: it follows the time of temp I/O like a wait.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spillcast import _core
from spillcast.columns import Floats
from spillcast.forecast.workload import CpuTime, PreviousRun
from spillcast.forecast.workload.load import Load, counts
from spillcast.recording import OPS
from spillcast.recording.calibration import WaitCost, idle_s, weights_of
from spillcast.recording.meta import CpuCache
from spillcast.recording.thread_trace import Bursts, TempOperations
from spillcast.stats import inverse_variance
from spillcast.storage.model import Estimate
from spillcast.storage.observed import Rehearsal
from spillcast.tables import Table

#: Relative error of the slope within a run: different work may follow longer waits.
WITHIN_RUN_SPREAD = 0.3
#: Relative error of CPU time for waits outside the recorded range, from queries of TPC-H.
WITHIN_RUN_BEYOND = 0.2
#: Least relative standard error of an estimate: no such measurement repeats more closely.
MIN_ERROR = 0.05
#: Steps of the bisection, which end at a relative error of 1e-12.
BISECTION_STEPS = 40
#: Without a calibration: the memory that a query touches divided by the memory that the loop reads
#: in the same CPU time, and the relative standard deviation of that ratio (ten queries).
TOUCHED_SHARE = 0.15
GUESS_ERROR = 0.6
#: Stretches of a run. Bursts are compared within each; their scatter is the slope's error.
STRETCHES = 20
#: Least number of bursts, and of stretches with comparable bursts, for a slope.
BURSTS_MIN, STRETCHES_MIN = 200, 5
#: Quantiles of the weights of waits that bound the range of the slope.
QUANTILES = (0.05, 0.95)
#: Size classes per power of two.
SIZES = 8
#: Least number of operations of a kind for an estimate of it.
OPERATIONS_MIN = 100
#: Stretches of the rehearsed prefix. Their scatter is the error of their mean.
REHEARSED_STRETCHES = 10
#: Relative difference of the CPU time of two runs on the same storage.
REPEATED = 0.02
#: Errors of the change for later operations of a rehearsed kind and for other kinds, as shares of
#: the rehearsed change, and for other kinds also as a share of the CPU time between operations.
LATER_ERROR, OTHER_KIND, OTHER_KIND_CPU = 0.3, 0.6, 0.1


@dataclass(frozen=True)
class CpuChange:
    """Additional CPU time of operations on the target; below 0 if waits get shorter."""

    #: For one operation of each load; for all operations, and its standard error.
    each_s: Floats
    total_s: float
    error_s: float


def blended(loads: Sequence[Load], changes: Sequence[CpuChange | None]) -> CpuChange:
    """The mean of independent estimates for the same loads, weighted by inverse variance.

    If they differ by more than their errors explain, the error is scaled up (Birge ratio).
    """
    estimates = [change for change in changes if change is not None]
    if not estimates:
        return CpuChange(np.zeros(len(loads)), 0.0, 0.0)
    if len(estimates) == 1:
        return estimates[0]
    totals_s = np.array([estimate.total_s for estimate in estimates])
    errors_s = np.array([estimate.error_s for estimate in estimates])
    errors_s = np.maximum(errors_s, MIN_ERROR * np.abs(totals_s))
    if not errors_s.all():
        return estimates[int(np.argmin(errors_s))]
    weights, error_s = inverse_variance(totals_s, errors_s)
    each_s = np.asarray(weights @ np.array([estimate.each_s for estimate in estimates]))
    return CpuChange(each_s, float(weights @ totals_s), error_s)


def machine_change(
    cpu: CpuTime,
    loads: Sequence[Load],
    latencies: Sequence[Estimate],
    cores_per_thread: float = 1.0,
) -> CpuChange:
    """The change of CPU time by the machine's calibration; 0 without measurements.

    The error is the scatter of queries around this estimate. Calibration uses one thread. With
    fewer cores than threads another thread takes the core and its caches on any storage, so the
    cost applies only to the share ``cores_per_thread`` of waits.
    """
    if (cost := cpu.wait_cost) is None:
        # The estimate from the loop through memory.
        recorded_s, error = _idle_s(loads, loads), GUESS_ERROR
        warm_s = _warm_cpu_s(cpu.caches, recorded_s, counts(loads), cpu.between_s)
        each_s = _guess_s(cpu.caches, _idle_s(loads, latencies), warm_s)
        each_s = each_s - _guess_s(cpu.caches, recorded_s, warm_s)
    else:
        waits_s = zip(loads, _idle_s(loads, loads), _idle_s(loads, latencies), strict=True)
        each_s = np.array(
            [_moved_s(cost, cpu, load.op, *from_to_s) for load, *from_to_s in waits_s]
        )
        error = cost.spread
    each_s = cores_per_thread * each_s
    total_s = float(counts(loads) @ each_s)
    return CpuChange(each_s, total_s, error * abs(total_s))


def _idle_s(loads: Sequence[Load], means: Sequence[Load | Estimate]) -> Floats:
    """The wait in an operation of each load with these mean latencies."""
    mean_s = np.array([mean.mean_s for mean in means])
    return idle_s(mean_s, np.array([load.mean_bytes for load in loads]))


def _moved_s(cost: WaitCost, cpu: CpuTime, op: str, recorded_s: float, target_s: float) -> float:
    """Mean additional CPU time after an ``op`` that waits for ``target_s``."""
    bursts = cpu.bursts
    if bursts is not None and (after := bursts.after(op)).any():
        return cost.moved_s(bursts.cpu_s[after], bursts.idle_s[after], target_s)
    return cost.moved_s(np.array([cpu.between_s]), np.array([recorded_s]), target_s)


def _guess_s(caches: Sequence[CpuCache], wait_s: Floats, warm_cpu_s: float) -> Floats:
    """Additional CPU time after a wait, from the loop: work refills its part of the caches."""
    extra_s: Floats = np.zeros(len(wait_s))
    for cache in caches:
        waits_ns, costs_ns = np.array([(0, 0), *cache.cold_ns], dtype=float).T
        used_share = min(1.0, TOUCHED_SHARE * warm_cpu_s * 1e9 / max(cache.warm_ns, 1))
        extra_s += used_share * np.interp(wait_s * 1e9, waits_ns, costs_ns) / 1e9
    return extra_s


def _warm_cpu_s(
    caches: Sequence[CpuCache], recorded_s: Floats, count: Floats, cpu_s: float
) -> float:
    """CPU time between two waits with warm caches; plus the cost of waits it is ``cpu_s``."""
    lower_s, upper_s = 0.0, cpu_s
    for _ in range(BISECTION_STEPS):
        middle_s = (lower_s + upper_s) / 2
        added_s = float(count @ _guess_s(caches, recorded_s, middle_s) / count.sum())
        if middle_s + added_s > cpu_s:
            upper_s = middle_s
        else:
            lower_s = middle_s
    return (lower_s + upper_s) / 2


@dataclass(frozen=True)
class CpuSlope:
    """CPU time after an operation as a function of its wait's weight, from the bursts of a run."""

    #: CPU seconds per unit of weight among bursts of the same work, and the standard error.
    slope_s: float
    error_s: float
    #: Mean CPU time.
    cpu_s: float
    #: Weights of waits: the mean, the mean by op, and the range between the two ``QUANTILES``.
    mean: float
    mean_after: Mapping[str, float]
    range: tuple[float, float]

    def change(self, loads: Sequence[Load], latencies: Sequence[Estimate]) -> CpuChange:
        """Additional CPU time of operations with these latencies."""
        count, (lower, upper) = counts(loads), self.range
        recorded, target = weights_of(_idle_s(loads, loads)), weights_of(_idle_s(loads, latencies))
        pairs = zip(loads, recorded, strict=True)
        moved = target - [self.mean_after.get(load.op, weight) for load, weight in pairs]
        # Share of the distance from the mean weight that lies outside the range of the run.
        outside = np.maximum(0.0, np.maximum(lower - target, target - upper))
        outside = outside / np.maximum(np.abs(target - self.mean), outside + 1e-9)
        total_s = self.slope_s * float(count @ moved)
        errors_s = (
            self.error_s * abs(float(count @ moved)),
            WITHIN_RUN_SPREAD * abs(total_s),
            WITHIN_RUN_BEYOND * self.cpu_s * float(count @ outside),
        )
        return CpuChange(self.slope_s * moved, total_s, float(np.linalg.norm(errors_s)))


def cpu_slope(bursts: Bursts) -> CpuSlope | None:
    """The slope within a run, with a jackknife error over stretches; None for too few bursts."""
    if len(bursts) < BURSTS_MIN:
        return None
    weight = weights_of(bursts.idle_s)
    columns = {"weight": weight} | {
        name: getattr(bursts, name)
        for name in ("cpu_s", "end_s", "bytes", "op", "next_op", "session")
    }
    rows = Table(columns)
    total_s = max(float(bursts.end_s.max()), 1e-9)
    xx, xy = map(np.array, _core.burst_moments(rows, total_s, STRETCHES, SIZES))
    if (xx > 0).sum() < STRETCHES_MIN:
        return None
    without = (xy.sum() - xy) / np.maximum(xx.sum() - xx, 1e-30)
    scatter = ((without - without.mean()) ** 2).sum()
    after = {op: weight[bursts.after(op)] for op in OPS}
    lower, upper = np.quantile(weight, QUANTILES)
    return CpuSlope(
        slope_s=float(xy.sum() / xx.sum()),
        error_s=float(np.sqrt((STRETCHES - 1) / STRETCHES * scatter)),
        cpu_s=float(bursts.cpu_s.mean()),
        mean=float(weight.mean()),
        mean_after={op: float(weights.mean()) for op, weights in after.items() if weights.size},
        range=(float(lower), float(upper)),
    )


def rehearsed_change(
    cpu: CpuTime, loads: Sequence[Load], rehearsal: Rehearsal, compressing_s: float = 0.0
) -> CpuChange | None:
    """Additional CPU time of operations on the target, from a rehearsal; None if unknown.

    ``compressing_s`` is the CPU time (s) that the target adds for the compression of writes. The
    CPU time of the rehearsal contains it; this estimate does not.
    """
    if cpu.operations is None:
        return None
    source, target = cpu.operations, rehearsal.temp_operations
    if None in (cpu.total_s, rehearsal.cpu_s):
        if max(source.threads, target.threads) > 1:
            return None
        # All time between two calls may be CPU time.
        source, target = (replace(each, cpu_s=each.gap_s) for each in (source, target))
    source, same = _prefix(source, len(target))
    if same:
        target, source = target.first(len(source)), source.first(len(target))
    after = {op: (source.cpu_after(op), target.cpu_after(op)) for op in OPS}
    rehearsed = [op for op in OPS if min(map(len, after[op])) >= OPERATIONS_MIN]
    if not rehearsed:
        return None
    change_s = {op: float(after[op][1].mean() - after[op][0].mean()) for op in rehearsed}
    weights = [len(after[op][0]) for op in rehearsed]
    mean_change_s = float(np.average(list(change_s.values()), weights=weights))
    each_s = np.array([change_s.get(load.op, mean_change_s) for load in loads])
    count = counts(loads)
    errors_s = (
        _prefix_error_s(source, target, same=same) * count.sum(),
        _later_error_s(loads, each_s, source, target, set(rehearsed)),
        REPEATED * float(source.cpu_s.mean()) * count.sum(),
    )
    writes = np.array([load.op == "write" for load in loads])
    if compressing_s and (written := float(count[writes].sum())):
        each_s = each_s - np.where(writes, compressing_s / written, 0.0)
    return CpuChange(each_s, float(count @ each_s), float(np.linalg.norm(errors_s)))


def _prefix_error_s(source: TempOperations, target: TempOperations, *, same: bool) -> float:
    """Standard error of the mean change of an operation, from the scatter of stretches."""
    source_s, target_s = (
        np.array([part.mean() if len(part) else 0.0 for part in parts])
        for parts in (np.array_split(run.cpu_s, REHEARSED_STRETCHES) for run in (source, target))
    )
    if same:
        varied = np.std(target_s - source_s, ddof=1)
    else:
        varied = np.hypot(source_s.std(ddof=1), target_s.std(ddof=1))
    return float(varied / REHEARSED_STRETCHES**0.5)


def _later_error_s(
    loads: Sequence[Load],
    each_s: Floats,
    source: TempOperations,
    target: TempOperations,
    rehearsed: set[str],
) -> float:
    """Error (s) of the change for operations beyond the rehearsed ones."""
    mean_s, error_s = float(source.cpu_s.mean()), 0.0
    for load, change_s in zip(loads, each_s, strict=True):
        if load.op not in rehearsed:
            error_s += load.count * float(np.hypot(OTHER_KIND * change_s, OTHER_KIND_CPU * mean_s))
            continue
        of_op = sum(other.count for other in loads if other.op == load.op)
        left = max(1 - len(target.cpu_after(load.op)) / of_op, 0.0)
        error_s += load.count * left * LATER_ERROR * abs(change_s)
    return error_s


def _prefix(recorded: TempOperations, target: int) -> tuple[TempOperations, bool]:
    """The operations from the run's start and True, or all and False if too few were kept."""
    slices = recorded.slices_s
    if slices is None:
        return recorded, True
    begin_s, end_s = slices[0] if slices else (0.0, 0.0)
    before = int(np.searchsorted(recorded.start_ns, end_s * 1e9))
    # If the first slice begins with the run, no operations precede it.
    if begin_s * 1e9 > 1e6 or before < min(OPERATIONS_MIN, target):
        return recorded, False
    return recorded.first(before), True


#: CPU time that exceeds the cost of waits by more standard errors than this is polling.
POLLING_ERRORS_MIN = 2.0


def weight_moved(loads: Sequence[Load], latencies: Sequence[Estimate]) -> float:
    """The sum of the weights of waits with these latencies, less the sum for recorded waits."""
    return float(counts(loads) @ _weights_moved(loads, latencies))


def _weights_moved(loads: Sequence[Load], latencies: Sequence[Estimate]) -> Floats:
    return weights_of(_idle_s(loads, latencies)) - weights_of(_idle_s(loads, loads))


def spinning_s(
    runs: Sequence[PreviousRun], cpu: CpuTime, loads: Sequence[Load], cores_per_thread: float
) -> float:
    """CPU time of the run beyond the cost of waits, by previous runs with shorter waits, or 0."""
    spun_s = 0.0
    for run in runs:
        latencies = run.latencies(loads)
        if cpu.total_s is None or weight_moved(loads, latencies) >= 0:
            continue
        change = machine_change(cpu, loads, latencies, cores_per_thread)
        excess_s = cpu.total_s + change.total_s - run.cpu_s
        error_s = float(np.hypot(change.error_s, 2**0.5 * REPEATED * cpu.total_s))
        if excess_s > POLLING_ERRORS_MIN * error_s:
            spun_s = max(spun_s, excess_s)
    return spun_s


def previous_runs_change(
    runs: Sequence[PreviousRun], cpu: CpuTime, loads: Sequence[Load], latencies: Sequence[Estimate]
) -> CpuChange | None:
    """Additional CPU time of operations on the target, from the line through both runs.

    The line is over the weight of waits. CPU time grows with the weight, so the error between both
    runs is at most the distance from the nearer one; outside, CPU time has a relative error. None
    without a previous run, and if threads poll, because then the difference is not a cost of waits.
    """
    if not runs or cpu.total_s is None or cpu.spun_s:
        return None
    each_moved = _weights_moved(loads, latencies)
    moved, changes = weight_moved(loads, latencies), []
    for run in runs:
        run_moved = weight_moved(loads, run.latencies(loads))
        slope_s, share = (run.cpu_s - cpu.total_s) / run_moved, moved / run_moved
        outside = max(-share, share - 1, 0.0) / max(abs(share), 1e-9)
        errors_s = (
            # The difference of two runs on the same storage.
            2**0.5 * REPEATED * cpu.total_s * share,
            slope_s * min(abs(moved), abs(moved - run_moved)),
            WITHIN_RUN_BEYOND * cpu.total_s * outside,
        )
        error_s = float(np.linalg.norm(errors_s))
        changes.append(CpuChange(slope_s * each_moved, slope_s * moved, error_s))
    return blended(loads, changes)
