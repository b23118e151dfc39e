"""Pages of doctor, calibrate, demo and check: this machine, and forecasts and measured times."""

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np

from spillcast.lab.case import Case, document
from spillcast.lab.check import Demo, ForecastCheck
from spillcast.lab.doctor import Diagnosis
from spillcast.recording.calibration import ANY, Calibration, CalibrationRun, WaitCost, is_old
from spillcast.report import Drawing, Page, PagePart, Prose
from spillcast.tabular import Column, PrintedTable
from spillcast.text import sentence
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_estimate,
    format_interval,
    format_share,
    format_speedup,
    interval_name,
)

_WORKS = (Column("works", "works"), Column("what", "what"), Column("how", "detail", "words"))
_FIX = Column("fixes", "fix")


def doctor_page(diagnosis: Diagnosis) -> Page:
    """The checks that pass, and a command that fixes each failure."""
    commit = f" ({diagnosis.commit})" if diagnosis.commit else ""
    version = (
        f"spillcast {diagnosis.spillcast}{commit}, Python {diagnosis.python}, "
        f"Linux {diagnosis.kernel}"
    )
    rows = [["yes" if f.works else "no", f.name, f.detail, f.fix] for f in diagnosis.findings]
    parts: list[PagePart] = [Prose([version]), PrintedTable(_WORKS, [row[:3] for row in rows])]
    if fixes := [f"{name}: {fix}" for _, name, _, fix in rows if fix is not None]:
        # Commands are not wrapped, so that they can be pasted.
        parts.append(Drawing(lambda _: "\n".join(["fixes", *fixes])))
    return Page(parts, PrintedTable((*_WORKS, _FIX), rows))


#: The cost is shown for a wait of WAIT_S, and for work after it of each CPU time in WORK_S.
WAIT_S, WORK_S = 1e-3, (1e-4, 1e-3)
_RUNS = (
    Column("engine", "engine"),
    Column("query", "query"),
    Column("storage", "storage"),
    Column("runs", "runs", "count", spare=2),
    Column("operations", "operations", "integer", spare=1),
    Column("mean wait", "latency_s", "s"),
    Column("CPU per operation", "cpu_per_operation_s", "s"),
)


def machine_page(calibration: Calibration) -> Page:
    """The measurements by query and storage, and those that were skipped."""
    measured = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(calibration.measured_at_s))
    machine = calibration.machine
    cpus = [format_count(machine.cpus, "CPU")] if machine.cpus else []
    hardware = ", ".join([machine.host, *cpus, *([machine.cpu] if machine.cpu else [])])
    lines = [f"measured {measured} in {format_duration(calibration.took_s)} on {hardware}"]
    if is_old(calibration.measured_at_s):
        lines.append("that is more than 30 days ago: run `spillcast calibrate` again")
    lines += [_cost_text(cost) for cost in calibration.costs]
    lines += [f"not measured: {reason}" for reason in calibration.skipped]
    table = PrintedTable(_RUNS, list(_calibration_rows(calibration.points)), grouped=2)
    return Page([Prose(lines), table], table)


def _cost_text(cost: WaitCost) -> str:
    """The fitted cost for two amounts of work."""
    examples = [
        f"{format_duration(work_s)} of work takes {format_duration(work_s + added_s)}"
        for work_s, added_s in zip(WORK_S, cost.extra_s(np.array(WORK_S), WAIT_S), strict=True)
    ]
    engine = "other engines" if cost.engine == ANY else f"{cost.engine} {cost.version}".rstrip()
    text = f"{engine}: after a wait of {format_duration(WAIT_S)}, {', '.join(examples)}"
    return f"{text}; the added time differs by {cost.spread:.0%} between queries"


def _calibration_rows(points: Sequence[CalibrationRun]) -> Iterator[Sequence[Any]]:
    """A row for each query on each storage, medians of its runs."""
    keys = [(point.engine, point.query, point.storage) for point in points]
    for key in dict.fromkeys(keys):
        runs = [point for point, of_point in zip(points, keys, strict=True) if of_point == key]
        names = ("operations", "latency_s", "cpu_per_operation_s")
        yield [*key, len(runs), *(median(getattr(run, name) for run in runs) for name in names)]


