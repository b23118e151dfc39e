"""The CPUs that threads run on: how many, and how much of them they may have."""

from dataclasses import dataclass
from math import inf

from spillcast.errors import OptionInvalid
from spillcast.recording.thread_trace import ThreadTrace

#: The kernel's period of a quota, as it comes.
PERIOD_S = 0.1
#: The kernel's least quota in its longest period.
LEAST_QUOTA_CPUS = 0.001


@dataclass(frozen=True)
class Cpus:
    """What a run has; None where that is not known, or not limited."""

    cores: int | None
    #: CPU time for each second, and the period in which it is had.
    quota_cpus: float | None = None
    period_s: float = PERIOD_S

    def but(self, cpus: int | None, quota_cpus: float | None) -> "Cpus":
        """The same with what is asked for in its place. InputError for what no CPU can give."""
        if cpus is not None and cpus < 1:
            raise OptionInvalid(f"--cpus {cpus}: not a number of CPUs", "give 1 or more")
        if quota_cpus is not None and not LEAST_QUOTA_CPUS <= quota_cpus < inf:
            raise OptionInvalid(
                f"--cpu-quota {quota_cpus:g}: not a CPU quota",
                f"give {LEAST_QUOTA_CPUS} CPUs or more, such as 0.4; those of the machine mean no "
                "quota",
            )
        cores = self.cores if cpus is None else cpus
        quota_cpus = self.quota_cpus if quota_cpus is None else quota_cpus
        return self.limited(cores, quota_cpus, self.period_s)

    @classmethod
    def limited(cls, cores: int | None, quota_cpus: float | None, period_s: float) -> "Cpus":
        """A quota of all CPUs that there are is none."""
        if quota_cpus is None or (cores is not None and quota_cpus >= cores):
            return cls(cores)
        return cls(cores, quota_cpus, period_s)

    def usable(self, trace: ThreadTrace) -> int:
        """How many cores the threads of a trace can have at once."""
        return self.cores if trace.cpu_known and self.cores else trace.threads

    @property
    def unlimited(self) -> "Cpus":
        """The same without a quota."""
        return Cpus(self.cores)

    @property
    def quota_ns(self) -> tuple[int, int] | None:
        """CPU time of each period, and its length; None without a quota."""
        if self.quota_cpus is None:
            return None
        period_ns = round(self.period_s * 1e9)
        return round(self.quota_cpus * period_ns), period_ns
