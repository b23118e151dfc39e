"""Captures: the sources, the options of a recording, and the account in meta.json."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.document import key
from spillcast.recording.observed import RecordedQuery, TempKind
from spillcast.units import format_bytes, format_count, format_share

#: Asks for the best source that works.
AUTO = "auto"
PRELOAD = "preload"


@dataclass(frozen=True)
class CaptureSource:
    """Describes a capture source, which has the same name in the core."""

    #: The name for ``--capture`` and meta.json, and the title for people.
    name: str
    title: str
    #: The events that its recordings do not show; may be empty.
    blind_spots: str
    #: Whether it also records waits that are not for files.
    sees_all_waits: bool = True
    #: Whether it can observe a process that is already running.
    attaches: bool = True
    #: Whether it always needs privileges.
    needs_privilege: bool = False


#: The sources by name, the best first.
SOURCES = {
    source.name: source
    for source in (
        CaptureSource("bpf", "eBPF", "", needs_privilege=True),
        CaptureSource("perf", "perf events", "removals of files and, for ordinary users, syncs"),
        CaptureSource(
            PRELOAD,
            "the preload library",
            "time runnable but not scheduled, waits for anything but files, and processes of other "
            "users",
            sees_all_waits=False,
            attaches=False,
        ),
    )
}


@dataclass(frozen=True)
class RecordOptions:
    """The options of a recording, as kept in meta.json."""

    temp_dirs: Sequence[Path] = key(
        "directories whose files count as temp files", example=[], default=()
    )
    capture: str = key("a capture source, or `auto`", example=AUTO, default=AUTO)
    duration_s: float | None = key(
        "when to stop; null for the end of the process", unit="s", example=None, default=None
    )
    slices: int | None = key(
        "slices of single waits to keep; null for all", example=None, default=None
    )
    share: bool = key(
        "whether users other than its owner may read it",
        example=False,
        default=False,
        optional=True,
    )
    force: bool = key(
        "whether it may replace an older recording",
        example=False,
        default=False,
        optional=True,
    )

    def with_absolute_paths(self) -> "RecordOptions":
        """The options with absolute paths, for a process in another directory."""
        return replace(self, temp_dirs=[path.resolve() for path in self.temp_dirs])


@dataclass(frozen=True)
class CaptureAccount:
    """The counts, losses and cost of a capture. All counts are 0 without a capture."""

    method: str = key(
        "`perf`, `preload`, or `none` if only samples were recorded; `explain` for "
        "PostgreSQL's counts, `trace` for Oracle's traces, `report` for its reports, `figures` for "
        "bare figures: these are never on disk",
        example="perf",
    )
    absent_because: str | None = key(
        "why there was no capture; the keys below and those of `machine` are then missing, and "
        "`temp`, `other_io` and `cpu_s` are null",
        example=None,
        default=None,
    )
    lost: int = key(
        "capture events lost, or, if more, calls that the kernel counted and nothing reported",
        unit="reports",
        example=0,
        default=0,
    )
    dropped: int = key(
        "single waits dropped; the seconds contain them", unit="waits", example=0, default=0
    )
    unknown_file: int = key(
        "calls on files closed before their names could be read", unit="calls", example=0, default=0
    )
    temp_copies: int = key(
        "calls of sendfile and splice between a temp file and a socket or pipe, and with preload "
        "temp files that streams of the C library (stdio) read or wrote: these make no rows",
        unit="calls",
        example=0,
        default=0,
        later=True,
    )
    temp_copied_bytes: int = key(
        "bytes moved; of streams the last position", unit="bytes", example=0, default=0, later=True
    )
    calls: int | None = key(
        "calls of the observed threads that the source reported, on any file",
        unit="calls",
        example=4211,
        later=True,
    )
    switches: int | None = key(
        "how often an observed thread left the CPU; null with preload, which does not observe that",
        unit="switches",
        example=3904,
        later=True,
    )
    tracer_cpu_s: float = key(
        "CPU time of all threads of the recorder, including its preparation; only of the reading "
        "thread if `calls` is missing",
        unit="s",
        example=0.41,
        default=0.0,
    )
    recorder_memory_bytes: int | None = key(
        "peak resident memory of the recorder", unit="bytes", example=60817408, later=True
    )
    overhead_s: float | None = key(
        "estimated cost to the observed threads: `calls` times `call_cost_s` plus `switches` times "
        "`switch_cost_s`; null if these could not be measured",
        unit="s",
        example=0.028,
        default=None,
    )
    overhead_low_s: float | None = key(
        "the same with the lower quartiles of both costs", unit="s", example=0.027, later=True
    )
    overhead_high_s: float | None = key(
        "the same with the upper quartiles", unit="s", example=0.029, later=True
    )
    call_cost_s: float | None = key(
        "added cost of an observed call: the median of paired bursts, measured on the same machine "
        "within a day; null if it could not be measured",
        unit="s",
        example=3.6e-07,
        later=True,
    )
    switch_cost_s: float | None = key(
        "the same for a context switch; null with preload too",
        unit="s",
        example=6.8e-06,
        later=True,
    )
    run_queue_delay_s: float = key(
        "time the observed threads were runnable but not scheduled",
        unit="s",
        example=0.02,
        default=0.0,
    )
    run_queue_others_s: float | None = key(
        "upper bound of the part caused by other programs: their CPU time meanwhile; the rest is "
        "the observed threads waiting for each other; null if unknown",
        unit="s",
        example=0.004,
        later=True,
    )
    io_uring: bool = key(
        "whether io_uring or libaio was used whose requests could not be observed",
        example=False,
        default=False,
    )
    io_uring_depth: int = key(
        "largest number of io_uring requests and calls that a thread had in flight at once, with "
        "requests on temp files among them; 0 without any",
        example=0,
        default=0,
        later=True,
    )
    io_uring_busy_s: float = key(
        "CPU time that threads used while one such request was in flight",
        unit="s",
        example=0.0,
        default=0.0,
        later=True,
    )
    spun_s: float | None = key(
        "CPU time in which threads only asked whether another had done its temp I/O; a part of "
        "the waits, not of `cpu_s`; null if the capture takes no samples",
        unit="s",
        example=0.8,
        later=True,
    )
    file_faults: int | None = key(
        "page faults that read a file; null if the capture does not observe them",
        unit="faults",
        example=12,
        later=True,
    )
    file_fault_s: float | None = key(
        "time the observed threads waited in these; null if the capture does not observe it",
        unit="s",
        example=0.0014,
        later=True,
    )
    mapped_temp_files: Sequence[str] = key(
        "temp files that are mapped shared", example=[], default=()
    )
    threads_sampled: tuple[int, int] | None = key(
        "number of threads observed and number of threads, if not all could be observed; null for "
        "all",
        unit="threads",
        example=None,
        later=True,
    )
    unobserved_processes: int = key(
        "processes that could not be observed: of 32 bits; with preload or by an ordinary user, of "
        "another user, such as of sudo or setuid; with preload, static",
        unit="processes",
        example=0,
        default=0,
        later=True,
    )

    @property
    def shows_run_queue(self) -> bool:
        """Whether all time of a thread between two recorded waits is running or runnable."""
        source = SOURCES.get(self.method)
        return source is not None and source.sees_all_waits and not self.lost


@dataclass(frozen=True)
class Temp:
    """Temp I/O of the whole run, over all threads."""

    reads: int = key("reads of temp files", example=1757, default=0)
    writes: int = key("writes", example=1758, default=0)
    bytes: int = key("bytes moved", unit="bytes", example=921108480, default=0)
    total_s: float = key(
        "sum of their durations over all threads", unit="s", example=3.9, default=0.0
    )

    @property
    def operations(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    def __add__(self, more: "Temp") -> "Temp":
        return Temp(
            self.reads + more.reads,
            self.writes + more.writes,
            self.bytes + more.bytes,
            # Both are whole nanoseconds.
            round(self.total_s + more.total_s, 9),
        )


@dataclass(frozen=True)
class OtherIO:
    """I/O on files other than temp files."""

    count: int = key(
        "calls on other files; for PostgreSQL without those of its I/O workers",
        example=158,
        default=0,
    )
    total_s: float = key("sum of their durations", unit="s", example=0.0009, default=0.0)

    def __add__(self, more: "OtherIO") -> "OtherIO":
        return OtherIO(self.count + more.count, round(self.total_s + more.total_s, 9))


#: Counts of an account that are divided among the parts of a run.
SHARED = (
    *("lost", "dropped", "unknown_file", "temp_copies", "temp_copied_bytes", "calls", "switches"),
    *("tracer_cpu_s", "overhead_s", "overhead_low_s", "overhead_high_s", "run_queue_delay_s"),
    *("run_queue_others_s", "spun_s", "file_fault_s"),
)


def share_of(capture: CaptureAccount, share: float) -> CaptureAccount:
    """The account of a part of a run, with the ``share`` of the counts in SHARED."""
    shares: dict[str, Any] = {
        name: round(value * share) if isinstance(value, int) else value * share
        for name in SHARED
        if (value := getattr(capture, name)) is not None
    }
    return replace(capture, **shares)


#: The kind of MySQL's temporary tables on disk, whose pages InnoDB's threads write.
TABLES_KIND = "temporary tables of a session"
#: Shares of missing calls above which there is a warning, and above which there is no forecast.
SHARE_REPORTED, SHARE_MAX = 0.01, 0.2
#: The smallest share that is shown: smaller shares are rounded up.
SHARE_SHOWN = 0.001
#: The resolution of the start times of processes.
TICK_S = 0.01


@dataclass(frozen=True)
class MissingIo:
    """A bound of the temp I/O that is missing from a recording."""

    #: Upper bound of the share of all temp I/O calls that are missing from the recording.
    calls_share: float
    #: Descriptions of the unobserved calls; empty if nothing is missing.
    causes: tuple[str, ...]
    #: Description of how to observe them.
    remedy: str

    @property
    def notable(self) -> bool:
        """Whether enough may be missing to warn the user."""
        return self.calls_share > SHARE_REPORTED

    @property
    def excessive(self) -> bool:
        """Whether too much may be missing for a forecast."""
        return self.calls_share > SHARE_MAX

    @property
    def text(self) -> str:
        """A clause on the share that may be missing, and the causes."""
        share = self.calls_share
        shown = format_share(share) if self.notable else format_share(max(share, SHARE_SHOWN), 1)
        return f"up to {shown} of the temp I/O is missing: {'; '.join(self.causes)}"


def missing_io_of(
    capture: CaptureAccount, temp: Temp, kinds: Sequence[TempKind], query: RecordedQuery | None
) -> MissingIo:
    """The bound for a capture, from its counts."""
    possible = [*_countable(capture, temp), *_countable_in_server(query, temp, kinds)]
    counted = [(calls, text) for calls, text in possible if calls]
    seen, missed = temp.operations, sum(calls for calls, _ in counted)
    unbounded = list(_unbounded(capture))
    return MissingIo(
        1.0 if unbounded else missed / max(seen + missed, 1),
        (*unbounded, *(text for _, text in counted)),
        _remedy(capture, query) if unbounded or counted else "",
    )


def _unbounded(capture: CaptureAccount) -> Iterator[str]:
    """Causes that may hide any amount of temp I/O."""
    if capture.mapped_temp_files:
        names = ", ".join(capture.mapped_temp_files[:3])
        yield f"temp files are memory-mapped ({names}), which makes no system call"
    if capture.io_uring:
        yield "the process uses io_uring or libaio, whose requests were not observed"
    if count := capture.unobserved_processes:
        processes = format_count(count, "process")
        others = {"preload": "of another user, static or ", "perf": "of another user or "}
        yield f"{processes} could not be observed, {others.get(capture.method, '')}of 32 bits"


def _countable(capture: CaptureAccount, temp: Temp) -> Iterator[tuple[float, str]]:
    """The number of calls that may be missing, with the cause."""
    yield capture.lost, f"{format_count(capture.lost, 'capture event')} lost"
    unknown = format_count(capture.unknown_file, "call")
    yield capture.unknown_file, f"{unknown} on files closed before their names could be read"
    if capture.threads_sampled is not None:
        observed, threads = capture.threads_sampled
        text = f"only {observed:,} of {format_count(threads, 'thread')} observed"
        yield temp.operations * (threads / max(observed, 1) - 1), text
    if capture.temp_copies:
        size = format_bytes(capture.temp_copied_bytes)
        mean_bytes = max(temp.bytes / max(temp.operations, 1), 1.0)
        calls = max(capture.temp_copies, capture.temp_copied_bytes / mean_bytes)
        how = "copied to or from sockets or pipes by sendfile or splice"
        if capture.method == "preload":
            how += ", or moved by streams of the C library (stdio)"
        yield calls, f"{size} {how}, not timed"


def _countable_in_server(
    query: RecordedQuery | None, temp: Temp, kinds: Sequence[TempKind]
) -> Iterator[tuple[float, str]]:
    """The number of calls by other threads and processes of a server, with the cause."""
    if query is None:
        return
    recorded = sum(kind.reads + kind.writes for kind in kinds if kind.kind == TABLES_KIND)
    calls = max((query.table_calls or 0) - recorded, 0)
    text = f"{format_count(calls, 'call')} on temporary tables by other threads of the server"
    yield calls, text
    mean_calls = temp.operations / (1 + len(query.workers))
    # Workers that started before the recording are excluded, as is the session's earlier work.
    late = [
        worker for worker in query.workers if worker.late and (worker.started_s or 0) >= -TICK_S
    ]
    missed = [mean_calls if worker.missed is None else worker.missed.calls for worker in late]
    workers = format_count(len(late), "parallel worker")
    yield sum(missed), f"{workers} attached when temp I/O may have begun"
    workers = format_count(query.workers_not_attached, "parallel worker")
    yield mean_calls * query.workers_not_attached, f"{workers} not attached"


def _remedy(capture: CaptureAccount, query: RecordedQuery | None) -> str:
    if capture.mapped_temp_files:
        return "no capture source observes memory-mapped temp files"
    if capture.io_uring:
        unseen = "no capture source observes these requests"
        if capture.method != "bpf":
            unseen = "--capture bpf, as root, observes io_uring, no capture source libaio"
        return (
            f"{unseen}; MySQL and MariaDB use neither with "
            "innodb_use_native_aio = OFF, and record --mysql observes a session that uses neither"
        )
    if capture.unobserved_processes and capture.method != "preload":
        others = "record as root; " if capture.method == "perf" else ""
        return f"{others}no capture source observes programs of 32 bits"
    if query is not None and query.table_calls:
        return "record the server by --pid, with innodb_use_native_aio = OFF"
    if capture.method != "bpf":
        other = ", or a command with --capture preload" if capture.method == "perf" else ""
        return f"record again with --capture bpf, as root{other if query is None else ''}"
    return "record again, with less load on the machine" if capture.lost else "record again"
