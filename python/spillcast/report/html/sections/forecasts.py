"""Forecasts: the terms as a waterfall, several targets side by side, what weakens them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.document import read
from spillcast.forecast.result import Forecast as ForecastDocument
from spillcast.forecast.verdict import recommended
from spillcast.report.forecast import NO_LATENCY, NOW
from spillcast.report.html.answer import document_rank_s, ranked, refusal
from spillcast.report.html.charts import forecasts as charts
from spillcast.report.html.material import AGAIN
from spillcast.report.html.page import Figure, Section, Table, Warned, figure
from spillcast.report.html.words import (
    NOTHING,
    between,
    change,
    count,
    seconds,
    sentence,
    size,
)
from spillcast.units import (
    format_bytes,
    format_duration,
    format_setting,
    format_speedup,
    interval_name,
)

Forecast = Mapping[str, Any]
#: Forecasts whose terms are drawn.
_DRAWN_MAX = 3


def numbers(forecasts: Sequence[Forecast]) -> list[tuple[str, str]]:
    """The figures of note of the best forecast."""
    best = ranked(forecasts)[0]
    if best["forecast_s"] is None:
        return [("now", seconds(best["baseline_s"]))]
    return [
        ("now", seconds(best["baseline_s"])),
        ("there", seconds(best["forecast_s"])),
        (interval_name(best["confidence"]), between(best["interval_s"])),
        ("speed-up", format_speedup(best["speedup"])),
        (NO_LATENCY, _ceiling(best)),
    ]


def _ceiling(forecast: Forecast) -> str:
    """What storage of no latency would leave: an estimate, so its bounds where they are known."""
    bounds = forecast.get("ceiling_interval_s")
    return between(bounds) if bounds else f"about {seconds(forecast['ceiling_s'])}"


def choices(forecasts: Sequence[Forecast]) -> list[Section]:
    """All targets side by side, the best first, with the run as it is and without latency."""
    if not forecasts:
        return []
    order = ranked(forecasts)
    given = [one for one in order if one["forecast_s"] is not None]
    refused = [refusal(one) for one in order if one["forecast_s"] is None]
    figures = [_choices(given)] if len(given) > 1 else []
    tables = [_table(order)] if given else []
    words = [*refused, *(_remarks(order) if given else [])]
    said = [Section("Storage compared", words, figures, tables)] if refused or tables else []
    said += [_work_memory(given[0])] if given and given[0].get("work_memory") else []
    return [*said, *([Section("What to do", todo)] if (todo := _advice(order)) else [])]


def _remarks(order: Sequence[Forecast]) -> list[str]:
    """What the rows that are no target are, and the remarks."""
    said = f"No storage for temp files is faster than {NO_LATENCY}. "
    said += f"'{NOW}' is the query on its present storage."
    if any(one.get("best_value") for one in order):
        said += " 'best value' saves the most time for its price."
    if order[0].get("work_memory"):
        said += " More work_mem holds if the plan stays: PostgreSQL may choose another with it."
    return [said]


def _work_memory(forecast: Forecast) -> Section:
    """Settings of work memory on the present storage, with what each does to the spill."""
    memory = forecast["work_memory"]
    settings = [(memory["current_bytes"], forecast["baseline_s"], None, NOW)]
    for cure, does in ((memory["one_pass"], "sorts take one pass"), (memory["enough"], "no spill")):
        if cure is not None:
            of = cure["work_mem_bytes"], cure["forecast_s"], cure["interval_s"], does
            settings.append(of)
    rows = [
        [NOTHING if b is None else format_setting(b), seconds(s), between(bounds), does]
        for b, s, bounds, does in settings
    ]
    interval = interval_name(forecast["confidence"])
    table = Table(["work_mem", "elapsed", interval, "effect"], rows, left=(0, 3))
    most = format_bytes(memory["most_bytes"])
    words = [
        "Elapsed time on the present storage, if the plan stays as it is. Without a spill all "
        f"nodes of the plan in all its processes may use up to {most}."
    ]
    return Section("More work memory instead", words, [], [table])


def terms(forecasts: Sequence[Forecast]) -> list[Section]:
    """What the forecasts are made of."""
    given = [one for one in ranked(forecasts) if one["forecast_s"] is not None]
    if not given:
        return []
    words = [
        "The forecast is the sum of these terms. Only temp I/O changes, apart from CPU time that "
        "waits make longer or shorter. The line through the last bar is the forecast's interval; "
        "the dotted line is the time on zero-latency storage, the band its interval."
    ]
    figures = [_waterfall(one) for one in given[:_DRAWN_MAX]]
    return [Section("What the forecast is made of", words, figures)]


def warnings(forecasts: Sequence[Forecast]) -> list[Warned]:
    """What weakens the numbers, each once, with the targets it is said of, and what to do."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for forecast in forecasts:
        for warning in forecast["warnings"]:
            title, next_step = (warning.get(name) or "" for name in ("title", "next_step"))
            words = (warning["message"], title, next_step)
            said.setdefault(words, []).append(forecast["target"])
    return [
        Warned(
            sentence(message),
            title[:1].upper() + title[1:],
            next_step,
            "" if len(targets) == len(forecasts) else ", ".join(targets),
        )
        for (message, title, next_step), targets in said.items()
    ]


