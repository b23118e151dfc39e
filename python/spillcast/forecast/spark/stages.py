"""The stages of a simulated Spark application: when each runs, and what binds it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from spillcast.evidence.spark import Application, Stage
from spillcast.forecast.result import StageForecast

#: Share of the slots that are idle during a stage from which on neither CPU nor storage binds it.
IDLE = 0.4
FEW_TASKS, STRAGGLERS = "too few tasks", "stragglers"
#: What may bind a stage, in the order of a legend.
BOUNDS = (
    "CPU", "GC", "storage reads", "storage writes", "network", STRAGGLERS, FEW_TASKS, "other waits",
)  # fmt: skip
#: Begin, end, and sums over tasks of work and of waits for reads and writes (s).
StageRow = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class StageTimes:
    """Simulated stages by place, in seconds of a run that began at ``begin_s``."""

    rows: Mapping[int, StageRow]
    begin_s: float
    #: Makes simulated time measured time.
    scale: float
    #: Tasks that run at once.
    slots: int

    def at_s(self, place: int) -> tuple[float, float]:
        """When a stage begins and ends."""
        begin_s, end_s = (self.scale * (s - self.begin_s) for s in self.rows[place][:2])
        return begin_s, end_s

    def spans_s(self) -> dict[int, float]:
        """The elapsed time of each stage; that of several at once goes to the first of them."""
        spans, reached_s = {}, 0.0
        for place in sorted(self.rows, key=lambda place: self.rows[place][0]):
            begin_s, end_s = self.rows[place][:2]
            spans[place] = self.scale * max(end_s - max(begin_s, reached_s), 0.0)
            reached_s = max(reached_s, end_s)
        return spans

    def bound_by(self, place: int, stage: Stage) -> str:
        """Idle slots, or what its tasks spend most of their time on."""
        begin_s, end_s, work_s, read_s, write_s = self.rows[place]
        slots_s = self.slots * (end_s - begin_s)
        if slots_s > 0 and self._busy_s(begin_s, end_s) < (1 - IDLE) * slots_s:
            return FEW_TASKS if stage.task_count < self.slots else STRAGGLERS
        cpu_s, gc_s = stage.cpu_ns / 1e9, stage.gc_ms / 1e3
        remote = stage.shuffle_read_remote_bytes / max(stage.shuffle_read_bytes, 1)
        network_s = remote * stage.fetch_wait_ms / 1e3
        parts = {
            "storage reads": read_s,
            "storage writes": write_s,
            "CPU": min(cpu_s, work_s),
            "GC": min(gc_s, work_s),
            "network": min(network_s, work_s),
            "other waits": max(work_s - cpu_s - gc_s - network_s, 0.0),
        }
        return max(parts, key=lambda part: parts[part])

    def _busy_s(self, begin_s: float, end_s: float) -> float:
        """Time of tasks of all stages in a span."""
        busy_s = 0.0
        for first_s, last_s, *tasks_s in self.rows.values():
            overlap_s = min(end_s, last_s) - max(begin_s, first_s)
            if overlap_s > 0:
                busy_s += sum(tasks_s) * overlap_s / (last_s - first_s)
        return busy_s


def stage_forecasts(
    application: Application,
    places: Collection[int],
    ends: Sequence[tuple[StageTimes, StageTimes]],
    spill_bytes: Mapping[int, int],
) -> list[StageForecast]:
    """The stages in the order of the log, each midway between two cases: now and on the target."""
    spans = [(now.spans_s(), then.spans_s()) for now, then in ends]
    forecasts = []
    for place in sorted(places):
        stage = application.log.stages[place]
        at_s = [(now.at_s(place), then.at_s(place)) for now, then in ends]
        now_at_s, then_at_s = (
            (fmean(at[when][0] for at in at_s), fmean(at[when][1] for at in at_s))
            for when in (0, 1)
        )
        now, then = ends[-1]
        forecasts.append(
            StageForecast(
                id=stage.id,
                name=stage.name,
                tasks=stage.task_count,
                shuffle_read_bytes=stage.shuffle_read_bytes,
                shuffle_write_bytes=stage.shuffle_write_bytes,
                spill_bytes=spill_bytes[place],
                baseline_s=fmean(now_s[place] for now_s, _ in spans),
                forecast_s=fmean(then_s[place] for _, then_s in spans),
                baseline_at_s=now_at_s,
                forecast_at_s=then_at_s,
                baseline_bound_by=now.bound_by(place, stage),
                bound_by=then.bound_by(place, stage),
            )
        )
    return forecasts
