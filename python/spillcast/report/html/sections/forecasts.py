"""Forecasts: targets side by side, what remains of a query, the terms, what weakens them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spillcast.forecast import Forecast
from spillcast.forecast.result import Remaining
from spillcast.forecast.verdict import ranked, recommended, unknown_share, verdict
from spillcast.forecast.work_memory import WorkMemory
from spillcast.report.forecast import NO_LATENCY, NOW, statement_text, targets_table
from spillcast.report.html import charts
from spillcast.report.html.page import (
    Figure,
    Section,
    Weakness,
    between,
    change,
    seconds,
    sentence,
    table_of,
    texts,
)
from spillcast.report.table import Column, Table
from spillcast.units import (
    format_bytes,
    format_duration,
    format_setting,
    format_speedup,
    interval_name,
    parse_duration_s,
)

#: Forecasts whose terms are drawn.
_DRAWN_MAX = 3
#: What remains of a run, by the key of its estimate, and how that is written.
_REMAINING = (
    ("time", "elapsed_s", format_duration),
    ("temp writes", "writes_bytes", format_bytes),
    ("temp reads", "reads_bytes", format_bytes),
)


def _answered(forecasts: Sequence[Forecast]) -> list[Forecast]:
    return [forecast for forecast in ranked(forecasts) if forecast.forecast_s is not None]


def _by_query(forecasts: Sequence[Forecast]) -> list[list[Forecast]]:
    """The forecasts of each query: those with one baseline."""
    queries: dict[float, list[Forecast]] = {}
    for forecast in forecasts:
        queries.setdefault(forecast.baseline_s, []).append(forecast)
    return list(queries.values())


def _has_bounds_only(forecast: Forecast) -> bool:
    """Whether its interval covers bounds, so that no value within it is an estimate."""
    return unknown_share(forecast) is not None


def answers(forecasts: Sequence[Forecast]) -> list[str]:
    """The verdict on each query, and whose it is."""
    sentences: list[str] = []
    for of_query in _by_query(forecasts):
        sentences += verdict(of_query).sentences
        if (statement := of_query[0].statement) is not None:
            sentences.append(f"{statement_text(statement)}.")
    return sentences


def place(target: str) -> str:
    """A target in words: one that is a latency, a factor or a row of the catalogue."""
    kind, _, value = target.partition(":")
    if kind == "latency":
        return f"storage that takes {format_duration(parse_duration_s(value))} an operation"
    known = {"factor": f"storage {value} times as fast", "catalogue": value}
    return known.get(kind, target)


def numbers(forecasts: Sequence[Forecast]) -> list[tuple[str, str]]:
    """The figures of note of the best forecast."""
    best = ranked(forecasts)[0]
    today, interval = (NOW, seconds(best.baseline_s)), interval_name(best.confidence)
    if best.forecast_s is None:
        return [today]
    bounds = best.ceiling_interval_s
    limit = (NO_LATENCY, between(bounds) if bounds else f"about {seconds(best.ceiling_s)}")
    if _has_bounds_only(best):
        return [today, (f"{best.target}, {interval}", between(best.interval_s)), limit]
    return [
        today,
        (best.target, seconds(best.forecast_s)),
        (interval, between(best.interval_s)),
        ("speed-up", format_speedup(best.speedup or 0.0)),
        limit,
    ]


def compared(forecasts: Sequence[Forecast]) -> list[Section]:
    """All targets side by side, the best first, with the run as it is and without latency."""
    order, given = ranked(forecasts), _answered(forecasts)
    words = [
        f"There is no forecast for {place(forecast.target)}: {forecast.refused}."
        for forecast in order
        if forecast.forecast_s is None
    ]
    sections, tables, figures = [], list[tuple[str, Table]](), list[Figure]()
    if given:
        words.append(_remarks(order))
        tables.append(("", targets_table(order)))
    if len(given) > 1 or any(map(_has_bounds_only, given)):
        figures.append(_targets(given))
    if words:
        sections.append(Section("Storage compared", words, figures, tables))
    if given and (memory := given[0].work_memory) is not None:
        sections.append(_work_memory(memory, given[0]))
    if advice := _advice(order):
        sections.append(Section("What to do", advice))
    return sections


def _targets(given: Sequence[Forecast]) -> Figure:
    bounds_only = any(map(_has_bounds_only, given))
    interval = interval_name(given[0].confidence)
    caption = f"A point is a forecast, the line through it its {interval}."
    if bounds_only:
        caption = f"Each line is a {interval}. Only bounds of the temp I/O time are known."
    rows = [
        (f.target, None if bounds_only else f.forecast_s, f.interval_s)
        for f in given
        if f.interval_s is not None
    ]
    floors = [f.ceiling_interval_s for f in given if f.ceiling_interval_s is not None]
    floor = (min(low for low, _ in floors), max(high for _, high in floors)) if floors else None
    floor_s = None if bounds_only else min(f.ceiling_s for f in given)
    chart = charts.targets(rows, given[0].baseline_s, floor_s, floor)
    return Figure("Elapsed time by storage", caption, chart, targets_table(given))


def _remarks(order: Sequence[Forecast]) -> str:
    """What the rows that are no target are, and the remarks."""
    words = (
        f"'{NOW}' is the query on its present storage, '{NO_LATENCY}' the least that any storage "
        "for temp files would leave."
    )
    if any(forecast.best_value for forecast in order):
        words += " 'best value' saves the most time for its price."
    if order[0].work_memory:
        words += " More work_mem may change the plan; its row assumes that the plan stays."
    return words


def _work_memory(memory: WorkMemory, forecast: Forecast) -> Section:
    """Settings of work memory on the present storage, with what each does to the spill."""
    current = memory.current_bytes
    now = None if current is None else format_setting(current)
    rows: list[list[Any]] = [[now, forecast.baseline_s, None, NOW]]
    settings = [(memory.one_pass, "sorts take one pass"), (memory.enough, "no spill")]
    for setting, effect in settings:
        if setting is not None:
            s = None if _has_bounds_only(forecast) else setting.forecast_s
            work_mem = format_setting(setting.work_mem_bytes)
            rows.append([work_mem, s, setting.interval_s, effect])
    columns = [
        Column("work_mem", None),
        Column("elapsed", None, "s"),
        Column(interval_name(forecast.confidence), None, "interval"),
        Column("effect", None),
    ]
    words = (
        "Elapsed time on the present storage, if the plan stays as it is. Without a spill all "
        f"nodes of the plan in all its processes may use up to {format_bytes(memory.most_bytes)}."
    )
    return Section("More work memory instead", [words], tables=[("", Table(columns, rows))])


def _advice(order: Sequence[Forecast]) -> list[str]:
    """What to do for each target that the verdict on its query recommends."""
    names, advice, memory = set[str](), list[str](), order[0].work_memory
    for of_query in _by_query(order):
        useful = recommended(of_query)
        names |= useful
        for forecast in of_query:
            if forecast.target in useful:
                advice += [f"{forecast.target}: {step}" for step in forecast.advice]
    if memory:
        setting = format_setting(memory.enough.work_mem_bytes)
        if f"work_mem {setting}" in names:
            raise_it = (
                f"Raise work_mem to {setting} for this query: then nothing spills, and its nodes "
                f"in all processes may use up to {format_bytes(memory.most_bytes)}."
            )
            advice.insert(0, raise_it)
    return advice


def remaining(forecasts: Sequence[Forecast]) -> list[Section]:
    """Of a query recorded in part; the same whatever the target, none of queries seen in full."""
    for forecast in ranked(forecasts):
        if (rest := forecast.to_come) is not None:
            return [_remaining(forecast, rest)]
    return []


def _remaining(forecast: Forecast, rest: Remaining) -> Section:
    left, rows = rest.elapsed_s, []
    for name, key, words in _REMAINING:
        quantity = getattr(rest, key)
        ends = (words(end) for end in (quantity.low, quantity.centre, quantity.high))
        rows.append([name, *ends, quantity.source])
    table = texts(["remaining", "from", "about", "to", "known from"], rows)
    text = f"Left running it takes about another {format_duration(left.centre)} "
    text += f"({between((left.low, left.high))})"
    if forecast.forecast_s is not None:
        text += f"; moved to {forecast.target} now and restarted it takes "
        text += seconds(forecast.forecast_s)
    unused = [f"Not used: {reason}." for reason in rest.unused]
    caption = "Each bar is the entire query; the line is the 90 % interval of its end."
    chart = _progress(forecast.recorded_s, rest)
    figure = Figure("Progress, and what remains", caption, chart, table)
    return Section("What remains", [f"{text}.", *unused], [figure])


def _progress(recorded_s: float | None, rest: Remaining) -> charts.Chart:
    """Time, writes and reads, each from the run's beginning to its end."""
    rows, ends = [], []
    colours = {"before the recording": "now", "recorded": "target", "remaining": "rest"}
    for name, key, words in _REMAINING:
        quantity = getattr(rest, key)
        done, recorded = quantity.done, quantity.recorded
        if name == "time":
            done, recorded = rest.done_s, recorded_s or rest.done_s
        if done is not None and recorded is not None:
            recorded = min(recorded, done)
            parts = zip(colours, (done - recorded, recorded, quantity.centre), strict=True)
            text = f"{words(done)} done, {words(quantity.centre)} left"
            rows.append((name, text, dict(parts)))
            ends.append((done + quantity.low, done + quantity.high))
    return charts.stacked(rows, colours, shares=True, intervals=ends)


