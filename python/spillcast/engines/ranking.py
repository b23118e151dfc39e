"""Which statements of a server spill, what that costs a day, and what cures would bring."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spillcast.document import internal, key
from spillcast.engines.history import HISTORY_SCHEMA, History
from spillcast.evidence.postgres.logs import Exceeded
from spillcast.evidence.postgres.statements import Row
from spillcast.fleet.looks import DatabaseCount
from spillcast.forecast.sizing.result import Sizing

DAY_S = 86_400.0
#: Bounds of a time whose ratio is below this are too wide for a value between them.
BOUNDS_RATIO_MIN = 0.05
SCHEMA = "spillcast.server/1"


@dataclass(frozen=True)
class Gain:
    """Elapsed time that a cure saves of all calls, with its interval; below 0 they get slower."""

    saved_s: float = key("", signed=True)
    interval_s: tuple[float, float] = key("", signed=True)
    #: Elapsed time of all calls where memory is not free; None unless the page cache holds the temp
    #: files, so that storage changes nothing.
    without_cache_s: float | None = None


@dataclass(frozen=True)
class SpillNode:
    """A node of a plan that spilled: its type, its temp bytes and what it says of memory."""

    node: str
    temp_bytes: int
    detail: str


@dataclass(frozen=True)
class Ranked:
    """A statement that spills; sums over its calls in the time looked at."""

    queryid: str | None
    query: str | None
    #: None where only a log's temp files tell of it.
    calls: int | None
    elapsed_s: float | None
    #: Temp bytes read and written; of a log's temp files, written. None where nothing counts them.
    temp_bytes: int | None
    #: Elapsed time in temp I/O: from that with the most processes which there may have been to that
    #: with the fewest. None where nothing was timed.
    temp_s: tuple[float, float] | None = None
    #: By target, and with work memory that nothing spills.
    gains: Mapping[str, Gain] = field(default_factory=dict)
    no_spill: Gain | None = None
    #: The work_mem that is enough for that, by a plan.
    work_mem_bytes: int | None = None
    #: Why there are no gains.
    refused: str | None = None
    #: Of a statement without a plan, bounds of what its largest temp files need in memory; the
    #: upper one is None if no log shows which files are of one call.
    work_mem_between: tuple[int, int | None] | None = None
    #: Bounds of the memory with which no call spills, by its peak memory and what it wrote.
    memory_between: tuple[int, int] | None = None
    #: Temporary tables on disk and merge passes of sorts, where a server counts those.
    disk_tables: int | None = None
    merge_passes: int | None = None
    #: Of the plan with the most temp I/O, where one is known; the most temp bytes first.
    nodes: Sequence[SpillNode] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether only bounds of its temp I/O time are known, too wide for an estimate."""
        return self.temp_s is not None and self.temp_s[0] <= BOUNDS_RATIO_MIN * self.temp_s[1]

    @property
    def temp_mean_s(self) -> float | None:
        """Elapsed time in temp I/O, as the mean of its bounds; None without an estimate."""
        return None if self.temp_s is None or self.is_bounded else sum(self.temp_s) / 2

    @property
    def weight(self) -> tuple[float, float]:
        """What it is ranked by: what not spilling would save, else temp I/O in time or bytes."""
        if self.no_spill is not None:
            return self.no_spill.saved_s, self.temp_bytes or 0
        return (sum(self.temp_s) / 2 if self.temp_s else 0.0), self.temp_bytes or 0


@dataclass(frozen=True)
class DatabaseSpill(DatabaseCount):
    """The same since a moment, and what the time of writing it may have been."""

    #: Since when, as Unix time; None if unknown.
    since_s: float | None
    #: How long statements ran in it: their temp I/O took no longer. None before PostgreSQL 14.
    active_s: float | None
    #: By target: writing so many bytes once and reading them once, one at a time.
    spill_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Live:
    """A session that has temp files, or waits for them, now."""

    pid: int
    query: str
    running_s: float
    temp_bytes: int
    wait: str | None


@dataclass(frozen=True)
class ServerRanking:
    """Holds the ranking from a snapshot of a server, or from a folder of its logs."""

    source: str
    #: The time that all sums cover; None if unknown.
    window_s: float | None
    statements: Sequence[Ranked]
    targets: Sequence[str]
    confidence: float
    #: Of all statements, those that do not spill included; None of logs.
    statements_seen: int | None = None
    elapsed_s: float | None = None
    databases: Sequence[DatabaseSpill] = ()
    #: Lines for a shell that let the server count statements; none where it does.
    enable: Sequence[str] = ()
    #: Of all databases, and what reading data files took by all backends' times.
    database_temp_bytes: int | None = None
    data_read_s: float | None = None
    live: Sequence[Live] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The setting with more of which nothing spills.
    memory: str = "work_mem"
    #: Hidden figures, and the remedy.
    unseen: Sequence[str] = ()
    #: By logs, calls that failed at a limit of temp files.
    exceeded: Sequence[Exceeded] = ()
    #: The command that records the first.
    record: str | None = None
    #: How long the server was asked.
    asked_s: float | None = None
    #: Where it is of looks over time.
    history: History | None = None
    #: Storage to buy for all statements: the frontier of price and time; None if unknown.
    sizing: Sizing | None = None
    #: What the ranking is made of, for the sizing.
    counted: Sequence[Row] = internal(())

    @property
    def per_day(self) -> float | None:
        """The factor from a sum to its amount per day; None if the time of the sums is unknown."""
        return DAY_S / self.window_s if self.window_s else None

    @property
    def is_blind(self) -> bool:
        """Whether nothing counts the statements, so that none can be forecast."""
        return bool(self.enable)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        document = asdict(replace(self, counted=()))
        del document["counted"]
        return {"schema": SCHEMA, **document}


def histories_document(address: str, rankings: Sequence[ServerRanking]) -> dict[str, Any]:
    """The document of the servers whose looks are at ``address``."""
    servers = [ranking.to_json() for ranking in rankings]
    return {"schema": HISTORY_SCHEMA, "dataset": address, "servers": servers}
