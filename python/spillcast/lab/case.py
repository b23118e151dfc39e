"""The cases of a verification, and their Parquet file, the source of all reports."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.columns import TEXT, struct_of
from spillcast.document import key, written
from spillcast.engines.queries import RunResult
from spillcast.errors import EvidenceUnknown, PathMissing
from spillcast.evidence.counts import Counts
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.result import TERM_TYPES, Forecast, Term
from spillcast.gate import object_of, reading
from spillcast.lab.run import lost_shares
from spillcast.recording import Recording
from spillcast.recording.meta import Temp
from spillcast.recording.schema import Described
from spillcast.storage import Group, Storage
from spillcast.storage.observed import TempEvidence, observed
from spillcast.tables import ParquetTable, Table, write_parquet
from spillcast.workspace import whole_file

CASES_SCHEMA = "spillcast.cases/2"
#: Key of the file's metadata with the description of the verification, as JSON.
ABOUT = "spillcast"

_SECONDS = "list of float64"
_TERM = struct_of(TERM_TYPES)
_UNCERTAINTY = struct_of(
    {
        "forecast_s": "float64", "kind": TEXT, "direction": TEXT, "rest_share": "float64",
        "below": "float64", "above": "float64", "residual_share": "float64",
    }
)  # fmt: skip
_VARIANT_S = "forecast_s", "low_s", "high_s", "ceiling_s", "ceiling_low_s", "ceiling_high_s"
_VARIANT = struct_of({"name": TEXT, **dict.fromkeys(_VARIANT_S, "float64")})
_WARNING = struct_of({"code": TEXT, "message": TEXT})

COLUMNS = (
    Described("engine", TEXT, False, "engine and version", "DuckDB 2.0.0"),
    Described("workload", TEXT, False, "kind of query", "hash join"),
    Described("threads", "int32", False, "threads, or a leader and its workers", 2),
    Described("evidence", TEXT, False, "recording, plan, or a part of a run", "recording"),
    Described("from", TEXT, False, "storage that was recorded on", "1 ms"),
    Described("to", TEXT, False, "storage that was forecast", "tmpfs"),
    Described("direction", TEXT, False, "`fast`: served from memory", "slow to fast"),
    Described("measured_from_s", "float64", False, "median of the runs there that count", 3.73),
    Described("measured_to_s", "float64", False, "median of the runs there that count", 1.93),
    Described("runs_from_s", _SECONDS, False, "all bare runs there, in order", [3.7, 3.73, 3.8]),
    Described("runs_to_s", _SECONDS, False, "all bare runs there, in order", [1.9, 1.93, 2.0]),
    Described(
        "delays_from_s", _SECONDS, False, "of each run, time runnable but not scheduled", [0.01]
    ),
    Described(
        "delays_to_s", _SECONDS, False, "of each run, time runnable but not scheduled", [0.01]
    ),
    Described("cpu_from_s", _SECONDS, False, "of each run, CPU time of all its threads", [1.6]),
    Described("cpu_to_s", _SECONDS, False, "of each run, CPU time of all its threads", [1.5]),
    Described("runs_wanted", "int32", False, "runs that count: the least disturbed ones", 3),
    Described("recorded_s", "float64", False, "elapsed time of the recorded run", 3.75),
    Described("evidence_s", "float64", False, "time of that run which the evidence covers", 3.0),
    Described("evidence_delay_s", "float64", False, "time runnable but not scheduled in it", 0.02),
    Described("overhead_s", "float64", True, "what recording cost that run", 0.03),
    Described("operation_from_s", "float64", True, "mean time of a temp operation", 0.00103),
    Described("operation_to_s", "float64", True, "the same, as the probe measured it", 0.000004),
    Described("probe_s", "float64", False, "how long the probe took", 2.1),
    Described("forecast_s", "float64", True, "the forecast; null where it was refused", 1.97),
    Described("low_s", "float64", True, "lower bound of the interval", 1.85),
    Described("high_s", "float64", True, "upper bound of the interval", 2.12),
    Described("confidence", "float64", False, "level of the interval", 0.9),
    Described("ceiling_s", "float64", False, "forecast for storage of no latency", 1.8),
    Described("ceiling_low_s", "float64", True, "its lower bound: what no storage can beat", 1.7),
    Described("ceiling_high_s", "float64", True, "its upper bound", 1.9),
    Described("remainder_s", "float64", True, "of the forecast, what is not temp I/O", 1.9),
    Described("terms", f"list of {_TERM}", False, "what the forecast is the sum of", []),
    Described("method", TEXT, False, "how it was made", "counts"),
    Described("seed_formula_s", "float64", True, "the seed's formula on the recording", 2.4),
    Described("refused", TEXT, True, "why there is no number; null where there is one", None),
    Described("warnings", f"list of {_WARNING}", False, "codes and messages of its warnings", []),
    Described("uncertainty", _UNCERTAINTY, True, "the parts of its uncertainty", None),
    Described("from_means", TEXT, True, "fuse, preload, kernel or none", "kernel"),
    Described("to_means", TEXT, True, "what makes the storage slow", "none"),
    Described("variants", f"list of {_VARIANT}", True, "the forecast by other methods", []),
)
#: Columns that contain a field of a case or of its evidence unchanged, with the field's name.
_OF_CASE = {
    **{name: name for name in ("engine", "workload", "threads", "direction", "seed_formula_s")},
    "from": "source", "to": "target", "from_means": "source_means", "to_means": "target_means",
}  # fmt: skip
_OF_EVIDENCE = {
    **{name: name for name in ("overhead_s", "operation_from_s", "operation_to_s", "probe_s")},
    "evidence": "name", "evidence_s": "covers_s", "evidence_delay_s": "run_queue_delay_s",
}  # fmt: skip


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


def error_of(forecast: Forecast, measured_s: float) -> float | None:
    """Forecast over measured, minus 1; of bounds the nearest one counts. None if refused."""
    if forecast.forecast_s is None or forecast.interval_s is None:
        return None
    low_s, high_s = forecast.interval_s
    nearest_s = min(max(measured_s, low_s), high_s)
    return (nearest_s if forecast.bounds_only else forecast.forecast_s) / measured_s - 1


VERIFY_SCHEMA = "spillcast.verify/1"
#: Directions of a forecast, the most common first.
DIRECTIONS = ("slow to fast", "fast to slow", "slow to slow", "fast to fast")


@dataclass(frozen=True)
class Runs:
    """Runs of one query on one storage without recording, in order.

    The ``wanted`` least disturbed runs count; there are more if other work on the machine disturbed
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
        least_disturbed = sorted(zip(lost_shares(self.made), self.elapsed_s, strict=True))
        return [elapsed_s for _, elapsed_s in least_disturbed[: self.wanted]]

    @property
    def elapsed_s(self) -> list[float]:
        """The elapsed time of each run."""
        return [ran.elapsed_s for ran in self.made]


