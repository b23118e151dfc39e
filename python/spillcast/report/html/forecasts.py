"""Forecasts: comparison of targets, their terms and stages, advice, and remaining work."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spillcast.forecast import Forecast
from spillcast.forecast.caveat import Caveat
from spillcast.forecast.remaining.progress import FILES_SOURCE
from spillcast.forecast.result import Remaining
from spillcast.forecast.spark import TERMS
from spillcast.forecast.spark.simulated import BOUNDS
from spillcast.forecast.verdict import ranked, verdict
from spillcast.profile.timeline import CPU, READ, WRITE
from spillcast.report import PagePart, Prose, TitledTable
from spillcast.report import forecast as terminal
from spillcast.report.html import Figure, Section, Weakness, between, charts, seconds
from spillcast.report.work_memory import work_memory_text
from spillcast.tabular import PrintedTable
from spillcast.text import capitalized, sentence
from spillcast.units import format_bytes, format_duration, format_estimate, interval_name

#: Maximum numbers of forecasts of a query whose terms are listed, and of drawn stages.
_LISTED_MAX, _STAGES_MAX = 3, 30
#: The colour of each activity that may bind a stage.
_COLOURS = ("cpu", "series-4", "read", "write", "series-3", "warn", "domain", "muted")
_BOUND_COLOURS = dict(zip(BOUNDS, _COLOURS, strict=True))
#: Terms below this share of every bar are drawn as one.
_SMALL_SHARE = 0.01
#: Colours by operation; temp I/O of a Spark application has the colour of reads, its tasks of CPU.
_TERM_STATES = {"read": READ, "write": WRITE, "temp": READ, TERMS[1]: CPU}
#: The remaining quantities of a run: name, key of the estimate, and format.
_REMAINING = (
    ("time", "elapsed_s", format_duration),
    ("temp writes", "writes_bytes", format_bytes),
    ("temp reads", "reads_bytes", format_bytes),
)


def sections(forecasts: Sequence[Forecast]) -> list[Section]:
    """The answer for each query, its terms, advice, and what remains if it was partly recorded.

    Forecasts with the same time today belong to one query.
    """
    queries: dict[float, list[Forecast]] = {}
    for forecast in forecasts:
        queries.setdefault(forecast.baseline_s, []).append(forecast)
    comparisons, breakdowns, steps = [], [], list[str]()
    for number, of_query in enumerate(queries.values(), 1):
        suffix = f" of query {number}" if len(queries) > 1 else ""
        order, answer = ranked(of_query), _answer(of_query)
        answered = [forecast for forecast in order if forecast.forecast_s is not None]
        remarks = [forecast.sentence() for forecast in order if forecast.forecast_s is None]
        bars = [_bars(answered, terminal.targets_table(order))] if answered else []
        if any(forecast.best_value for forecast in order):
            remarks.append("'best value' saves the most time for its price.")
        parts = [*terminal.compared_parts(order), Prose(remarks)]
        comparisons.append(Section.of(f"Storage compared{suffix}", parts, bars, answer))
        if answered:
            listed = answered[:_LISTED_MAX]
            parts = [part for f in listed for part in _terms_parts(f, listed)]
            if answered[0].work_memory is not None:
                parts.append(Prose(work_memory_text(answered[0])))
            title = f"What the forecast{suffix} is made of"
            breakdowns.append(Section.of(title, parts, _stages(answered)))
        steps += terminal.advice(order)
    to_do = [Section("What to do", steps)] if steps else []
    return [*comparisons, *breakdowns, *to_do, *_remaining(forecasts)]


def _terms_parts(forecast: Forecast, listed: Sequence[Forecast]) -> Iterator[PagePart]:
    """The terms of a forecast under its target and time; the chart above has the limit."""
    for part in terminal.terms_parts(forecast, listed):
        if isinstance(part, TitledTable) and not forecast.bounds_only:
            text = format_estimate(forecast.forecast_s or 0.0, forecast.interval_s)
            part = replace(part, title=f"On {forecast.target}: {text}")
        yield part


def _stages(order: Sequence[Forecast]) -> list[Figure]:
    """The longest stages of a Spark application as spans, today and on the best target."""
    best = next((f for f in order if f.stages and not f.bounds_only), None)
    if best is None:
        return []
    longest = sorted(best.stages, key=lambda stage: -max(stage.baseline_s, stage.forecast_s))
    drawn = sorted(longest[:_STAGES_MAX], key=lambda stage: (stage.baseline_at_s, stage.id))
    rows = []
    for stage in drawn:
        today, on_target = stage.baseline_at_s, stage.forecast_at_s
        text = ", then ".join(seconds(end_s - begin_s) for begin_s, end_s in (today, on_target))
        spans = (*today, stage.baseline_bound_by), (*on_target, stage.bound_by)
        rows.append(charts.Span(f"stage {stage.id}", text, *spans))
    caption = (
        f"The upper bar of each stage is today, the lower one {best.target}. The colour is what "
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
    statement = (f"{text}." for text in terminal.statement_sentences(first))
    return [*terminal.supposed_sentences(first), *verdict(forecasts).sentences, *statement]


def _bars(answered: Sequence[Forecast], table: PrintedTable) -> Figure:
    """The time today and on each target by term, with intervals; or only intervals."""
    first, is_bounded = answered[0], answered[0].unknown_share is not None
    interval = interval_name(first.confidence)
    today = terminal.NOW if first.supposed is None else terminal.SUPPOSED_NOW
    caption = f"The line at the end of a bar is its {interval}."
    colours, parts = _term_colours(answered), {today: _term_sums(first, "baseline_s")}
    parts |= {f.target: _term_sums(f, "forecast_s") for f in answered if not f.bounds_only}
    if is_bounded:
        caption = f"Each line is a {interval}. Only bounds of the temp I/O time are known: "
        caption += f"{terminal.BOUNDS_ORDER}."
        colours, parts = {"elapsed": "now"}, {today: {"elapsed": first.baseline_s}}
    rows = [
        charts.Bar(
            name,
            between(interval_s) if elapsed_s is None else format_estimate(elapsed_s, interval_s),
            parts.get(name, {}),
            interval_s,
        )
        for name, elapsed_s, interval_s, *_ in table.rows
        if elapsed_s is not None or interval_s is not None
    ]
    limit = None
    if (ends_s := first.ceiling_interval_s) is not None:
        limit = charts.ReferenceLine(f"limit of any storage: {seconds(ends_s[0])}", ends_s[0])
    chart = charts.bars(rows, colours, limit=limit, today=first.baseline_s)
    return Figure("Elapsed time by storage", caption, chart, table)


def _term_colours(answered: Sequence[Forecast]) -> dict[str, str]:
    """The colour of each term that is not too small in every bar."""
    bars = [_term_sums(f, key) for f in answered for key in ("baseline_s", "forecast_s")]
    states: dict[str, str | None] = {}
    for term in (term for forecast in answered for term in forecast.terms):
        if any(sums.get(term.name, 0.0) >= _SMALL_SHARE * sum(sums.values()) for sums in bars):
            state = CPU if term.name.startswith(CPU) else None
            states[term.name] = _TERM_STATES.get(term.op or term.name, state)
    return charts.colours_of(states)


def _term_sums(forecast: Forecast, key: str) -> dict[str, float]:
    """The time (s) of each term, summed over sizes; negative times count as 0."""
    sums = dict.fromkeys((term.name for term in forecast.terms), 0.0)
    for term in forecast.terms:
        sums[term.name] += max(getattr(term, key), 0.0)
    return sums


def _remaining(forecasts: Sequence[Forecast]) -> list[Section]:
    """The remaining work of a partly recorded query, which is the same for all targets."""
    first = next((f for f in ranked(forecasts) if f.to_come is not None), None)
    if first is None or first.to_come is None:
        return []
    parts, remaining = terminal.remaining_parts(first), first.to_come
    if remaining.open_ended:
        return [Section.of("What remains", parts)]
    end = "the entire query"
    if remaining.writes_bytes.source == FILES_SOURCE:
        end = "the query until it has read its temp files, which do not show what follows"
    caption = f"Each bar is {end}; the line is the 90 % interval of its end."
    chart, table = _progress(first.recorded_s, remaining), terminal.remaining_table(remaining)
    figure = Figure("Progress, and what remains", caption, chart, table)
    return [Section.of("What remains", parts, [figure])]


def _progress(recorded_s: float | None, remaining: Remaining) -> charts.Chart:
    """Time, writes and reads, each from the run's beginning to its end."""
    rows = []
    colours = {"before the recording": "now", "recorded": "target", "remaining": "rest"}
    for name, key, format_amount in _REMAINING:
        quantity = getattr(remaining, key)
        done, recorded = quantity.done, quantity.recorded
        if name == "time":
            done, recorded = remaining.done_s, recorded_s or remaining.done_s
        if done is not None and recorded is not None:
            recorded = min(recorded, done)
            parts = zip(colours, (done - recorded, recorded, quantity.centre), strict=True)
            text = f"{format_amount(done)} done, {format_amount(quantity.centre)} left"
            ends = done + quantity.low, done + quantity.high
            rows.append(charts.Bar(name, text, dict(parts), ends))
    return charts.bars(rows, colours, shares=True)


def weaknesses(forecasts: Sequence[Forecast]) -> list[Weakness]:
    """Each warning once, with its targets and the next step."""
    targets_of: dict[Caveat, list[str]] = {}
    for forecast in forecasts:
        for warning in dict.fromkeys(forecast.warnings):
            targets_of.setdefault(warning, []).append(forecast.target)
    weaknesses = []
    for warning, targets in targets_of.items():
        of_targets = "" if len(targets) == len(forecasts) else ", ".join(dict.fromkeys(targets))
        title, next_step = capitalized(warning.title or ""), warning.next_step or ""
        weaknesses.append(Weakness(sentence(warning.message), title, next_step, of_targets))
    return weaknesses
