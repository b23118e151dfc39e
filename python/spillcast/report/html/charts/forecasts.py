"""Charts of forecasts: the terms as a waterfall, and several targets side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt

from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import names_axis, sized, words_share
from spillcast.report.html.charts.scale import duration_axis
from spillcast.report.html.page import Layout
from spillcast.report.html.words import MINUS
from spillcast.units import format_duration

_ROW_PX = 34
#: Share of the elapsed time below which a change is not drawn.
_SMALL = 0.002


def changes(forecast: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Seconds here and there by the name of a term, over all sizes of operations."""
    found: dict[str, tuple[float, float]] = {}
    for term in forecast["terms"]:
        here_s, there_s = found.get(term["name"], (0.0, 0.0))
        found[term["name"]] = here_s + term["baseline_s"], there_s + term["forecast_s"]
    return [(name, *seconds) for name, seconds in found.items()]


def waterfall(forecast: Mapping[str, Any], layout: Layout) -> Any:
    """From the time now, term by term, to the time there with its interval."""
    now_s, there_s = forecast["baseline_s"], forecast["forecast_s"]
    rows: list[dict[str, Any]] = [_step("now", 0, now_s, "now", format_duration(now_s))]
    at_s = now_s
    moved = sorted(changes(forecast), key=lambda row: row[2] - row[1])
    for name, here, there in moved:
        change_s = there - here
        if abs(change_s) < _SMALL * now_s:
            continue
        sign, shade = (MINUS, "saved") if change_s < 0 else ("+", "lost")
        words = f"{sign}{format_duration(abs(change_s))}"
        rows.append(_step(name, at_s, at_s + change_s, shade, words))
        at_s += change_s
    rows.append(_step("there", 0, there_s, "there", format_duration(there_s)))
    low, high = forecast["interval_s"]
    most = max(now_s, high, *(row["to"] for row in rows), *(row["from"] for row in rows))
    room = most / (0.70 if layout.narrow else 0.84)
    axis = duration_axis(most, None, 3 if layout.narrow else 6, grid=True, domain=False)
    x = alt.X("from:Q", scale=alt.Scale(domain=[0, room], nice=False), axis=axis)
    y = names_axis([row["name"] for row in rows], layout)
    chart = chart_of(rows)
    sure = chart_of([{"name": "there", "low": low, "high": high}])
    layers = [
        *_ceiling([forecast]),
        chart_of([{"at": forecast["ceiling_s"]}])
        .mark_rule(color=colour("muted"), strokeDash=[2, 3])
        .encode(x=alt.X("at:Q")),
        chart.mark_bar(height=18).encode(
            x=x, x2=alt.X2("to:Q"), y=y, color=alt.Color("shade:N", scale=None)
        ),
        # A light rim keeps the line apart from the bar that it lies on.
        sure.mark_rule(color=colour("surface"), strokeWidth=5).encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y
        ),
        sure.mark_rule(color=colour("text"), strokeWidth=1.6).encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y
        ),
        *(
            sure.mark_tick(color=colour("text"), thickness=1.6, size=12).encode(x=f"{end}:Q", y=y)
            for end in ("low", "high")
        ),
        chart.mark_text(align="left", dx=6, color=colour("text")).encode(
            x=alt.X("right:Q"), y=y, text=alt.Text("words:N")
        ),
    ]
    rows[-1]["right"] = max(high, there_s)
    return sized(alt.layer(*layers), layout, _ROW_PX * len(rows) + 30)


def _ceiling(told: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The interval of what no latency would leave, by all that is told; none where unknown."""
    bounds = [one["ceiling_interval_s"] for one in told if one.get("ceiling_interval_s")]
    if not bounds:
        return []
    low_s, high_s = min(low for low, _ in bounds), max(high for _, high in bounds)
    band = chart_of([{"least": low_s, "most": high_s}])
    return [
        band.mark_rect(color=colour("grid"), opacity=0.7).encode(
            x=alt.X("least:Q"), x2=alt.X2("most:Q")
        )
    ]


def _step(name: str, low_s: float, high_s: float, shade: str, words: str) -> dict[str, Any]:
    right = max(low_s, high_s)
    return {"name": name, "from": low_s, "to": high_s, "shade": colour(shade), "words": words,
            "right": right}  # fmt: skip


def choices(ranked: Sequence[Mapping[str, Any]], layout: Layout) -> Any:
    """Each target's forecast with its interval, beside the time now and the ceiling."""
    given = [one for one in ranked if one["forecast_s"] is not None]
    rows = [
        {"name": one["target"], "s": one["forecast_s"], "low": one["interval_s"][0],
         "high": one["interval_s"][1], "words": format_duration(one["forecast_s"])}
        for one in given
    ]  # fmt: skip
    now_s, ceiling_s = given[0]["baseline_s"], min(one["ceiling_s"] for one in given)
    most = max(now_s, *(row["high"] for row in rows))
    rules = [
        ({"at": ceiling_s, "words": "zero latency"}, "right" if ceiling_s < now_s else "left"),
        ({"at": now_s, "words": "now"}, "left" if ceiling_s < now_s else "right"),
    ]
    axis = duration_axis(most, "elapsed time", 3 if layout.narrow else 6, grid=True, domain=False)
    # The forecasts stand in a column of their own, which no line crosses.
    names = [row["name"] for row in rows]
    room = words_share([row["words"] for row in rows], names, layout)
    scale = alt.Scale(domain=[0, most / (1 - room)], nice=False)
    y = names_axis(names, layout)
    chart = chart_of(rows)
    layers: list[Any] = _ceiling(given)
    for rule, side in rules:
        align: Literal["left", "right"] = "left" if side == "left" else "right"
        line = chart_of([rule])
        layers += [
            line.mark_rule(color=colour("muted"), strokeDash=[2, 3]).encode(x=alt.X("at:Q")),
            line.mark_text(
                baseline="bottom", align=align, dy=-4, dx=3 if align == "left" else -3,
                color=colour("muted"),
            ).encode(x=alt.X("at:Q"), y=alt.value(0), text=alt.Text("words:N")),
        ]  # fmt: skip
    layers += [
        chart.mark_rule(color=colour("there"), strokeWidth=2).encode(
            x=alt.X("low:Q", scale=scale, axis=axis), x2=alt.X2("high:Q"), y=y
        ),
        chart.mark_point(color=colour("there"), filled=True, size=80, opacity=1).encode(
            x=alt.X("s:Q"), y=y
        ),
        chart.mark_text(align="right", color=colour("text")).encode(
            x=alt.value("width"), y=y, text=alt.Text("words:N")
        ),
    ]
    return sized(alt.layer(*layers), layout, _ROW_PX * len(rows) + 64)
