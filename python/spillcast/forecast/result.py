"""A forecast: the number, how sure it is, and the terms that it is the sum of."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.document import internal, key, later, written
from spillcast.errors import Refusal
from spillcast.forecast.binding import Binding
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.work_memory import Spilled, WorkMemory
from spillcast.recording.completeness import Part
from spillcast.recording.observed import Statement
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import format_bytes, format_count, format_duration, interval_name

if TYPE_CHECKING:
    from spillcast.tables import Table


FORECAST_SCHEMA = "spillcast.forecast/1"
#: The term of the calls that make, resize, sync or remove temp files.
CHANGES = "other calls on temp files"
#: The storage that no storage can beat.
ZERO_LATENCY = "zero-latency storage"
#: The term of reads of data files that memory did not answer.
DATA_READS = "data reads"
#: The term of threads that were runnable while other programs had the CPUs.
RUN_QUEUE = "waits for a CPU"
#: The term of waits for a CPU quota that zero-latency storage would leave.
QUOTA = "CPU quota"
#: The term of what recording cost, which no target has.
RECORDING = "recording"

Interval = tuple[float, float]


@dataclass(frozen=True)
class Term:
    """A part of the elapsed time, on the baseline and on the target."""

    name: str
    op: str | None
    bytes: int | None
    count: int | None
    baseline_s: float = key("", signed=True)
    forecast_s: float = key("", signed=True)

    @classmethod
    def sum_of(cls, name: str, terms: Sequence["Term"]) -> "Term":
        """Several terms as one, with the op of the first."""
        return cls(
            name,
            terms[0].op if terms else None,
            sum(term.bytes or 0 for term in terms),
            sum(term.count or 0 for term in terms),
            sum(term.baseline_s for term in terms),
            sum(term.forecast_s for term in terms),
        )

    @property
    def mean_bytes(self) -> float | None:
        """Mean size of its operations; None where these have none."""
        return self.bytes / self.count if self.count and self.bytes else None


@dataclass(frozen=True, kw_only=True)
class RemainingQuantity:
    """What remains, nine in ten between ``low`` and ``high``.

    ``centre`` and ``high`` are None without an upper bound.
    """

    low: float
    centre: float | None
    high: float | None
    #: What they are known from.
    source: str
    #: Of bytes: those moved by the recording's end, and within it.
    done: float | None = key("", optional=True)
    recorded: float | None = key("", optional=True)


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What remains of a partly recorded query at the end of its recording."""

    done_s: float
    reads_bytes: RemainingQuantity
    writes_bytes: RemainingQuantity
    elapsed_s: RemainingQuantity
    #: What was given and is not used, and why.
    unused: Sequence[str] = later(())
    #: Whether temp files were still written at full rate at the end: nothing bounds what remains.
    still_writing: bool = later(False)

    @property
    def open_ended(self) -> bool:
        """Whether only a lower bound is known."""
        return self.elapsed_s.high is None

    @property
    def still_writing_words(self) -> str:
        """Why only a lower bound is known, and which, where files were still written."""
        return (
            "no upper bound: temp files were still written at full rate when the recording ended, "
            f"and to read what they hold takes at least {format_duration(self.elapsed_s.low)} more"
        )


@dataclass(frozen=True)
class Warned:
    """Something that weakens the number; ``code`` is stable, the rest is for people."""

    code: str
    message: str
    #: Of the code: a few words, and what to do. None of a code that this version does not know.
    title: str | None = later()
    next_step: str | None = later()

    def __post_init__(self) -> None:
        if self.title is None and (about := explained().get(self.code)) is not None:
            object.__setattr__(self, "title", about.title)
            object.__setattr__(self, "next_step", about.next_step)


@dataclass(frozen=True)
class Warm:
    """Elapsed times of a run that finds the data it reads in memory, as it is and on the target."""

    baseline_s: float
    forecast_s: float | None


@dataclass(frozen=True)
class Rehearsed:
    """How much of the query was run on the target."""

    elapsed_s: float
    operations: int
    #: Of all its temp operations.
    share: float
    #: Whether that was the whole query, so that the forecast is a measured time.
    ended: bool