def _waterfall(forecast: Forecast) -> Figure:
    target = forecast["target"]
    now, there = seconds(forecast["baseline_s"]), seconds(forecast["forecast_s"])
    moved = [
        f"{name} from {format_duration(here)} to {format_duration(over)}"
        for name, here, over in charts.changes(forecast)
    ]
    return figure(
        f"From {now} now to {there} on {target}",
        "",
        f"Waterfall of the forecast for {target}: {now} now, {there} there, "
        f"{interval_name(forecast['confidence'])} {between(forecast['interval_s'])}; "
        + "; ".join(moved),
        partial(charts.waterfall, forecast),
        _terms(forecast),
    )


def _terms(forecast: Forecast) -> Table:
    rows = [
        [
            term["name"],
            count(term["count"]),
            size(term["bytes"] / term["count"]) if term["bytes"] and term["count"] else NOTHING,
            format_duration(term["baseline_s"]),
            format_duration(term["forecast_s"]),
            change(term["forecast_s"] - term["baseline_s"]),
        ]
        for term in forecast["terms"]
    ]
    now, there = forecast["baseline_s"], forecast["forecast_s"]
    rows.append(["elapsed", "", "", seconds(now), seconds(there), change(there - now)])
    return Table(["term", "operations", "size", "now", "there", "change"], rows)


def _choices(given: Sequence[Forecast]) -> Figure:
    names = "; ".join(
        f"{one['target']} {seconds(one['forecast_s'])} ({between(one['interval_s'])})"
        for one in given
    )
    return figure(
        "Elapsed time by storage",
        f"Points are forecasts; each line is a {interval_name(given[0]['confidence'])}.",
        f"Forecasts side by side: {names}; now {seconds(given[0]['baseline_s'])}",
        partial(charts.choices, given),
        _table(given),
    )


def _table(order: Sequence[Forecast]) -> Table:
    """The rows of the terminal's table."""
    first = next(one for one in order if one["forecast_s"] is not None)
    priced = any(one.get("cost") is not None for one in order)
    header = ["storage", "elapsed", interval_name(first["confidence"]), "speed-up"]
    header += [*["cost"] * priced, "remarks"]
    now_s = first["baseline_s"]

    def row(name: str, s: float | None, bounds: Any, remark: str, cost: Any = None) -> list[str]:
        speedup = format_speedup(now_s / s) if s else NOTHING
        paid = [NOTHING if cost is None else f"{cost:g}"] * priced
        return [name, seconds(s), between(bounds), speedup, *paid, remark]

    rows = []
    for one in order:
        remark = "no number" if one["forecast_s"] is None else ""
        if one.get("best_value"):
            remark = "best value"
        elif (without_s := one.get("without_cache_s")) is not None:
            remark = f"{format_duration(without_s)} where memory is not free"
        cells = row(one["target"], one["forecast_s"], one["interval_s"], remark, one.get("cost"))
        rows.append((document_rank_s(one), cells))
    if memory := first.get("work_memory"):
        more = memory["enough"]
        name = f"work_mem {format_setting(more['work_mem_bytes'])}"
        cells = row(name, more["forecast_s"], more["interval_s"], "if the plan stays")
        rows.append((more["forecast_s"], cells))
    bounds = first.get("ceiling_interval_s")
    rows.append((first["ceiling_s"], row(NO_LATENCY, first["ceiling_s"], bounds, "")))
    rows.append((now_s, row(NOW, now_s, None, "")))
    rows.sort(key=lambda pair: pair[0])
    return Table(header, [cells for _, cells in rows], left=(0, len(header) - 1))


def _advice(order: Sequence[Forecast]) -> list[str]:
    """What to do for each target that the verdict on its query recommends."""
    names: set[str] = set()
    said: list[str] = []
    for baseline_s in dict.fromkeys(one["baseline_s"] for one in order):
        of_it = [one for one in order if one["baseline_s"] == baseline_s]
        useful = recommended([read(ForecastDocument, one, "a forecast", AGAIN) for one in of_it])
        helps = [one for one in of_it if one["target"] in useful]
        said += [f"{one['target']}: {text}" for one in helps for text in one.get("advice", ())]
        names |= useful
    memory = order[0].get("work_memory")
    if memory and f"work_mem {format_setting(memory['enough']['work_mem_bytes'])}" in names:
        enough, most = memory["enough"], format_bytes(memory["most_bytes"])
        said.insert(
            0,
            f"Raise work_mem to {format_setting(enough['work_mem_bytes'])} for this query: then "
            f"nothing spills, and its nodes in all processes may use up to {most}.",
        )
    return said
