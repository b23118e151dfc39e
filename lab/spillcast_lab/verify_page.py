"""The page of verify: cases one by one, or their summaries and the worst."""

from collections.abc import Sequence

from spillcast.lab.case import DIRECTIONS, Case, Truth
from spillcast.report.checks import cases_table, percent, share
from spillcast.report.page import Page, Part, Words
from spillcast.tabular import Column, Table
from spillcast.units import format_count
from spillcast_lab.summary import Summary, grouped, of_evidence, refusals, summarise, worst

#: As many cases are listed one by one; of more there are summaries and the worst.
LISTED_MAX = 24


_CASE = (
    *(Column(name, None) for name in ("query", "from", "to")),
    Column("forecast", None, "raw"),
    Column("interval", None, "raw", spare=1),
    *(Column(name, None, "raw") for name in ("took", "error")),
    Column("", None),
)
CASE_NOTE = "  forecast and took (the measured median) in s; !: the interval misses it"
SUMMARY_HEADER = (
    "", "cases", "median", "90th", "bias", "signs", "held", "width", "formula", "ratio",
)  # fmt: skip
_SUMMARY = (Column("", None), *(Column(name, None, "raw") for name in SUMMARY_HEADER[1:]))
EVIDENCE = {
    "recording": "whole recording",
    "event_log": "event log",
    "event_log+recording": "event log and recording",
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
        "-" if summary.sign_test is None else f"{summary.sign_test:.2f}",
        share(summary.coverage, 0),
        share(summary.half_width),
        share(summary.seed_median),
        "-" if summary.ratio is None else f"{summary.ratio:.1f}x",
    ]


def by_way(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases by direction, in the order of DIRECTIONS."""
    ways = grouped(cases, lambda case: case.direction)
    return {way: ways[way] for way in DIRECTIONS if way in ways}


def by_way_and_threads(cases: Sequence[Case]) -> dict[tuple[str, ...], list[Case]]:
    """Cases by direction, of each by engine, and of each by threads."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for way, its in by_way(cases).items():
        groups[way,] = its
        for engine, some in grouped(its, lambda case: case.engine_name).items():
            groups[way, engine] = some
            for threads, few in grouped(some, threads_of).items():
                groups[way, engine, threads] = few
    return groups


def breakdown(cases: Sequence[Case]) -> dict[str, dict[str, list[Case]]]:
    """The groups that a report tells of, under what they are told apart by."""
    whole = of_evidence(cases)
    by_evidence = grouped(cases, lambda case: case.evidence.name)
    named = {EVIDENCE[name]: by_evidence[name] for name in EVIDENCE if name in by_evidence}
    return {
        "direction": {", ".join(k): its for k, its in by_way_and_threads(whole).items()},
        "engine": grouped(whole, lambda case: case.engine),
        "threads": grouped(whole, threads_of),
        "workload": grouped(whole, lambda case: case.workload),
        "evidence": named,
    }


def verify_page(truth: Truth) -> Page:
    """Cases or their summaries; the data are the cases as they are kept in Parquet."""
    cases = truth.cases
    if not cases:
        return Page([Words(["No case was verified."])], cases_table(cases))
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
    return Page([*parts, *([Words(lines, "  ")] if lines else [])], cases_table(cases))


def _heading(case: Case) -> str:
    return f"{case.engine}, from {EVIDENCE.get(case.evidence.name, case.evidence.name)}"
