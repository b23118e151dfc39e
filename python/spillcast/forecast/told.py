"""A forecast as its document tells it: verdicts, pages and checks of it are made of that."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillcast.document import key
from spillcast.forecast.result import CHANGES, DATA_READS, RECORDING
from spillcast.recording.part import Part
from spillcast.recording.postgres_meta import Statement

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Term:
    """Of a forecast."""

    name: str
    baseline_s: float = key("", signed=True)
    forecast_s: float = key("", signed=True)
    op: str | None = None
    bytes: int | None = None
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Warned:
    """What weakens a forecast."""

    message: str
    code: str = ""
    title: str | None = None
    next_step: str | None = None


@dataclass(frozen=True, kw_only=True)
class Warm:
    """A run that finds its data in memory."""

    baseline_s: float
    forecast_s: float | None


@dataclass(frozen=True, kw_only=True)
class Enough:
    """Work memory with which nothing spills."""

    work_mem_bytes: int
    forecast_s: float
    interval_s: Interval


@dataclass(frozen=True, kw_only=True)
class WorkMemory:
    """What more of it would do."""

    enough: Enough
    most_bytes: int
    available_bytes: int | None = None

    @property
    def fits(self) -> bool:
        """Whether all that it may take is there, as far as that is known."""
        return self.available_bytes is None or self.most_bytes < self.available_bytes


@dataclass(frozen=True, kw_only=True)
class Coming:
    """Of a query that was seen in part: bytes or seconds to come, and who tells them."""

    low: float
    centre: float
    high: float
    source: str
    #: Of bytes: those moved by the recording's end, and within it.
    done: float | None = None
    recorded: float | None = None


@dataclass(frozen=True, kw_only=True)
class ToCome:
    """What is to come of it."""

    done_s: float
    reads_bytes: Coming
    writes_bytes: Coming
    elapsed_s: Coming


@dataclass(frozen=True, kw_only=True)
class Told:
    """spillcast.forecast, of one target."""

    target: str
    baseline_s: float
    forecast_s: float | None
    interval_s: Interval | None
    confidence: float
    ceiling_s: float
    speedup: float | None
    terms: Sequence[Term]
    warnings: Sequence[Warned]
    refused: str | None
    ceiling_interval_s: Interval | None = None
    ceiling_share: float | None = key("", signed=True, optional=True)
    without_cache_s: float | None = None
    recorded_s: float | None = None
    part: Part | None = None
    to_come: ToCome | None = None
    statement: Statement | None = None
    warm: Warm | None = None
    work_memory: WorkMemory | None = None
    advice: Sequence[str] = ()
    cost: float | None = None
    best_value: bool | None = None

    def __post_init__(self) -> None:
        if self.forecast_s is not None and (self.interval_s is None or self.speedup is None):
            raise ValueError("there is a forecast_s without an interval_s or speedup")

    @property
    def observed_s(self) -> float:
        """The elapsed time without what recording cost."""
        return self.baseline_s - self._sum_s(RECORDING)

    @property
    def temp_s(self) -> float:
        """The part of it in calls on temp files, or in what else moves with the storage."""
        return max(self.observed_s - sum(term.baseline_s for term in self.rest), 0.0)

    @property
    def rest(self) -> Sequence[Term]:
        """The parts of it that stay, but for what recording cost."""
        return [t for t in self.terms if t.op is None and t.name not in (CHANGES, RECORDING)]

    @property
    def data_s(self) -> float:
        """The part of it in reads of data files that memory did not answer."""
        return self._sum_s(DATA_READS)

    @property
    def other(self) -> Term | None:
        """The largest part that stays and is no such read."""
        rest = [term for term in self.rest if term.name != DATA_READS]
        return max(rest, key=lambda term: term.baseline_s, default=None)

    @property
    def moved(self) -> str:
        """What moves with the storage, as a sentence names it."""
        moved = [term.name for term in self.terms if term.op is not None]
        temp = all(name.startswith("temp ") or name.endswith(" temp") for name in moved)
        return "temp I/O" if temp else "I/O on the storage to be replaced"

    def _sum_s(self, name: str) -> float:
        return sum(term.baseline_s for term in self.terms if term.name == name)
