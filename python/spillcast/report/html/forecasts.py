"""Forecasts: targets side by side, what remains of a query, the terms, what weakens them."""

from collections.abc import Sequence

from spillcast.forecast import Forecast
from spillcast.forecast.result import Interval, Remaining, StageForecast
from spillcast.forecast.spark.simulated import BOUNDS
from spillcast.forecast.verdict import ranked, unknown_share, verdict
from spillcast.profile.timeline import CPU, READ, WRITE
from spillcast.report.forecast import (
    BOUNDS_ORDER,
    NO_LATENCY,
    NOW,
    SUPPOSED_NOW,
    advice,
    bound_by,
    stages_table,
    statement_text,
    supposed_text,
    targets_table,
    terms_table,
    to_come_parts,
    to_come_table,
)
from spillcast.report.html import charts
from spillcast.report.html.page import Figure, Section, Weakness, between, seconds
from spillcast.report.page import Words
from spillcast.report.work_memory import work_memory_text
from spillcast.text import capitalized, sentence
from spillcast.units import (
    format_bytes,
    format_duration,
    format_estimate,
    format_speedup,
    interval_name,
    parse_duration_s,
)

#: Queries that have a chart, and forecasts whose terms are listed.
_DRAWN_MAX = 3
#: Stages that are drawn, and the colour of what may bind one.
_STAGES_MAX = 30
_BOUND_COLOURS = dict(
    zip(
        BOUNDS,
        ("cpu", "series-4", "read", "write", "series-3", "warn", "domain", "muted"),
        strict=True,
    )
)
#: Terms that take less of every bar are drawn as one.
_SMALL, _OTHERS = 0.01, "others"
#: The remaining quantities of a run, by the key of the estimate, and how each is written.
_REMAINING = (
    ("time", "elapsed_s", format_duration),
    ("temp writes", "writes_bytes", format_bytes),
    ("temp reads", "reads_bytes", format_bytes),
)


def _by_query(forecasts: Sequence[Forecast]) -> list[list[Forecast]]:
    """The forecasts of each query: those with one baseline."""
    queries: dict[float, list[Forecast]] = {}
    for forecast in forecasts:
        queries.setdefault(forecast.baseline_s, []).append(forecast)
    return list(queries.values())


def sections(forecasts: Sequence[Forecast], purchases: Sequence[str] = ()) -> list[Section]:
    """The answer, then its terms, then what to do, then what remains of a query seen in part.

    ``purchases`` are what to buy, in sentences.
    """
    if not forecasts:
        return []
    compared, *to_do = _compared(forecasts, purchases)
    return [compared, *_stages(forecasts), *_terms(forecasts), *to_do, *_remaining(forecasts)]


def _stages(forecasts: Sequence[Forecast]) -> list[Section]:
    best = next((forecast for forecast in ranked(forecasts) if forecast.stages), None)
    if best is None:
        return []
    longest = sorted(best.stages, key=lambda stage: -max(stage.baseline_s, stage.forecast_s))
    drawn = sorted(longest[:_STAGES_MAX], key=lambda stage: (stage.baseline_at_s, stage.id))

    def both(stage: StageForecast) -> tuple[Interval, Interval]:
        return stage.baseline_at_s, stage.forecast_at_s

    rows = [
        charts.Span(
            f"stage {stage.id}",
            ", then ".join(seconds(end_s - begin_s) for begin_s, end_s in both(stage)),
            (*stage.baseline_at_s, stage.baseline_bound_by),
            (*stage.forecast_at_s, stage.bound_by),
        )
        for stage in drawn
    ]
    caption = (
        f"Of each stage the upper bar is today, the lower one {best.target}. The colour is what "
        "its tasks mostly do, or why slots are idle: more cores help stages bound by CPU, other "
        "storage those bound by storage; neither helps stragglers."
    )
    if len(best.stages) > len(drawn):
        caption += f" The longest {len(drawn)} of {len(best.stages):,} stages are drawn."
    figure = Figure(
        f"Stages today and on {best.target}",
        caption,
        charts.spans(rows, _BOUND_COLOURS),
        stages_table(best),
    )
    return [Section("Stages over time", figures=[figure])]


