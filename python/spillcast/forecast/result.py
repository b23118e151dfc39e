"""A forecast as a value: the elapsed time on a target, its interval, terms and warnings."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from spillcast.columns import TEXT, fields_of
from spillcast.document import PrintedDocument, internal, key, later
from spillcast.errors import Refusal
from spillcast.forecast.binding import Binding
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.interval import Uncertainty, too_wide
from spillcast.forecast.work_memory import SpilledLines, WorkMemoryEffect
from spillcast.recording.completeness import RecordedPart
from spillcast.recording.observed import CountedStatement
from spillcast.tabular import Column, Display, Tabular
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_interval,
    interval_name,
)

if TYPE_CHECKING:
    from spillcast.tables import Table


#: The term of calls that create, resize, sync, remove or look up temp files.
CHANGES = "other calls on temp files"
#: The name of the target that no storage is faster than.
ZERO_LATENCY = "zero-latency storage"
#: The term of reads of data files that the page cache did not serve.
DATA_READS = "data reads"
#: The term of threads that were runnable while other programs had the CPUs.
RUN_QUEUE = "waits for a CPU"
#: The term of waits for a CPU quota that zero-latency storage would leave.
QUOTA = "CPU quota"
#: The term of the cost of recording; it is 0 on a target.
RECORDING = "recording"

Interval = tuple[float, float]
#: ``op`` of a term that the target changes but that is not a read or write, such as a network wait.
WAIT = "wait"
#: Warnings of evidence with only bounds of the time of temp I/O.
TIME_UNKNOWN = frozenset({"time-unknown", "cached-io", "io-unknown"})
#: Storage is the problem if faster storage can save at least this share of the time.
PROBLEM_SHARE = 0.5
#: The least share of the time that a sentence mentions.
NOTABLE_SHARE = 0.1


#: The columns of terms in a table.
TERM_TYPES = {
    "name": TEXT, "op": TEXT, "bytes": "int64", "count": "int64",
    "baseline_s": "float64", "forecast_s": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A part of the elapsed time, on the baseline and on the target."""

    name: str
    #: ``read``, ``write`` or ``WAIT``; None if the target does not change it.
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
        """Mean size of the operations; None if they have none."""
        return self.bytes / self.count if self.count and self.bytes else None


@dataclass(frozen=True, kw_only=True)
class RemainingQuantity:
    """Bytes or seconds that remain: 90 % interval from ``low`` to ``high``, and its ``centre``.

    ``centre`` and ``high`` are None without an upper bound.
    """

    low: float
    centre: float | None
    high: float | None
    #: The evidence of the quantity.
    source: str
    #: Bytes moved before the end of the recording, and during it; None for times.
    done: float | None = key("", optional=True)
    recorded: float | None = key("", optional=True)


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """The work that remains of a partly recorded query at the end of its recording."""

    done_s: float
    reads_bytes: RemainingQuantity
    writes_bytes: RemainingQuantity
    elapsed_s: RemainingQuantity
    #: Hints that are not used, and why.
    unused: Sequence[str] = later(())
    #: Whether temp files were written at full rate at the end, so that there is no upper bound.
    still_writing: bool = later(False)

    @property
    def open_ended(self) -> bool:
        """Whether only a lower bound is known."""
        return self.elapsed_s.high is None

    @property
    def still_writing_text(self) -> str:
        """Why only a lower bound is known, and its value, if the query was ``still_writing``."""
        return (
            "no upper bound: temp files were still written at full rate when the recording ended, "
            f"and to read what they hold takes at least {format_duration(self.elapsed_s.low)} more"
        )


@dataclass(frozen=True)
class WarmRun:
    """Elapsed times with all data files in memory, today and on the target."""

    baseline_s: float
    forecast_s: float | None


@dataclass(frozen=True)
class Rehearsed:
    """The part of the query that was run on the target."""

    elapsed_s: float
    operations: int
    #: Share of all temp operations of the query.
    share: float
    #: Whether the entire query ran, so that the forecast is a measured time.
    ended: bool


