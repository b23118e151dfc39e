"""Reads and writes the cases of a verification as one Parquet file, the source of all reports."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.columns import TEXT, struct_of
from spillcast.engines.queries import RunResult
from spillcast.errors import EvidenceUnknown, FileUnreadable, PathMissing
from spillcast.forecast.interval import Uncertainty
from spillcast.forecast.result import Forecast, Term, Warned
from spillcast.gate import object_of, reading
from spillcast.lab.case import DIRECTIONS, Case, Evidence, Runs, Truth, Variant
from spillcast.recording.schema import Described
from spillcast.tables import Table, table_of, write_parquet
from spillcast.workspace import whole_file

CASES_SCHEMA = "spillcast.cases/2"
#: Key of the file's metadata with the description of the verification, as JSON.
ABOUT = "spillcast"

_SECONDS = "list of float64"
_TERM = struct_of(
    {
        "name": TEXT, "op": TEXT, "bytes": "int64", "count": "int64",
        "baseline_s": "float64", "forecast_s": "float64",
    }
)  # fmt: skip
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
    Described("direction", TEXT, False, "fast is what memory answers", "slow to fast"),
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
    Described(
        "warnings", f"list of {_WARNING}", False, "codes and messages of what weakens it", []
    ),
    Described("uncertainty", _UNCERTAINTY, True, "what the interval follows from", None),
    Described("from_means", TEXT, True, "fuse, preload, kernel or none", "kernel"),
    Described("to_means", TEXT, True, "what makes the storage slow", "none"),
    Described("variants", f"list of {_VARIANT}", True, "the forecast made otherwise", []),
)
#: Columns that contain a field of a case, or of its evidence, unchanged: the name of that field.
_OF_CASE = {
    **{name: name for name in ("engine", "workload", "threads", "direction", "seed_formula_s")},
    "from": "source", "to": "target", "from_means": "source_means", "to_means": "target_means",
}  # fmt: skip
_OF_EVIDENCE = {
    **{name: name for name in ("overhead_s", "operation_from_s", "operation_to_s", "probe_s")},
    "evidence": "name", "evidence_s": "covers_s", "evidence_delay_s": "run_queue_delay_s",
}  # fmt: skip


def write_truth(path: Path, truth: Truth) -> None:
    """Write the file completely, or keep the existing one. InputError if it cannot be written."""
    about = {"schema": CASES_SCHEMA, **truth.about}
    table = Table.from_rows([_row(case) for case in truth.cases], COLUMNS).cast(COLUMNS)
    try:
        with whole_file(path) as partial:
            write_parquet(partial, table, key_values={ABOUT: json.dumps(about)})
    except OSError as error:
        raise FileUnreadable(str(error.strerror or error), "name another with -o", path) from error


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
        rows = table_of(path, COLUMNS, hint, signed=("terms", "uncertainty"))
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
        warnings=[Warned(**warning) for warning in row["warnings"]],
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
        evidence=Evidence(**evidence),
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
