"""Forecasts beside measured times: of a demo, of verified cases, of a query after its move."""

from collections.abc import Sequence

from spillcast.lab.case import DIRECTIONS, Case, Truth, document
from spillcast.lab.check import Check
from spillcast.lab.demo import Demo
from spillcast.lab.summary import Summary, grouped, of_evidence, refusals, summarise, worst
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    format_speedup,
    interval_name,
)

#: As many cases are listed one by one; of more there are summaries and the worst.
LISTED_MAX = 24


def percent(error: float | None) -> str:
    """An error with its sign."""
    return "-" if error is None else f"{error:+.1%}".replace("%", " %")


def share(value: float | None, digits: int = 1) -> str:
    """A share without a sign."""
    return "-" if value is None else f"{value:.{digits}%}".replace("%", " %")


def demo_page(demo: Demo) -> Page:
    """What was forecast and what was measured, at a glance."""
    case = demo.case
    low, high = map(format_duration, case.forecast.interval_s or (0.0, 0.0))
    rows = [
        ["measured on " + case.source, format_duration(case.measured_from_s)],
        [f"forecast for {case.target}", format_duration(case.forecast.forecast_s or 0.0)],
        [f"  {interval_name(case.forecast.confidence)}", f"{low} to {high}"],
        [f"measured on {case.target}", format_duration(case.measured_to_s)],
        ["error of the forecast", percent(case.error)],
        ["error of the blog post's formula", percent(case.seed_error)],
    ]
    how = {"fuse": "a FUSE file system", "preload": "a preload library", "none": "nothing"}
    speedup = format_speedup(case.measured_from_s / case.measured_to_s)
    lines = [
        f"  {format_bytes(demo.bytes)} of temp I/O; the slow storage is made by "
        f"{how[demo.means]}; measured speed-up {speedup}."
    ]
    if demo.busy:
        lines.append("  warning: other work kept the CPUs busy; run it again on a quiet machine")
    query = Column(f"{case.engine}, {case.workload}, one thread", None)
    table = Table([query, Column("elapsed", None, "raw")], rows)
    return Page([Words([case.forecast.sentence()], indent=""), table, Words(lines)], _data([case]))


_CASE = (
    *(Column(name, None) for name in ("query", "from", "to")),
    Column("said", None, "raw"),
    Column("interval", None, "raw", spare=1),
    *(Column(name, None, "raw") for name in ("took", "error")),
    Column("", None),
)
CASE_NOTE = "  said: the forecast, s; took: the measured median, s; !: interval missed"
SUMMARY_HEADER = ("", "cases", "median", "90th", "bias", "held", "width", "formula", "ratio")
_SUMMARY = (Column("", None), *(Column(name, None, "raw") for name in SUMMARY_HEADER[1:]))
EVIDENCE = {
    "recording": "whole recording",
    "slices": "ten slices of 0.3 s",
    "first_fifth": "first fifth",
    "first_fifth_alone": "first fifth, elapsed time unknown",
    "minute": "a minute, or a tenth",
    "minute_former": "the same, with a previous run",
    "plan": "plan of EXPLAIN",
}


def query_of(case: Case) -> str:
    """The query of a case in a few letters."""
    return f"{case.workload} x{case.threads}"


def threads_of(case: Case) -> str:
    """The threads or processes of a case in words."""
    return format_count(case.threads, "thread")


def engine_of(case: Case) -> str:
    """The engine of a case without its version."""
    return case.engine.rpartition(" ")[0]


