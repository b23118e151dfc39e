"""What holds a process's CPU time down: the CPUs it may run on, the quota of its control groups."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spillcast.document import key
from spillcast.recording.cgroups import CGROUPS, group_folders, read


@dataclass(frozen=True)
class CpuLimits:
    """Of the observed process. All is None where it is not known, or where there is no limit."""

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
class _Group:
    """A group with a quota."""

    folder: Path
    quota_cpus: float
    period_s: float


class CpuWatch:
    """The CPU limits of a process while it runs, looked at now and then.

    A process may be moved to another group, or bound to CPUs, after it was started.
    """

    def __init__(self, pid: int, cgroups: Path = CGROUPS) -> None:
        self._pid, self._cgroups = pid, cgroups
        self._cpus: int | None = None
        self._group: _Group | None = None
        #: By folder, throttling at the first look: seconds, periods.
        self._before: dict[Path, tuple[float, int]] = {}
        self._meanwhile: tuple[float, int] = (0.0, 0)
        self.look()

    def look(self) -> None:
        """Read what limits it now; what was seen last stays where it has ended."""
        with suppress(OSError):
            self._cpus = len(os.sched_getaffinity(self._pid))
        # While it ends, version 1 shows it in the root.
        self._group = _tightest(self._pid, self._cgroups) or self._group
        if self._group is not None:
            now_s, periods = _throttled(self._group.folder) or self._meanwhile
            before_s, before = self._before.setdefault(self._group.folder, (now_s, periods))
            self._meanwhile = max(now_s - before_s, 0.0), max(periods - before, 0)

    @property
    def limits(self) -> CpuLimits:
        """As of the last look."""
        if self._group is None:
            return CpuLimits(self._cpus)
        quota = self._group.quota_cpus, self._group.period_s
        return CpuLimits(self._cpus, *quota, *self._meanwhile)


def _tightest(pid: int, cgroups: Path) -> _Group | None:
    """The group of a process that may have the least CPU time; None where none is limited."""
    groups = (_limited(folder) for folder in group_folders(pid, "cpu", cgroups))
    return min(
        (limit for limit in groups if limit), key=lambda group: group.quota_cpus, default=None
    )


def _limited(folder: Path) -> _Group | None:
    quota, _, period = read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = (read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    # No limit is `max` in version 2, and -1 in version 1.
    if not quota.isdigit() or not period.isdigit() or 0 in (int(quota), int(period)):
        return None
    return _Group(folder, int(quota) / int(period), int(period) / 1e6)


def _throttled(folder: Path) -> tuple[float, int] | None:
    """How long a group was held back since it was made, and in how many periods."""
    stat = dict(line.split()[:2] for line in read(folder / "cpu.stat").splitlines() if " " in line)
    periods = stat.get("nr_throttled")
    if periods is None:
        return None
    if "throttled_usec" in stat:
        return int(stat["throttled_usec"]) / 1e6, int(periods)
    return int(stat.get("throttled_time", 0)) / 1e9, int(periods)
