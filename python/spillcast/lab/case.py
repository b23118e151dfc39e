"""A verified forecast: its evidence, its prediction and the measured runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

import numpy as np

from spillcast.document import key, written
from spillcast.engines.queries import RunResult
from spillcast.evidence.counts import Counts
from spillcast.forecast import Forecast
from spillcast.lab.run import lost_shares
from spillcast.recording import Recording
from spillcast.recording.meta import Temp
from spillcast.storage import Group, Storage
from spillcast.storage.observed import TempEvidence, observed


@dataclass(frozen=True)
class Variant:
    """The numbers of a forecast; None if it is refused."""

    forecast_s: float | None
    interval_s: tuple[float, float] | None
    ceiling_s: float
    ceiling_interval_s: tuple[float, float] | None

    @classmethod
    def of(cls, answer: Forecast) -> "Variant":
        """The numbers of a forecast."""
        return cls(
            answer.forecast_s, answer.interval_s, answer.ceiling_s, answer.ceiling_interval_s
        )


VERIFY_SCHEMA = "spillcast.verify/1"
#: Directions of a forecast, the most common first.
DIRECTIONS = ("slow to fast", "fast to slow", "slow to slow", "fast to fast")


@dataclass(frozen=True)
class Runs:
    """Runs of one query on one storage without recording, in order.

    The ``wanted`` least disturbed ones count; there are more if other work on the machine disturbed
    some.
    """

    made: Sequence[RunResult]
    wanted: int

    @property
    def median_s(self) -> float:
        """Median elapsed time of the runs that count."""
        return median(self.counted_s)

    @property
    def counted_s(self) -> list[float]:
        """Elapsed times of the runs that count, the least disturbed first."""
        calmest = sorted(zip(lost_shares(self.made), self.elapsed_s, strict=True))
        return [elapsed_s for _, elapsed_s in calmest[: self.wanted]]

    @property
    def elapsed_s(self) -> list[float]:
        """The elapsed time of each run."""
        return [ran.elapsed_s for ran in self.made]


@dataclass(frozen=True)
class Evidence:
    """The evidence of a forecast: its kind, the time that it covers, the time of the probe.

    ``name`` is ``recording``, ``event_log`` or ``event_log+recording`` (of Spark), ``plan`` (of
    EXPLAIN), ``slices`` (ten of 0.3 s), ``first_fifth``, or one of ``spillcast_lab.partial_runs``.
    """

    name: str
    #: Time of the run that it covers.
    covers_s: float
    #: Time that the recorded run was runnable but not scheduled.
    run_queue_delay_s: float
    probe_s: float
    #: Mean time of a temp operation, as recorded and as probed; None if not timed.
    operation_from_s: float | None
    operation_to_s: float | None
    #: Cost of recording to the run; None without a recording, or if not measured.
    overhead_s: float | None = None


def evidence_of(name: str, evidence: TempEvidence, target: Storage | None) -> Evidence:
    """The evidence of a forecast; ``target`` is the probed storage, None without a probe."""
    groups = target.groups if target else []
    temp: Temp | Counts = evidence.meta.temp if isinstance(evidence, Recording) else evidence
    delay_s, overhead_s = 0.0, None
    if isinstance(evidence, Recording):
        capture = evidence.meta.capture
        delay_s, overhead_s = capture.run_queue_delay_s, capture.overhead_s
    probed = sum(group.count for group in groups)
    probed_s = sum(group.total_ns for group in groups) / 1e9
    return Evidence(
        name,
        evidence.elapsed_s,
        delay_s,
        float(target.facts.get("elapsed_ns") or 0) / 1e9 if target else 0.0,
        temp.total_s / temp.operations if temp.operations and temp.total_s else None,
        probed_s / probed if probed else None,
        overhead_s,
    )


@dataclass(frozen=True)
class Case:
    """A forecast from one storage to another, and the measured elapsed times.

    ``seed_formula_s`` needs samples of an entire run; it is None for other evidence.
    """

    engine: str
    workload: str
    threads: int
    source: str
    target: str
    #: From a fast or a slow storage to a fast or a slow one: ``slow to fast`` and so on.
    direction: str
    on_source: Runs
    on_target: Runs
    forecast: Forecast
    seed_formula_s: float | None
    evidence: Evidence
    #: What makes each storage slow: ``fuse``, ``preload``, ``kernel`` or ``none``.
    source_means: str | None = None
    target_means: str | None = None
    #: Forecasts without an estimate or with more evidence, by the names of ``variants``.
    variants: Mapping[str, Variant] = field(default_factory=dict)

    @property
    def measured_from_s(self) -> float:
        """Median elapsed time on the source."""
        return self.on_source.median_s

    @property
    def measured_to_s(self) -> float:
        """Median elapsed time on the target."""
        return self.on_target.median_s

    @property
    def error(self) -> float | None:
        """Forecast over measured, minus 1; None where the forecast was refused."""
        forecast_s = self.forecast.forecast_s
        return None if forecast_s is None else forecast_s / self.measured_to_s - 1

    @property
    def seed_error(self) -> float | None:
        """The seed's formula over measured, minus 1; None without the former."""
        seed_s = self.seed_formula_s
        return None if seed_s is None else seed_s / self.measured_to_s - 1


