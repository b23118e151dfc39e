"""A forecast as people read it: one sentence, the terms, what weakens it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spillcast.forecast import Forecast, Term, Warned
from spillcast.forecast.choices import Choice, ranked
from spillcast.forecast.result import CHANGES, RECORDING, Rehearsed
from spillcast.recording.postgres_meta import Statement
from spillcast.report.page import Page, Part, Words
from spillcast.report.table import Column, Table
from spillcast.report.work_memory import leads, work_memory_said
from spillcast.units import format_duration, format_speedup

#: Share of the elapsed time below which the term of a size is shown with others.
SMALL = 0.005
#: Times have three digits.
ROUNDED = 0.0005
#: Letters of a statement that are shown.
STATEMENT_MAX = 200


def forecast_page(found: Sequence[Choice]) -> Page:
    """One target with its terms, or several side by side."""
    order = ranked(found)
    first = order[0].forecast
    parts = _one(first) if len(order) == 1 else _several(order)
    if (memory := first.work_memory) is not None:
        leading = leads(memory, [choice.forecast for choice in order])
        said = Words(work_memory_said(memory, first, first=leading))
        parts = [said, *parts] if leading else [*parts, said]
    if first.statement is not None:
        parts = [Words([statement_said(first.statement)]), *parts]
    return Page(parts, Table(_DATA, [_data(choice) for choice in found]))


def statement_said(statement: Statement) -> str:
    """Whose forecast it is."""
    text = " ".join((statement.query or "its text is hidden").split())
    text = text if len(text) <= STATEMENT_MAX else f"{text[: STATEMENT_MAX - 3]}..."
    name = "" if statement.queryid is None else f" {statement.queryid}"
    of = f"the mean of {statement.calls:,} calls"
    if statement.calls == 1:
        of = "one call"
    if statement.most_of > 1:
        of = f"the one with the most temp I/O of {statement.most_of:,} plans in the log"
    return f"Statement{name}, {of}: {text}"


#: A row a target, in the order in which they were given.
_DATA = (
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


def _data(choice: Choice) -> list[Any]:
    said = choice.forecast
    low_s, high_s = said.interval_s or (None, None)
    least_s, most_s = said.ceiling_interval_s or (None, None)
    return [
        *(said.target, said.baseline_s, said.forecast_s, low_s, high_s, said.confidence),
        *(said.ceiling_s, least_s, most_s, said.speedup, said.ceiling_share),
        *(said.method, said.refused),
        *(choice.cost, choice.best_value),
    ]


def _one(forecast: Forecast) -> list[Part]:
    """Sentence, terms and warnings."""
    parts: list[Part] = [Words([forecast.sentence()], indent="")]
    if forecast.forecast_s is not None and forecast.speedup is not None:
        slower = ": the query gets slower" if forecast.speedup < 1 else ""
        parts += [
            _terms(forecast),
            Words([f"  speed-up {format_speedup(forecast.speedup)}{slower}"]),
        ]
    said = [f"  warning: {warning.message}" for warning in forecast.warnings]
    said += [f"  to do: {advice}" for advice in forecast.advice]
    if (warm := forecast.warm) is not None and warm.forecast_s is not None:
        here, there = map(format_duration, (warm.baseline_s, warm.forecast_s))
        said.insert(0, f"  with its data in memory: {here} now, {there} there")
    if forecast.rehearsed is not None:
        said.insert(0, f"  {_rehearsed(forecast.rehearsed)}")
    return [*parts, *([Words(said)] if said else [])]


def _rehearsed(done: Rehearsed) -> str:
    """What was run on the target."""
    ran = f"rehearsed for {format_duration(done.elapsed_s)} there"
    if done.ended:
        return f"{ran}: that was the whole query, and its time is measured"
    return f"{ran}: {done.operations:,} of its temp operations, {done.share:.0%}"


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
        here = term.baseline_s < SMALL * forecast.baseline_s
        if term.op and here and term.forecast_s < SMALL * (forecast.forecast_s or 0):
            small.setdefault(term.op, []).append(term)
        elif term.name in (CHANGES, RECORDING) and _unseen(forecast, term):
            continue
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


def _unseen(forecast: Forecast, term: Term) -> bool:
    """Whether it takes less on both storages than the elapsed times are rounded to."""
    here = term.baseline_s < ROUNDED * forecast.baseline_s
    return here and term.forecast_s < ROUNDED * (forecast.forecast_s or 0)


def _several(order: Sequence[Choice]) -> list[Part]:
    """The fastest first, and what to do to have them."""
    best = order[0].forecast
    common = _common_warnings([choice.forecast for choice in order])
    columns = [
        Column("target", None),
        Column("forecast", None, "s"),
        Column(f"{best.confidence:.0%} sure", None, "interval"),
        Column("speed-up", None, "ratio", spare=1),
        Column("of ceiling", None, "percent", spare=2),
    ]
    if priced := any(choice.cost is not None for choice in order):
        columns.append(Column("cost", None, "number"))
    columns.append(Column("remarks", None, "words"))
    rows: list[list[Any]] = []
    for choice in order:
        one = choice.forecast
        share = one.ceiling_share
        row: list[Any] = [one.target, one.forecast_s, one.interval_s, one.speedup]
        row.append(None if share is None or share < 0 else share)
        rows.append([*row, *([choice.cost] if priced else []), _remarks(choice, common)])
    now = f"{_seen(best)}; {best.ceiling_words(choice.forecast for choice in order)}."
    said = [f"  warning: {warning.message}" for warning in common]
    for choice in order:
        texts = [choice.forecast.refused, *choice.forecast.advice]
        said += [f"  {choice.forecast.target}: {text}" for text in texts if text]
    return [Words([now], indent=""), Table(columns, rows), *([Words(said)] if said else [])]


def _seen(forecast: Forecast) -> str:
    """What the numbers are for."""
    if forecast.part is not None:
        return forecast.part.words
    now = f"Now {format_duration(forecast.baseline_s)}"
    if forecast.recorded_s is None:
        return now
    return f"{now}, of which {format_duration(forecast.recorded_s)} were recorded"


def _common_warnings(forecasts: Sequence[Forecast]) -> list[Warned]:
    """What weakens every number alike, and needs to be said once only."""
    first, *others = [f.warnings for f in forecasts if not f.refused] or [[]]
    return [warning for warning in first if all(warning in warnings for warnings in others)]


def _remarks(choice: Choice, common: Sequence[Warned]) -> str:
    forecast = choice.forecast
    words = ["best value"] * choice.best_value + ["refused"] * bool(forecast.refused)
    words += ["slower"] * (forecast.speedup is not None and forecast.speedup < 1)
    return ", ".join([*words, *(w.code for w in forecast.warnings if w not in common)])
