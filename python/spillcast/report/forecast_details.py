"""What a forecast rests on: each target's terms, each warning in full, what more memory does."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spillcast.explained import explained
from spillcast.forecast import Forecast, Term, Warned
from spillcast.forecast.result import CHANGES, RECORDING, Rehearsed
from spillcast.forecast.verdict import recommended, unknown_share
from spillcast.report.page import Part, Words
from spillcast.report.table import Column, Table
from spillcast.report.work_memory import work_memory_text
from spillcast.units import format_count, format_duration, format_speedup

#: Share of the elapsed time below which the term of a size is shown with others.
SMALL = 0.005
#: Times have three digits.
ROUNDED = 0.0005


def details(forecasts: Sequence[Forecast]) -> list[Part]:
    """Target by target, the best first; then what is said of all."""
    common = common_warnings(forecasts)
    shared = common if len(forecasts) > 1 else []
    useful = recommended(forecasts)
    parts = [
        part
        for forecast in forecasts
        for part in _forecast_parts(forecast, forecasts, shared, advised=forecast.target in useful)
    ]
    if len(forecasts) > 1 and common:
        parts.append(Words([line for warning in common for line in _warned(warning)]))
    if (memory := forecasts[0].work_memory) is not None:
        parts.append(Words(work_memory_text(memory)))
    return parts


def common_warnings(forecasts: Sequence[Forecast]) -> list[Warned]:
    """What weakens every number alike, and needs to be said once only."""
    first, *others = [f.warnings for f in forecasts if not f.refused] or [[]]
    return [warning for warning in first if all(warning in warnings for warnings in others)]


def _warned(warning: Warned) -> list[str]:
    """The case, and what to do."""
    about = explained().get(warning.code)
    lines = [f"  warning: {warning.message} ({warning.code})"]
    return lines if about is None else [*lines, f"    next: {about.next_step}"]


def _forecast_parts(
    forecast: Forecast, beside: Sequence[Forecast], shared: Sequence[Warned], *, advised: bool
) -> list[Part]:
    """Sentence, terms and warnings, but those ``told`` of all; what to do if ``advised``."""
    if forecast.interval_s is not None and unknown_share(forecast) is not None:
        parts: list[Part] = [Words([_bounds(forecast)], indent=""), _terms(forecast)]
    else:
        parts = [Words([forecast.sentence(beside)], indent="")]
    if forecast.speedup is not None and len(parts) == 1:
        slower = ": the query gets slower" if forecast.speedup < 1 else ""
        parts += [
            _terms(forecast),
            Words([f"  speed-up {format_speedup(forecast.speedup)}{slower}"]),
        ]
    lines = [
        line for warning in forecast.warnings if warning not in shared for line in _warned(warning)
    ]
    lines += [f"  to do: {advice}" for advice in forecast.advice if advised]
    if (sample := forecast.sampled) is not None:
        lines.append(
            f"  from {sample.waits:,} of {format_count(sample.of_waits, 'wait')}, spread over the "
            f"run: {sample.error:.1%} off for that, one standard error; --exact takes all"
        )
    if (warm := forecast.warm) is not None and warm.forecast_s is not None:
        today, then = map(format_duration, (warm.baseline_s, warm.forecast_s))
        lines.insert(0, f"  with its data in memory: {today} now, {then} there")
    if forecast.rehearsed is not None:
        lines.insert(0, f"  {_rehearsed(forecast.rehearsed)}")
    return [*parts, *([Words(lines)] if lines else [])]


def _bounds(forecast: Forecast) -> str:
    """What is known where the middle between bounds is no forecast."""
    low, high = map(format_duration, forecast.interval_s or (0.0, 0.0))
    return (
        f"On {forecast.target} this run would take {low} to {high} instead of "
        f"{format_duration(forecast.baseline_s)}; its terms, midway between the bounds:"
    )


def _rehearsed(done: Rehearsed) -> str:
    """What was run on the target."""
    ran = f"rehearsed for {format_duration(done.elapsed_s)} there"
    if done.ended:
        return f"{ran}: that was the whole query, and its time is measured"
    return f"{ran}: {format_count(done.operations, 'temp operation')} of it, {done.share:.0%}"


_TERMS = (
    Column("term", "term"),
    Column("count", "count", "count"),
    Column("size", "mean_bytes", "bytes"),
    Column("now", "baseline_s", "s"),
    Column("there", "forecast_s", "s"),
)


def _terms(forecast: Forecast) -> Table:
    rows: list[list[Any]] = [
        [
            term.name,
            term.count,
            term.bytes / term.count if term.count and term.bytes else None,
            term.baseline_s,
            term.forecast_s,
        ]
        for term in _merged(forecast)
    ]
    rows.append(["elapsed", None, None, forecast.baseline_s, forecast.forecast_s])
    return Table(_TERMS, rows)


def _merged(forecast: Forecast) -> list[Term]:
    """The terms, sizes that take next to nothing on either storage together.

    Of calls that change files, and of recording, such a term is nobody's concern.
    """
    kept: list[Term] = []
    small: dict[str, list[Term]] = {}
    for term in forecast.terms:
        is_small = term.baseline_s < SMALL * forecast.baseline_s
        if term.op and is_small and term.forecast_s < SMALL * (forecast.forecast_s or 0):
            small.setdefault(term.op, []).append(term)
        elif term.name in (CHANGES, RECORDING) and _unseen(forecast, term):
            continue
        else:
            kept.append(term)
    for op, terms in small.items():
        merged = replace(
            terms[0],
            name=terms[0].name if len(terms) == 1 else f"temp {op}, other sizes",
            bytes=sum(term.bytes or 0 for term in terms),
            count=sum(term.count or 0 for term in terms),
            baseline_s=sum(term.baseline_s for term in terms),
            forecast_s=sum(term.forecast_s for term in terms),
        )
        kept.append(merged)
    return kept


def _unseen(forecast: Forecast, term: Term) -> bool:
    """Whether it takes less on both storages than the elapsed times are rounded to."""
    rounds_to_zero = term.baseline_s < ROUNDED * forecast.baseline_s
    return rounds_to_zero and term.forecast_s < ROUNDED * (forecast.forecast_s or 0)