@dataclass(frozen=True, kw_only=True)
class MeasuredCase:
    """A case in a document: the forecast, and the medians of what was measured."""

    engine: str = key("engine and version", example="DuckDB 2.0.0")
    workload: str = key("kind of query", example="hash join")
    threads: int = key("threads, or a leader and its workers", example=2)
    evidence: str = key("recording, plan, or a part of a run", example="recording")
    source: str = key("storage that was recorded on", name="from", example="1 ms")
    target: str = key("storage that was forecast", name="to", example="tmpfs")
    direction: str = key("fast is what memory answers", example="slow to fast")
    measured_from_s: float = key("median of the runs there that count", unit="s", example=3.73)
    measured_to_s: float = key("median of the runs there that count", unit="s", example=1.93)
    forecast: Forecast = key("as of `forecast --json`")
    seed_formula_s: float | None = key("the seed's formula; null except for whole recordings")
    source_means: str | None = key(
        "`fuse`, `preload`, `kernel` or `none`", name="from_means", default=None, later=True
    )
    target_means: str | None = key(
        "what makes the storage slow", name="to_means", default=None, later=True
    )
    variants: Mapping[str, Variant] | None = key(
        "the forecast made otherwise", default=None, later=True
    )

    @classmethod
    def of(cls, case: Case) -> "MeasuredCase":
        """The values of a case for a document."""
        names = {field.name for field in fields(cls)} - {"evidence"}
        return cls(evidence=case.evidence.name, **{name: getattr(case, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The document of ``demo`` and ``verify``."""

    cases: Sequence[MeasuredCase] = key("each forecast beside the measured runs")
    #: Of a verification, what was run.
    about: Mapping[str, Any] = key("", rest=True)

    def to_json(self) -> dict[str, Any]:
        """The document of docs/schema.md."""
        cases = [written(case) | {"forecast": case.forecast.to_json()} for case in self.cases]
        return {"schema": VERIFY_SCHEMA, **self.about, "cases": cases}


@dataclass(frozen=True)
class Truth:
    """All cases of a verification, and a description of the run that made them."""

    cases: list[Case]
    about: dict[str, Any] = field(default_factory=dict)


def document(cases: Sequence[Case], about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document of a demo, or of a verification with its description."""
    return Verification(cases=list(map(MeasuredCase.of, cases)), about=about or {}).to_json()


#: The interval of samples in the formula of the blog post.
SAMPLE_NS = 1_000_000_000


def seed_formula_s(baseline: Recording, target: Storage) -> float:
    """Elapsed time on ``target`` by the formula of the blog post, from a forecast's evidence.

    T_new = T - p*T + p*T / g, where p is the share of 1 Hz samples in temp waits, and g the ratio
    of the mean read latencies. docs/method.md explains what it leaves out.
    """
    elapsed_s = baseline.elapsed_s
    temp_s = sampled_share(baseline) * elapsed_s
    gain = _read_latency_s(observed(baseline)) / _read_latency_s(target)
    return elapsed_s - temp_s + temp_s / gain


def sampled_share(baseline: Recording) -> float:
    """Share of instants one second apart at which a temp operation was under way."""
    waits = baseline.temp_waits
    start = waits["start_ns"].to_numpy()
    end = np.maximum.accumulate(start + waits["elapsed_ns"].to_numpy())
    instants = np.arange(SAMPLE_NS // 2, round(baseline.elapsed_s * 1e9), SAMPLE_NS)
    before = np.searchsorted(start, instants, side="right") - 1
    under_way = (before >= 0) & (end[before] > instants)
    return float(under_way.mean()) if len(instants) else 0.0


def _read_latency_s(storage: Storage) -> float:
    groups: list[Group] = storage.of("read") or storage.of("write")
    return sum(group.total_ns for group in groups) / sum(group.count for group in groups) / 1e9
