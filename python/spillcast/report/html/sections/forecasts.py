"""Forecasts: the terms as a waterfall, several targets side by side, what weakens them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.report.html.answer import ranked, sentence
from spillcast.report.html.charts import forecasts as charts
from spillcast.report.html.page import Figure, Section, Table, figure
from spillcast.report.html.words import NOTHING, between, change, count, percent, seconds, size
from spillcast.units import format_bytes, format_duration, format_speedup

Forecast = Mapping[str, Any]
#: Forecasts whose terms are drawn.
_DRAWN_MAX = 3


def numbers(forecasts: Sequence[Forecast]) -> list[tuple[str, str]]:
    """The figures of note of the best forecast."""
    best = ranked(forecasts)[0]
    if best["forecast_s"] is None:
        return [("now", seconds(best["baseline_s"]))]
    sure = percent(best["confidence"], 0)
    return [
        ("now", seconds(best["baseline_s"])),
        ("there", seconds(best["forecast_s"])),
        (f"{sure} sure", between(best["interval_s"])),
        ("speed-up", format_speedup(best["speedup"])),
        ("no latency at all", _ceiling(best)),
    ]


def _ceiling(forecast: Forecast) -> str:
    """What storage of no latency would leave: an estimate, so its bounds where they are known."""
    bounds = forecast.get("ceiling_interval_s")
    return between(bounds) if bounds else f"about {seconds(forecast['ceiling_s'])}"


def sections(forecasts: Sequence[Forecast]) -> list[Section]:
    """What the forecasts are made of, and the table of choices."""
    order = ranked(forecasts)
    given = [one for one in order if one["forecast_s"] is not None]
    found = []
    if given:
        words = [
            "The elapsed time is the sum of these terms. What is not temp I/O stays but for caches "
            "that go colder or warmer; the line through the last bar is the interval, the dotted "
            "one the time with storage of no latency, on a band as wide as its own interval."
        ]
        shown = given[:_DRAWN_MAX]
        found.append(
            Section("What the forecast is made of", words, [_waterfall(one) for one in shown])
        )
    if len(order) > 1:
        figures = [_choices(given)] if len(given) > 1 else []
        refused = [sentence(one) for one in order if one["forecast_s"] is None]
        tables = [_table(order)]
        found.append(Section("The choices", refused, figures, tables))
    if said := _advice(order):
        found.append(Section("What to do", said))
    return found


def warnings(forecasts: Sequence[Forecast]) -> list[str]:
    """What weakens the numbers, each once, with the targets it is said of."""
    said: dict[str, list[str]] = {}
    for forecast in forecasts:
        for warning in forecast["warnings"]:
            said.setdefault(warning["message"], []).append(forecast["target"])
    return [
        text if len(targets) == len(forecasts) else f"{', '.join(targets)}: {text}"
        for text, targets in said.items()
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
        f"{between(forecast['interval_s'])} with {forecast['confidence']:.0%} confidence; "
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
    sure = percent(given[0]["confidence"], 0)
    return figure(
        "Elapsed time by storage",
        f"Points are forecasts, lines their intervals, {sure} sure.",
        f"Forecasts side by side: {names}; now {seconds(given[0]['baseline_s'])}",
        partial(charts.choices, given),
        _table(given),
    )


def _table(order: Sequence[Forecast]) -> Table:
    priced = any(one.get("cost") is not None for one in order)
    header = ["storage", "forecast", f"{percent(order[0]['confidence'], 0)} sure", "speed-up"]
    header += ["of what is possible", *["cost"] * priced, "remarks"]
    rows = []
    for one in order:
        share = one.get("ceiling_share")
        speedup = one["speedup"]
        row = [
            one["target"],
            seconds(one["forecast_s"]),
            between(one["interval_s"]),
            NOTHING if speedup is None else format_speedup(speedup),
            NOTHING if share is None or share < 0 else percent(share, 0),
        ]
        row += [f"{one['cost']:g}" if one.get("cost") is not None else NOTHING] * priced
        words = ["best value"] * bool(one.get("best_value"))
        words += ["refused"] * (one["forecast_s"] is None)
        words += ["slower"] * (speedup is not None and speedup < 1)
        rows.append([*row, ", ".join(words)])
    return Table(header, rows, left=(0, len(header) - 1))


def _advice(order: Sequence[Forecast]) -> list[str]:
    said = [f"{one['target']}: {text}" for one in order for text in one.get("advice", ())]
    memory = order[0].get("work_memory")
    if memory and memory["enough"]["interval_s"][1] < order[0]["baseline_s"]:
        enough = memory["enough"]
        most = format_bytes(memory["most_bytes"])
        said.append(
            f"Or raise work_mem to {format_bytes(enough['work_mem_bytes'])}: the spill is gone, "
            f"and all nodes in all processes may take {most}."
        )
    return said
