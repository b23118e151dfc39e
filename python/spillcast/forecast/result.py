"""What a forecast says: the number, how sure it is, the terms it is the sum of."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from spillcast.document import written
from spillcast.explained import warning_document
from spillcast.recording.part import Part, recorded_words
from spillcast.recording.postgres_meta import Statement
from spillcast.tabular import Display, Tabular
from spillcast.units import format_bytes, format_duration, format_speedup, interval_name

if TYPE_CHECKING:
    import pyarrow as pa

    from spillcast.forecast.oracle.spilled import Spilled
    from spillcast.forecast.sum.interval import Uncertainty
    from spillcast.forecast.to_come.to_come import ToCome
    from spillcast.forecast.work_memory.advice import WorkMemory

FORECAST_SCHEMA = "spillcast.forecast/1"
#: The term of the calls that make, resize, sync or remove temp files.
CHANGES = "other calls on temp files"
#: The term of reads of data files that memory did not answer.
DATA_READS = "data reads"
#: The term of waits for a CPU quota that zero-latency storage would leave.
QUOTA = "CPU quota"
#: The term of what recording cost, which no target has.
RECORDING = "recording"


@dataclass(frozen=True)
class Term:
    """A part of the elapsed time, on the baseline and on the target."""

    name: str
    op: str | None
    bytes: int | None
    count: int | None
    baseline_s: float
    forecast_s: float


@dataclass(frozen=True)
class Warned:
    """Something that weakens the number; ``code`` is stable, ``message`` is for people."""

    code: str
    message: str


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


@dataclass(frozen=True, repr=False)
class Forecast(Tabular):
    """Elapsed time on a target. The numbers are None if the evidence does not allow a forecast."""

    target: str
    baseline_s: float
    forecast_s: float | None
    interval_s: tuple[float, float] | None
    confidence: float
    ceiling_s: float
    terms: Sequence[Term]
    method: str = "counts"
    warnings: Sequence[Warned] = field(default_factory=list)
    refused: str | None = None
    #: What to do to have this storage, in words.
    advice: Sequence[str] = ()
    #: What more work memory would do, where a plan of PostgreSQL is known.
    work_memory: "WorkMemory | None" = None
    #: Which lines of an Oracle plan spill, and what more PGA would do, where that is told.
    spilled: "Spilled | None" = None
    #: What its interval follows from; also where that was too wide for a number.
    uncertainty: "Uncertainty | None" = None
    #: What the numbers are for, where that is not the whole query.
    part: Part | None = None
    #: Where reads of data files took a notable time: without them.
    warm: Warm | None = None
    #: What was recorded of a whole that the numbers are for; None for all of it.
    recorded_s: float | None = None
    #: What was run on the target itself.
    rehearsed: Rehearsed | None = None
    #: Bounds of ``ceiling_s``: no storage is likely to bring the query under the lower one. None
    #: where they are not known.
    ceiling_interval_s: tuple[float, float] | None = None
    #: Of a query that was seen in part: what is to come, where something tells it.
    to_come: "ToCome | None" = None
    #: Elapsed time on the target where memory is not free. None unless the page cache is taken to
    #: hold the temp files.
    without_cache_s: float | None = None
    #: Whose it is, where it was picked out of a file that may hold many.
    statement: Statement | None = None
    #: Where not all waits of a large recording were taken.
    sampled: Sampled | None = None

    def __str__(self) -> str:
        """The answer in one sentence."""
        return self.sentence()

    @property
    def speedup(self) -> float | None:
        """Baseline over forecast: below 1 the query gets slower."""
        return None if self.forecast_s is None else self.baseline_s / self.forecast_s

    @property
    def ceiling_share(self) -> float | None:
        """Time saved over the time that zero-latency storage would save.

        None if the query gets slower, or if no storage saves anything.
        """
        if self.forecast_s is None or not self.ceiling_s < self.baseline_s >= self.forecast_s:
            return None
        return (self.baseline_s - self.forecast_s) / (self.baseline_s - self.ceiling_s)

    def sentence(self, beside: Iterable["Forecast"] = ()) -> str:
        """The answer in one sentence; ``beside`` as in ``ceiling_words``."""
        today = format_duration(self.baseline_s)
        if self.forecast_s is None or self.interval_s is None:
            return f"No forecast for {self.target}: {self.refused}."
        low, high = (format_duration(s) for s in self.interval_s)
        then = format_duration(self.forecast_s)
        if self.part is None:
            sentence = f"On {self.target} this run would take about {then} instead of {today}"
            sentence += recorded_words(self.recorded_s)
        else:
            sentence = f"{self.part.words}: on {self.target} this part would take about {then}"
        return (
            f"{sentence}, {interval_name(self.confidence)} {low} to {high}; "
            f"{self.ceiling_words(beside)}."
        )

    def ceiling_words(self, beside: Iterable["Forecast"] = ()) -> str:
        """The time on zero-latency storage, and the limit that no storage can beat.

        ``beside`` are forecasts of the same query that are shown with this one: the limit stated is
        not above any of theirs.
        """
        words = f"zero-latency storage would leave about {format_duration(self.ceiling_s)}"
        if self.ceiling_interval_s is None:
            return words
        floor = floor_s((self, *beside))
        return f"{words}, and none can bring it under {format_duration(floor)}" if floor else words

    def to_arrow(self) -> "pa.Table":
        """A row for each term: name, op, bytes, count, baseline_s and forecast_s."""
        import pyarrow as pa

        schema = {
            "name": pa.string(), "op": pa.string(), "bytes": pa.int64(), "count": pa.int64(),
            "baseline_s": pa.float64(), "forecast_s": pa.float64(),
        }  # fmt: skip
        return pa.Table.from_pylist([asdict(term) for term in self.terms], pa.schema(schema))

    def display(self) -> Display:
        """The sentence, the terms without regard to size, and what weakens it."""
        rows = []
        if self.forecast_s is not None:
            names = dict.fromkeys(term.name for term in self.terms)
            rows = [_cells([t for t in self.terms if t.name == name]) for name in names]
            rows.append(
                ["elapsed", "", "", *map(format_duration, (self.baseline_s, self.forecast_s))]
            )
        warnings = [f"Warning: {warning.message}" for warning in self.warnings]
        header = ["term", "count", "size", "today", "there"]
        return Display(self.sentence(), header, rows, [*warnings, *self.advice])

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        return {
            "schema": FORECAST_SCHEMA,
            "target": self.target,
            "baseline_s": self.baseline_s,
            "forecast_s": self.forecast_s,
            "interval_s": None if self.interval_s is None else list(self.interval_s),
            "confidence": self.confidence,
            "ceiling_s": self.ceiling_s,
            "ceiling_interval_s": self.ceiling_interval_s and list(self.ceiling_interval_s),
            "without_cache_s": self.without_cache_s,
            "speedup": self.speedup,
            "ceiling_share": self.ceiling_share,
            "terms": [asdict(term) for term in self.terms],
            "method": self.method,
            "warnings": [
                warning_document(warning.code, warning.message) for warning in self.warnings
            ],
            "refused": self.refused,
            "part": self.part and self.part.to_json(),
            "recorded_s": self.recorded_s,
            "to_come": self.to_come and self.to_come.to_json(),
            "rehearsed": self.rehearsed and asdict(self.rehearsed),
            "statement": self.statement and written(self.statement),
            "warm": self.warm and asdict(self.warm),
            "sampled": self.sampled and asdict(self.sampled),
            "advice": list(self.advice),
            "work_memory": self.work_memory and self.work_memory.to_json(),
            "spilled": self.spilled and self.spilled.to_json(),
        }


class Forecasts(list[Forecast], Tabular):
    """Forecasts for several targets, in the order given."""

    def to_arrow(self) -> "pa.Table":
        """A row for each target; the numbers are null if a forecast was refused."""
        import pyarrow as pa

        names = (
            *("baseline_s", "forecast_s", "low_s", "high_s"),
            *("ceiling_s", "ceiling_low_s", "ceiling_high_s", "speedup"),
        )
        schema = {"target": pa.string(), **dict.fromkeys(names, pa.float64())}
        rows = [
            {
                **{name: getattr(each, name, None) for name in schema},
                **_ends("", each.interval_s),
                **_ends("ceiling_", each.ceiling_interval_s),
                "refused": each.refused,
            }
            for each in self
        ]
        return pa.Table.from_pylist(rows, pa.schema({**schema, "refused": pa.string()}))

    def display(self) -> Display:
        """The verdict, and a row for today and for each target."""
        from spillcast.forecast.choices import choices, verdict

        if not self:
            return Display("no forecasts")
        header = ["storage", "elapsed", "interval", "speed-up", "remarks"]
        today = ["today", format_duration(self[0].baseline_s), "", "", ""]
        rows = [today, *map(_target_cells, self)]
        answer = verdict(choices([each.target for each in self], self))
        return Display(answer.text, header, rows, left=(0, 4))

    __repr__ = Tabular.__repr__


def floor_s(forecasts: Iterable[Forecast]) -> float:
    """What no storage is likely to bring a query under, by forecasts of it that are told together.

    At least one of them must know its ceiling.
    """
    return min(
        forecast.ceiling_interval_s[0]
        for forecast in forecasts
        if forecast.ceiling_interval_s is not None
    )


def _ends(of: str, interval_s: tuple[float, float] | None) -> dict[str, float | None]:
    low_s, high_s = interval_s or (None, None)
    return {f"{of}low_s": low_s, f"{of}high_s": high_s}


def _cells(terms: Sequence[Term]) -> list[str]:
    """Terms of one name, summed: name, count, mean size and times."""
    count = sum(term.count or 0 for term in terms)
    size = sum(term.bytes or 0 for term in terms)
    return [
        terms[0].name,
        f"{count:,}" if count else "",
        format_bytes(size / count) if count and size else "",
        format_duration(sum(term.baseline_s for term in terms)),
        format_duration(sum(term.forecast_s for term in terms)),
    ]


def _target_cells(forecast: Forecast) -> list[str]:
    if forecast.forecast_s is None or forecast.interval_s is None or forecast.speedup is None:
        return [forecast.target, "-", "-", "-", forecast.refused or ""]
    return [
        forecast.target,
        format_duration(forecast.forecast_s),
        " to ".join(map(format_duration, forecast.interval_s)),
        format_speedup(forecast.speedup),
        ", ".join(warning.code for warning in forecast.warnings),
    ]
