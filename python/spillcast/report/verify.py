"""Forecasts beside measured times."""

from collections.abc import Sequence
from statistics import median

from spillcast.lab.case import Case
from spillcast.lab.demo import Demo
from spillcast.recording.machine import describe_machine
from spillcast.report.forecast import sentence
from spillcast.report.table import markdown_table, paragraph, table_text
from spillcast.units import format_bytes, format_duration, format_speedup


def percent(error: float | None) -> str:
    """An error with its sign."""
    return "-" if error is None else f"{error:+.1%}".replace("%", " %")


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
            paragraph(sentence(case.forecast)),
            "",
            table_text([f"{case.engine}, {case.workload}, one thread", "elapsed"], rows),
            "",
            f"  {format_bytes(demo.bytes)} of temp I/O; the slow storage is made by "
            f"{how[demo.means]}; measured speed-up {speedup}.",
            *["  warning: other work kept the CPUs busy; run it again on a quiet machine"]
            * demo.busy,
        ]
    )


HEADER = ("workload", "from", "to", "now", "forecast", "interval", "measured", "error", "seed's")


def case_rows(cases: Sequence[Case]) -> list[list[str]]:
    """One row a case."""
    return [
        [
            case.workload,
            case.source,
            case.target,
            format_duration(case.measured_from_s),
            "refused"
            if case.forecast.forecast_s is None
            else format_duration(case.forecast.forecast_s),
            "-"
            if case.forecast.interval_s is None
            else " to ".join(map(format_duration, case.forecast.interval_s))
            + ("" if case.covered else " (missed)"),
            format_duration(case.measured_to_s),
            percent(case.error),
            percent(case.seed_error),
        ]
        for case in cases
    ]


def summary_lines(cases: Sequence[Case]) -> list[str]:
    """Median and worst error, coverage, and the seed's formula beside."""
    errors = sorted(abs(case.error) for case in cases if case.error is not None)
    seeds = sorted(abs(case.seed_error) for case in cases if case.seed_error is not None)
    if not errors:
        return ["Every forecast was refused."]
    covered = sum(case.covered for case in cases) / len(cases)
    bounds = [c.forecast.interval_s for c in cases if c.forecast.interval_s is not None]
    widths = [
        (b[1] - b[0]) / 2 / (c.forecast.forecast_s or 1.0)
        for b, c in zip(bounds, [c for c in cases if c.forecast.interval_s], strict=True)
    ]
    beside = (
        f"The seed's formula on the same evidence: median {median(seeds):.1%}, "
        f"worst {seeds[-1]:.1%}."
        if seeds
        else ""
    )
    return [
        f"{len(cases)} forecasts: median error {median(errors):.1%}, worst {errors[-1]:.1%}.",
        *[beside] * bool(beside),
        f"{covered:.0%} of the {cases[0].forecast.confidence:.0%} intervals hold the measured "
        f"time; median half-width {median(widths):.1%} of the forecast.",
    ]


def groups(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Cases that can be compared with each other, under what they have in common."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        who = "one thread" if case.threads == 1 else f"{case.threads} threads or processes"
        made = {"recording": "a recording", "plan": "a plan of EXPLAIN alone"}[case.evidence]
        found.setdefault(f"{case.engine}, {who}, from {made}", []).append(case)
    return found


def verify_text(cases: Sequence[Case]) -> str:
    """The tables and their summaries for a terminal."""
    parts = []
    for heading, group in groups(cases).items():
        table = table_text(HEADER, case_rows(group), left=(0, 1, 2))
        parts.append("\n".join([heading, "", table, "", *summary_lines(group)]))
    return "\n\n".join(parts)


def verify_markdown(cases: Sequence[Case], repeat: int) -> str:
    """The page docs/accuracy.md."""
    machine = describe_machine()
    parts = [
        "\n".join(
            [
                f"## {heading}",
                "",
                *(f"- {line}" for line in summary_lines(group)),
                "",
                markdown_table(HEADER, case_rows(group)),
                "",
            ]
        )
        for heading, group in groups(cases).items()
    ]
    return "\n".join(
        [
            "# Accuracy",
            "",
            "Each row is a forecast made with no run on the target, from a recording or a plan and",
            f"a probe, beside the median of {repeat} measured runs there. Made by `make truth` on "
            f"{machine['cpus']} CPUs,",
            f"{format_bytes(machine['memory_bytes'])} of memory, kernel {machine['kernel']}.",
            "",
            "An interval marked *missed* does not hold the measured time. *seed's* is the error of",
            "the formula of the post that started this, on the same evidence.",
            "",
            *parts,
        ]
    )
