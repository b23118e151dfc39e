"""The document meta.json: the run, its machine and engine, the capture and the kept rows."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from spillcast import _core
from spillcast.document import key, read, written
from spillcast.errors import EvidenceUnsuited, PathUnusable, SchemaUnsupported
from spillcast.gate import object_of, reading
from spillcast.recording.calibration import MachineCalibration
from spillcast.recording.capture import PRELOAD, MissingIo, RecordOptions, missing_io_of
from spillcast.recording.capture import CaptureAccount as CaptureAccount
from spillcast.recording.capture import OtherIO as OtherIO
from spillcast.recording.capture import Temp as Temp
from spillcast.recording.observed import (
    CountedStatement,
    CpuLimits,
    EarlierWork,
    RecordedQuery,
    Sampling,
    Server,
    SizedFile,
    TempKind,
    TempPlace,
)
from spillcast.text import is_utf8

#: The plan that PostgreSQL's EXPLAIN gave with the actual counts.
PLAN_FILE = "plan.json"
#: PostgreSQL's estimated plan of a query that still ran when its recording ended.
ESTIMATE_FILE = "estimate.json"
#: Rows of pg_stat_statements for earlier calls of the same statement.
CALLS_FILE = "former_calls.json"
RECORDING_SCHEMA = "spillcast.recording/1"
#: A process had worked before its recording if its CPU time until then exceeds this share of the
#: recorded time, or its bytes until then this share of the recorded bytes.
WORKED = 0.1
_RECORD_AGAIN_HINT = "record again"
#: The cause of a recording's end. After ``duration``, ``interrupt``, ``failure`` the run goes on.
EndedBy = Literal["end", "error", "duration", "interrupt", "failure"]


@dataclass(frozen=True)
class ObservedEngine:
    """The observed engine and query. ``settings`` holds all keys that are not fields."""

    name: str = key("`process`, or the engine's name", example="duckdb")
    version: str | None = key("its version", example="18.6", optional=True)
    server: Server | None = key("", optional=True)
    pid: int | None = key("process id", example=4711, optional=True)
    command: Sequence[str] | None = key(
        "arguments of the process, without secrets", example=["duckdb"], optional=True
    )
    query: str | None = key(
        "text of the query, without secrets, cut at `track_activity_query_size`", optional=True
    )
    queryid: str | None = key(
        "identifier of the query, as in pg_stat_statements; absent if the server computes none",
        example="-2715243170932466837",
        optional=True,
    )
    sql: str | None = key("text of a query of spillcast's own experiments", optional=True)
    settings: Mapping[str, Any] = key("", rest=True)

    def __post_init__(self) -> None:
        if not isinstance(self.settings.get("plan"), Mapping | None):
            raise ValueError("engine.plan is not an object")

    @property
    def statement(self) -> CountedStatement | None:
        """The query as one call of a statement; None if text and identifier are unknown."""
        query = self.query or None
        if query is None and self.queryid is None:
            return None
        return CountedStatement(self.queryid, query, 1, 1)

    @property
    def plan_file(self) -> str | None:
        """The name of the plan's file beside meta.json; None without one."""
        file = (self.settings.get("plan") or {}).get("file")
        return None if file is None else str(file)


NO_ENGINE = ObservedEngine("process")


@dataclass(frozen=True)
class CpuCache:
    """A core's private cache, or its usual share of all caches."""

    bytes: int = key("its size", unit="bytes", example=2097152)
    warm_ns: int = key("CPU time to read all of it while warm", unit="ns", example=38000)
    cold_ns: Sequence[tuple[int, int]] = key(
        "extra CPU time after waits: wait, extra", unit="ns", example=[[2000000, 12000]]
    )