@dataclass(frozen=True)
class Sampled:
    """The sample of a large recording that a forecast is made from."""

    #: Waits in the sample, and in the recording.
    waits: int
    of_waits: int
    #: Relative standard error of the forecast because of sampling.
    error: float


@dataclass(frozen=True, kw_only=True)
class SpillSpread:
    """The variation of the bytes that a query spills from run to run."""

    #: Standard deviation of the logarithm of these bytes, and its excess over verified queries.
    spread: float
    added: float
    #: Bytes of this run, and the memory that its threads shared; None if not shared or unknown.
    written_bytes: int
    memory_bytes: int | None
    #: Runs whose spill was compared.
    runs: int

    @property
    def text(self) -> str:
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
    """A stage of a Spark application: its part of the elapsed time, today and on the target."""

    id: int
    name: str
    tasks: int
    shuffle_read_bytes: int
    shuffle_write_bytes: int
    spill_bytes: int
    #: Its part of the elapsed time; the time of concurrent stages counts for the first of them.
    baseline_s: float
    forecast_s: float
    #: Start and end, from the start of the run.
    baseline_at_s: Interval
    forecast_at_s: Interval
    #: The activity that its tasks spend most time on, or the reason why slots are idle.
    baseline_bound_by: str
    bound_by: str


@dataclass(frozen=True, kw_only=True)
class Executors:
    """Executors of a Spark application, from its event log or assumed."""

    executors: int
    cores: int
    memory_bytes: int
    #: Elapsed time of the application with the executors of its log.
    measured_s: float

    @property
    def text(self) -> str:
        """``8 executors of 4 cores and 16 GiB``."""
        executors = format_count(self.executors, "executor")
        cores, memory = format_count(self.cores, "core"), format_bytes(self.memory_bytes)
        return f"{executors} of {cores} and {memory}"


