"""Facts about observed processes from /proc and control groups, as meta.json keeps them."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast import _core
from spillcast.document import key

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
        "bytes read; null if not permitted", unit="bytes", example=460554240,
        default=None, later=True,
    )  # fmt: skip
    written_bytes: int | None = key(
        "bytes written", unit="bytes", example=460554240, default=None, later=True
    )


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
    point: str
    options: str
    #: Of a block device, with the model of its disk; None for others.
    device_name: str | None


def mounted(path: str) -> Mounted | None:
    """The mount that holds an absolute path, which may be gone; None where nothing is listed.

    As this process sees its mounts: in another's it may be told wrong.
    """
    from spillcast import _core

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
        example="nvme0n1 (Samsung SSD 990 PRO)", default=None, later=True,
    )  # fmt: skip
    mount_point: str | None = key(
        "where it is mounted", example="/mnt/temp", default=None, later=True
    )
    mount_options: str | None = key(
        "its options as mount(8) writes them", example="rw,noatime", default=None, later=True
    )


def named_temp_places(meta: "Meta") -> list[TempPlace]:
    """Those of a recording, without what lies elsewhere where the user named directories."""
    # A path that is relative was so to a directory that nobody knows.
    lines = [str(path) for path in map(Path, meta.asked.temp_dirs) if path.is_absolute()]
    return [
        place
        for place in meta.temp_places
        if not lines
        or any(
            os.path.commonpath((place.directory, text)) in (place.directory, text) for text in lines
        )
    ]
