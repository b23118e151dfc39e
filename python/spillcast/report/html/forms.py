"""The documents that a page is made of, as far as it shows them: each passes before it is drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.document import key

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a profile."""

    total_us: float | None = None
    count: int | None = None
    share: float | None = None
    mean_us: float | None = None
    p50_us: float | None = None
    p95_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None
    latency_us: float | None = None
    idle: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """spillcast.profile."""

    by: Sequence[str]
    elapsed_s: float
    rows: Sequence[Row]
    words: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The forecast within a case."""

    forecast_s: float | None
    interval_s: Interval | None

    def __post_init__(self) -> None:
        if (self.forecast_s is None) != (self.interval_s is None):
            raise ValueError("there is a forecast_s without an interval_s, or the reverse")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The result of a verification."""

    forecast: Measured
    measured_to_s: float
    engine: str
    workload: str
    threads: int
    direction: str

    def __post_init__(self) -> None:
        if not self.measured_to_s or self.forecast.forecast_s == 0:
            raise ValueError("a case took no time")


@dataclass(frozen=True, kw_only=True)
class Verification:
    """spillcast.verify."""

    cases: Sequence[Case]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """I/O sizes."""

    min_bytes: int
    max_bytes: int
    total_s: float


@dataclass(frozen=True, kw_only=True)
class Calls:
    """Reads or writes of a size."""

    count: int | None = None
    mean_us: float | None = None
    total_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class SizesRow(Sizes):
    """I/O sizes, and what was done in them."""

    reads: Calls | None = None
    writes: Calls | None = None
    interval_s: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Advised:
    """How an engine is set."""

    engine: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SizeSweep:
    """spillcast.sweep of I/O sizes."""

    storage: str
    rows: Sequence[SizesRow]
    best: Sizes
    advice: Sequence[Advised] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("rows are empty")


@dataclass(frozen=True, kw_only=True)
class Point:
    """A query with so much memory."""

    storage: str
    memory_bytes: int
    elapsed_s: float | None
    measured: bool
    interval_s: Interval | None = None
    reads: int | None = None
    writes: int | None = None
    spilled_bytes: float | None = None

    def __post_init__(self) -> None:
        if not self.memory_bytes:
            raise ValueError("memory_bytes of a point is 0")


@dataclass(frozen=True, kw_only=True)
class MemorySweep:
    """spillcast.sweep of memory."""

    points: Sequence[Point]
    turns: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        if all(point.elapsed_s is None for point in self.points):
            raise ValueError("no point has an elapsed_s")
        for turn in self.turns:
            if not {"from", "to"} <= turn.keys() or type(turn.get("memory_bytes")) is not int:
                raise ValueError("turns lack from, to or memory_bytes")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Reads that miss by the size of a cache."""

    size_bytes: Sequence[float]
    miss_ratio: Sequence[float]
    data_bytes: float
    enough_bytes: float | None

    def __post_init__(self) -> None:
        if len(self.size_bytes) != len(self.miss_ratio) or not self.size_bytes:
            raise ValueError("the curve has not as many sizes as ratios, or none")


@dataclass(frozen=True, kw_only=True)
class Account:
    """Requests for an object."""

    object: str
    requests: int
    bytes: float
    hits: int


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What devices move."""

    flash_read_bytes: float
    disk_read_bytes: float
    flash_write_bytes: float
    disk_write_bytes: float
    elapsed_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class CacheRun(Traffic):
    """The same, with a cache."""

    hit_ratio: float = 0.0
    accounts: Sequence[Account] = ()


@dataclass(frozen=True, kw_only=True)
class CacheRequest:
    """A cache of the size that was asked for."""

    size_bytes: int
    policy: str
    runs: Sequence[CacheRun]
    without: Traffic


@dataclass(frozen=True, kw_only=True)
class Cache:
    """spillcast.cache."""

    cache: CacheRequest | None
    curve: Curve


@dataclass(frozen=True, kw_only=True)
class Saving:
    """What a statement or a database would save."""

    database: str
    elapsed_s: float
    temp_s: float
    saved_s: float | None = key("", signed=True)
    saved_interval_s: Interval | None = key("", signed=True)
    share: float = key("", signed=True)

    def __post_init__(self) -> None:
        if (self.saved_s is None) != (self.saved_interval_s is None):
            raise ValueError("there is a saved_s without its interval, or the reverse")


@dataclass(frozen=True, kw_only=True)
class SavingStatement(Saving):
    """The result of a statement in a fleet."""

    sql: str
    cumulative_share: float
    refused: str | None


@dataclass(frozen=True, kw_only=True)
class SavingDatabase(Saving):
    """The result of a database in a fleet."""

    statements: int

    def __post_init__(self) -> None:
        if self.saved_s is None:
            raise ValueError("saved_s of a database is null")


@dataclass(frozen=True, kw_only=True)
class Day:
    """A day of a fleet."""

    day: str
    temp_s: float
    saved_s: float = key("", signed=True)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """spillcast.fleet."""

    target: str
    statements: Sequence[SavingStatement]
    databases: Sequence[SavingDatabase]
    days: Sequence[Day]
    confidence: float
    statements_for_most: int
    most: float
    saved_s: float = key("", signed=True)
    saved_interval_s: Interval = key("", signed=True)
