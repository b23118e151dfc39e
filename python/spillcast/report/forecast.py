"""A forecast as people read it: one sentence, the terms, what weakens it."""

from collections.abc import Sequence

from spillcast.forecast import Forecast
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
    return "\n".join(lines)


def choices_text(forecasts: Sequence[Forecast]) -> str:
    """Several targets side by side, the fastest first."""
    ranked = sorted(forecasts, key=lambda f: f.forecast_s or float("inf"))
    rows = [
        [
            f.target,
            "-" if f.forecast_s is None else format_duration(f.forecast_s),
            "-" if f.interval_s is None else " to ".join(map(format_duration, f.interval_s)),
            "-" if f.speedup is None else format_speedup(f.speedup),
            f.refused or "; ".join(w.code for w in f.warnings),
        ]
        for f in ranked
    ]
    best = forecasts[0]
    header = ["target", "forecast", f"{best.confidence:.0%} sure", "speed-up", "remarks"]
    return "\n".join(
        [
            f"Now {format_duration(best.baseline_s)}; "
            f"storage without any latency would leave about {format_duration(best.ceiling_s)}.",
            "",
            table_text(header, rows, left=(0, 4)),
        ]
    )
