"""A forecast as people read it: the verdict, all targets in one table, what weakens them."""

from collections.abc import Sequence
from typing import Any

from spillcast.explained import title_of
from spillcast.forecast.choices import Choice, ranked, told_of, verdict
from spillcast.forecast.in_memory import rank_s
from spillcast.forecast.verdict import work_mem_cure
from spillcast.recording.postgres_meta import Statement
from spillcast.report.forecast_details import common_warnings, details
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.report.to_come import to_come_parts
from spillcast.units import format_count, format_duration, interval_name
from spillcast.visible import one_line

#: Letters of a statement that are shown.
STATEMENT_MAX = 200
#: The rows of a table that are no target.
NOW, NO_LATENCY = "today", "zero-latency storage (limit)"
MORE = "  --details: what the numbers are made of, and what to do about warnings"


def forecast_page(
    found: Sequence[Choice], said: Sequence[str] = (), *, in_full: bool = False
) -> Page:
    """The verdict, what else is ``said``, and the table; ``in_full`` with all that it rests on."""
    order = ranked(found)
    first = order[0].forecast
    parts: list[Part] = [Words([verdict(found).text, *said], indent="")]
    if first.statement is not None:
        parts.append(Words([statement_said(first.statement)]))
    if any(choice.forecast.forecast_s is not None for choice in order):
        parts.append(_table(order))
    if first.spilled is not None:
        parts.append(Words([f"  {text}" for text in first.spilled.sentences()]))
    parts += to_come_parts(first)
    if notes := _notes(order):
        parts.append(Words([*notes, *([] if in_full else [MORE])]))
    return Page([*parts, *(details(order) if in_full else [])], _data(found))


def statement_said(statement: Statement) -> str:
    """Whose forecast it is."""
    text = one_line(statement.query or "its text is hidden", STATEMENT_MAX)
    name = "" if statement.queryid is None else f" {statement.queryid}"
    of = f"the mean of {format_count(statement.calls, 'call')}"
    if statement.calls == 1:
        of = "one call"
    if statement.most_of > 1:
        of = f"the one with the most temp I/O of {statement.most_of:,} plans in the log"
    return f"Statement{name}, {of}: {text}"


def _table(order: Sequence[Choice]) -> Table:
    """A row for each target, for more work memory, today and the limit: best first."""
    first = next(c.forecast for c in order if c.forecast.forecast_s is not None)
    columns = [
        Column("target", None),
        Column("elapsed", None, "s"),
        Column(interval_name(first.confidence), None, "interval"),
        Column("speed-up", None, "ratio", spare=1),
        *[Column("cost", None, "number")] * any(choice.cost is not None for choice in order),
        Column("", None, "words"),
    ]
    priced = len(columns) == 6

    def row(name: str, seconds: float | None, bounds: Any, cost: Any, remark: str) -> list[Any]:
        speedup = first.baseline_s / seconds if seconds else None
        return [name, seconds, bounds, speedup, *([cost] if priced else []), remark]

    rows = []
    for choice in order:
        one = choice.forecast
        cells = row(one.target, one.forecast_s, one.interval_s, choice.cost, _remark(choice))
        rows.append((rank_s(one.forecast_s, one.without_cache_s), cells))
    if first.work_memory is not None:
        told = next(one for one in told_of(order) if one.work_memory is not None)
        assert told.work_memory is not None
        more = work_mem_cure(told.work_memory)
        room = "if the plan stays" if told.work_memory.fits else "more than is free"
        cells = row(more.target, more.forecast_s, more.interval_s, None, room)
        rows.append((more.forecast_s, cells))
    cells = row(NO_LATENCY, first.ceiling_s, first.ceiling_interval_s, None, "")
    rows.append((first.ceiling_s, cells))
    rows.append((first.baseline_s, [NOW, first.baseline_s, *[None] * (len(columns) - 3), ""]))
    rows.sort(key=lambda pair: pair[0])
    return Table(columns, [cells for _, cells in rows])


def _remark(choice: Choice) -> str:
    if choice.forecast.refused:
        return "no number"
    said = ["best value"] if choice.best_value else []
    if (without_s := choice.forecast.without_cache_s) is not None:
        said.append(f"{format_duration(without_s)} where memory is not free")
    return ", ".join(said)


def _notes(order: Sequence[Choice]) -> list[str]:
    """A line for each warning, with its targets where not common; and why one is refused."""
    forecasts = [choice.forecast for choice in order]
    common = [warning.code for warning in common_warnings(forecasts)]
    titles: dict[str, list[str]] = {code: [] for code in common}
    for one in forecasts:
        for warning in one.warnings:
            if warning.code not in common:
                titles.setdefault(warning.code, []).append(one.target)
    said = []
    for code, targets in titles.items():
        of = "" if len(targets) in (0, len(order)) else f": {', '.join(dict.fromkeys(targets))}"
        said.append(f"  warning: {title_of(code)} ({code}){of}")
    if any(one.forecast_s is not None for one in forecasts):
        said += [f"  no number for {one.target}: {one.refused}" for one in forecasts if one.refused]
    return said


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


def _data(found: Sequence[Choice]) -> Table:
    return Table(_COLUMNS, [_cells(choice) for choice in found])


def _cells(choice: Choice) -> list[Any]:
    said = choice.forecast
    low_s, high_s = said.interval_s or (None, None)
    least_s, most_s = said.ceiling_interval_s or (None, None)
    return [
        *(said.target, said.baseline_s, said.forecast_s, low_s, high_s, said.confidence),
        *(said.ceiling_s, least_s, most_s, said.speedup, said.ceiling_share),
        *(said.method, said.refused),
        *(choice.cost, choice.best_value),
    ]
