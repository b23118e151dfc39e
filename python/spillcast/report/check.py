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
    return (
        f"The forecast {held}: {forecast.target} took {actual_text}, {change}; "
        f"the forecast was {forecast_text} ({low} to {high}), {100 * check.error:+.1f} % off."
    )
