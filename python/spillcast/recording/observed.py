"""The parts of meta.json on observed processes, servers and mounts; helpers for observing."""

import os
import re
import select
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spillcast import _core
from spillcast.document import key

#: File systems that keep files only in memory.
IN_MEMORY = _core.IN_MEMORY


@dataclass(frozen=True)
class CpuLimits:
    """The CPU limits of the observed process; None for unknown values and without a limit."""

    cpus: int | None = key(
        "CPUs that it may run on, by cpusets and affinity; null if unknown",
        example=2, default=None,
    )  # fmt: skip
    quota_cpus: float | None = key(
        "smallest CPU quota of its cgroups (`cpu.max`, `cpu.cfs_quota_us`); null for no quota",
        unit="CPUs", example=0.4, default=None,
    )  # fmt: skip
    period_s: float | None = key(
        "period of that quota; null for no quota",
        unit="s", example=0.1, default=None,
    )  # fmt: skip
    throttled_s: float | None = key(
        "time that cgroup was throttled during the recording, summed over CPUs by the kernel; null "
        "for no quota",
        unit="s", example=12.3, default=None,
    )  # fmt: skip
    throttled_periods: int | None = key(
        "number of periods with throttling; null for no quota",
        unit="periods",
        example=164,
        default=None,
    )

    def __post_init__(self) -> None:
        if self.cpus == 0:
            raise ValueError("cpu_limits.cpus is 0")
        if (self.quota_cpus is None) != (self.period_s is None):
            raise ValueError("of cpu_limits.quota_cpus and cpu_limits.period_s one is null")
        if 0 in (self.quota_cpus, self.period_s):
            raise ValueError("cpu_limits.quota_cpus or cpu_limits.period_s is 0")


@dataclass(frozen=True)
class EarlierWork:
    """The work of a running process before its recording began."""

    ran_s: float = key("since its start", unit="s", example=3.61)
    cpu_s: float = key("CPU time, including its child processes", unit="s", example=1.9)
    bytes: int | None = key(
        "bytes it had read and written, any file; null if not permitted",
        unit="bytes",
        example=921108480,
    )
    written_bytes: int | None = key("bytes written", unit="bytes", example=460554240, later=True)


@dataclass(frozen=True)
class SizedFile:
    """A file and its size."""

    file: str = key("its path", example="/mnt/temp/pgsql_tmp4711.0")
    bytes: int = key("its size", unit="bytes", example=1073741824)


@dataclass(frozen=True)
class Mounted:
    """A mount as the kernel lists it."""

    #: The device number, such as ``254:0``.
    device: str
    #: The type, as mount(8) writes it.
    filesystem: str
    #: Whether it is network storage; None if unknown.
    network: bool | None
    mount_point: str
    mount_options: str
    #: The block device with the model of its disk; None for other devices.
    device_name: str | None


def mounted(path: str) -> Mounted | None:
    """The mount of an absolute path, which need not exist; None if the kernel does not list it.

    Other processes may see other mounts than this process.
    """
    entry = _core.mounted(path)
    if entry is None:
        return None
    device, filesystem, network, point, options, device_name = entry
    return Mounted(device, filesystem, network, str(point), options, device_name)


@dataclass(frozen=True)
class TempPlace:
    """A device that held temp files."""

    directory: str = key(
        "the directory that contains all of them on that file system", example="/mnt/temp"
    )
    device: str = key("device number of the kernel", example="254:0")
    filesystem: str = key("its file system as mount(8) writes it", example="ext4")
    network: bool | None = key("whether it is network storage; null if unknown", example=False)
    bytes: int = key(
        "read and written there, by the single waits that were kept",
        unit="bytes",
        example=921108480,
    )
    device_name: str | None = key(
        "the block device and the model of its disk; null for others",
        example="nvme0n1 (Samsung SSD 990 PRO)",
        later=True,
    )
    mount_point: str | None = key("where it is mounted", example="/mnt/temp", later=True)
    mount_options: str | None = key(
        "its options as mount(8) writes them", example="rw,noatime", later=True
    )


