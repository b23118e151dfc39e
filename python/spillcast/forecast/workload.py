"""A workload: what a forecast needs to know of a run, read once from its evidence.

Everything below is plain values and arrays. Nothing in it names a file to read or an engine, so
that ``project`` works alike on recordings, plans, reports and stated figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spillcast.evidence.counts import Unknown
from spillcast.forecast.load import Load
from spillcast.forecast.result import Remaining, SpillSpread
from spillcast.forecast.threads.overlap import RecordedThreads, Threads
from spillcast.forecast.work_memory import Spill
from spillcast.recording.bursts import Bursts, TempOperations
from spillcast.recording.calibration import WaitCost
from spillcast.recording.capture import Unseen
from spillcast.recording.completeness import Check, Part
from spillcast.recording.meta import CpuCache
from spillcast.recording.observed import TempPlace
from spillcast.recording.server_meta import Statement

if TYPE_CHECKING:
    from spillcast.forecast.cpu import FormerRun
    from spillcast.forecast.duckdb import Compression
    from spillcast.forecast.remaining.model import RemainingWork

#: Kinds of evidence: of an entire query; of a part of it, in slices of all of it, in one stretch,
#: or in one that hardly read again what it wrote; counts alone; of a part whose whole is told
#: neither by its elapsed time nor by a previous run.
KINDS = ("recording", "slices", "stretch", "unread", "plan", "part")
#: Nothing is known to be missing.
NOTHING_UNSEEN = Unseen(0.0, 0.0, (), "")


def cpu_between_s(cpu_s: float | None, elapsed_s: float, io_s: float, operations: int) -> float:
    """CPU time between two temp operations; where it was not measured, all time between them."""
    if cpu_s is None:
        cpu_s = max(elapsed_s - io_s, 0.0)
    return cpu_s / max(operations, 1)


@dataclass(frozen=True)
class TempChanges:
    """Calls of one kind that make, resize, sync or remove temp files, over the recorded time."""

    #: None where the kind is not known.
    event: str | None
    count: int
    total_s: float


@dataclass(frozen=True)
class DataReads:
    """Reads of data files that memory did not answer, over the recorded time."""

    #: Calls, and bytes they moved; None where there was none, and others or page faults read.
    count: int | None
    bytes: int | None
    #: Elapsed time that they took: that of all threads, where these worked side by side.
    elapsed_s: float


@dataclass(frozen=True)
class CaptureOverhead:
    """Seconds that the observed threads lost to the capture, all together."""

    #: Within the timed interval of a temp operation.
    operation_s: float = 0.0
    #: Outside of these, and its standard error.
    outside_s: float = 0.0
    error_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CpuTime:
    """CPU time of a run, and what is known of how waits change it."""

    #: Of all threads outside I/O calls; None where it was not measured.
    total_s: float | None = None
    #: As of ``cpu_between_s``.
    between_s: float = 0.0
    #: What a wait costs on the machine; None where it was not calibrated.
    wait_cost: WaitCost | None = None
    caches: Sequence[CpuCache] = ()
    #: From each kept temp operation to the next of its thread; None where it was not recorded.
    bursts: Bursts | None = None
    #: Runs of the same query on other storage.
    former: "Sequence[FormerRun]" = ()
    #: Of ``total_s``, what former runs tell to be spinning.
    spun_s: float = 0.0
    #: The kept temp operations in their order, where a rehearsal is set beside them.
    operations: TempOperations | None = None
    #: Time that threads were ready without a CPU, and the most of it that other processes caused.
    run_queue_s: float = 0.0
    run_queue_others_s: float = 0.0
    #: Time that a CPU quota throttled the run; None without a quota.
    throttled_s: float | None = None
    #: A quota that was not in force, for the run had more CPU time.
    exceeded_quota_cpus: float | None = None


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What weakens the evidence."""

    unseen: Unseen = NOTHING_UNSEEN
    contradictions: Sequence[Check] = ()
    #: Requests of io_uring at once, and other work of the threads while these were under way; 0
    #: where that is a small part of their time.
    io_uring_depth: int = 0
    io_uring_busy_s: float = 0.0
    #: Page faults that read files, of which it is not known how long they took; 0 if negligible.
    file_faults: int = 0
    #: Why a spill may not have been recognised.
    unrecognised: str | None = None
    #: I/O on other files, where it took more than temp I/O and a notable time.
    other_io_s: float | None = None
    #: Whether it was recorded which threads wait for each other.
    wakings_seen: bool = False
    #: Whether single waits were kept of the entire recording.
    all_waits: bool = False
    #: What the source of counts does not contain, in sentences.
    notes: Sequence[str] = ()
    #: The storage whose latencies are assumed.
    timed_on: str | None = None
    #: Why no I/O was recorded.
    absent_because: str | None = None
    #: The quantity that has only bounds.
    unknown: Unknown | None = None
    #: Whether the time of temp I/O has only bounds, which are far apart.
    time_unknown: bool = False
    #: Whether the number of processes that shared temp I/O has only bounds.
    processes_unknown: bool = False


