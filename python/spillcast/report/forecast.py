"""A forecast as people read it: one sentence, the terms, what weakens it."""

from collections.abc import Sequence
from dataclasses import replace

from spillcast.forecast import Forecast, Term, Warned
from spillcast.forecast.choices import Choice, ranked
from spillcast.report.table import paragraph, table_text
from spillcast.report.work_memory import work_memory_text
from spillcast.units import format_bytes, format_duration, format_speedup

#: Share of the elapsed time below which the term of a size is shown with others.
SMALL = 0.005


def forecast_text(forecast: Forecast) -> str:
    """What work memory would do, sentence, terms and warnings."""
    lines = [*_first(forecast), paragraph(forecast.sentence()), ""]
    if forecast.forecast_s is not None and forecast.speedup is not None:
        lines.append(_terms_text(forecast))
        slower = ": the query gets slower" if forecast.speedup < 1 else ""
        lines += ["", f"  speed-up {format_speedup(forecast.speedup)}{slower}"]
    lines += [
        paragraph(f"  warning: {warning.message}", indent="    ") for warning in forecast.warnings
    ]
    lines += [paragraph(f"  to do: {advice}", indent="    ") for advice in forecast.advice]
    return "\n".join(lines)


def _terms_text(forecast: Forecast) -> str:
    rows = [
        [
            term.name,
            "" if term.count is None else f"{term.count:,}",
            "" if not term.count or not term.bytes else format_bytes(term.bytes / term.count),
            format_duration(term.baseline_s),
            format_duration(term.forecast_s),
        ]
        for term in _merged(forecast)
    ]
    whole = format_duration(forecast.baseline_s), format_duration(forecast.forecast_s or 0)
    rows.append(["elapsed", "", "", *whole])
    return table_text(["term", "count", "size", "now", "there"], rows)


def _merged(forecast: Forecast) -> list[Term]:
    """The terms, sizes that take next to nothing on either storage together."""
    kept: list[Term] = []
    small: dict[str, list[Term]] = {}
    for term in forecast.terms:
        here = term.baseline_s < SMALL * forecast.baseline_s
        if term.op and here and term.forecast_s < SMALL * (forecast.forecast_s or 0):
            small.setdefault(term.op, []).append(term)
        else:
            kept.append(term)
    for op, terms in small.items():
        one = replace(
            terms[0],
            name=terms[0].name if len(terms) == 1 else f"temp {op}, other sizes",
            bytes=sum(term.bytes or 0 for term in terms),
            count=sum(term.count or 0 for term in terms),
            baseline_s=sum(term.baseline_s for term in terms),
            forecast_s=sum(term.forecast_s for term in terms),
        )
        kept.append(one)
    return kept


def choices_text(found: Sequence[Choice]) -> str:
    """Several targets side by side, the fastest first, and what to do to have them."""
    order = ranked(found)
    priced = any(choice.cost is not None for choice in order)
    best = order[0].forecast
    common = _common_warnings([choice.forecast for choice in order])
    header = ["target", "forecast", f"{best.confidence:.0%} sure", "speed-up", "of ceiling"]
    header += ["cost", "remarks"] if priced else ["remarks"]
    rows = []
    for choice in order:
        row = _numbers(choice.forecast)
        if priced:
            row.append("-" if choice.cost is None else f"{choice.cost:g}")
        rows.append([*row, _remarks(choice, common)])
    lines = [
        *_first(best),
        f"Now {format_duration(best.baseline_s)}; "
        f"storage without any latency would leave about {format_duration(best.ceiling_s)}.",
        "",
        table_text(header, rows, left=(0, len(header) - 1)),
        "",
    ]
    lines += [paragraph(f"  warning: {warning.message}", indent="    ") for warning in common]
    for choice in order:
        said = [choice.forecast.refused, *choice.forecast.advice]
        target = choice.forecast.target
        lines += [paragraph(f"  {target}: {text}", indent="    ") for text in said if text]
    return "\n".join(lines).rstrip()


def _first(best: Forecast) -> list[str]:
    return [] if best.work_memory is None else [*work_memory_text(best.work_memory, best), ""]


def _numbers(forecast: Forecast) -> list[str]:
    if forecast.forecast_s is None or forecast.interval_s is None or forecast.speedup is None:
        return [forecast.target, "-", "-", "-", "-"]
    share = forecast.ceiling_share
    return [
        forecast.target,
        format_duration(forecast.forecast_s),
        " to ".join(map(format_duration, forecast.interval_s)),
        format_speedup(forecast.speedup),
        "-" if share is None or share < 0 else f"{share:.0%}",
    ]


def _common_warnings(forecasts: Sequence[Forecast]) -> list[Warned]:
    """What weakens every number alike, and needs to be said once only."""
    first, *others = [f.warnings for f in forecasts if not f.refused] or [[]]
    return [warning for warning in first if all(warning in warnings for warnings in others)]


def _remarks(choice: Choice, common: Sequence[Warned]) -> str:
    forecast = choice.forecast
    words = ["best value"] * choice.best_value + ["refused"] * bool(forecast.refused)
    words += ["slower"] * (forecast.speedup is not None and forecast.speedup < 1)
    return ", ".join([*words, *(w.code for w in forecast.warnings if w not in common)])