def terms(forecasts: Sequence[Forecast]) -> list[Section]:
    """What the forecasts are made of; nothing of those that have bounds alone."""
    words = (
        "The forecast is the sum of these terms. Only temp I/O changes, and CPU time where waits "
        "make it longer or shorter. The line through the last bar is the forecast's interval."
    )
    drawn = [forecast for forecast in _answered(forecasts) if not _has_bounds_only(forecast)]
    figures = [_waterfall(forecast) for forecast in drawn[:_DRAWN_MAX]]
    return [Section("What the forecast is made of", [words], figures)] if figures else []


def _waterfall(forecast: Forecast) -> Figure:
    sums: dict[str, float] = {}
    for term in forecast.terms:
        sums[term.name] = sums.get(term.name, 0.0) + term.forecast_s - term.baseline_s
    now_s, target_s = forecast.baseline_s, forecast.forecast_s or 0.0
    chart = charts.waterfall(
        now_s,
        [(name, change_s, change(change_s)) for name, change_s in sums.items()],
        (forecast.target, target_s, forecast.interval_s or (target_s, target_s)),
        forecast.ceiling_s,
        forecast.ceiling_interval_s,
    )
    rows: list[dict[str, Any]] = [
        asdict(term) | {"size_bytes": (term.bytes or 0) / (term.count or 1) or None}
        for term in forecast.terms
    ]
    rows.append({"name": "elapsed", "baseline_s": now_s, "forecast_s": target_s})
    for row in rows:
        row["change_text"] = change(row["forecast_s"] - row["baseline_s"])
    keys = "name:term count:operations size_bytes:size baseline_s:today forecast_s:on_target"
    keys += " change_text:change"
    title = f"From {seconds(now_s)} today to {seconds(target_s)} on {forecast.target}"
    return Figure(title, "", chart, table_of(rows, keys))


def weaknesses(forecasts: Sequence[Forecast]) -> list[Weakness]:
    """What weakens the numbers, each once, with the targets it is about, and what to do."""
    targets: dict[tuple[str, str, str], list[str]] = {}
    for forecast in forecasts:
        for warning in forecast.warnings:
            key = (warning.message, warning.title or "", warning.next_step or "")
            targets.setdefault(key, []).append(forecast.target)
    return [
        Weakness(
            sentence(message),
            title[:1].upper() + title[1:],
            next_step,
            "" if len(names) == len(forecasts) else ", ".join(names),
        )
        for (message, title, next_step), names in targets.items()
    ]