@dataclass(frozen=True)
class CaseEvidence:
    """The evidence of a forecast: its kind, the time that it covers, the time of the probe.

    ``name`` is ``recording``, ``event_log`` or ``event_log+recording`` (of Spark), ``plan`` (of
    EXPLAIN), ``slices`` (ten of 0.3 s), ``first_fifth``, or one of ``spillcast_lab.partial_runs``.
    """

    name: str
    #: The part of the run's time that it covers.
    covers_s: float
    #: Time in which the recorded run was runnable but not scheduled.
    run_queue_delay_s: float
    probe_s: float
    #: Mean time of a temp operation, as recorded and as probed; None if not timed.
    operation_from_s: float | None
    operation_to_s: float | None
    #: Cost of recording to the run; None without a recording, or if not measured.
    overhead_s: float | None = None


def evidence_of(name: str, evidence: TempEvidence, target: Storage | None) -> CaseEvidence:
    """The evidence of a forecast; ``target`` is the probed storage, None without a probe."""
    groups = target.groups if target else []
    temp: Temp | Counts = evidence.meta.temp if isinstance(evidence, Recording) else evidence
    delay_s, overhead_s = 0.0, None
    if isinstance(evidence, Recording):
        capture = evidence.meta.capture
        delay_s, overhead_s = capture.run_queue_delay_s, capture.overhead_s
    probed = sum(group.count for group in groups)
    probed_s = sum(group.total_ns for group in groups) / 1e9
    return CaseEvidence(
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
    #: The direction of the move: ``slow to fast`` and so on.
    direction: str
    on_source: Runs
    on_target: Runs
    forecast: Forecast
    seed_formula_s: float | None
    evidence: CaseEvidence
    #: The means that make each storage slow: ``fuse``, ``preload``, ``kernel`` or ``none``.
    source_means: str | None = None
    target_means: str | None = None
    #: Forecasts without one estimator or with more evidence, by the name of the variant.
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
        """The error of the forecast; None if it was refused."""
        return error_of(self.forecast, self.measured_to_s)

    @property
    def seed_error(self) -> float | None:
        """The seed's formula over measured, minus 1; None if the formula has no result."""
        seed_s = self.seed_formula_s
        return None if seed_s is None else seed_s / self.measured_to_s - 1


@dataclass(frozen=True, kw_only=True)
class MeasuredCase:
    """A case in a document: the forecast, and the medians of the measurements."""

    engine: str = key("engine and version", example="DuckDB 2.0.0")
    workload: str = key("kind of query", example="hash join")
    threads: int = key("threads, or a leader and its workers", example=2)
    evidence: str = key("recording, plan, or a part of a run", example="recording")
    source: str = key("storage that was recorded on", name="from", example="1 ms")
    target: str = key("storage that was forecast", name="to", example="tmpfs")
    direction: str = key("`fast`: served from memory", example="slow to fast")
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
        "the forecast by other methods", default=None, later=True
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
    #: The description of a verification's runs.
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
    """Share of instants one second apart at which a temp operation was in progress."""
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


def write_truth(path: Path, truth: Truth) -> None:
    """Write the file completely, or keep the existing one. WriteFailed if it cannot be written."""
    about = {"schema": CASES_SCHEMA, **truth.about}
    table = Table.from_rows([_row(case) for case in truth.cases], COLUMNS).cast(COLUMNS)
    with whole_file(path) as partial:
        write_parquet(partial, table, key_values={ABOUT: json.dumps(about)})


def read_truth(path: Path) -> Truth:
    """Read a file of ``write_truth``. InputError for another file."""
    hint = "make one with: spillcast verify -o FILE"
    if not path.is_file():
        raise PathMissing("no such file", hint, path)
    with reading(path, hint):
        pairs = dict(_core.ParquetReader(path).key_values())
        about = object_of(pairs.get(ABOUT, "{}"))
        if about.pop("schema", None) != CASES_SCHEMA:
            raise EvidenceUnknown(f"holds no cases of a verification ({CASES_SCHEMA})")
        rows = ParquetTable(path, COLUMNS, hint, signed=("terms", "uncertainty")).read()
        return Truth([_case(row) for row in rows.to_pylist()], about)


def _row(case: Case) -> dict[str, Any]:
    forecast = case.forecast
    rest_s = [term.forecast_s for term in forecast.terms if term.op is None]
    row: dict[str, Any] = {
        **{column: getattr(case, name) for column, name in _OF_CASE.items()},
        **{column: getattr(case.evidence, name) for column, name in _OF_EVIDENCE.items()},
        "runs_wanted": case.on_target.wanted,
        "recorded_s": forecast.baseline_s,
        "confidence": forecast.confidence,
        **_numbers(Variant.of(forecast)),
        "remainder_s": None if forecast.forecast_s is None else sum(rest_s),
        "terms": [asdict(term) for term in forecast.terms],
        "method": forecast.method,
        "refused": forecast.refused,
        "warnings": [
            {"code": warning.code, "message": warning.message} for warning in forecast.warnings
        ],
        "uncertainty": forecast.uncertainty and asdict(forecast.uncertainty),
        "variants": [
            {"name": name, **_numbers(variant)} for name, variant in case.variants.items()
        ],
    }
    for end, runs in (("from", case.on_source), ("to", case.on_target)):
        row[f"measured_{end}_s"], row[f"runs_{end}_s"] = runs.median_s, runs.elapsed_s
        row[f"delays_{end}_s"] = [ran.run_queue_delay_s for ran in runs.made]
        row[f"cpu_{end}_s"] = [ran.cpu_s for ran in runs.made]
    return row


def _numbers(variant: Variant) -> dict[str, float | None]:
    bounds_s, ceiling_bounds_s = variant.interval_s, variant.ceiling_interval_s
    figures_s = (
        *(variant.forecast_s, *(bounds_s or (None, None))),
        *(variant.ceiling_s, *(ceiling_bounds_s or (None, None))),
    )
    return dict(zip(_VARIANT_S, figures_s, strict=True))


def _case(row: Mapping[str, Any]) -> Case:
    for name in ("recorded_s", "forecast_s", "measured_from_s", "measured_to_s"):
        if row[name] == 0:
            raise ValueError(f"{name} of a case is 0")
    if row["direction"] not in DIRECTIONS:
        raise ValueError(f"direction is {row['direction']!r}")
    if (row["forecast_s"] is None) != (row["low_s"] is None):
        raise ValueError("a case has a forecast_s without low_s, or the reverse")
    forecast = Forecast(
        target=row["to"],
        baseline_s=row["recorded_s"],
        confidence=row["confidence"],
        terms=[Term(**term) for term in row["terms"]],
        method=row["method"],
        warnings=[Caveat(**warning) for warning in row["warnings"]],
        refused=row["refused"],
        uncertainty=Uncertainty(**stored) if (stored := row.get("uncertainty")) else None,
        **vars(_variant(row)),
    )
    of_case: dict[str, Any] = {name: row.get(column) for column, name in _OF_CASE.items()}
    evidence: dict[str, Any] = {name: row.get(column) for column, name in _OF_EVIDENCE.items()}
    return Case(
        **of_case,
        on_source=_runs(row, "from"),
        on_target=_runs(row, "to"),
        forecast=forecast,
        evidence=CaseEvidence(**evidence),
        variants={variant["name"]: _variant(variant) for variant in row.get("variants") or ()},
    )


def _variant(row: Mapping[str, Any]) -> Variant:
    bounds = _bounds(row), _bounds(row, "ceiling_")
    return Variant(row["forecast_s"], bounds[0], row["ceiling_s"], bounds[1])


def _bounds(row: Mapping[str, Any], prefix: str = "") -> tuple[float, float] | None:
    low_s, high_s = row.get(f"{prefix}low_s"), row.get(f"{prefix}high_s")
    if low_s is not None and high_s is not None:
        return low_s, high_s
    if low_s is not None or high_s is not None:
        raise ValueError(f"{prefix}low_s is there without {prefix}high_s, or the reverse")
    return None


def _runs(row: Mapping[str, Any], end: str) -> Runs:
    figures = zip(*(row[f"{name}_{end}_s"] for name in ("runs", "delays", "cpu")), strict=True)
    made = [RunResult(elapsed_s, "", delay_s, cpu_s) for elapsed_s, delay_s, cpu_s in figures]
    if not made or not row["runs_wanted"] or not all(ran.elapsed_s for ran in made):
        raise ValueError(f"runs_{end}_s holds no run that counts")
    return Runs(made, row["runs_wanted"])