def _answers(forecasts: Sequence[Forecast]) -> list[str]:
    """The verdict on each query, and its statement."""
    sentences: list[str] = []
    for of_query in _by_query(forecasts):
        if (supposed := of_query[0].supposed) is not None:
            sentences.append(supposed_text(of_query[0], supposed))
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
    if unknown_share(best) is not None:
        return [today, (f"{best.target}, {interval}", between(best.interval_s)), limit]
    return [
        today,
        (best.target, seconds(best.forecast_s)),
        (interval, between(best.interval_s)),
        ("speed-up", format_speedup(best.speedup or 0.0)),
        limit,
    ]


def _compared(forecasts: Sequence[Forecast], purchases: Sequence[str]) -> list[Section]:
    """All targets side by side, the best first, with the run as it is and without latency."""
    order = ranked(forecasts)
    given = [forecast for forecast in order if forecast.forecast_s is not None]
    words = [
        f"There is no forecast for {place(forecast.target)}: {forecast.refused}."
        for forecast in order
        if forecast.forecast_s is None
    ]
    tables = []
    if given:
        words += [_remarks(order), *(f"{text}." for text in bound_by(order))]
        tables = [("", targets_table(order))]
    figures = [_bars(of_query) for of_query in _by_query(given)[:_DRAWN_MAX]]
    answer = _answers(forecasts)
    sections = [Section("Storage compared", words, figures, tables, answer=answer)]
    steps = [step for of_query in _by_query(order) for step in advice(of_query)]
    if steps := [*purchases, *steps]:
        sections.append(Section("What to do", steps))
    if given and given[0].work_memory is not None:
        memory = [Words(work_memory_text(given[0]))]
        sections.append(Section.of("More work memory instead", memory))
    return sections


def _bars(given: Sequence[Forecast]) -> Figure:
    """Today's time and that on each target by term, with intervals; or only intervals."""
    first, bounds_only = given[0], unknown_share(given[0]) is not None
    interval = interval_name(first.confidence)
    caption = f"The line at the end of a bar is its {interval}."
    if bounds_only:
        caption = f"Each line is a {interval}. Only bounds of the temp I/O time are known: "
        caption += f"{BOUNDS_ORDER}."
    terms = {"elapsed": "now"} if bounds_only else _colours(given)
    today = {"elapsed": first.baseline_s} if bounds_only else _parts(first, "baseline_s", terms)
    now = NOW if first.supposed is None else SUPPOSED_NOW
    rows = [_bar(now, first.baseline_s, today)]
    for forecast in given:
        parts = {} if bounds_only else _parts(forecast, "forecast_s", terms)
        s = None if bounds_only else forecast.forecast_s
        rows.append(_bar(forecast.target, s, parts, forecast.interval_s))
    if first.ceiling_interval_s is not None:
        s = None if bounds_only else first.ceiling_s
        rows.append(_bar(NO_LATENCY, s, {}, first.ceiling_interval_s))
    return Figure(
        "Elapsed time by storage", caption, charts.bars(rows, terms), targets_table(given)
    )


def _bar(
    name: str, s: float | None, parts: dict[str, float], bounds: tuple[float, float] | None = None
) -> charts.Bar:
    text = between(bounds) if s is None else format_estimate(s, bounds)
    return charts.Bar(name, text, parts, bounds)


def _colours(given: Sequence[Forecast]) -> dict[str, str]:
    drawn = set()
    for forecast in given:
        for key in ("baseline_s", "forecast_s"):
            sums = _sums(forecast, key)
            drawn |= {name for name, s in sums.items() if s >= _SMALL * sum(sums.values())}
    states = {
        term.name: {"read": READ, "write": WRITE}.get(
            term.op or "", CPU if term.name.startswith(CPU) else None
        )
        for forecast in given
        for term in forecast.terms
        if term.name in drawn
    }
    others = {_OTHERS: "grid"} if any(_sums(f, "baseline_s").keys() - drawn for f in given) else {}
    return charts.colours_of(states) | others


