"""Whether a forecast was true: the sentence, and its terms beside what came."""

from spillcast.lab.check import Check
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_duration

_TERMS = (
    Column("term", "name"),
    Column("before", "baseline_s", "s"),
    Column("forecast", "forecast_s", "s"),
    Column("came", "measured_s", "s"),
)


def check_page(check: Check) -> Page:
    """The verdict, a row a term, and what makes the comparison unfair."""
    rows = [list(term) for term in check.terms()]
    told = check.told
    rows.append(["elapsed", told.baseline_s, told.forecast_s, check.came.elapsed_s])
    table = Table(_TERMS, rows)
    parts: list[Part] = [Words([_verdict(check)], indent=""), table]
    if not check.same_work:
        text = f"it did {check.work:.2g} times the temp I/O of the forecast: not the same work"
        parts.append(Words([f"  warning: {text}, or with other work memory"]))
    return Page(parts, table)


def _verdict(check: Check) -> str:
    told = check.told
    low, high = map(format_duration, told.interval_s or (0.0, 0.0))
    said, came = format_duration(told.forecast_s or 0.0), format_duration(check.came.elapsed_s)
    held = "held" if check.inside else "did not hold"
    saved = 1 - check.came.elapsed_s / told.baseline_s
    change = f"{100 * abs(saved):.0f} % {'less' if saved >= 0 else 'more'} than before"
    return (
        f"The forecast {held}: {told.target} took {came}, {change}; the forecast was {said} "
        f"({low} to {high}), {100 * check.error:+.1f} % off."
    )
