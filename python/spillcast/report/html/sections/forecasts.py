"""Forecasts: targets side by side, what remains of a query, the terms, what weakens them."""

from collections.abc import Sequence
from dataclasses import asdict

from spillcast.forecast import Forecast
from spillcast.forecast.more_memory import WorkMemory
from spillcast.forecast.ranking import ranked
from spillcast.forecast.result import Remaining
from spillcast.forecast.verdict import recommended, verdict
from spillcast.report.forecast import NO_LATENCY, NOW, statement_text, targets_table
from spillcast.report.html import bars
from spillcast.report.html.page import (
    NOTHING,
    Column,
    Figure,
    Section,
    Table,
    Weakness,
    between,
    change,
    count,
    of_terminal,
    seconds,
    sentence,
    size,
    table_of,
    text,
)
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
    now = ("now", seconds(best.baseline_s))
    if best.forecast_s is None:
        return [now]
    bounds = best.ceiling_interval_s
    return [
        now,
        ("there", seconds(best.forecast_s)),
        (interval_name(best.confidence), between(best.interval_s)),
        ("speed-up", format_speedup(best.speedup or 0.0)),
        (NO_LATENCY, between(bounds) if bounds else f"about {seconds(best.ceiling_s)}"),
    ]


def compared(forecasts: Sequence[Forecast]) -> list[Section]:
    """All targets side by side, the best first, with the run as it is and without latency."""
    order, given = ranked(forecasts), _answered(forecasts)
    words = [
        f"There is no forecast for {place(forecast.target)}: {forecast.refused}."
        for forecast in order
        if forecast.forecast_s is None
    ]
    sections, tables, figures = [], list[Table](), list[Figure]()
    if given:
        words.append(_remarks(order))
        tables.append(of_terminal(targets_table(order)))
    if len(given) > 1:
        points = f"Points are forecasts; each line is a {interval_name(given[0].confidence)}."
        chart = bars.choices(given)
        figures.append(
            Figure("Elapsed time by storage", points, chart, of_terminal(targets_table(given)))
        )
    if words:
        sections.append(Section("Storage compared", words, figures, tables))
    if given and (memory := given[0].work_memory) is not None:
        sections.append(_work_memory(memory, given[0].baseline_s, given[0].confidence))
    if advice := _advice(order):
        sections.append(Section("What to do", advice))
    return sections


def _remarks(order: Sequence[Forecast]) -> str:
    """What the rows that are no target are, and the remarks."""
    words = f"No storage for temp files is faster than {NO_LATENCY}. "
    words += f"'{NOW}' is the query on its present storage."
    if any(forecast.best_value for forecast in order):
        words += " 'best value' saves the most time for its price."
    if order[0].work_memory:
        words += " More work_mem holds if the plan stays: PostgreSQL may choose another with it."
    return words


def _work_memory(memory: WorkMemory, now_s: float, confidence: float) -> Section:
    """Settings of work memory on the present storage, with what each does to the spill."""
    settings = [
        {"work_mem_bytes": memory.current_bytes, "forecast_s": now_s, "effect": NOW},
        *(
            [{**asdict(memory.one_pass), "effect": "sorts take one pass"}]
            if memory.one_pass
            else []
        ),
        {**asdict(memory.enough), "effect": "no spill"},
    ]
    columns: tuple[Column, ...] = (
        ("work_mem", "work_mem_bytes", lambda b: NOTHING if b is None else format_setting(b)),
        ("elapsed", "forecast_s", seconds),
        (interval_name(confidence), "interval_s", between),
        ("effect", "effect", text),
    )
    words = (
        "Elapsed time on the present storage, if the plan stays as it is. Without a spill all "
        f"nodes of the plan in all its processes may use up to {format_bytes(memory.most_bytes)}."
    )
    return Section("More work memory instead", [words], [], [table_of(settings, columns, (0, 3))])


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
            advice.insert(
                0,
                f"Raise work_mem to {setting} for this query: then nothing spills, and its nodes "
                f"in all processes may use up to {format_bytes(memory.most_bytes)}.",
            )
    return advice


def remaining(forecasts: Sequence[Forecast]) -> list[Section]:
    """Of a query recorded in part; the same whatever the target, none of queries seen whole."""
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
    table = Table(["remaining", "from", "about", "to", "known from"], rows, left=(0, 4))
    text = f"Left running it takes about another {format_duration(left.centre)} "
    text += f"({between((left.low, left.high))})"
    if forecast.forecast_s is not None:
        text += f"; moved to {forecast.target} now and restarted it takes "
        text += seconds(forecast.forecast_s)
    unused = [f"Not used: {reason}." for reason in rest.unused]
    caption = "Each bar is the whole; the line is where its end may be, nine in ten within."
    chart = bars.phases(_tracks(forecast.recorded_s, rest))
    figure = Figure("Progress, and what remains", caption, chart, table)
    return Section("What remains", [f"{text}.", *unused], [figure])


def _tracks(recorded_s: float | None, rest: Remaining) -> list[bars.Track]:
    """Time, writes and reads, each from the run's beginning to its end."""
    tracks = []
    for name, key, words in _REMAINING:
        quantity = getattr(rest, key)
        done, recorded = quantity.done, quantity.recorded
        if name == "time":
            done, recorded = rest.done_s, recorded_s or rest.done_s
        if done is not None and recorded is not None:
            recorded = min(recorded, done)
            low, about, high = quantity.low, quantity.centre, quantity.high
            label = f"{words(done)} done, {words(about)} remaining ({words(low)} to {words(high)})"
            tracks.append(bars.Track(name, done - recorded, recorded, about, low, high, label))
    return tracks


def terms(forecasts: Sequence[Forecast]) -> list[Section]:
    """What the forecasts are made of."""
    words = (
        "The forecast is the sum of these terms. Only temp I/O changes, apart from CPU time that "
        "waits make longer or shorter. The line through the last bar is the forecast's interval; "
        "the dashed line is the time on zero-latency storage, the band its interval."
    )
    figures = [
        Figure(
            f"From {seconds(forecast.baseline_s)} now to {seconds(forecast.forecast_s)} on "
            f"{forecast.target}",
            "",
            bars.waterfall(forecast, change),
            _terms(forecast),
        )
        for forecast in _answered(forecasts)[:_DRAWN_MAX]
    ]
    return [Section("What the forecast is made of", [words], figures)] if figures else []


def _terms(forecast: Forecast) -> Table:
    rows = [
        {
            **asdict(term),
            "size": term.bytes / term.count if term.bytes and term.count else None,
            "change_s": term.forecast_s - term.baseline_s,
        }
        for term in forecast.terms
    ]
    now_s, target_s = forecast.baseline_s, forecast.forecast_s or 0.0
    total = {"name": "elapsed", "baseline_s": now_s, "forecast_s": target_s}
    rows.append({**total, "change_s": target_s - now_s})
    columns: tuple[Column, ...] = (
        ("term", "name", text),
        ("operations", "count", count),
        ("size", "size", size),
        ("now", "baseline_s", format_duration),
        ("there", "forecast_s", format_duration),
        ("change", "change_s", change),
    )
    return table_of(rows, columns)


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
