"""Forecasts beside measured times, at a terminal."""

from collections.abc import Sequence

from spillcast.lab.case import Case, Truth
from spillcast.lab.demo import Demo
from spillcast.lab.summary import Summary, grouped, of_evidence, refusals, summarise, worst
from spillcast.report.table import paragraph, table_text
from spillcast.units import format_bytes, format_duration, format_speedup

#: As many cases are listed one by one; of more there are summaries and the worst.
LISTED_MAX = 24
TERMINAL = 78


def percent(error: float | None) -> str:
    """An error with its sign."""
    return "-" if error is None else f"{error:+.1%}".replace("%", " %")


def share(value: float | None, digits: int = 1) -> str:
    """A share without a sign."""
    return "-" if value is None else f"{value:.{digits}%}".replace("%", " %")


def demo_text(demo: Demo) -> str:
    """What was forecast and what was measured, at a glance."""
    case = demo.case
    low, high = map(format_duration, case.forecast.interval_s or (0.0, 0.0))
    rows = [
        ["measured on " + case.source, format_duration(case.measured_from_s)],
        [f"forecast for {case.target}", format_duration(case.forecast.forecast_s or 0.0)],
        [f"  {case.forecast.confidence:.0%} sure", f"{low} to {high}"],
        [f"measured on {case.target}", format_duration(case.measured_to_s)],
        ["error of the forecast", percent(case.error)],
        ["error of the seed's formula", percent(case.seed_error)],
    ]
    how = {"fuse": "a FUSE file system", "preload": "a preload library", "none": "nothing"}
    speedup = format_speedup(case.measured_from_s / case.measured_to_s)
    return "\n".join(
        [
            paragraph(case.forecast.sentence()),
            "",
            table_text([f"{case.engine}, {case.workload}, one thread", "elapsed"], rows),
            "",
            f"  {format_bytes(demo.bytes)} of temp I/O; the slow storage is made by "
            f"{how[demo.means]}; measured speed-up {speedup}.",
            *["  warning: other work kept the CPUs busy; run it again on a quiet machine"]
            * demo.busy,
        ]
    )


#: 80 columns hold it, whatever the query and the storages are.
CASE_HEADER = ("query", "from", "to", "said", "interval", "took", "error")
CASE_NOTE = "  said: the forecast, s; took: the measured median, s; !: interval missed"
SUMMARY_HEADER = ("", "cases", "median", "90th", "held", "width", "seed's", "ratio")
EVIDENCE = {
    "recording": "whole recording",
    "slices": "ten slices of 0.3 s",
    "first_fifth": "first fifth",
    "plan": "plan of EXPLAIN",
}


def query_of(case: Case) -> str:
    """The query of a case in a few letters."""
    return f"{case.workload} x{case.threads}"


def threads_of(case: Case) -> str:
    """The threads or processes of a case in words."""
    return "1 thread" if case.threads == 1 else f"{case.threads} threads"


def engine_of(case: Case) -> str:
    """The engine of a case without its version."""
    return case.engine.rpartition(" ")[0]


def case_row(case: Case) -> list[str]:
    """One row a case, times in seconds."""
    said = case.forecast
    bounds = [] if said.interval_s is None else [_seconds(bound_s) for bound_s in said.interval_s]
    missed = "" if said.interval_s is None or case.covered else " !"
    return [
        query_of(case),
        case.source,
        case.target,
        "none" if said.forecast_s is None else _seconds(said.forecast_s),
        "-".join(bounds) or "refused",
        _seconds(case.measured_to_s),
        percent(case.error) + missed,
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def summary_row(name: str, found: Summary) -> list[str]:
    """One row a group."""
    answered = f"{found.cases - found.refused} of " if found.refused else ""
    return [
        name,
        f"{answered}{found.cases}",
        share(found.median),
        share(found.p90),
        share(found.coverage, 0),
        share(found.half_width),
        share(found.seed_median),
        "-" if found.ratio is None else f"{found.ratio:.1f}x",
    ]


def breakdown(cases: Sequence[Case]) -> dict[str, dict[str, list[Case]]]:
    """The groups that a report tells of, under what they are told apart by."""
    whole = of_evidence(cases)
    by_evidence = grouped(cases, lambda case: case.evidence.name)
    named = {EVIDENCE[name]: by_evidence[name] for name in EVIDENCE if name in by_evidence}
    return {
        "evidence": named,
        "engine": grouped(whole, lambda case: case.engine),
        "workload": grouped(whole, lambda case: case.workload),
        "direction": grouped(whole, lambda case: case.direction),
        "threads": grouped(whole, threads_of),
    }


def verify_text(truth: Truth) -> str:
    """Cases or their summaries, for a terminal of 80 columns."""
    cases = truth.cases
    if not cases:
        return "No case was verified."
    parts = []
    if len(cases) <= LISTED_MAX:
        listed, heading = grouped(cases, _heading), ""
    else:
        rows = [summary_row("all", summarise(cases))]
        for groups in breakdown(cases).values():
            rows += [summary_row(name, summarise(found)) for name, found in groups.items()]
        parts.append(table_text(SUMMARY_HEADER, rows))
        listed, heading = grouped(worst(of_evidence(cases)), _heading), "the worst: "
    for name, group in listed.items():
        table = table_text(CASE_HEADER, [case_row(case) for case in group], left=(0, 1, 2))
        parts.append("\n".join([heading + name, "", table]))
    parts.append(CASE_NOTE)
    if len(cases) <= LISTED_MAX:
        parts.append(table_text(SUMMARY_HEADER, [summary_row("all", summarise(cases))]))
    for reason, refused in refusals(cases).items():
        parts.append(paragraph(f"  {len(refused)} refused: {reason}", "  ", TERMINAL))
    if left_out := truth.about.get("left_out"):
        text = f"  {len(left_out)} left out, the last one because: {left_out[-1]['why']}"
        parts.append(paragraph(text, "  ", TERMINAL))
    return "\n\n".join(parts)


def _heading(case: Case) -> str:
    return f"{case.engine}, from {EVIDENCE[case.evidence.name]}"
