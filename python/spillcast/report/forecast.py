"""A forecast as people read it: one sentence, the terms, what weakens it."""

from collections.abc import Sequence

from spillcast.forecast import Forecast
from spillcast.forecast.choices import Choice, ranked
from spillcast.report.table import paragraph, table_text
from spillcast.units import format_bytes, format_duration, format_speedup


def sentence(forecast: Forecast) -> str:
    """The answer in one sentence."""
    here = format_duration(forecast.baseline_s)
    if forecast.forecast_s is None or forecast.interval_s is None:
        return f"No forecast for {forecast.target}: {forecast.refused}."
    low, high = (format_duration(s) for s in forecast.interval_s)
    return (
        f"On {forecast.target} this run would take about {format_duration(forecast.forecast_s)} "
        f"instead of {here}, {forecast.confidence:.0%} sure between {low} and {high}; "
        f"storage without any latency would leave about {format_duration(forecast.ceiling_s)}."
    )


def forecast_text(forecast: Forecast) -> str:
    """Sentence, terms and warnings."""
    lines = [paragraph(sentence(forecast)), ""]
    if forecast.forecast_s is not None and forecast.speedup is not None:
        rows = [
            [
                term.name,
                "" if term.count is None else f"{term.count:,}",
                "" if not term.count or not term.bytes else format_bytes(term.bytes / term.count),
                format_duration(term.baseline_s),
                format_duration(term.forecast_s),
            ]
            for term in forecast.terms
        ]
        total = [format_duration(forecast.baseline_s), format_duration(forecast.forecast_s)]
        rows.append(["elapsed", "", "", *total])
        lines.append(table_text(["term", "count", "size", "now", "there"], rows))
        slower = ": the query gets slower" if forecast.speedup < 1 else ""
        lines += ["", f"  speed-up {format_speedup(forecast.speedup)}{slower}"]
    lines += [
        paragraph(f"  warning: {warning.message}", indent="    ") for warning in forecast.warnings
    ]
    lines += [paragraph(f"  to do: {advice}", indent="    ") for advice in forecast.advice]
    return "\n".join(lines)


def choices_text(found: Sequence[Choice]) -> str:
    """Several targets side by side, the fastest first, and what to do to have them."""
    order = ranked(found)
    priced = any(choice.cost is not None for choice in order)
    best = order[0].forecast
    header = ["target", "forecast", f"{best.confidence:.0%} sure", "speed-up", "of ceiling"]
    header += ["cost", "remarks"] if priced else ["remarks"]
    rows = []
    for choice in order:
        f = choice.forecast
        row = [
            f.target,
            "-" if f.forecast_s is None else format_duration(f.forecast_s),
            "-" if f.interval_s is None else " to ".join(map(format_duration, f.interval_s)),
            "-" if f.speedup is None else format_speedup(f.speedup),
            "-" if f.ceiling_share is None else f"{f.ceiling_share:.0%}",
        ]
        if priced:
            row.append("-" if choice.cost is None else f"{choice.cost:g}")
        rows.append([*row, _remarks(choice)])
    lines = [
        f"Now {format_duration(best.baseline_s)}; "
        f"storage without any latency would leave about {format_duration(best.ceiling_s)}.",
        "",
        table_text(header, rows, left=(0, len(header) - 1)),
    ]
    told = [f for choice in order for f in [choice.forecast] if f.refused or f.advice]
    lines += [""] * bool(told)
    for f in told:
        lines += [
            paragraph(f"  {f.target}: {text}", "    ") for text in (f.refused, *f.advice) if text
        ]
    return "\n".join(lines)


def _remarks(choice: Choice) -> str:
    forecast = choice.forecast
    words = ["best value"] * choice.best_value + ["refused"] * bool(forecast.refused)
    words += ["slower"] * (forecast.speedup is not None and forecast.speedup < 1)
    return ", ".join([*words, *(warning.code for warning in forecast.warnings)])