def _parts(forecast: Forecast, key: str, terms: dict[str, str]) -> dict[str, float]:
    sums = _sums(forecast, key)
    others_s = sum(s for name, s in sums.items() if name not in terms)
    return {name: others_s if name == _OTHERS else sums.get(name, 0.0) for name in terms}


def _sums(forecast: Forecast, key: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for term in forecast.terms:
        sums[term.name] = sums.get(term.name, 0.0) + max(getattr(term, key), 0.0)
    return sums


def _remarks(order: Sequence[Forecast]) -> str:
    """The meaning of the rows that are no target, and of the remarks."""
    words = (
        f"'{NOW}' is the query on its present storage, '{NO_LATENCY}' the shortest time that any "
        "storage for temp files allows."
    )
    if any(forecast.best_value for forecast in order):
        words += " 'best value' saves the most time for its price."
    if order[0].work_memory:
        words += " More work_mem may change the plan; its row assumes that the plan stays."
    return words


def _remaining(forecasts: Sequence[Forecast]) -> list[Section]:
    """What remains of a query that was recorded in part, which no target changes."""
    for forecast in ranked(forecasts):
        if (rest := forecast.to_come) is not None:
            parts = to_come_parts(forecast)
            if rest.open_ended:
                return [Section.of("What remains", parts)]
            caption = "Each bar is the entire query; the line is the 90 % interval of its end."
            chart = _progress(forecast.recorded_s, rest)
            figure = Figure("Progress, and what remains", caption, chart, to_come_table(rest))
            return [Section.of("What remains", parts, [figure])]
    return []


def _progress(recorded_s: float | None, rest: Remaining) -> charts.Chart:
    """Time, writes and reads, each from the run's beginning to its end."""
    rows = []
    colours = {"before the recording": "now", "recorded": "target", "remaining": "rest"}
    for name, key, format_amount in _REMAINING:
        quantity = getattr(rest, key)
        done, recorded = quantity.done, quantity.recorded
        if name == "time":
            done, recorded = rest.done_s, recorded_s or rest.done_s
        if done is not None and recorded is not None:
            recorded = min(recorded, done)
            parts = zip(colours, (done - recorded, recorded, quantity.centre), strict=True)
            text = f"{format_amount(done)} done, {format_amount(quantity.centre)} left"
            ends = done + quantity.low, done + quantity.high
            rows.append(charts.Bar(name, text, dict(parts), ends))
    return charts.bars(rows, colours, shares=True)


def _terms(forecasts: Sequence[Forecast]) -> list[Section]:
    words = (
        "The forecast is the sum of these terms. Only temp I/O changes, and CPU time where waits "
        "make it longer or shorter."
    )
    tables = [
        (
            f"From {seconds(f.baseline_s)} today to {seconds(f.forecast_s)} on {f.target}",
            terms_table(f),
        )
        for f in ranked(forecasts)
        if f.forecast_s is not None and unknown_share(f) is None
    ]
    title = "What the forecast is made of"
    return [Section(title, [words], tables=tables[:_DRAWN_MAX])] if tables else []


def weaknesses(forecasts: Sequence[Forecast]) -> list[Weakness]:
    """Each warning once, with the targets it concerns, and the next step."""
    targets: dict[tuple[str, str, str], list[str]] = {}
    for forecast in forecasts:
        for warning in forecast.warnings:
            key = (warning.message, warning.title or "", warning.next_step or "")
            targets.setdefault(key, []).append(forecast.target)
    return [
        Weakness(
            sentence(message),
            capitalized(title),
            next_step,
            "" if len(names) == len(forecasts) else ", ".join(names),
        )
        for (message, title, next_step), names in targets.items()
    ]