@dataclass(frozen=True, kw_only=True)
class WithoutSpills:
    """Executor memory with which no task of a Spark application spills, on today's storage."""

    memory_bytes: int
    current_bytes: int
    #: Whether the nodes' page cache is large enough to give up that memory; None if unknown.
    fits: bool | None
    forecast_s: float
    interval_s: Interval


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(PrintedDocument, Tabular):
    """Elapsed time on a target. The numbers are None if the evidence does not allow a forecast."""

    SCHEMA = "spillcast.forecast/1"
    target: str
    baseline_s: float
    forecast_s: float | None
    interval_s: Interval | None
    confidence: float
    ceiling_s: float
    #: Interval of ``ceiling_s``: no storage is likely to beat its lower end. None if unknown.
    ceiling_interval_s: Interval | None = later()
    #: Elapsed time without free memory, if the page cache is assumed to hold the temp files.
    without_cache_s: float | None = later()
    terms: Sequence[Term]
    method: str = later("counts")
    warnings: Sequence[Caveat]
    #: Why there is no forecast, and the code of that error.
    refused: str | None
    refused_code: str | None = later()
    #: The recorded part, if the forecast is for it and not for the entire query.
    part: RecordedPart | None = later()
    #: Elapsed time of the recorded part, if the forecast is for the entire query.
    recorded_s: float | None = later()
    #: The subject of the forecast within a sentence, if that is not one query.
    subject: str | None = later()
    #: The work that remains of a query that was recorded in part, if it can be estimated.
    to_come: Remaining | None = later()
    #: The rehearsal on the target.
    rehearsed: Rehearsed | None = later()
    #: The statement, if it was selected from a file of several.
    statement: CountedStatement | None = later()
    #: The times without reads of data files, if the reads took notable time.
    warm: WarmRun | None = later()
    #: The sample, if not all waits of a large recording were used.
    sampled: Sampled | None = later()
    #: Variation of the spill from run to run, which widens the interval; None if unknown.
    spill_spread: SpillSpread | None = later()
    #: How to get this storage, as sentences.
    advice: Sequence[str] = later(())
    #: The effect of more work memory, if a plan of PostgreSQL is known.
    work_memory: WorkMemoryEffect | None = later()
    #: Lines of an Oracle plan that spill, and the effect of more PGA, if known.
    spilled: SpilledLines | None = later()
    #: The causes of waits of temp I/O on a target with limits.
    binding: Binding | None = later()
    #: The stages of a Spark application, in their order.
    stages: Sequence[StageForecast] = later(())
    #: The assumed executors; None for those of the event log.
    supposed: Executors | None = later()
    #: The effect of more memory on a Spark application; None if nothing spills.
    without_spills: WithoutSpills | None = later()
    #: Price of the target, in the unit that the user gave all prices in.
    cost: float | None = later()
    #: Whether the target saves the most time for its price.
    best_value: bool = later(False)
    #: The causes of the interval, also if that was too wide for a forecast.
    uncertainty: Uncertainty | None = internal()
    #: ``ceiling_s`` at the bounds of an unknown quantity of the evidence; None without one.
    ceiling_bounds_s: Interval | None = internal()

    def __post_init__(self) -> None:
        if self.forecast_s is not None and self.interval_s is None:
            raise ValueError("there is a forecast_s without an interval_s")

    @classmethod
    def unanswered(
        cls, target: str, elapsed_s: float, confidence: float, **fields: Any
    ) -> "Forecast":
        """A forecast without a number; ``fields`` are its other fields."""
        return cls(
            target=target,
            baseline_s=elapsed_s,
            forecast_s=None,
            interval_s=None,
            confidence=confidence,
            **{"ceiling_s": elapsed_s, "terms": (), "warnings": (), "refused": None, **fields},
        )

    def refused_by(self, refusal: Refusal) -> "Forecast":
        """This unanswered forecast with the reason of a refusal."""
        return replace(self, refused=refusal.message, refused_code=refusal.code)

    def __str__(self) -> str:
        """The answer in one sentence."""
        return self.sentence()

    @property
    def speedup(self) -> float | None:
        """Baseline over forecast; below 1 if the query gets slower."""
        return None if self.forecast_s is None else self.baseline_s / self.forecast_s

    @property
    def ceiling_share(self) -> float | None:
        """Time saved over that of zero-latency storage; None if slower or if that saves nothing."""
        if self.forecast_s is None or not self.ceiling_s < self.baseline_s >= self.forecast_s:
            return None
        return (self.baseline_s - self.forecast_s) / (self.baseline_s - self.ceiling_s)

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width, relative to the forecast; None if refused."""
        if not self.forecast_s or self.interval_s is None:
            return None
        return (self.interval_s[1] - self.interval_s[0]) / 2 / self.forecast_s

    def holds(self, elapsed_s: float) -> bool:
        """Whether a measured time is inside the interval."""
        low_s, high_s = self.interval_s or (0.0, 0.0)
        return low_s <= elapsed_s <= high_s

    @property
    def terms_by_name(self) -> list[Term]:
        """One term per name: the sum over sizes."""
        names = dict.fromkeys(term.name for term in self.terms)
        return [Term.sum_of(name, [t for t in self.terms if t.name == name]) for name in names]

    @property
    def moved(self) -> Term:
        """The sum of all terms that depend on the storage."""
        return Term.sum_of("moved", [term for term in self.terms if term.op is not None])

    @property
    def recorded_text(self) -> str:
        """The recorded time within a sentence; empty if the entire run was recorded."""
        if self.recorded_s is None:
            return ""
        return f", judging by the {format_duration(self.recorded_s)} recorded"

    def sentence(self, beside: Iterable["Forecast"] = ()) -> str:
        """The answer in one sentence; ``beside`` as in ``ceiling_text``."""
        today = format_duration(self.baseline_s)
        if self.forecast_s is None or self.interval_s is None:
            return f"No forecast for {self.target}: {self.refused}."
        ends = format_interval(self.interval_s)
        then = ends if self.bounds_only else f"about {format_duration(self.forecast_s)}"
        if self.part is None:
            run = self.subject or "this run"
            sentence = f"On {self.target} {run} would take {then} instead of {today}"
            sentence += self.recorded_text
        else:
            sentence = f"{self.part.text}: on {self.target} this part would take {then}"
        if self.bounds_only:
            return f"{sentence}."
        return f"{sentence}, {interval_name(self.confidence)} {ends}; {self.ceiling_text(beside)}."

    @property
    def observed_s(self) -> float:
        """Today's elapsed time without the cost of recording."""
        return self.baseline_s - sum(t.baseline_s for t in self.terms if t.name == RECORDING)

    @property
    def unknown_share(self) -> Interval | None:
        """Bounds of the share of temp I/O in the time, if only these are known."""
        if TIME_UNKNOWN.isdisjoint(warned.code for warned in self.warnings):
            return None
        # ``ceiling_interval_s`` also contains the model's error, so its threshold is higher.
        bounds_s = self.ceiling_bounds_s or self.ceiling_interval_s
        notable = PROBLEM_SHARE if self.ceiling_bounds_s is None else NOTABLE_SHARE
        if bounds_s is None:
            return 0.0, 1.0
        left = (s / self.observed_s if self.observed_s else 0.0 for s in bounds_s)
        high, low = (min(max(1 - share, 0.0), 1.0) for share in left)
        return (low, high) if high - low > notable else None

    @property
    def far_apart(self) -> bool:
        """Whether the interval is so wide that its middle is no forecast, without a page cache."""
        if self.interval_s is None or self.without_cache_s is not None:
            return False
        return too_wide(*self.interval_s, self.baseline_s) is not None

    @property
    def bounds_only(self) -> bool:
        """Whether the interval is the answer: it is far apart, or temp I/O was not timed."""
        return self.far_apart or self.unknown_share is not None

    def ceiling_text(self, beside: Iterable["Forecast"] = (), of: str = "") -> str:
        """The time on zero-latency storage, ``of`` today's, and the limit that no storage can beat.

        ``beside`` are forecasts of the same query that are shown with this one. The limit is the
        lowest of all their limits.
        """
        words = f"{ZERO_LATENCY} would leave about {format_duration(self.ceiling_s)}{of}"
        intervals_s = (forecast.ceiling_interval_s for forecast in (self, *beside))
        floor_s = min((low_s for low_s, _ in filter(None, intervals_s)), default=0.0)
        if self.ceiling_interval_s is None or not floor_s:
            return words
        return f"{words}, and none can bring it under {format_duration(floor_s)}"

    def figures(self) -> dict[str, Any]:
        """The forecast as a row of a table, with the bounds of intervals in separate columns."""
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
        from spillcast.tables import Table

        return Table.from_rows([asdict(term) for term in self.terms], fields_of(TERM_TYPES))

    def display(self) -> Display:
        """The sentence, a row per name of a term, and the warnings."""
        unknown = self.forecast_s is None or self.bounds_only
        rows = [] if unknown else term_rows(self, self.terms_by_name)
        notes = [
            f"Warning: {warned.message}" + (f". {warned.next_step}" if warned.next_step else "")
            for warned in self.warnings
        ]
        return Display(self.sentence(), TERM_COLUMNS, rows, [*notes, *self.advice])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        shares = {"speedup": self.speedup, "ceiling_share": self.ceiling_share}
        return super().to_json() | shares


TERM_COLUMNS = (
    Column("term", None),
    Column("count", None, "count"),
    Column("size", None, "bytes"),
    Column("today", None, "s"),
    Column("on target", None, "s"),
)


def term_rows(forecast: Forecast, terms: Iterable[Term]) -> list[list[Any]]:
    """A row of TERM_COLUMNS for each of ``terms``, and for the elapsed time."""
    rows = [[t.name, t.count or None, t.mean_bytes, t.baseline_s, t.forecast_s] for t in terms]
    return [*rows, ["elapsed", None, None, forecast.baseline_s, forecast.forecast_s]]
