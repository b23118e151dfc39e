"""The elapsed time of a workload today, broken down: temp I/O, changes of temp files, the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillcast.forecast.assumptions import COLD_SHOWN, OBSERVED_MOST
from spillcast.forecast.result import DATA_READS, QUOTA, RECORDING, Term
from spillcast.forecast.workload import Workload, per_workload


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
