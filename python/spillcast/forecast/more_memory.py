"""What more memory would do instead of other storage: work_mem of PostgreSQL, PGA of Oracle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spillcast.document import internal, later
from spillcast.forecast.work_memory.postgres import hash_batches, sort_passes

#: Of all that is spilled, some is written several times, or all once; it is written, and nothing
#: tells how often; or nothing is written.
State = Literal["multi-pass", "one-pass", "spills", "none"]
#: Oracle's parameter for the memory of all work areas.
PGA_TARGET = "pga_aggregate_target"


@dataclass(frozen=True, kw_only=True)
class Spill:
    """One node that wrote temp files."""

    #: ``sort``, ``hash``, ``hash aggregate`` or ``store`` (rows kept to be read again).
    kind: str
    processes: int
    #: The least work_mem, in bytes, with which it stays in memory.
    needed_bytes: int
    #: Batches of a hash; None for others.
    batches: int | None = later()
    #: How often a sort wrote all its rows; None for others.
    passes: int | None = later()
    #: Seconds of temp I/O over all processes, or blocks where it was not timed.
    weight: float = internal(0.0)
    #: What it may take for each byte of work_mem, over all its processes.
    taken: float = internal(1.0)
    #: Rows of a sort in one process or of a hash, and the memory of one: of a sort beside its slot.
    rows: float = internal(0.0)
    tuple_bytes: float = internal(0.0)
    #: What a hash may take for each byte of work_mem, in the processes that share it.
    hash_multiplier: float = internal(1.0)
    #: The server (18 or newer) trades batches against memory for their buffers.
    balanced: bool = internal(False)
    #: Whether results of a hash aggregate are of a type, such as numeric, whose states may take any
    #: size: ``needed_bytes`` is then that of all its batches at once.
    any_state: bool = internal(False)

    def passes_with(self, work_mem_bytes: int) -> int | None:
        """How often a sort would write its rows; None for others."""
        if self.passes is None:
            return None
        return sort_passes(self.rows, round(self.tuple_bytes), work_mem_bytes)

    def batches_with(self, work_mem_bytes: int) -> int | None:
        """Batches of a hash; None for others."""
        if self.kind != "hash":
            return None
        memory_bytes = round(work_mem_bytes * self.hash_multiplier)
        return hash_batches(self.rows, self.tuple_bytes, memory_bytes, balanced=self.balanced)

    def share_with(self, work_mem_bytes: int) -> float:
        """Temp I/O with so much memory, over what it was.

        A hash writes all rows but those of its first batch. Of others than sorts and hashes it is
        only known whether they fit.
        """
        if self.passes is not None:
            return (self.passes_with(work_mem_bytes) or 0) / self.passes
        batches = self.batches_with(work_mem_bytes)
        if batches is not None and (self.batches or 1) > 1:
            return (1 - 1 / batches) / (1 - 1 / (self.batches or 1))
        return float(work_mem_bytes < self.needed_bytes)


def io_share(spills: Sequence[Spill], work_mem_bytes: int) -> float:
    """Temp I/O of all of them with so much memory, over what it was."""
    parts = [spill.weight / spill.processes for spill in spills]
    shares = (spill.share_with(work_mem_bytes) for spill in spills)
    return sum(part * share for part, share in zip(parts, shares, strict=True)) / sum(parts)


def state_with(spills: Sequence[Spill], work_mem_bytes: int) -> State:
    """How the query spills with so much memory."""
    if any((spill.passes_with(work_mem_bytes) or 0) > 1 for spill in spills):
        return "multi-pass"
    return "one-pass" if io_share(spills, work_mem_bytes) else "none"


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