@dataclass(frozen=True)
class Machine:
    """The machine of the run; None for unknown values. Without a capture all values are unknown."""

    host: str | None = key("host name; null if unknown, like all keys below", default=None)
    kernel: str | None = key("release of the kernel", default=None)
    cpus: int | None = key("CPUs", example=2, default=None)
    memory_bytes: int | None = key("memory", unit="bytes", default=None)
    memory_available_bytes: int | None = key("available memory", unit="bytes", default=None)
    swap_bytes: int | None = key("swap", unit="bytes", default=None)
    caches: Sequence[CpuCache] = key(
        "a core's private cache, and all the cache that it usually gets; empty if there is a "
        "calibration",
        default=(),
    )
    calibration: MachineCalibration | None = key(
        "result of `spillcast calibrate`; null if it was not run", later=True
    )

    @property
    def is_current(self) -> bool:
        """Whether it is the machine of this process."""
        return self.host == platform.node()


def describe_machine() -> Machine:
    """The machine of this process, without its caches."""
    return read(Machine, json.loads(_core.describe_machine()))


@dataclass(frozen=True)
class Memory:
    """The memory of the observed processes, in bytes."""

    limit_bytes: int | None = key(
        "limit of the process's memory cgroup with the least room; null for none",
        unit="bytes", example=None, default=None,
    )  # fmt: skip
    peak_rss_bytes: int | None = key(
        "peak of the resident memory of the process and its child processes, summed",
        unit="bytes", example=441450496, default=None,
    )  # fmt: skip
    group_held_bytes: int | None = key(
        "peak memory of the cgroup with that limit, without file pages; null for none",
        unit="bytes",
        example=None,
        later=True,
    )
    stalled_s: float | None = key(
        "time in which a thread of its memory cgroup, or of the host where cgroups do not show it, "
        "waited for memory; null if unknown",
        unit="s", example=0.0, later=True,
    )  # fmt: skip


@dataclass(frozen=True)
class RowSums:
    """The sums of the rows beside meta.json, which show whether the rows are complete."""

    waits_bytes: int = key("bytes of the single waits kept", unit="bytes", example=921108480)
    waits_ns: int = key("their durations", unit="ns", example=3900000000)
    seconds_rows: int = key("rows of the seconds", unit="rows", example=112)
    seconds_count: int = key("waits that they count", unit="waits", example=3515)
    seconds_bytes: int = key("bytes that they count", unit="bytes", example=921108480)
    seconds_ns: int = key("durations that they count", unit="ns", example=3900000000)


@dataclass(frozen=True)
class KeptWaits:
    """The single waits that were kept."""

    rows: int = key("raw waits kept", unit="waits", example=3515)
    rows_seen: int = key("and seen", unit="waits", example=3515)
    slices_s: Sequence[tuple[float, float]] | None = key(
        "start and end of each slice kept; null for all", unit="s", example=None
    )
    because: str | None = key(
        "why waits that should have been kept are missing, such as a full disk",
        example=None,
        optional=True,
    )
    slices_of_all: bool = key(
        "for a cut recording, never on disk: whether its slices are spread over the whole run",
        default=False,
        optional=True,
    )

    @property
    def whole(self) -> bool:
        """Whether all waits of the run were kept."""
        return self.slices_s is None


#: Keys that need a capture: their value on disk without one, and the equivalent document to read.
_WITHOUT_CAPTURE: Mapping[str, tuple[object, object]] = {
    "machine": ({}, written(Machine())),
    "temp": (None, written(Temp())),
    "other_io": (None, written(OtherIO())),
}
_NOTHING_COUNTED = {
    name: value
    for name, value in written(CaptureAccount("none")).items()
    if name not in ("method", "absent_because")
}


