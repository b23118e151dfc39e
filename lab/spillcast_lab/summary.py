"""Figures of groups of cases: errors, coverage and width of intervals; the page of ``verify``."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

import numpy as np

from spillcast.lab.case import DIRECTIONS, Case, Truth
from spillcast.report import Page, PagePart, Prose
from spillcast.report.checks import cases_table, percent, share
from spillcast.tabular import Column, PrintedTable
from spillcast.units import format_count
from spillcast_lab.outcome import (
    deviations,
    engine_name,
    is_below_ceiling,
    is_covered,
    with_variant,
)
from spillcast_lab.variants import without


@dataclass(frozen=True)
class Summary:
    """Figures of a group of cases; errors are absolute and relative to the measured time.

    A figure is None if no case has it. ``ratio`` is the median error of the seed's formula over
    that of the forecast, for cases with both.
    """

    cases: int
    refused: int
    median: float | None
    p90: float | None
    worst: float | None
    #: Median of the signed errors; above 0 if forecasts are too long.
    bias: float | None
    #: Probability of at least as many errors of one sign if forecasts have no bias.
    sign_test: float | None
    #: Share of the intervals that contain the measured time.
    coverage: float | None
    half_width: float | None
    #: Share of the cases with a measured time below the ceiling.
    below_ceiling: float | None
    #: Median deviation of a run on the target from the other runs of its query on it.
    run_difference: float | None
    seed_median: float | None
    ratio: float | None

    @property
    def refused_share(self) -> float | None:
        """Share of the cases without a number."""
        return self.refused / self.cases if self.cases else None


def summarise(cases: Sequence[Case]) -> Summary:
    """The figures of a group of cases."""
    signed = [case.error for case in cases if case.error is not None]
    errors = list(map(abs, signed))
    covered = [is_covered(case) for case in cases if case.forecast.interval_s is not None]
    widths = [width for case in cases if (width := case.forecast.half_width) is not None]
    below = [low for case in cases if (low := is_below_ceiling(case)) is not None]
    both = [
        (abs(case.error), abs(case.seed_error))
        for case in cases
        if case.error is not None and case.seed_error is not None
    ]
    seed_median = _median(seed for _, seed in both)
    beside = _median(error for error, _ in both)
    return Summary(
        cases=len(cases),
        refused=len(cases) - len(errors),
        median=_median(errors),
        p90=float(np.quantile(errors, 0.9)) if errors else None,
        worst=max(errors, default=None),
        bias=_median(signed),
        sign_test=sign_test(signed) if signed else None,
        coverage=sum(covered) / len(covered) if covered else None,
        half_width=_median(widths),
        below_ceiling=sum(below) / len(below) if below else None,
        run_difference=_median(repeated(cases)),
        seed_median=seed_median,
        ratio=seed_median / beside if seed_median is not None and beside else None,
    )


def sign_test(errors: Sequence[float]) -> float:
    """Two-sided p-value of the signs: without bias, errors above and below 0 are equally likely."""
    above = sum(error > 0 for error in errors)
    count = above + sum(error < 0 for error in errors)
    fewer = sum(comb(count, k) for k in range(min(above, count - above) + 1))
    return min(fewer * 0.5 ** (count - 1), 1.0)


def grouped(cases: Iterable[Case], key: Callable[[Case], str]) -> dict[str, list[Case]]:
    """Cases by ``key``, in the alphabetical order of the keys."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(key(case), []).append(case)
    return dict(sorted(groups.items()))


#: Evidence of an entire run.
ENTIRE = ("recording", "event_log", "event_log+recording")


def of_evidence(cases: Iterable[Case], *names: str) -> list[Case]:
    """The cases from these kinds of evidence, by default from entire runs."""
    return [case for case in cases if case.evidence.name in (names or ENTIRE)]


def repeated(cases: Iterable[Case]) -> list[float]:
    """Deviations of runs on targets from the other runs; runs of several cases count once."""
    runs = {
        (case.engine, case.workload, case.threads, case.target): case.on_target for case in cases
    }
    return [apart for run in runs.values() for apart in deviations(run)]


def without_estimate(cases: Iterable[Case], name: str) -> list[Case]:
    """The cases with forecasts without an estimator; unchanged if the forecast does not differ."""
    return [with_variant(case, without(name)) or case for case in cases]


def forecast_with(cases: Iterable[Case], name: str) -> list[Case]:
    """The cases that have a variant of this name, with its forecast."""
    return [variant for case in cases if (variant := with_variant(case, name)) is not None]


