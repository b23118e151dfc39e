"""Forecasts: targets side by side, their terms and stages, what to do, what remains of a query."""

from collections.abc import Iterator, Sequence

from spillcast.forecast import Forecast
from spillcast.forecast.result import Remaining
from spillcast.forecast.spark.simulated import BOUNDS
from spillcast.forecast.verdict import ranked, unknown_share, verdict
from spillcast.profile.timeline import CPU, READ, WRITE
from spillcast.report import forecast as terminal
from spillcast.report.html import charts
from spillcast.report.html.page import Figure, Section, Weakness, between, seconds
from spillcast.report.page import Words
from spillcast.report.work_memory import work_memory_text
from spillcast.tabular import Table
from spillcast.text import capitalized, sentence
from spillcast.units import (
    format_bytes,
    format_duration,
    format_estimate,
    interval_name,
)

#: Forecasts of a query whose terms are listed.
_LISTED_MAX = 3
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
_SMALL = 0.01
#: The remaining quantities of a run, by the key of the estimate, and how each is written.
_REMAINING = (
    ("time", "elapsed_s", format_duration),
    ("temp writes", "writes_bytes", format_bytes),
    ("temp reads", "reads_bytes", format_bytes),
)


def sections(forecasts: Sequence[Forecast], purchases: Sequence[str] = ()) -> list[Section]:
    """The answer for each query, its terms, what to do, and what remains of one seen in part.

    ``purchases`` are what to buy, in sentences.
    """
    queries: dict[float, list[Forecast]] = {}
    for forecast in forecasts:
        queries.setdefault(forecast.baseline_s, []).append(forecast)
    compared, made_of, steps = [], [], list(purchases)
    for number, of_query in enumerate(queries.values(), 1):
        of = f" of query {number}" if len(queries) > 1 else ""
        order, answer = ranked(of_query), _answer(of_query)
        given = [forecast for forecast in order if forecast.forecast_s is not None]
        refused = [forecast.sentence() for forecast in order if forecast.forecast_s is None]
        bars = [_bars(given, terminal.targets_table(order))] if given else []
        parts = [*terminal.compared_parts(order), Words([*_remarks(order), *refused])]
        compared.append(Section.of(f"Storage compared{of}", parts, bars, answer))
        if given:
            listed = given[:_LISTED_MAX]
            parts = [part for each in listed for part in terminal.terms_parts(each, listed)]
            if given[0].work_memory is not None:
                parts.append(Words(work_memory_text(given[0])))
            made_of.append(Section.of(f"What the forecast{of} is made of", parts, _stages(given)))
        steps += terminal.advice(order)
    to_do = [Section("What to do", steps)] if steps else []
    return [*compared, *made_of, *to_do, *_remaining(forecasts)]


def _remarks(order: Sequence[Forecast]) -> Iterator[str]:
    """What remarks in the table mean."""
    if any(forecast.best_value for forecast in order):
        yield "'best value' saves the most time for its price."
    if order[0].work_memory:
        yield "More work_mem may change the plan; its row assumes that the plan stays."


def _stages(order: Sequence[Forecast]) -> list[Figure]:
    best = next((forecast for forecast in order if forecast.stages), None)
    if best is None:
        return []
    longest = sorted(best.stages, key=lambda stage: -max(stage.baseline_s, stage.forecast_s))
    drawn = sorted(longest[:_STAGES_MAX], key=lambda stage: (stage.baseline_at_s, stage.id))

    rows = []
    for stage in drawn:
        before, after = stage.baseline_at_s, stage.forecast_at_s
        text = ", then ".join(seconds(end_s - begin_s) for begin_s, end_s in (before, after))
        spans = (*before, stage.baseline_bound_by), (*after, stage.bound_by)
        rows.append(charts.Span(f"stage {stage.id}", text, *spans))
    caption = (
        f"Of each stage the upper bar is today, the lower one {best.target}. The colour is what "
        "its tasks mostly do, or why slots are idle: more cores help stages bound by CPU, other "
        "storage those bound by storage; neither helps stragglers."
    )
    if len(best.stages) > len(drawn):
        caption += f" The longest {len(drawn)} of {len(best.stages):,} stages are drawn."
    title = f"Stages today and on {best.target}"
    return [Figure(title, caption, charts.spans(rows, _BOUND_COLOURS), terminal.stages_table(best))]


def _answer(forecasts: Sequence[Forecast]) -> list[str]:
    """The verdict on a query, and its statement."""
    first = forecasts[0]
    sentences = [] if first.supposed is None else [terminal.supposed_text(first, first.supposed)]
    sentences += verdict(forecasts).sentences
    if first.statement is not None:
        sentences.append(f"{terminal.statement_text(first.statement)}.")
    return sentences


def _bars(given: Sequence[Forecast], table: Table) -> Figure:
    """Today's time and that on each target by term, with intervals; or only intervals."""
    first, bounds_only = given[0], unknown_share(given[0]) is not None
    interval = interval_name(first.confidence)
    now = terminal.NOW if first.supposed is None else terminal.SUPPOSED_NOW
    caption = f"The line at the end of a bar is its {interval}."
    terms, parts = _colours(given), _sums(first, "baseline_s")
    if bounds_only:
        caption = f"Each line is a {interval}. Only bounds of the temp I/O time are known: "
        caption += f"{terminal.BOUNDS_ORDER}."
        terms, parts = {"elapsed": "now"}, {"elapsed": first.baseline_s}
    rows = [charts.Bar(now, format_estimate(first.baseline_s, None), parts)]
    times = [(f.target, f.forecast_s, _sums(f, "forecast_s"), f.interval_s) for f in given]
    if first.ceiling_interval_s is not None:
        times.append((terminal.NO_LATENCY, first.ceiling_s, {}, first.ceiling_interval_s))
    for name, s, parts, bounds in times:
        if bounds_only or s is None:
            rows.append(charts.Bar(name, between(bounds), {}, bounds))
        else:
            rows.append(charts.Bar(name, format_estimate(s, bounds), parts, bounds))
    return Figure("Elapsed time by storage", caption, charts.bars(rows, terms), table)


def _colours(given: Sequence[Forecast]) -> dict[str, str]:
    bars = [_sums(forecast, key) for forecast in given for key in ("baseline_s", "forecast_s")]
    states: dict[str, str | None] = {}
    for term in (term for forecast in given for term in forecast.terms):
        if any(sums.get(term.name, 0.0) >= _SMALL * sum(sums.values()) for sums in bars):
            state = CPU if term.name.startswith(CPU) else None
            states[term.name] = {"read": READ, "write": WRITE}.get(term.op or "", state)
    return charts.colours_of(states)


def _sums(forecast: Forecast, key: str) -> dict[str, float]:
    sums = dict.fromkeys((term.name for term in forecast.terms), 0.0)
    for term in forecast.terms:
        sums[term.name] += max(getattr(term, key), 0.0)
    return sums


def _remaining(forecasts: Sequence[Forecast]) -> list[Section]:
    """What remains of a query that was recorded in part, which no target changes."""
    first = next((f for f in ranked(forecasts) if f.to_come is not None), None)
    if first is None or first.to_come is None:
        return []
    parts, rest = terminal.to_come_parts(first), first.to_come
    if rest.open_ended:
        return [Section.of("What remains", parts)]
    caption = "Each bar is the entire query; the line is the 90 % interval of its end."
    chart, table = _progress(first.recorded_s, rest), terminal.to_come_table(rest)
    figure = Figure("Progress, and what remains", caption, chart, table)
    return [Section.of("What remains", parts, [figure])]


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