def case_row(case: Case) -> list[str | None]:
    """One row a case, times in seconds."""
    forecast = case.forecast
    bounds = (
        []
        if forecast.interval_s is None
        else [_seconds(bound_s) for bound_s in forecast.interval_s]
    )
    missed = None if forecast.interval_s is None or case.covered else "!"
    return [
        query_of(case),
        case.source,
        case.target,
        "none" if forecast.forecast_s is None else _seconds(forecast.forecast_s),
        "-".join(bounds) or "refused",
        _seconds(case.measured_to_s),
        percent(case.error),
        missed,
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def summary_row(name: str, summary: Summary) -> list[str]:
    """One row a group."""
    answered = f"{summary.cases - summary.refused} of " if summary.refused else ""
    return [
        name,
        f"{answered}{summary.cases}",
        share(summary.median),
        share(summary.p90),
        percent(summary.bias),
        share(summary.coverage, 0),
        share(summary.half_width),
        share(summary.seed_median),
        "-" if summary.ratio is None else f"{summary.ratio:.1f}x",
    ]


def by_way(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases by direction, in the order of DIRECTIONS."""
    ways = grouped(cases, lambda case: case.direction)
    return {way: ways[way] for way in DIRECTIONS if way in ways}


def breakdown(cases: Sequence[Case]) -> dict[str, dict[str, list[Case]]]:
    """The groups that a report tells of, under what they are told apart by."""
    whole = of_evidence(cases)
    by_evidence = grouped(cases, lambda case: case.evidence.name)
    named = {EVIDENCE[name]: by_evidence[name] for name in EVIDENCE if name in by_evidence}
    return {
        "direction": by_way(whole),
        "engine": grouped(whole, lambda case: case.engine),
        "threads": grouped(whole, threads_of),
        "workload": grouped(whole, lambda case: case.workload),
        "evidence": named,
    }


def verify_page(truth: Truth) -> Page:
    """Cases or their summaries; the data are the cases as they are kept in Parquet."""
    cases = truth.cases
    if not cases:
        return Page([Words(["No case was verified."])], _data(cases))
    parts: list[Part] = []
    if len(cases) <= LISTED_MAX:
        listed, heading = grouped(cases, _heading), ""
    else:
        rows = [summary_row("all", summarise(cases))]
        for groups in breakdown(cases).values():
            rows += [summary_row(name, summarise(refused)) for name, refused in groups.items()]
        parts.append(Table(_SUMMARY, rows))
        listed, heading = grouped(worst(of_evidence(cases)), _heading), "the worst: "
    for name, group in listed.items():
        parts += [Words([heading + name]), Table(_CASE, [case_row(case) for case in group])]
    parts.append(Words([CASE_NOTE]))
    if len(cases) <= LISTED_MAX:
        parts.append(Table(_SUMMARY, [summary_row("all", summarise(cases))]))
    lines = [f"  {len(refused)} refused: {why}" for why, refused in refusals(cases).items()]
    if left_out := truth.about.get("left_out"):
        lines.append(f"  {len(left_out)} skipped, the last one because: {left_out[-1]['why']}")
    return Page([*parts, *([Words(lines, "  ")] if lines else [])], _data(cases))


_DATA = (
    *(Column(None, key) for key in ("engine", "workload", "threads", "evidence", "from", "to")),
    *(Column(None, key) for key in ("direction", "measured_from_s", "measured_to_s")),
    *(Column(None, key) for key in ("forecast_s", "low_s", "high_s", "confidence", "ceiling_s")),
    *(Column(None, key) for key in ("seed_formula_s", "refused")),
)


def _data(cases: Sequence[Case]) -> Table:
    """A row a case, by the keys of its document and of its forecast's."""
    records = []
    for case in document(cases)["cases"]:
        forecast = case["forecast"]
        low_s, high_s = forecast["interval_s"] or (None, None)
        records.append({**case, **forecast, "low_s": low_s, "high_s": high_s})
    return Table.of(_DATA, records)


def _heading(case: Case) -> str:
    return f"{case.engine}, from {EVIDENCE.get(case.evidence.name, case.evidence.name)}"


_TERMS = (
    Column("term", "name"),
    Column("before", "baseline_s", "s"),
    Column("forecast", "forecast_s", "s"),
    Column("came", "measured_s", "s"),
)


def check_page(check: Check) -> Page:
    """The verdict, or why there is none, and a row a term."""
    rows = [list(term) for term in check.terms()]
    forecast = check.forecast
    rows.append(["elapsed", forecast.baseline_s, forecast.forecast_s, check.actual.elapsed_s])
    table = Table(_TERMS, rows)
    parts: list[Part] = [Words([_verdict(check)], indent=""), table]
    return Page(parts, table)


def _verdict(check: Check) -> str:
    forecast = check.forecast
    low, high = map(format_duration, forecast.interval_s or (0.0, 0.0))
    if (objection := check.objection) is not None:
        return f"{objection[0].upper()}{objection[1:]}. This run says nothing of the forecast."
    forecast_text, actual_text = (
        format_duration(forecast.forecast_s or 0.0),
        format_duration(check.actual.elapsed_s),
    )
    held = "held" if check.inside else "did not hold"
    saved = 1 - check.actual.elapsed_s / forecast.baseline_s
    change = f"{100 * abs(saved):.0f} % {'less' if saved >= 0 else 'more'} than before"
    result = f"The forecast {held}: {forecast.target} took {actual_text}, {change}; "
    if check.bounded:
        return f"{result}the forecast was {low} to {high}, as temp I/O had only bounds."
    return (
        f"{result}the forecast was {forecast_text} ({low} to {high}), "
        f"{100 * check.error:+.1f} % off."
    )