@dataclass(frozen=True)
class TempKind:
    """The temp I/O on files of one kind, by the names of the files."""

    engine: str = key("engine that gives files such names", example="duckdb")
    kind: str = key("what such a file contains", example="blocks")
    reads: int = key("reads, by the single waits that were kept", example=1757)
    read_bytes: int = key("bytes read", unit="bytes", example=460554240)
    writes: int = key("writes", example=1758)
    written_bytes: int = key("bytes written", unit="bytes", example=460554240)
    total_s: float = key("sum of their durations over all threads", unit="s", example=3.9)


@dataclass(frozen=True)
class Server:
    """Address and user of a connection to a server: the parts of a DSN that may be kept."""

    host: str = key("the server's; never a password", example="db01")
    port: int = key("its port", example=5432)
    dbname: str = key("the database", example="erp")
    user: str = key("who recorded", example="postgres")


@dataclass(frozen=True)
class MissedIo:
    """The I/O of a worker on any file before it was attached."""

    reads: int = key("calls that read")
    writes: int = key("calls that wrote")
    bytes: int = key("bytes they moved", unit="bytes")

    @property
    def calls(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes


@dataclass(frozen=True)
class Worker:
    """A parallel worker of the query."""

    pid: int = key("process id", example=4712)
    started_s: float | None = key(
        "its start since the run began, to within 10 ms; null if unknown",
        unit="s",
        signed=True,
    )
    attached_s: float = key("when it was attached, since then", unit="s", signed=True)
    missed: MissedIo | None = key("its I/O before that, on any file; null if not permitted")
    temp_files: int = key(
        "temp files it had open then: without any it had not begun its temp I/O",
        unit="files", example=0, default=0, later=True,
    )  # fmt: skip

    @property
    def late(self) -> bool:
        """Whether the worker may have begun its temp I/O before it was attached."""
        return self.temp_files > 0 or self.missed is None or self.missed.writes > 0


@dataclass(frozen=True)
class TablespaceUsage:
    """The largest temp usage of a tablespace in a sample."""

    tablespace: str = key("its name", example="pg_default")
    peak_bytes: int = key("largest value in one sample", unit="bytes")
    peak_files: int = key("largest value in one sample")


@dataclass(frozen=True)
class RecordedQuery:
    """The recorded query of a server; instants are by the server's clock."""

    backend: int = key("process id of the session", example=4711)
    query_started_at: str | None = key(
        "start of the query by the server's clock",
        unit="ISO 8601",
        example="2026-11-21T14:17:11.975+00:00",
    )
    query_elapsed_s: float | None = key(
        "from then until the query ended or was last observed", unit="s", example=773.2
    )
    before_recording_s: float = key(
        "how long it had run when the recording began", unit="s", example=12.5
    )
    ended_by: str = key(
        "`query`, its `error` (cancelled or failed), `duration`, `interrupt` or `failure` of the "
        "connection",
        example="query",
    )
    failure: str | None = key("what failed; null if nothing did", example=None)
    workers: Sequence[Worker] = key("parallel workers")
    workers_not_attached: int = key("workers that could not be attached", example=0)
    temp_files: Sequence[TablespaceUsage] = key(
        "by tablespace, without the files that workers share; empty if not permitted to list them"
    )
    table_calls: int | None = key(
        "reads and writes of the session's temporary tables by all threads of the server while it "
        "was recorded, of all sessions if theirs are not told apart; null if they are not counted",
        later=True,
        example=1000,
    )


@dataclass(frozen=True)
class Sampling:
    """The sampling of the session, and its cost."""

    rate_hz: int = key("samples per second", unit="1/s", example=50)
    samples: int = key("number of samples", example=3866)
    ticks: int = key("times that the session was sampled while the query ran", example=3866)
    discarded: int = key("samples discarded after gaps of `sampling.gap_from_s` or more", example=0)
    gap_s: float = key(
        "time of the gaps, including one before the end, which no sample represents",
        unit="s",
        example=0.0,
    )
    gap_from_s: float = key("minimum length of a gap", unit="s", example=0.1)
    client_cpu_s: float = key("CPU time of the sampler", unit="s", example=0.31)
    server_cpu_s: float | None = key(
        "CPU time of the server for it; null if it is on another host", unit="s", example=0.2
    )


@dataclass(frozen=True)
class CountedStatement:
    """The statement that counts belong to; never on disk."""

    queryid: str | None = key("for counts, never on disk: the server's identifier of the statement")
    query: str | None = key("for counts, never on disk: its text, without secrets")
    calls: int = key("for counts, never on disk: calls that the counts are the mean of")
    most_of: int = key(
        "for counts, never on disk: it is the plan with the most temp I/O of this many"
    )
    spread: float | None = key(
        "for counts, never on disk: standard deviation of the calls' times over their mean",
        optional=True,
    )


PRELOAD_LIBRARY = Path(__file__).parents[1] / "_preload.so"


class RecordingTarget(Protocol):
    """The target of a recording: a command, a process or a server's session."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def exit_status(self) -> int | None:
        """The status of a command that has ended, negative for a signal; else None."""

    def wait(self, timeout_s: float) -> bool:
        """Wait up to ``timeout_s`` for its end; returns whether it has ended."""


def held_command(arguments: Sequence[str], environment: Mapping[str, str]) -> _core.Target:
    """Start a command that waits until ``release`` is called."""
    return _core.Target.command(arguments, pairs_of(environment))


def pairs_of(environment: Mapping[str, str]) -> list[str]:
    """The variables of an environment as ``NAME=VALUE``."""
    return [f"{name}={value}" for name, value in environment.items()]


def preload_value() -> str | None:
    """The value of LD_PRELOAD with our library before the user's; None if ours is missing."""
    if not PRELOAD_LIBRARY.exists():
        return None
    preload = [preload_path(), os.environ.get("LD_PRELOAD", "")]
    return ":".join(path for path in preload if path)


def preload_path() -> str:
    """The path of our library for LD_PRELOAD, which is valid until this process ends.

    Blanks and colons separate its entries, and a dollar sign begins a variable.
    """
    path = str(PRELOAD_LIBRARY)
    if re.fullmatch(r"[\w./@%+,=~-]+", path, re.ASCII):
        return path
    return _opened_library(os.getpid())


@cache
def _opened_library(pid: int) -> str:
    """Our library as an open file of this process; a fork opens it again."""
    return f"/proc/{pid}/fd/{os.open(PRELOAD_LIBRARY, os.O_RDONLY)}"


def command_of(pid: int) -> list[str] | None:
    """The arguments of a process without secrets; None if it has ended."""
    # An import at the top would cost each start 9 ms: its many patterns are compiled.
    from spillcast.redaction import masked_arguments

    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return masked_arguments([os.fsdecode(part) for part in raw.split(b"\0") if part])


def describe_exit(status: int) -> str:
    """Describe an exit status, which is negative for a signal."""
    if status >= 0:
        return f"exited with status {status}"
    # Most real-time signals have no name.
    names = {number.value: number.name for number in signal.Signals}
    return f"ended by {names.get(-status, f'signal {-status}')}"


def readable(descriptor: int, timeout_s: float) -> bool:
    """Wait up to ``timeout_s`` until a descriptor is readable; returns whether it is."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, round(timeout_s * 1000))))


def resident_bytes(pid: int) -> int | None:
    """The resident memory of a process; None if it has ended or is a kernel thread."""
    return _core.status_bytes(f"/proc/{pid}/status", "VmRSS")


def proc_text(name: str) -> str:
    """The text of a file below /proc; empty if its process has ended or it may not be read."""
    try:
        return Path("/proc", name).read_text(errors="replace")
    except OSError:
        return ""


def status_of(pid: int | str) -> dict[str, str]:
    """The lines of /proc/PID/status by name; empty if the process has ended."""
    lines = (line.partition(":") for line in proc_text(f"{pid}/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def meminfo_bytes() -> dict[str, int]:
    """The sizes of /proc/meminfo by name."""
    pairs = re.findall(r"^(\S+):\s+(\d+) kB$", proc_text("meminfo"), re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in pairs}


class MemoryGroup(NamedTuple):
    """A memory cgroup: its limit, and the memory in it that the kernel cannot drop."""

    limit_bytes: int
    held_bytes: int


def memory_groups(**of: Any) -> list[MemoryGroup]:
    """The limited memory cgroups of this process, or of a ``pid``; the innermost first."""
    return [MemoryGroup(*group) for group in _core.memory_groups(**of)]