@dataclass(frozen=True)
class Sampled:
    """What a forecast from a sample of a large recording rests on."""

    #: Single waits that were taken, and that there are.
    waits: int
    of_waits: int
    #: Standard error of the forecast for that, as a share of it.
    error: float


@dataclass(frozen=True, kw_only=True)
class SpillSpread:
    """How far the bytes that a query spills differ from run to run."""

    #: Standard deviation of their logarithm, and its excess over that of verified queries.
    spread: float
    added: float
    #: Bytes of this run, and the memory that its threads shared; None where not shared or unknown.
    written_bytes: int
    memory_bytes: int | None
    #: Runs whose spill was compared.
    runs: int

    @property
    def words(self) -> str:
        """The spread and its source, within a sentence."""
        sources = []
        if self.runs > 1:
            sources.append(f"the spills of {self.runs} runs")
        if self.memory_bytes is not None:
            written, memory = map(format_bytes, (self.written_bytes, self.memory_bytes))
            sources.append(f"a spill of {written} beside {memory} of memory")
        return (
            f"the spill differs by {100 * self.spread:.1f} % from run to run (standard "
            f"deviation), by {' and '.join(sources)}"
        )


@dataclass(frozen=True, kw_only=True)
class StageForecast:
    """A stage of a Spark application: its part of the elapsed time, here and on the target."""

    id: int
    name: str
    tasks: int
    shuffle_read_bytes: int
    shuffle_write_bytes: int
    spill_bytes: int
    #: Its part of the elapsed time; that of stages at the same time is of the first of them.
    baseline_s: float
    forecast_s: float
    #: When it begins and ends, from the begin of the run.
    baseline_at_s: Interval
    forecast_at_s: Interval
    #: What its tasks spend most of their time on, or why slots are idle.
    baseline_bound_by: str
    bound_by: str


@dataclass(frozen=True, kw_only=True)
class Executors:
    """Executors of a Spark application, of an event log or supposed instead."""

    executors: int
    cores: int
    memory_bytes: int
    #: Elapsed time of the application with those of its log.
    measured_s: float

    @property
    def words(self) -> str:
        """``8 executors of 4 cores and 16 GiB``."""
        executors = format_count(self.executors, "executor")
        cores, memory = format_count(self.cores, "core"), format_bytes(self.memory_bytes)
        return f"{executors} of {cores} and {memory}"


