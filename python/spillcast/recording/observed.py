"""Observed processes and their machine: limits, memory, files, mounts, and the target itself."""

import os
import re
import select
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spillcast import _core
from spillcast.document import key
from spillcast.units import format_bytes

#: File systems whose pages are the storage itself.
IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")

if TYPE_CHECKING:
    from spillcast.recording.meta import Meta


@dataclass(frozen=True)
class CpuLimits:
    """Holds the limits of the observed process; None for unknown values and without a limit."""

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
class DoneBefore:
    """Holds the work of a running process before its recording began."""

    ran_s: float = key("since its start", unit="s", example=3.61)
    cpu_s: float = key("CPU time, including its child processes", unit="s", example=1.9)
    bytes: int | None = key(
        "bytes it had read and written, any file; null if not permitted",
        unit="bytes",
        example=921108480,
    )
    read_bytes: int | None = key(
        "bytes read; null if not permitted", unit="bytes", example=460554240, later=True
    )
    written_bytes: int | None = key("bytes written", unit="bytes", example=460554240, later=True)


@dataclass(frozen=True)
class SizedFile:
    """Names a file and its size."""

    file: str = key("its path", example="/mnt/temp/pgsql_tmp4711.0")
    bytes: int = key("its size", unit="bytes", example=1073741824)


def inputs_of(read_bytes: Mapping[str, int]) -> list[SizedFile]:
    """The largest files other than temp files, by name, with the bytes read of each."""
    return [SizedFile(*sized) for sized in _core.inputs_of(read_bytes)]


def temp_of(before: Iterable[SizedFile], folders: Iterable[str]) -> list[SizedFile]:
    """The earlier files in folders of temp files, the largest first."""
    sizes = {sized_file.file: sized_file.bytes for sized_file in before}
    return [SizedFile(*sized) for sized in _core.temp_of(sizes, list(folders))]


@dataclass(frozen=True)
class Mounted:
    """Describes a mount as the kernel lists it."""

    #: As the kernel numbers it.
    device: str
    #: As mount(8) writes it.
    filesystem: str
    #: Whether it lies behind a network; None where nothing is known.
    network: bool | None
    mount_point: str
    mount_options: str
    #: Of a block device, with the model of its disk; None for others.
    device_name: str | None


def mounted(path: str) -> Mounted | None:
    """The mount that holds an absolute path, which may be gone; None where nothing is listed.

    As this process sees its mounts: those of another may differ.
    """
    entry = _core.mounted(path)
    if entry is None:
        return None
    device, filesystem, network, point, options, device_name = entry
    return Mounted(device, filesystem, network, str(point), options, device_name)


@dataclass(frozen=True)
class TempPlace:
    """Describes a device that held temp files."""

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
    """Sums up the temp I/O on files of one kind, which their names tell."""

    engine: str = key("engine that gives files such names", example="duckdb")
    kind: str = key("what such a file contains", example="blocks")
    reads: int = key("reads, by the single waits that were kept", example=1757)
    read_bytes: int = key("bytes read", unit="bytes", example=460554240)
    writes: int = key("writes", example=1758)
    written_bytes: int = key("bytes written", unit="bytes", example=460554240)
    total_s: float = key("sum of their durations over all threads", unit="s", example=3.9)


def named_temp_places(meta: "Meta") -> list[TempPlace]:
    """Those of a recording, without what lies elsewhere where the user named directories."""
    # A relative path was relative to an unknown directory.
    lines = [str(path) for path in map(Path, meta.asked.temp_dirs) if path.is_absolute()]
    return [
        place
        for place in meta.temp_places
        if not lines
        or any(
            os.path.commonpath((place.directory, text)) in (place.directory, text) for text in lines
        )
    ]


PRELOAD_LIBRARY = Path(__file__).parents[1] / "_preload.so"


class Target(Protocol):
    """A target, and a way to wait for its end."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def exit_status(self) -> int | None:
        """Of a command that has ended its status, negative for a signal."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""


def held_command(arguments: Sequence[str], environment: Mapping[str, str]) -> _core.Target:
    """Start a command that does nothing until it is released."""
    pairs = [f"{name}={value}" for name, value in environment.items()]
    return _core.Target.command(arguments, pairs)


def is_running_process(target: Target) -> bool:
    """Whether a target is a process that was running before it was observed."""
    return isinstance(target, _core.Target) and not target.is_command


def preload_value() -> str | None:
    """The value of LD_PRELOAD, beside what the user loads; None if the library is missing."""
    if not PRELOAD_LIBRARY.exists():
        return None
    preload = [str(PRELOAD_LIBRARY), os.environ.get("LD_PRELOAD", "")]
    return ":".join(path for path in preload if path)


def command_of(pid: int) -> list[str] | None:
    """The arguments of a process, secrets struck out; None where it has ended."""
    # Its many patterns take 9 ms to compile.
    from spillcast.redaction import struck_arguments

    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return struck_arguments([os.fsdecode(part) for part in raw.split(b"\0") if part])


def describe_exit(status: int) -> str:
    """Describe an exit status."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exited with status {status}"


def readable(descriptor: int, timeout_s: float) -> bool:
    """Sleep until a descriptor has something to read or the time is over."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, round(timeout_s * 1000))))


#: What a recorder takes with all that it starts, however long it records; and where it samples a
#: server or has a live view, for which it loads numpy.
RECORDER_BYTES, WITH_NUMPY_BYTES = 80 * 10**6, 100 * 10**6


def resident_bytes(pid: int) -> int | None:
    """The resident memory of a process; None if it has ended or is a kernel thread."""
    return _core.status_bytes(f"/proc/{pid}/status", "VmRSS")


def meminfo_bytes() -> dict[str, int]:
    """The sizes of /proc/meminfo by name."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    pairs = (re.match(r"([\w()]+):\s+(\d+) kB", line) for line in lines)
    return {m[1]: int(m[2]) * 1024 for m in pairs if m}


class MemoryGroup(NamedTuple):
    """A memory cgroup: its limit, and what it holds that the kernel cannot drop."""

    limit_bytes: int
    held_bytes: int


def memory_groups(**of: Any) -> list[MemoryGroup]:
    """The memory cgroups with a limit that this process is in, or a ``pid``, innermost first."""
    return [MemoryGroup(*group) for group in _core.memory_groups(**of)]


def tightest_group(**of: Any) -> MemoryGroup | None:
    """The memory cgroup whose limit is the lowest; None where there is none."""
    return min(memory_groups(**of), key=lambda group: group.limit_bytes, default=None)


def too_little_for_us() -> str | None:
    """A warning if the memory cgroup of this process may end it; None if it is safe."""
    group, resident = tightest_group(), resident_bytes(os.getpid())
    if group is None or resident is None:
        return None
    room = group.limit_bytes - group.held_bytes + resident
    need = WITH_NUMPY_BYTES if "numpy" in sys.modules else RECORDER_BYTES
    if room >= need:
        return None
    return (
        f"the memory cgroup has {format_bytes(max(room, 0))} for a recorder, which takes up to "
        f"{format_bytes(need)}: the kernel may kill it; raise the limit, or record from "
        "outside with --pid"
    )
