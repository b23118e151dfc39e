"""A workload: all data that a forecast needs from the evidence of a run.

It is read once, and contains plain values and arrays. It depends on no file and no engine, so
``project`` treats recordings, plans, reports and stated figures in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spillcast.columns import Floats
from spillcast.evidence.counts import Unknown
from spillcast.forecast.result import Remaining, SpillSpread
from spillcast.forecast.workload.load import NO_LATENCY, Load
from spillcast.forecast.workload.threads import Threads
from spillcast.recording.calibration import WaitCost
from spillcast.recording.capture import MissingIo
from spillcast.recording.completeness import CaptureCheck, RecordedPart
from spillcast.recording.meta import CpuCache
from spillcast.recording.observed import CountedStatement, TempPlace
from spillcast.recording.thread_trace import Bursts, TempOperations
from spillcast.storage.model import Estimate

if TYPE_CHECKING:
    from spillcast.evidence.postgres.work_memory import PlanSpills
    from spillcast.forecast.remaining.model import RemainingWork
    from spillcast.forecast.workload.duckdb import Compression

#: A recording of less than this share of the elapsed time covers only a part of the run. Repeated
#: runs differ by the rest.
WHOLE_MIN = 0.95
#: Weaknesses that concern a smaller share of the time or I/O are not reported.
SHARE_REPORTED = 0.05
#: Kinds of evidence, by which verified forecasts are looked up: a recording of an entire query; a
#: recording of a part in slices spread over the run, in one stretch, or in one stretch that read
#: back little of the written bytes; counts only; a part of a query whose rest is only estimated.
KINDS = ("recording", "slices", "stretch", "unread", "plan", "part")
#: Evidence without known gaps.
NOTHING_MISSING = MissingIo(0.0, (), "")


def cpu_between_s(cpu_s: float | None, elapsed_s: float, io_s: float, operations: int) -> float:
    """Mean CPU time between two temp operations; if not measured, all time between them."""
    if cpu_s is None:
        cpu_s = max(elapsed_s - io_s, 0.0)
    return cpu_s / max(operations, 1)


@dataclass(frozen=True)
class TempChanges:
    """Calls of one kind on temp files that move no bytes, over the recorded time."""

    #: None if unknown.
    event: str | None
    count: int
    total_s: float


@dataclass(frozen=True)
class DataReads:
    """Reads of data files that the page cache did not serve, over the recorded time."""

    #: Calls and their bytes; None if only page faults or other processes read.
    count: int | None
    bytes: int | None
    #: Their part of the elapsed time: for concurrent threads, the time divided by their number.
    elapsed_s: float


@dataclass(frozen=True)
class CaptureOverhead:
    """The cost of the capture: time lost by all observed threads together."""

    #: Within the timed interval of one temp operation.
    operation_s: float = 0.0
    #: Outside all timed intervals, and its standard error.
    outside_s: float = 0.0
    error_s: float = 0.0


@dataclass(frozen=True)
class PreviousRun:
    """CPU time outside of I/O calls, and the mean wait of temp operations by op, s."""

    cpu_s: float
    wait_s: Mapping[str, float]

    def latencies(self, loads: Sequence[Load]) -> list[Estimate]:
        """Latencies of these loads on the storage of the run."""
        return [replace(NO_LATENCY, mean_s=self.wait_s.get(load.op, load.mean_s)) for load in loads]


@dataclass(frozen=True, kw_only=True)
class CpuTime:
    """CPU time of a run, and measurements of how waits change it."""

    #: Of all threads outside I/O calls; None if not measured.
    total_s: float | None = None
    #: See ``cpu_between_s``.
    between_s: float = 0.0
    #: CPU cost of a wait on this machine; None if it was not calibrated.
    wait_cost: WaitCost | None = None
    caches: Sequence[CpuCache] = ()
    #: CPU time from each kept temp operation to the next of its thread; None if not recorded.
    bursts: Bursts | None = None
    #: Runs of the same query on other storage.
    previous_runs: Sequence[PreviousRun] = ()
    #: The part of ``total_s`` that is spinning, by comparison with previous runs.
    spun_s: float = 0.0
    #: The kept temp operations in order, if a rehearsal is compared with them.
    operations: TempOperations | None = None
    #: Time that threads were runnable without a CPU, and the most due to other processes.
    run_queue_s: float = 0.0
    run_queue_others_s: float = 0.0
    #: Time that a CPU quota throttled the run; None without a quota.
    throttled_s: float | None = None
    #: A configured quota that was not in force, because the run used more CPU time than it allows.
    exceeded_quota_cpus: float | None = None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Weaknesses of the evidence."""

    unseen: MissingIo = NOTHING_MISSING
    contradictions: Sequence[CaptureCheck] = ()
    #: Concurrent io_uring requests, and CPU time of their threads meanwhile; 0 if negligible.
    io_uring_depth: int = 0
    io_uring_busy_s: float = 0.0
    #: Page faults that read files for an unknown time; 0 if negligible.
    file_faults: int = 0
    #: The reason why a spill may be unrecognised.
    unrecognised: str | None = None
    #: Time of I/O on other files, if longer than temp I/O and notable.
    other_io_s: float | None = None
    #: Whether wake-ups between threads were recorded.
    wakings_seen: bool = False
    #: Whether all waits of the recording were kept.
    all_waits: bool = False
    #: The engine whose counts are used; empty for a recording.
    engine: str = ""
    #: Gaps in the source of counts, as sentences.
    notes: Sequence[str] = ()
    #: The storage whose latencies are assumed for today's temp files.
    timed_on: str | None = None
    #: Why no I/O was recorded.
    absent_because: str | None = None
    #: The quantity for which only bounds are known.
    unknown: Unknown | None = None
    #: Whether the unknown quantity is the time of temp I/O, with bounds far apart.
    time_unknown: bool = False
    #: Whether the unknown quantity is the number of processes that shared temp I/O.
    processes_unknown: bool = False