@dataclass(frozen=True)
class WaitSample:
    """Which of the single waits of a large recording are in the workload."""

    rows: int
    of_rows: int
    slices: int


@dataclass(frozen=True)
class PlanSpills:
    """The nodes of a plan that spill, and the work memory that they had and could have."""

    spills: Sequence[Spill]
    #: None where it is not known.
    current_bytes: int | None
    available_bytes: int | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """A run on the storage of today. The evidence may cover a part of the query."""

    #: The name of the evidence.
    name: str
    #: Elapsed time that the evidence covers, and that of the entire query.
    elapsed_s: float
    total_s: float
    #: One of KINDS, by which verified forecasts like it are looked up.
    kind: str
    #: The temp I/O of the evidence, extrapolated where something tells what remains.
    loads: Sequence[Load]
    recorded_loads: Sequence[Load]
    recorded_threads: RecordedThreads
    #: What was recorded of a run whose entire time is not known; None where it is.
    part: Part | None = None
    remaining: "RemainingWork | None" = None
    #: What was given to tell the entire query and is not used, and why.
    unused_hints: Sequence[str] = ()
    #: How far its spill differs from run to run; None where nothing shows it.
    spill_spread: SpillSpread | None = None
    #: What is at least to come of a query whose entire work is not known.
    min_remaining: Remaining | None = None
    #: Of a part: time (ns) in temp I/O, a row for each slice or second, a column for each op.
    io_ns_by_stretch: NDArray[np.float64] | None = None
    cpu: CpuTime = CpuTime()
    changes: Sequence[TempChanges] = ()
    data_reads: DataReads | None = None
    capture_overhead: CaptureOverhead = CaptureOverhead()
    compression: "Compression | None" = None
    #: Size of the temp files, and bytes written to them; None where that is not known.
    held_bytes: int = 0
    written_bytes: int | None = None
    #: Devices that held temp files, and the host.
    temp_places: Sequence[TempPlace] = ()
    host: str | None = None
    quality: Quality = Quality()
    statement: Statement | None = None
    plan: PlanSpills | None = None
    #: The workload at each bound of what has only bounds.
    at_bounds: "Sequence[Workload]" = ()
    sample: WaitSample | None = None
    #: The same by each part of the sample.
    sample_parts: "Sequence[Workload]" = ()

    @property
    def counted(self) -> bool:
        """Whether only counts are known, and no single waits."""
        return self.recorded_threads.counted

    @property
    def threads(self) -> Threads:
        """The simulation of its threads."""
        return self.recorded_threads.simulation

    @property
    def is_part(self) -> bool:
        """Whether the evidence covers a part of the query."""
        return self.io_ns_by_stretch is not None

    @property
    def scale(self) -> float:
        """The entire query over what was recorded."""
        return self.total_s / self.elapsed_s

    @property
    def io_scale(self) -> float:
        """The temp I/O of the entire query over that of its loads."""
        return self.scale if self.remaining is None else 1.0

    def moved_bytes(self, op: str) -> int:
        """Bytes that the recorded reads or writes moved."""
        return sum(load.bytes for load in self.recorded_loads if load.op == op)
