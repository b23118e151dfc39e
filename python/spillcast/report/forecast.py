"""A forecast as people read it: the verdict, all targets in one table, what weakens them."""

from collections.abc import Sequence
from typing import Any

from spillcast.explained import title_of
from spillcast.forecast import Forecast
from spillcast.forecast.ranking import ranked
from spillcast.forecast.verdict import rank_s, unknown_share, verdict, work_memory_fix
from spillcast.recording.postgres_meta import Statement
from spillcast.report.forecast_details import common_warnings, details
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.report.to_come import to_come_parts
from spillcast.report.work_memory import spilled_sentences
from spillcast.units import format_count, format_duration, interval_name
from spillcast.visible import one_line

#: Letters of a statement that are shown.
STATEMENT_MAX = 200
#: The rows of a table that are no target.
NOW, NO_LATENCY = "today", "zero-latency storage (limit)"
MORE = "  --details: what the numbers are made of, and what to do about warnings"


def forecast_page(
    forecasts: Sequence[Forecast], notes: Sequence[str] = (), *, in_full: bool = False
) -> Page:
    """The verdict, ``notes``, and the table; ``in_full`` with all that the numbers rest on."""
    order = ranked(forecasts)
    first = order[0]
    parts: list[Part] = [Words([verdict(forecasts).text, *notes], indent="")]
    if first.statement is not None:
        parts.append(Words([statement_text(first.statement)]))
    if any(forecast.forecast_s is not None for forecast in order):
        parts.append(targets_table(order))
    if first.spilled is not None:
        parts.append(Words([f"  {text}" for text in spilled_sentences(first.spilled)]))
    parts += to_come_parts(first)
    if warnings := _notes(order):
        parts.append(Words([*warnings, *([] if in_full else [MORE])]))
    return Page([*parts, *(details(order) if in_full else [])], _data(forecasts))


def statement_text(statement: Statement) -> str:
    """Whose forecast it is."""
    text = one_line(statement.query or "its text is not known", STATEMENT_MAX)
    name = "" if statement.queryid is None else f" {statement.queryid}"
    of = f"the mean of {format_count(statement.calls, 'call')}"
    if statement.calls == 1:
        of = "one call"
    if statement.most_of > 1:
        of = f"the one with the most temp I/O of {statement.most_of:,} plans in the log"
    return f"Statement{name}, {of}: {text}"


def targets_table(order: Sequence[Forecast]) -> Table:
    """A row for each target, for more work memory, today and the limit: best first."""
    first = next(forecast for forecast in order if forecast.forecast_s is not None)
    columns = [
        Column("target", None),
        Column("elapsed", None, "s"),
        Column(interval_name(first.confidence), None, "interval"),
        Column("speed-up", None, "ratio", spare=1),
        *[Column("cost", None, "number")] * any(forecast.cost is not None for forecast in order),
        Column("", None, "words"),
    ]
    priced = len(columns) == 6
    # Midway between bounds that are far apart is no forecast.
    bounds_only = unknown_share(first) is not None

    def row(name: str, seconds: float | None, bounds: Any, cost: Any, remark: str) -> list[Any]:
        seconds = None if bounds_only else seconds
        speedup = first.baseline_s / seconds if seconds else None
        return [name, seconds, bounds, speedup, *([cost] if priced else []), remark]

    rows = []
    for forecast in order:
        cells = row(
            forecast.target,
            forecast.forecast_s,
            forecast.interval_s,
            forecast.cost,
            _remark(forecast),
        )
        rows.append((rank_s(forecast), cells))
    if first.work_memory is not None:
        more = work_memory_fix(first.work_memory)
        room = "if the plan stays" if first.work_memory.fits else "more than is free"
        cells = row(more.target, more.forecast_s, more.interval_s, None, room)
        rows.append((more.forecast_s, cells))
    cells = row(NO_LATENCY, first.ceiling_s, first.ceiling_interval_s, None, "")
    rows.append((first.ceiling_s, cells))
    rows.append((first.baseline_s, [NOW, first.baseline_s, *[None] * (len(columns) - 3), ""]))
    rows.sort(key=lambda pair: pair[0])
    return Table(columns, [cells for _, cells in rows])


def _remark(forecast: Forecast) -> str:
    if forecast.refused:
        return "no number"
    lines = ["best value"] if forecast.best_value else []
    if (without_s := forecast.without_cache_s) is not None:
        lines.append(f"{format_duration(without_s)} where memory is not free")
    return ", ".join(lines)


def _notes(order: Sequence[Forecast]) -> list[str]:
    """A line for each warning, with its targets where not common; and why one is refused."""
    common = [warning.code for warning in common_warnings(order)]
    titles: dict[str, list[str]] = {code: [] for code in common}
    for forecast in order:
        for warning in forecast.warnings:
            if warning.code not in common:
                titles.setdefault(warning.code, []).append(forecast.target)
    lines = []
    for code, targets in titles.items():
        of = "" if len(targets) in (0, len(order)) else f": {', '.join(dict.fromkeys(targets))}"
        lines.append(f"  warning: {title_of(code)} ({code}){of}")
    if any(forecast.forecast_s is not None for forecast in order):
        lines += [
            f"  no number for {forecast.target}: {forecast.refused}"
            for forecast in order
            if forecast.refused
        ]
    return lines


#: A row a target, in the order in which they were given.
_COLUMNS = (
    Column(None, "target"),
    *(Column(None, key, "s") for key in ("baseline_s", "forecast_s", "low_s", "high_s")),
    Column(None, "confidence", "share"),
    *(Column(None, key, "s") for key in ("ceiling_s", "ceiling_low_s", "ceiling_high_s")),
    Column(None, "speedup", "ratio"),
    Column(None, "ceiling_share", "share"),
    Column(None, "method"),
    Column(None, "refused"),
    Column(None, "cost", "number"),
    Column(None, "best_value"),
)


def _data(forecasts: Sequence[Forecast]) -> Table:
    return Table(_COLUMNS, [_cells(forecast) for forecast in forecasts])


def _cells(forecast: Forecast) -> list[Any]:
    low_s, high_s = forecast.interval_s or (None, None)
    least_s, most_s = forecast.ceiling_interval_s or (None, None)
    return [
        *(forecast.target, forecast.baseline_s, forecast.forecast_s, low_s, high_s),
        *(forecast.confidence, forecast.ceiling_s, least_s, most_s),
        *(forecast.speedup, forecast.ceiling_share, forecast.method, forecast.refused),
        *(forecast.cost, forecast.best_value),
    ]
