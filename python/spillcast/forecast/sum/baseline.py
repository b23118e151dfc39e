"""A query on the storage it was recorded on: its elapsed time, and what of it is temp I/O."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from spillcast.errors import EvidenceContradictory, NotSpilled, QueryEnded
from spillcast.forecast.assumptions import COLD_SHOWN, OBSERVED_MOST, SHORTER, WHOLE
from spillcast.forecast.changes import TempChanges, temp_changes
from spillcast.forecast.data_reads import data_reads
from spillcast.forecast.duckdb.compression import Compression, compression
from spillcast.forecast.load import Load, sessions, temp_load
from spillcast.forecast.observed import Observed, observed
from spillcast.forecast.refusals import check_elapsed
from spillcast.forecast.remaining import NO_HINTS, Extrapolation, RemainingWorkHints
from spillcast.forecast.result import DATA_READS, QUOTA, RECORDING, Term
from spillcast.forecast.sum.coverage import is_part
from spillcast.forecast.threads.cpus import Cpus
from spillcast.forecast.threads.overlap import Threads
from spillcast.recording import Recording
from spillcast.recording.completeness import Part, unspilled, went_on, whole_s

if TYPE_CHECKING:
    from spillcast.forecast.remaining.model import RemainingWork
    from spillcast.forecast.sum.ceiling import Ceiling


@dataclass(frozen=True)
class Baseline:
    """What a recording says of a query that takes ``whole_s``; the recording may cover a part."""

    recording: Recording
    loads: Sequence[Load]
    whole_s: float
    #: What was recorded of a run whose whole time nobody knows; None where it is known.
    part: Part | None = None
    #: What is not asked of the time outside temp I/O: names of forecast/cpu.py, for experiments;
    #: ``cost`` leaves in it what recording cost.
    without: Collection[str] = ()
    #: The CPUs on the target; None for those of the recording.
    cpus: Cpus | None = None
    #: Of a part that was recorded: what is to come, where something tells that. Loads are then
    #: those of the whole.
    to_come: "RemainingWork | None" = None
    #: How the recorded threads overlap, where that was asked for what is to come.
    recorded_threads: Threads | None = None
    #: The loads as they were recorded.
    recorded: Sequence[Load] = ()
    #: What was given to tell the whole and is not used, and why.
    unused: Sequence[str] = ()
    #: Of temp files, bytes that were written and will be read, at the least.
    unread_bytes: float = 0.0
    #: The same by each part of a sample, where the recording is one.
    parts: Sequence["Baseline"] = ()

    @classmethod
    def of(
        cls,
        recording: Recording,
        elapsed_s: float | None = None,
        without: Collection[str] = (),
        cpus: Cpus | None = None,
        known: RemainingWorkHints = NO_HINTS,
    ) -> "Baseline":
        """``elapsed_s`` is that of the whole query, by default as the recording tells.

        ``known`` is what else tells the whole of a query that was recorded in part.

        Refusal when there was no temp I/O, or none could be recorded.
        """
        recording.need_io()
        loads = temp_load(recording)
        if not loads:
            raise NotSpilled(f"{recording.path}: {unspilled(recording)}")
        least = WHOLE if went_on(recording.meta) else SHORTER
        check_elapsed(elapsed_s, recording.elapsed_s, least)
        part = Part.of(recording.meta) if elapsed_s is None else None
        whole = elapsed_s
        if whole is None:
            whole = whole_s(recording.meta) or recording.elapsed_s
        if min(whole, recording.elapsed_s) <= 0:
            raise EvidenceContradictory(
                f"{recording.path}: an elapsed time of 0 leaves nothing to forecast"
            )
        by_all = Extrapolation()
        threads: Threads | None = None
        if went_on(recording.meta):
            threads = Threads(recording, loads, cpus)
            by_all = known.extrapolate(recording, threads, elapsed_s)
        elif known.options:
            raise QueryEnded(
                f"{recording.path}: the query ended while it was recorded: nothing remains",
                f"leave {known.options} out",
            )
        remaining = by_all.work
        base = cls(
            recording=recording,
            loads=loads,
            whole_s=whole,
            part=part,
            without=without,
            cpus=cpus,
            to_come=remaining,
            recorded_threads=threads,
            recorded=loads,
            unused=by_all.unused,
            unread_bytes=by_all.unread_bytes,
        )
        if remaining is None:
            return base
        loads = remaining.loads(loads)
        return replace(base, loads=loads, whole_s=elapsed_s or remaining.whole_s(loads), part=None)

    @property
    def recorded_s(self) -> float | None:
        """What was recorded of a whole that is known; None for all of it."""
        a_part = self.part is None and is_part(self.recording, self.whole_s)
        return self.recording.elapsed_s if a_part else None

    @property
    def scale(self) -> float:
        """The whole query over what was recorded."""
        return self.whole_s / self.recording.elapsed_s

    @property
    def io_scale(self) -> float:
        """The temp I/O of the whole query over that of its loads."""
        return self.scale if self.to_come is None else 1.0

    @cached_property
    def threads(self) -> Threads:
        """How its threads overlap."""
        if self.recorded_threads is not None:
            return self.recorded_threads.of_whole(self.loads)
        return Threads(self.recording, self.loads, self.cpus)

    @cached_property
    def compression(self) -> Compression | None:
        """How its blocks were compressed, where the engine does that as far as writes are slow."""
        return compression(self.recording, self.loads)

    @cached_property
    def io_s(self) -> Sequence[float]:
        """Elapsed time that temp I/O takes, by load, without what recording cost in it."""
        recorded = zip(self._recorded_io_s, self._inside_cost_s, strict=True)
        return [recorded_s - cost_s for recorded_s, cost_s in recorded]

    @cached_property
    def _recorded_io_s(self) -> Sequence[float]:
        of_waits = self.io_scale * self.threads.recorded.of_waits
        return [of_waits * load.total_s for load in self.loads]

    @cached_property
    def _observed(self) -> Observed:
        """What recording cost; nothing where that is not to be taken off."""
        if "cost" in self.without:
            return Observed([0.0] * len(self.loads), 0.0, 0.0)
        of_recorded = observed(self.recording, self.recorded or self.loads)
        if self.to_come is None:
            return of_recorded
        each = dict(zip(map(_kind, self.recorded), of_recorded.inside_s, strict=True))
        counts = {_kind(load): load.count for load in self.recorded}
        inside_s = [
            each[_kind(load)] / counts[_kind(load)] * load.count if _kind(load) in each else 0.0
            for load in self.loads
        ]
        return replace(of_recorded, inside_s=inside_s)

    @cached_property
    def _inside_cost_s(self) -> Sequence[float]:
        """Elapsed time that recording cost within temp operations, by load."""
        waits_s = self.io_scale * self.threads.recorded.of_waits
        recorded = zip(self._recorded_io_s, self._observed.inside_s, strict=True)
        return [min(waits_s * inside_s, recorded_s) for recorded_s, inside_s in recorded]

    @cached_property
    def outside_cost_s(self) -> float:
        """Elapsed time that recording cost outside of temp operations."""
        cost_s = self.scale * self.threads.recorded.of_cpu * self._observed.outside_s
        return min(cost_s, OBSERVED_MOST * self._recorded_rest_s)

    @property
    def cost_error_s(self) -> float:
        """Standard error of that."""
        return self.scale * self.threads.recorded.of_cpu * self._observed.error_s

    @property
    def cost_s(self) -> float:
        """Elapsed time that recording cost."""
        return self.outside_cost_s + sum(self._inside_cost_s)

    @cached_property
    def changes(self) -> Sequence[TempChanges]:
        """The calls that make, resize, sync or remove its temp files."""
        return temp_changes(self.recording)

    @cached_property
    def changes_s(self) -> float:
        """Elapsed time that they take."""
        total_s = sum(change.total_s for change in self.changes)
        return self.scale * self.threads.recorded.of_waits * total_s

    @cached_property
    def remainder_s(self) -> float:
        """The elapsed time outside of all calls on temp files, without what recording cost."""
        return self._recorded_rest_s - self.outside_cost_s

    @property
    def limits_s(self) -> float:
        """What other CPUs on the target than were recorded make it longer; below 0 shorter."""
        return sum(t.forecast_s - t.baseline_s for t in self.rest if t.name != RECORDING)

    @cached_property
    def _recorded_rest_s(self) -> float:
        return max(self.whole_s - sum(self._recorded_io_s) - self.changes_s, 0.0)

    @cached_property
    def ceiling(self) -> "Ceiling":
        """The query on storage of no latency, whatever the target."""
        from spillcast.forecast.sum.ceiling import ceiling_of

        return ceiling_of(self)

    @property
    def least_drift_s(self) -> float:
        """The most that its CPU time may shrink by: cold caches never are most of what it takes."""
        return -self.remainder_s / 2

    @cached_property
    def others_s(self) -> float:
        """Of the time that threads were runnable but not scheduled, the most that others caused.

        While a quota holds a CPU back, all threads that wait for it wait for the quota.
        """
        meta, threads = self.recording.meta, self.threads
        if not (held_s := meta.cpu_limits.throttled_s):
            return meta.run_queue_others_s
        held_s *= max(threads.at_work / (threads.source.cores or 1), 1.0)
        return min(meta.run_queue_others_s, max(meta.capture.run_queue_delay_s - held_s, 0.0))

    @property
    def ready_s(self) -> float:
        """Of the remainder, at most: the time that it was runnable while others had the CPUs.

        That it waited for CPUs which its own threads had is its own, wherever temp files are. Of
        several threads each lost its share. What was lost within temp operations is in their
        latencies: where its CPU time is known, the remainder holds no more than it is longer.
        """
        most_s = self.remainder_s - (self._query_cpu_s or 0.0)
        return min(self.scale * self.others_s / self.threads.at_work, most_s)

    @cached_property
    def _query_cpu_s(self) -> float | None:
        """CPU time of the remainder; None where it is not told apart from waits."""
        cpu_s = self.recording.meta.cpu_s
        if cpu_s is None or sessions(self.recording) > 1:
            return None
        cpu_s = max(cpu_s * self.scale - self.outside_cost_s, 0.0)
        return None if cpu_s > self.remainder_s else cpu_s

    @cached_property
    def cold_data(self) -> Term | None:
        """Reads of data files that memory did not answer, in the remainder; None if negligible.

        They take as long wherever temp files are.
        """
        reads = data_reads(self.recording)
        if reads is None:
            return None
        cold_s = min(self.scale * reads.elapsed_s, self.remainder_s - (self._query_cpu_s or 0.0))
        if cold_s < COLD_SHOWN * self.whole_s:
            return None
        count, size = (
            n if n is None else round(self.scale * n) for n in (reads.count, reads.bytes)
        )
        return Term(DATA_READS, None, size, count, cold_s, cold_s)

    @cached_property
    def rest(self) -> list[Term]:
        """The remainder, which stays: CPU, cold data and other waits, CPU apart for one thread.

        But for what other CPUs on the target change. And what recording cost, which does not stay.
        """

        def stays(name: str, s: float) -> Term:
            return Term(name, None, None, None, s, s)

        cold, cpu_s = self.cold_data, self._query_cpu_s
        other_s = self.remainder_s - (cold.baseline_s if cold else 0.0)
        quota_s, quota_target_s = (self.scale * s for s in self.threads.quota_s)
        held_s = min(quota_s, other_s - (cpu_s or 0.0))
        held_target_s = max(held_s + quota_target_s - quota_s, 0.0)
        other_s -= held_s
        if cpu_s is None:
            terms = [stays("CPU and other waits", other_s)]
        else:
            terms = [stays("CPU", cpu_s), stays("other waits", other_s - cpu_s)]
        target_s = max(terms[0].baseline_s + self.scale * self.threads.cores_s, 0.0)
        terms[0] = replace(terms[0], forecast_s=target_s)
        if max(held_s, held_target_s) > 0:
            terms.append(Term(QUOTA, None, None, None, held_s, held_target_s))
        if cold is not None:
            terms.append(cold)
        if self.cost_s > 0:
            terms.append(Term(RECORDING, None, None, None, self.cost_s, 0.0))
        return terms


def _kind(load: Load) -> tuple[str, int]:
    return load.op, load.size_class_bytes