@dataclass(frozen=True)
class WaitSample:
    """The sample of a large recording's waits that the workload is made from."""

    rows: int
    of_rows: int
    slices: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """A run on today's storage. The evidence may cover only a part of the query."""

    #: Name of the evidence.
    name: str
    #: Elapsed time covered by the evidence, and that of the entire query.
    elapsed_s: float
    total_s: float
    #: One of KINDS.
    kind: str
    #: Temp I/O, extrapolated to the entire query if an estimate of what remains is known.
    loads: Sequence[Load]
    recorded_loads: Sequence[Load]
    threads: Threads
    #: The recorded part of a query of unknown elapsed time; None if that is known.
    part: RecordedPart | None = None
    remaining: "RemainingWork | None" = None
    #: Hints about the entire query that are not used, and why.
    unused_hints: Sequence[str] = ()
    #: Variation of the spill from run to run; None if unknown.
    spill_spread: SpillSpread | None = None
    #: The remaining work from ``remaining``, else its lower bound; None for an entire query.
    to_come: Remaining | None = None
    #: Time (ns) in temp I/O: a row per slice or second, a column per op. None for counts.
    io_ns_by_stretch: Floats | None = None
    cpu: CpuTime = CpuTime()
    changes: Sequence[TempChanges] = ()
    data_reads: DataReads | None = None
    capture_overhead: CaptureOverhead = CaptureOverhead()
    #: Time in which threads waited for memory, over the recorded time; 0 if negligible.
    memory_stalled_s: float = 0.0
    compression: "Compression | None" = None
    #: Size of the temp files, and bytes written to them; None if unknown.
    held_bytes: int = 0
    written_bytes: int | None = None
    #: Devices that held temp files, and the host.
    temp_places: Sequence[TempPlace] = ()
    host: str | None = None
    quality: Quality = Quality()
    statement: CountedStatement | None = None
    #: Its subject within a sentence, if it is not one query.
    subject: str | None = None
    plan: "PlanSpills | None" = None
    #: The workload at each bound of ``quality.unknown``.
    at_bounds: "Sequence[Workload]" = ()
    sample: WaitSample | None = None
    #: The workload by each part of the sample.
    sample_parts: "Sequence[Workload]" = ()

    @property
    def is_part(self) -> bool:
        """Whether the evidence covers a part of the query."""
        return self.elapsed_s < WHOLE_MIN * self.total_s

    @property
    def recorded_s(self) -> float | None:
        """Elapsed time of the recorded part of a query of known elapsed time; None for all."""
        return self.elapsed_s if self.part is None and self.is_part else None

    @property
    def scale(self) -> float:
        """Elapsed time of the entire query over that of the evidence."""
        return self.total_s / self.elapsed_s

    @property
    def io_scale(self) -> float:
        """Temp I/O of the entire query over that of ``loads``."""
        return self.scale if self.remaining is None else 1.0
