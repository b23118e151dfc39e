"""Former runs of a query on other storage: what waits cost it, and which CPU time was spinning.

Two runs of a query with the same settings do the same work. The CPU time that the run with longer
waits takes more is what waits cost, or time in which threads asked again and again whether others
had done their I/O. Waits cost no more than the machine's calibration says, give or take its error:
CPU time beyond that follows the time of temp I/O, and is a wait.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spillcast.evidence.counts import Counts
from spillcast.forecast.assumptions import WITHIN_RUN_BEYOND
from spillcast.forecast.cpu import REPEATED, CpuChange, blended, machine_change
from spillcast.forecast.load import NO_LATENCY, Latency, Load, counts
from spillcast.forecast.workload import CpuTime
from spillcast.recording import Recording
from spillcast.recording.calibration import weights_of

#: Runs that differ by more of their temp operations did other work.
SAME_OPERATIONS = 0.2
#: Waits of two runs whose mean weights differ by less tell nothing: 0.5 is 1 and 1.7 ms.
WEIGHT_MIN = 0.5
#: Standard errors beyond which CPU time is no cost of waits.
SURE = 2.0


@dataclass(frozen=True)
class FormerRun:
    """CPU time outside of I/O calls, and the mean wait of temp operations by op, s."""

    cpu_s: float
    wait_s: Mapping[str, float]

    def latencies(self, loads: Sequence[Load]) -> list[Latency]:
        """Latencies of these loads on the storage of the run."""
        return [replace(NO_LATENCY, mean_s=self.wait_s.get(load.op, load.mean_s)) for load in loads]


def former_runs(runs: Iterable[Recording | Counts], recording: Recording) -> list[FormerRun]:
    """Of other runs of its query, those that tell something of a recording's CPU time."""
    former = [_former_run(run, recording) for run in runs if isinstance(run, Recording)]
    return [run for run in former if run is not None]


def _former_run(former: Recording, recording: Recording) -> FormerRun | None:
    """None where it did other temp I/O, or took about as long for it."""
    from spillcast.forecast.recorded_io import temp_load

    if former.meta.cpu_s is None:
        return None
    loads, recorded = temp_load(former), temp_load(recording)
    operations, recorded_operations = (
        sum(load.count for load in each) for each in (loads, recorded)
    )
    if abs(operations - recorded_operations) > SAME_OPERATIONS * recorded_operations:
        return None
    wait_s = {}
    for op in {load.op for load in loads}:
        of_op = [load for load in loads if load.op == op]
        wait_s[op] = sum(load.total_s for load in of_op) / sum(load.count for load in of_op)
    run = FormerRun(former.meta.cpu_s, wait_s)
    apart = abs(_weight(recorded, run.latencies(recorded)) - _weight(recorded))
    return None if apart < WEIGHT_MIN * recorded_operations else run


def _weight(loads: Sequence[Load], latencies: Sequence[Latency] | None = None) -> float:
    """The sum of the weights of waits, as recorded or with these latencies."""
    means_s = [load.mean_s for load in loads]
    if latencies is not None:
        means_s = [latency.mean_s for latency in latencies]
    return float(counts(loads) @ weights_of(np.array(means_s)))


def spinning_s(
    runs: Sequence[FormerRun], cpu: CpuTime, loads: Sequence[Load], cores_per_thread: float
) -> float:
    """CPU time of the run beyond what waits cost, by former runs with shorter waits; 0 if none."""
    spun_s = 0.0
    for run in runs:
        latencies = run.latencies(loads)
        if cpu.total_s is None or _weight(loads, latencies) >= _weight(loads):
            continue
        change = machine_change(cpu, loads, latencies, cores_per_thread)
        excess_s = cpu.total_s + change.total_s - run.cpu_s
        error_s = float(np.hypot(change.error_s, 2**0.5 * REPEATED * cpu.total_s))
        if excess_s > SURE * error_s:
            spun_s = max(spun_s, excess_s)
    return spun_s


def former_change(
    runs: Sequence[FormerRun],
    cpu: CpuTime,
    loads: Sequence[Load],
    latencies: Sequence[Latency],
) -> CpuChange | None:
    """CPU time that operations take more on the target, on the line through both runs.

    The line is over the weight of waits. CPU time grows with it, so that between both runs the line
    is off by no more than it goes from the nearer one; outside of them CPU time may move by a share
    of its own. None without a former run, and where CPU time was found to be spinning, for then
    both runs do not tell what waits cost.
    """
    if not runs or cpu.total_s is None or cpu.spun_s:
        return None
    count = counts(loads)
    target, recorded = (
        weights_of(np.array([each.mean_s for each in means])) for means in (latencies, loads)
    )
    moved = float(count @ (target - recorded))
    changes = []
    for run in runs:
        former = _weight(loads, run.latencies(loads)) - _weight(loads)
        slope_s, share = (run.cpu_s - cpu.total_s) / former, moved / former
        outside = max(-share, share - 1, 0.0) / max(abs(share), 1e-9)
        errors_s = (
            # Two runs on the same storage differ.
            2**0.5 * REPEATED * cpu.total_s * share,
            slope_s * min(abs(moved), abs(moved - former)),
            WITHIN_RUN_BEYOND * cpu.total_s * outside,
        )
        error_s = float(np.linalg.norm(errors_s))
        changes.append(CpuChange("history", slope_s * (target - recorded), count, error_s))
    return replace(blended(loads, changes), source="history")
