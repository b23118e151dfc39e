"""What more memory would do instead of other storage: work_mem of PostgreSQL, PGA of Oracle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillcast.document import later
from spillcast.evidence.postgres.work_memory import Spill, io_share

#: Oracle's parameter for the memory of all work areas.
PGA_TARGET = "pga_aggregate_target"


@dataclass(frozen=True)
class WorkMemorySetting:
    """A work_mem and the elapsed time with it, if the plan stays and memory is there."""

    work_mem_bytes: int
    forecast_s: float
    interval_s: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class WorkMemory:
    """What more work_mem would do to a query."""

    #: What it was; None where that is not known.
    current_bytes: int | None = later()
    #: With which nothing spills.
    enough: WorkMemorySetting
    #: With which no sort needs several passes; None where none does, or it is hardly less.
    one_pass: WorkMemorySetting | None = later()
    #: What all nodes in all processes may take with ``enough``.
    most_bytes: int
    #: Of this machine, where the query ran on it.
    available_bytes: int | None = later()
    spills: Sequence[Spill] = later(())

    def io_share(self, work_mem_bytes: int) -> float:
        """Temp I/O of the query with so much work memory, over what it was."""
        if work_mem_bytes >= self.enough.work_mem_bytes:
            return 0.0
        return io_share(self.spills, work_mem_bytes)

    @property
    def fits(self) -> bool:
        """Whether the memory for ``enough`` is available, as far as that is known."""
        return self.available_bytes is None or self.most_bytes < self.available_bytes


@dataclass(frozen=True)
class SpillingLine:
    """A line of the plan: its share of all that spills, and passes where they are known."""

    sql_id: str | None
    plan_line: int | None
    operation: str
    share: float
    passes: int | None


@dataclass(frozen=True)
class MorePga:
    """What the work areas that spill have, and what would keep them in memory.

    ``estimated`` where that is Oracle's estimate, else it is what they held and spilled by then.
    """

    held_bytes: int
    needed_bytes: int
    estimated: bool
    work_areas: int
    pga_target_bytes: int | None
    #: Elapsed time without the waits for temp; set when that is known.
    forecast_s: float | None = later()
    interval_s: tuple[float, float] | None = later()


@dataclass(frozen=True)
class Spilled:
    """Which lines of the plan spill, the most first, and what more PGA would do."""

    lines: Sequence[SpillingLine]
    more_pga: MorePga | None

    def with_cure(self, forecast_s: float, interval_s: tuple[float, float]) -> "Spilled":
        """The same, with the elapsed time that no temp I/O would leave."""
        if self.more_pga is None:
            return self
        more = replace(self.more_pga, forecast_s=forecast_s, interval_s=interval_s)
        return replace(self, more_pga=more)