def percent(error: float | None) -> str:
    """An error with its sign."""
    return "-" if error is None else f"{error:+.1%}".replace("%", " %")


def share(value: float | None, digits: int = 1) -> str:
    """A share without a sign."""
    return "-" if value is None else format_share(value, digits)


def demo_page(demo: Demo) -> Page:
    """Forecast and measured times of the demo."""
    case = demo.case
    forecast = case.forecast
    rows = [
        [f"measured on {case.source}", format_duration(case.measured_from_s)],
        [f"forecast for {case.target}", format_duration(forecast.forecast_s or 0.0)],
        [f"  {interval_name(forecast.confidence)}", format_interval(forecast.interval_s or (0, 0))],
        [f"measured on {case.target}", format_duration(case.measured_to_s)],
        ["error of the forecast", percent(case.error)],
        ["error of the blog post's formula", percent(case.seed_error)],
    ]
    means = {"fuse": "a FUSE file system", "preload": "a preload library", "none": "nothing"}
    speedup = format_speedup(case.measured_from_s / case.measured_to_s)
    lines = [
        f"  {format_bytes(demo.bytes)} of temp I/O; the slow storage is made by "
        f"{means[demo.means]}; measured speed-up {speedup}."
    ]
    if demo.busy:
        lines.append("  warning: other work kept the CPUs busy; run it again on a quiet machine")
    query = Column(f"{case.engine}, {case.workload}, one thread", None)
    table = PrintedTable([query, Column("elapsed", None, "raw")], rows)
    return Page([Prose([forecast.sentence()], indent=""), table, Prose(lines)], cases_table([case]))


_KEYS = (
    *("engine", "workload", "threads", "evidence", "from", "to", "direction", "measured_from_s"),
    *("measured_to_s", "forecast_s", "low_s", "high_s", "confidence", "ceiling_s"),
    *("seed_formula_s", "refused"),
)


def cases_table(cases: Sequence[Case]) -> PrintedTable:
    """A row for each case, by the keys of its document and of its forecast's document."""
    records = [case | case["forecast"] for case in document(cases)["cases"]]
    return PrintedTable.of_records(records, _KEYS)


_TERMS = (
    Column("term", "name"),
    Column("before", "baseline_s", "s"),
    Column("forecast", "forecast_s", "s"),
    Column("measured", "measured_s", "s"),
)


def check_page(check: ForecastCheck) -> Page:
    """The verdict, or the reason that there is none, and a row for each term."""
    rows = [list(term) for term in check.terms()]
    forecast = check.forecast
    rows.append(["elapsed", forecast.baseline_s, forecast.forecast_s, check.actual.elapsed_s])
    # The middle of bounds would be taken for a forecast.
    shown = [[name, s, None, was_s] for name, s, _, was_s in rows] if forecast.bounds_only else rows
    return Page(
        [Prose([_verdict(check)], indent=""), PrintedTable(_TERMS, shown)],
        PrintedTable(_TERMS, rows),
    )


def _verdict(check: ForecastCheck) -> str:
    forecast = check.forecast
    interval_s = forecast.interval_s or (0.0, 0.0)
    if (objection := check.objection) is not None:
        return f"{sentence(objection)} This run cannot check the forecast."
    actual = format_duration(check.actual.elapsed_s)
    outcome = "held" if check.inside else "did not hold"
    saved = 1 - check.actual.elapsed_s / forecast.baseline_s
    change = f"{100 * abs(saved):.0f} % {'less' if saved >= 0 else 'more'} than before"
    result = f"The forecast {outcome}: {forecast.target} took {actual}, {change}; the forecast was"
    if forecast.bounds_only:
        return f"{result} {format_interval(interval_s)}, as temp I/O had only bounds."
    estimate = format_estimate(forecast.forecast_s or 0.0, interval_s)
    return f"{result} {estimate}, {100 * check.error:+.1f} % off."
