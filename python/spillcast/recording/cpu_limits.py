"""What holds a process's CPU time down: the CPUs it may run on, the quota of its control groups."""

from dataclasses import dataclass

from spillcast.document import key


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