@dataclass(frozen=True)
class Meta:
    """The content of meta.json. ``temp`` and ``other_io`` are 0 if I/O was not ``captured``.

    By default all values are unknown.
    """

    spillcast: str = key("version that recorded", example="0.1.0", default="")
    started_at: str | None = key(
        "start of the run, or of the recording if that was later: times count from then",
        unit="ISO 8601",
        example="2026-11-21T02:38:45.333+00:00",
        default=None,
    )
    elapsed_s: float = key("wall time of the run", unit="s", example=27.9, default=0.0)
    recorded_s: float = key(
        "from then to the end of the recording", unit="s", example=28.1, default=0.0
    )
    clock: str = key("clock of all times", example="CLOCK_MONOTONIC", default="CLOCK_MONOTONIC")
    ended_by: EndedBy | None = key(
        "`end` of the run, `error` of a query that was cancelled or failed (of a command see "
        "`engine.exit_status`); or if it went on, `duration`, `interrupt` or `failure` of the "
        "connection to its server",
        example="end",
        optional=True,
    )
    before: EarlierWork | None = key(
        "for a process that was already running: what it had done before", optional=True
    )
    temp_before: Sequence[SizedFile] = key(
        "if it was already running: its largest temp files when the recording began",
        default=(), later=True,
    )  # fmt: skip
    inputs: Sequence[SizedFile] = key(
        "the largest files it read other than temp files, as they were at the end",
        default=(), later=True,
    )  # fmt: skip
    engine: ObservedEngine = key("", default=NO_ENGINE)
    machine: Machine = key("", default=Machine())
    memory: Memory = key("", default=Memory())
    cpu_limits: CpuLimits = key("", default=CpuLimits(), later=True)
    cpu_s: float | None = key(
        "CPU time of all observed threads outside I/O calls; null with preload",
        unit="s",
        example=8.31,
        default=None,
    )
    temp: Temp = key("", default=Temp())
    spilled: bool | None = key(
        "whether there was temp I/O; null if the source may have missed some",
        example=True,
        later=True,
    )
    temp_places: Sequence[TempPlace] = key("", default=(), later=True)
    temp_kinds: Sequence[TempKind] = key("", default=(), later=True)
    other_io: OtherIO = key("", default=OtherIO())
    server_connection: bool | None = key(
        "whether the process or one it started was seen with a connection to a server; null if "
        "nobody looked",
        example=False,
        later=True,
    )
    capture: CaptureAccount = key("", default=CaptureAccount("none"))
    asked: RecordOptions = key("", default=RecordOptions())
    server: RecordedQuery | None = key("", optional=True)
    sampling: Sampling | None = key("", optional=True)
    statement: CountedStatement | None = key("", optional=True)
    raw: KeptWaits = key("", default=KeptWaits(0, 0, []))
    sums: RowSums | None = key("", optional=True)
    #: Keys of later versions.
    extra: Mapping[str, Any] = key("", rest=True)

    def __post_init__(self) -> None:
        if self.started_at is not None:
            datetime.fromisoformat(self.started_at)
        # ``spilled`` follows from the counts, also after ``replace`` and for files without the key.
        spilled = True if self.temp.operations else None if self.blind_to else False
        object.__setattr__(self, "spilled", spilled)

    @property
    def blind_to(self) -> tuple[str, ...]:
        """Reasons why the recording may have missed all temp I/O; empty if it cannot have."""
        if not self.captured:
            return ("only waits were sampled",)
        if self.capture.threads_sampled is not None:
            return (*self.unseen.causes, "not all threads were observed")
        if self.capture.method == PRELOAD:
            reason = "the preload library does not see what the C library writes by itself (fwrite)"
            return (*self.unseen.causes, f"{reason}; record with --capture perf")
        return self.unseen.causes

    @property
    def cut_off_by(self) -> str | None:
        """The cause that ended the recording or the run early; None for a complete run."""
        ended_by = self.ended_by if self.server is None else self.server.ended_by
        if ended_by == "end" and self.engine.settings.get("exit_status"):
            return "error"
        return None if ended_by in ("end", "query") else ended_by

    @property
    def ended_early(self) -> bool:
        """Whether the recording is known to have ended before the run was complete."""
        return self.cut_off_by is not None

    @property
    def may_have_begun(self) -> bool:
        """Whether the query may have begun before its recording, by the process's earlier work.

        A process that was only waiting for its query, such as a shell, has done almost nothing.
        """
        before = self.before
        if before is None:
            return False
        moved = before.bytes is not None and before.bytes > WORKED * self.temp.bytes
        return before.cpu_s > WORKED * self.elapsed_s or moved

    @property
    def whole_s(self) -> float | None:
        """Elapsed time of the whole run; None if only a part was recorded and it is unknown."""
        if self.ended_early:
            return None
        if self.server is not None and self.server.before_recording_s > 0:
            return self.server.query_elapsed_s
        return None if self.server is None and self.may_have_begun else self.elapsed_s

    @property
    def engine_cache_bytes(self) -> int | None:
        """The page cache that the engine could have used; None if it is unknown."""
        memory, resident_bytes = self.memory, self.memory.peak_rss_bytes or 0
        # The cgroup's figure counts shared pages once, and includes its other processes.
        held = resident_bytes if memory.group_held_bytes is None else memory.group_held_bytes
        available, limit = self.machine.memory_available_bytes, memory.limit_bytes
        room = [] if available is None else [available - resident_bytes]
        room += [] if limit is None else [limit - held]
        return max(0, min(room)) if room else None

    @property
    def run_queue_others_s(self) -> float:
        """Upper bound of the time runnable but not scheduled that other processes caused.

        If it was not measured, the bound is the CPU time that the observed threads left unused.
        """
        capture, cpus = self.capture, self.machine.cpus
        if capture.run_queue_others_s is not None:
            return capture.run_queue_others_s
        if self.cpu_s is None or not cpus:
            return capture.run_queue_delay_s
        return min(capture.run_queue_delay_s, max(cpus * self.elapsed_s - self.cpu_s, 0.0))

    @property
    def captured(self) -> bool:
        """Whether I/O was captured, not only samples."""
        return self.capture.method != "none"

    @property
    def unseen(self) -> MissingIo:
        """The most temp I/O that may be missing, computed from the counts."""
        return missing_io_of(self.capture, self.temp, self.temp_kinds, self.server)

    @property
    def named_temp_places(self) -> list[TempPlace]:
        """The ``temp_places`` below or above a directory that the user named; else all."""
        # Relative paths are excluded: the directory they were relative to is unknown.
        named = [path for path in map(Path, self.asked.temp_dirs) if path.is_absolute()]

        def is_named(place: TempPlace) -> bool:
            at = Path(place.directory)
            return any(at.is_relative_to(path) or path.is_relative_to(at) for path in named)

        return [place for place in self.temp_places if not named or is_named(place)]

    @property
    def of_statement(self) -> CountedStatement | None:
        """The recorded statement, as identified by a server's counts; None if unknown."""
        return self.statement or self.engine.statement

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        document = {"schema": RECORDING_SCHEMA, **written(self)}
        if not self.captured:
            because = self.capture.absent_because
            document |= {name: on_disk for name, (on_disk, _) in _WITHOUT_CAPTURE.items()}
            document["capture"] = {"method": self.capture.method, "absent_because": because}
        return document

    @classmethod
    @reading(hint=_RECORD_AGAIN_HINT)
    def from_json(cls, text: str) -> "Meta":
        """Read the text of meta.json.

        InputError for another schema, a missing key or a value of another type.
        """
        document = object_of(text)
        schema = document.get("schema")
        if schema != RECORDING_SCHEMA:
            raise SchemaUnsupported(
                f"schema is {schema!r}, this spillcast reads {RECORDING_SCHEMA!r}",
                "use the spillcast that made it, or record again",
            )
        if document.get("perturbation") is not None:
            raise EvidenceUnsuited("its run was delayed on purpose", _RECORD_AGAIN_HINT)
        del document["schema"]
        capture = document.get("capture")
        if not isinstance(capture, dict) or capture.get("method", "none") == "none":
            for name, (on_disk, to_read) in _WITHOUT_CAPTURE.items():
                if name in document and document[name] == on_disk:
                    document[name] = to_read
            if isinstance(capture, dict):
                document["capture"] = _NOTHING_COUNTED | capture
        return read(cls, document)


META_FILE = "meta.json"
#: The tables of a recording, each in a Parquet file of its name.
TableName = Literal["waits", "seconds", "samples"]
COPY_AGAIN = "copy the whole folder again from where it was recorded, or record again"


def is_recording(path: Path) -> bool:
    """Whether a path holds a recording."""
    return (path / META_FILE).is_file()


def check_name(path: Path) -> None:
    """InputError for a path that readers of the tables cannot open."""
    if not is_utf8(str(path)):
        hint = "rename the folder, or go into it and name what is below"
        raise PathUnusable("the path of a recording must be UTF-8", hint, path)