def worst(cases: Sequence[Case], count: int = 10) -> list[Case]:
    """The cases with the largest errors, the worst first."""
    known = [case for case in cases if case.error is not None]
    return sorted(known, key=lambda case: -abs(case.error or 0.0))[:count]


def recording_cost(case: Case) -> float:
    """Relative difference of the elapsed times of the recorded run and of bare runs."""
    return case.forecast.baseline_s / case.measured_from_s - 1


def refusals(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The refused cases by reason; of reasons that differ only in figures, the first is the key."""
    by_kind: dict[str, list[Case]] = {}
    for case in cases:
        if case.forecast.refused is not None:
            kind = re.sub(r"\d[\d.,]*( (ns|us|ms|s|min|h)\b)?", "", case.forecast.refused)
            by_kind.setdefault(kind, []).append(case)
    return {str(refused[0].forecast.refused): refused for refused in by_kind.values()}


def _median(values: Iterable[float]) -> float | None:
    listed = list(values)
    return median(listed) if listed else None


#: Maximum number of listed cases; above it there are summaries and the worst cases.
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
    """A short name of a case's query."""
    return f"{case.workload} x{case.threads}"


def threads_of(case: Case) -> str:
    """The threads or processes of a case as text."""
    return format_count(case.threads, "thread")


def case_row(case: Case) -> list[str | None]:
    """A row for a case, times in seconds."""
    forecast = case.forecast
    bounds = map(_seconds, forecast.interval_s or ())
    missed = None if forecast.interval_s is None or is_covered(case) else "!"
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
    """A row for a group."""
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


def by_direction(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases by direction, in the order of DIRECTIONS."""
    groups = grouped(cases, lambda case: case.direction)
    return {direction: groups[direction] for direction in DIRECTIONS if direction in groups}


def by_direction_and_threads(cases: Sequence[Case]) -> dict[tuple[str, ...], list[Case]]:
    """Cases by direction, by direction and engine, and by these and threads."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for direction, of_direction in by_direction(cases).items():
        groups[direction,] = of_direction
        for engine, of_engine in grouped(of_direction, engine_name).items():
            groups[direction, engine] = of_engine
            for threads, of_threads in grouped(of_engine, threads_of).items():
                groups[direction, engine, threads] = of_threads
    return groups


def breakdown(cases: Sequence[Case]) -> dict[str, dict[str, list[Case]]]:
    """The groups of cases in a report, by the property that distinguishes them."""
    whole = of_evidence(cases)
    by_evidence = grouped(cases, lambda case: case.evidence.name)
    named = {EVIDENCE[name]: by_evidence[name] for name in EVIDENCE if name in by_evidence}
    return {
        "direction": {", ".join(k): v for k, v in by_direction_and_threads(whole).items()},
        "engine": grouped(whole, lambda case: case.engine),
        "threads": grouped(whole, threads_of),
        "workload": grouped(whole, lambda case: case.workload),
        "evidence": named,
    }


def verify_page(truth: Truth) -> Page:
    """Cases or their summaries; the data are the cases as they are kept in Parquet."""
    cases = truth.cases
    if not cases:
        return Page([Prose(["No case was verified."])], cases_table(cases))
    parts: list[PagePart] = []
    if len(cases) <= LISTED_MAX:
        listed, heading = grouped(cases, _heading), ""
    else:
        rows = [summary_row("all", summarise(cases))]
        for groups in breakdown(cases).values():
            rows += [summary_row(name, summarise(group)) for name, group in groups.items()]
        parts.append(PrintedTable(_SUMMARY, rows))
        listed, heading = grouped(worst(of_evidence(cases)), _heading), "the worst: "
    for name, group in listed.items():
        parts += [Prose([heading + name]), PrintedTable(_CASE, [case_row(case) for case in group])]
    parts.append(Prose([CASE_NOTE]))
    if len(cases) <= LISTED_MAX:
        parts.append(PrintedTable(_SUMMARY, [summary_row("all", summarise(cases))]))
    lines = [f"  {len(group)} refused: {reason}" for reason, group in refusals(cases).items()]
    if left_out := truth.about.get("left_out"):
        lines.append(f"  {len(left_out)} skipped, the last one because: {left_out[-1]['why']}")
    return Page([*parts, Prose(lines, "  ")], cases_table(cases))


def _heading(case: Case) -> str:
    return f"{case.engine}, from {EVIDENCE.get(case.evidence.name, case.evidence.name)}"
