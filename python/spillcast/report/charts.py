"""The charts of cases: forecasts against measured times, and intervals that hold them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from spillcast.histogram import NORMAL_95
from spillcast.lab.case import Case
from spillcast.lab.summary import of_evidence, summarise
from spillcast.report.draw import chart_of, colour, standalone, svg
from spillcast.report.verify import breakdown

#: One colour and one mark for each direction; told apart without colour too.
MARKS = {
    "slow to fast": ("series-2", "circle"),
    "fast to slow": ("series-1", "square"),
    "slow to slow": ("series-3", "triangle-up"),
    "fast to fast": ("series-4", "diamond"),
}
AIM = (0.85, 0.95)
_TICKS_S = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw_charts(cases: Sequence[Case], folder: Path) -> list[str]:
    """Draw what there is to draw; names of the files."""
    if not _answered(cases):
        return []
    charts = {"forecast.svg": forecasts(cases, 440), "coverage.svg": coverage(cases, 380)}
    for name, chart in charts.items():
        (folder / name).write_text(standalone(svg(chart)))
    return list(charts)


def _answered(cases: Sequence[Case]) -> list[Case]:
    return [case for case in of_evidence(cases) if case.forecast.forecast_s is not None]


def forecasts(cases: Sequence[Case], width: int) -> Any:
    """Each forecast from a whole recording against the measured time."""
    points = [
        (case.measured_to_s, case.forecast.forecast_s or 1.0, case.direction)
        for case in _answered(cases)
    ]
    title = "Forecast against measured time; dotted: 10 % off"
    return scatter(points).properties(width=width, height=width, title=title)


def scatter(points: Sequence[tuple[float, float, str]]) -> Any:
    """Measured time, forecast and direction of cases, on logarithmic scales."""
    ends = [seconds for point in points for seconds in point[:2]]
    span = min(ends) / 1.3, max(ends) * 1.3
    scale = alt.Scale(type="log", domain=span, nice=False)
    ticks = [tick for tick in _TICKS_S if span[0] <= tick <= span[1]]
    x = alt.X("x:Q", scale=scale, axis=_seconds_axis("measured elapsed time, s", ticks))
    y = alt.Y("y:Q", scale=scale, axis=_seconds_axis("forecast, s", ticks))
    layers = []
    for factor, dash in ((0.9, [2, 3]), (1.0, [1, 0]), (1.1, [2, 3])):
        low, high = max(span[0], span[0] / factor), min(span[1], span[1] / factor)
        values = [{"x": s, "y": s * factor} for s in (low, high)]
        line = chart_of(values).mark_line(color=colour("domain"), strokeDash=dash, strokeWidth=1)
        layers.append(line.encode(x=x, y=y))
    counts = {way: sum(point[2] == way for point in points) for way in MARKS}
    names = {way: f"{way} ({count})" for way, count in counts.items() if count}
    cases = [
        {"x": measured_s, "y": forecast_s, "of": names[way]}
        for measured_s, forecast_s, way in points
    ]
    domain = list(names.values())
    legend = alt.Legend(columns=1, orient="top")
    colours, shapes = zip(*(MARKS[way] for way in names), strict=True)
    marks = chart_of(cases).mark_point(size=42, strokeWidth=1.4, opacity=1)
    layers.append(
        marks.encode(
            x=x,
            y=y,
            color=alt.Color(
                "of:N",
                scale=alt.Scale(domain=domain, range=[colour(name) for name in colours]),
                legend=legend,
            ),
            shape=alt.Shape(
                "of:N", scale=alt.Scale(domain=domain, range=list(shapes)), legend=legend
            ),
        )
    )
    return alt.layer(*layers)


def _seconds_axis(title: str, ticks: Sequence[float]) -> Any:
    return alt.Axis(title=title, values=list(ticks), format="~g")


def coverage(cases: Sequence[Case], width: int) -> Any:
    """The share of intervals that hold the truth, group by group, with what chance does to it."""
    rows: list[dict[str, Any]] = []
    for gap, groups in enumerate(breakdown(cases).values()):
        rows += [_covered(name, of) for name, of in groups.items()] + [{"name": " " * (gap + 1)}]
    rows.pop()
    confidence = cases[0].forecast.confidence
    names = alt.Y(
        "name:N", sort=None, scale=alt.Scale(domain=[row["name"] for row in rows]),
        axis=alt.Axis(title=None, domain=False, ticks=False, grid=False, labelLimit=300,
                      labelColor=colour("text")),
    )  # fmt: skip
    share = alt.X(
        "share:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(title=None, format=".0%", tickCount=5),
    )
    chart = chart_of([row for row in rows if "share" in row])
    aim = chart_of([{"low": AIM[0], "high": AIM[1], "aim": confidence}])
    layers = [
        aim.mark_rect(color=colour("band"), opacity=1).encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q")
        ),
        aim.mark_rule(color=colour("domain")).encode(x=alt.X("aim:Q")),
        chart.mark_rule(color=colour("series-1"), strokeWidth=1.4).encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=names
        ),
        chart.mark_point(color=colour("series-1"), filled=True, size=48, opacity=1).encode(
            x=share, y=names
        ),
    ]
    title = f"Share of {confidence:.0%} intervals that hold the measured time"
    return alt.layer(*layers).properties(width=width, height=18 * len(rows), title=title)


def _covered(name: str, of: Sequence[Case]) -> dict[str, Any]:
    given = sum(case.forecast.interval_s is not None for case in of)
    row: dict[str, Any] = {"name": f"{name} ({given})"}
    summary = summarise(of)
    if summary.coverage is not None:
        low, high = _chance(summary.coverage, summary.cases - summary.refused)
        row |= {"share": summary.coverage, "low": low, "high": high}
    return row


def _chance(coverage: float, cases: int) -> tuple[float, float]:
    """A 90 % interval of the true share, if cases were independent: Wilson's interval."""
    z = NORMAL_95
    middle = (coverage + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * ((coverage * (1 - coverage) + z * z / (4 * cases)) / cases) ** 0.5
    half /= 1 + z * z / cases
    return middle - half, middle + half