@dataclass(frozen=True, kw_only=True)
class WithoutSpills:
    """Executor memory with which no task of a Spark application spills, on today's storage."""

    memory_bytes: int
    current_bytes: int
    #: Whether the page cache of the nodes is large enough to give that memory; None: not known.
    fits: bool | None
    forecast_s: float
    interval_s: Interval


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(Tabular):
    """Elapsed time on a target. The numbers are None if the evidence does not allow a forecast."""

    target: str
    baseline_s: float
    forecast_s: float | None
    interval_s: Interval | None
    confidence: float
    ceiling_s: float
    #: Bounds of ``ceiling_s``, of which no storage is likely to beat the lower; None if unknown.
    ceiling_interval_s: Interval | None = later()
    #: Elapsed time without free memory, if the page cache is taken to hold the temp files.
    without_cache_s: float | None = later()
    terms: Sequence[Term]
    method: str = later("counts")
    warnings: Sequence[Warned]
    #: Why there is no number, and the code of that error.
    refused: str | None
    refused_code: str | None = later()
    #: What the numbers are for, where that is not the whole query.
    part: Part | None = later()
    #: What was recorded of a whole that the numbers are for; None for all of it.
    recorded_s: float | None = later()
    #: What the numbers are for, within a sentence, where that is not one query.
    subject: str | None = later()
    #: What remains of a query that was recorded in part, where something tells it.
    to_come: Remaining | None = later()
    #: What was run on the target itself.
    rehearsed: Rehearsed | None = later()
    #: Whose it is, where it was picked out of a file that may hold many.
    statement: Statement | None = later()
    #: Where reads of data files took a notable time: without them.
    warm: Warm | None = later()
    #: Where not all waits of a large recording were taken.
    sampled: Sampled | None = later()
    #: How far the spill differs from run to run, which is part of the interval; None if unknown.
    spill_spread: SpillSpread | None = later()
    #: How to get this storage, in words.
    advice: Sequence[str] = later(())
    #: What more work memory would do, where a plan of PostgreSQL is known.
    work_memory: WorkMemory | None = later()
    #: Which lines of an Oracle plan spill, and what more PGA would do, where that is known.
    spilled: Spilled | None = later()
    #: What temp I/O waits for on a target with limits.
    binding: Binding | None = later()
    #: The stages of a Spark application, in their order.
    stages: Sequence[StageForecast] = later(())
    #: The executors that are supposed; None: those of the event log.
    supposed: Executors | None = later()
    #: What more memory would do to a Spark application; None where nothing spills.
    without_spills: WithoutSpills | None = later()
    #: Price of the target, in whatever unit all prices are given.
    cost: float | None = later()
    #: Whether it saves the most time for its price.
    best_value: bool = later(False)
    #: What its interval follows from; also where that was too wide for a number.
    uncertainty: Uncertainty | None = internal()
    #: ``ceiling_s`` at the bounds of what the evidence leaves open; None where it leaves nothing.
    ceiling_bounds_s: Interval | None = internal()

    def __post_init__(self) -> None:
        if self.forecast_s is not None and self.interval_s is None:
            raise ValueError("there is a forecast_s without an interval_s")

    @classmethod
    def refusal(
        cls, target: str, elapsed_s: float, confidence: float, reason: str, code: str | None = None
    ) -> "Forecast":
        """A refused forecast, for evidence of which only the elapsed time is known."""
        return cls.unanswered(target, elapsed_s, confidence, refused=reason, refused_code=code)

    @classmethod
    def unanswered(
        cls, target: str, elapsed_s: float, confidence: float, **known: Any
    ) -> "Forecast":
        """A forecast without a number; ``known`` are its other fields."""
        return cls(
            target=target,
            baseline_s=elapsed_s,
            forecast_s=None,
            interval_s=None,
            confidence=confidence,
            **{"ceiling_s": elapsed_s, "terms": (), "warnings": (), "refused": None, **known},
        )

    def refused_by(self, refusal: Refusal) -> "Forecast":
        """The same without a number, for this reason."""
        return replace(self, refused=refusal.message, refused_code=refusal.code)

    def __str__(self) -> str:
        """The answer in one sentence."""
        return self.sentence()

    @property
    def speedup(self) -> float | None:
        """Baseline over forecast: below 1 the query gets slower."""
        return None if self.forecast_s is None else self.baseline_s / self.forecast_s

    @property
    def ceiling_share(self) -> float | None:
        """Time saved over that of zero-latency storage; None if slower, or if that saves none."""
        if self.forecast_s is None or not self.ceiling_s < self.baseline_s >= self.forecast_s:
            return None
        return (self.baseline_s - self.forecast_s) / (self.baseline_s - self.ceiling_s)

    @property
    def terms_by_name(self) -> list[Term]:
        """The terms of each name as one, without regard to size."""
        names = dict.fromkeys(term.name for term in self.terms)
        return [Term.sum_of(name, [t for t in self.terms if t.name == name]) for name in names]

    @property
    def moved(self) -> Term:
        """All that moves with the storage as one term."""
        return Term.sum_of("moved", [term for term in self.terms if term.op is not None])

    @property
    def recorded_words(self) -> str:
        """What of a run of known length was recorded, within a sentence; empty for all of it."""
        if self.recorded_s is None:
            return ""
        return f", judging by the {format_duration(self.recorded_s)} recorded"

    def sentence(self, beside: Iterable["Forecast"] = ()) -> str:
        """The answer in one sentence; ``beside`` as in ``ceiling_words``."""
        today = format_duration(self.baseline_s)
        if self.forecast_s is None or self.interval_s is None:
            return f"No forecast for {self.target}: {self.refused}."
        low, high = (format_duration(s) for s in self.interval_s)
        then = format_duration(self.forecast_s)
        if self.part is None:
            run = self.subject or "this run"
            sentence = f"On {self.target} {run} would take about {then} instead of {today}"
            sentence += self.recorded_words
        else:
            sentence = f"{self.part.words}: on {self.target} this part would take about {then}"
        return (
            f"{sentence}, {interval_name(self.confidence)} {low} to {high}; "
            f"{self.ceiling_words(beside)}."
        )

    def ceiling_words(self, beside: Iterable["Forecast"] = (), of: str = "") -> str:
        """The time on zero-latency storage, ``of`` today's, and the limit that no storage can beat.

        ``beside`` are forecasts of the same query that are shown with this one: the limit stated is
        not above any of theirs.
        """
        words = f"{ZERO_LATENCY} would leave about {format_duration(self.ceiling_s)}{of}"
        intervals_s = (forecast.ceiling_interval_s for forecast in (self, *beside))
        floor_s = min((low_s for low_s, _ in filter(None, intervals_s)), default=0.0)
        if self.ceiling_interval_s is None or not floor_s:
            return words
        return f"{words}, and none can bring it under {format_duration(floor_s)}"

    def figures(self) -> dict[str, Any]:
        """The forecast as one row of a table: bounds have columns of their own."""
        low_s, high_s = self.interval_s or (None, None)
        ceiling_low_s, ceiling_high_s = self.ceiling_interval_s or (None, None)
        return {
            "target": self.target,
            "baseline_s": self.baseline_s,
            "forecast_s": self.forecast_s,
            "low_s": low_s,
            "high_s": high_s,
            "confidence": self.confidence,
            "ceiling_s": self.ceiling_s,
            "ceiling_low_s": ceiling_low_s,
            "ceiling_high_s": ceiling_high_s,
            "speedup": self.speedup,
            "ceiling_share": self.ceiling_share,
            "method": self.method,
            "refused": self.refused,
            "cost": self.cost,
            "best_value": self.best_value,
        }

    def to_arrow(self) -> "Table":
        """A row for each term: name, op, bytes, count, baseline_s and forecast_s."""
        from spillcast.columns import TEXT, fields_of
        from spillcast.tables import Table

        types = {
            "name": TEXT, "op": TEXT, "bytes": "int64", "count": "int64",
            "baseline_s": "float64", "forecast_s": "float64",
        }  # fmt: skip
        return Table.from_rows([asdict(term) for term in self.terms], fields_of(types))

    def display(self) -> Display:
        """The sentence, the terms without regard to size, and what weakens it."""
        rows = []
        if self.forecast_s is not None:
            rows = [
                [t.name, t.count or None, t.mean_bytes, t.baseline_s, t.forecast_s]
                for t in self.terms_by_name
            ]
            rows.append(["elapsed", None, None, self.baseline_s, self.forecast_s])
        warnings = [f"Warning: {warning.message}" for warning in self.warnings]
        return Display(self.sentence(), _TERM_COLUMNS, rows, [*warnings, *self.advice])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        shares = {"speedup": self.speedup, "ceiling_share": self.ceiling_share}
        return {"schema": FORECAST_SCHEMA, **written(self), **shares}


_TERM_COLUMNS = (
    Column("term", None),
    Column("count", None, "count"),
    Column("size", None, "bytes"),
    Column("today", None, "s"),
    Column("on target", None, "s"),
)


EXPLAINED = Path(__file__).with_name("explained.toml")


@dataclass(frozen=True)
class Explained:
    """A warning in a few words, why it weakens a number, and what to do."""

    title: str
    cause: str
    next_step: str


@cache
def explained() -> Mapping[str, Explained]:
    """All of them by code."""
    record = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    return {code: Explained(**about) for code, about in record.items()}


def title_of(code: str) -> str:
    """A warning in a few words; its code where it is one of another version."""
    about = explained().get(code)
    return code if about is None else about.title
