"""Charts of sweeps and caches: I/O sizes, memory, and how much flash is worth buying."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from spillcast.recording.event_names import OPS
from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import names_axis, sized
from spillcast.report.html.charts.scale import PERCENT, duration_axis, size_axis
from spillcast.report.html.page import Layout
from spillcast.units import format_bytes, format_duration

_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond")
#: Lines that one chart can hold apart.
LINES_MAX = 4


def sizes_words(row: Mapping[str, Any]) -> str:
    """The setting of a row: one size, or the least and the most."""
    low, high = row["min_bytes"], row["max_bytes"]
    return format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def io_sizes(
    rows: Sequence[Mapping[str, Any]], best: Mapping[str, Any] | None, layout: Layout
) -> Any:
    """Bars of the time of reads and writes, one upon the other, by setting."""
    values = [
        {"name": sizes_words(row), "part": f"{op}s", "order": order,
         "s": (row.get(f"{op}s") or {}).get("total_s", 0)}
        for row in rows
        for order, op in enumerate(OPS)
    ]  # fmt: skip
    ends = [
        {"name": sizes_words(row), "total": row["total_s"],
         "words": format_duration(row["total_s"]) + ("  ◀ best" if _is(row, best) else "")}
        for row in rows
    ]  # fmt: skip
    most = max(row["total_s"] for row in rows) or 1.0
    scale = alt.Scale(domain=[0, most * (1.75 if layout.narrow else 1.28)], nice=False)
    axis = duration_axis(most, "time of all temp I/O", 2 if layout.narrow else 6, domain=False)
    parts = alt.Scale(domain=["reads", "writes"], range=[colour("read"), colour("write")])
    y = names_axis([end["name"] for end in ends], layout)
    bars = chart_of(values).mark_bar(height=18)
    words = chart_of(ends).mark_text(align="left", dx=6, color=colour("text"))
    layers = [
        bars.encode(
            x=alt.X("s:Q", stack="zero", scale=scale, axis=axis),
            y=y,
            color=alt.Color("part:N", scale=parts),
            order=alt.Order("order:Q"),
        ),
        words.encode(x=alt.X("total:Q"), y=y, text=alt.Text("words:N")),
    ]
    return sized(alt.layer(*layers), layout, 32 * len(ends) + 80)


def _is(row: Mapping[str, Any], best: Mapping[str, Any] | None) -> bool:
    keys = ("min_bytes", "max_bytes")
    return best is not None and all(row[key] == best[key] for key in keys)


def memory(points: Sequence[Mapping[str, Any]], layout: Layout) -> Any:
    """Elapsed time over work memory, a line for each storage; measured points are filled."""
    names = list(dict.fromkeys(point["storage"] for point in points))[:LINES_MAX]
    values = [
        {"storage": point["storage"], "bytes": point["memory_bytes"], "s": point["elapsed_s"],
         "low": (point.get("interval_s") or [point["elapsed_s"]] * 2)[0],
         "high": (point.get("interval_s") or [point["elapsed_s"]] * 2)[1],
         "measured": "measured" if point["measured"] else "forecast"}
        for point in points
        if point["storage"] in names and point["elapsed_s"] is not None
    ]  # fmt: skip
    sizes = [value["bytes"] for value in values]
    most = max(value["high"] for value in values)
    domain = alt.Scale(
        type="log", base=2, domain=[min(sizes) / 1.15, max(sizes) * 1.15], nice=False
    )
    x = alt.X(
        "bytes:Q",
        scale=domain,
        axis=size_axis(sizes, "work memory", 4 if layout.narrow else 9, grid=False),
    )
    y = alt.Y(
        "s:Q",
        scale=alt.Scale(domain=[0, most * 1.05], nice=False),
        axis=duration_axis(most, "elapsed time", 5, domain=False, ticks=False),
    )
    shades = [colour(f"series-{number + 1}") for number in range(len(names))]
    legend = alt.Legend(columns=2 if layout.narrow else 4, symbolOpacity=1, symbolSize=80)
    color = alt.Color("storage:N", scale=alt.Scale(domain=names, range=shades), legend=legend)
    dash = alt.StrokeDash(
        "storage:N",
        scale=alt.Scale(domain=names, range=list(_DASHES[: len(names)])),
        legend=None,
    )
    shape = alt.Shape(
        "storage:N",
        scale=alt.Scale(domain=names, range=list(_SHAPES[: len(names)])),
        legend=legend,
    )
    chart = chart_of(values)
    fill = alt.condition("datum.measured === 'measured'", alt.value(1), alt.value(0))
    layers = [
        chart.mark_rule(strokeWidth=1, opacity=0.6).encode(
            x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=color
        ),
        chart.mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash),
        chart.mark_point(size=60, opacity=1, strokeWidth=1.6).encode(
            x=x, y=y, color=color, shape=shape,
            fill=alt.Fill("storage:N", scale=alt.Scale(domain=names, range=shades), legend=None),
            fillOpacity=fill,
        ),
    ]  # fmt: skip
    return sized(alt.layer(*layers), layout, 320)


def miss_ratio(curve: Mapping[str, Any], asked_bytes: float | None, layout: Layout) -> Any:
    """The share of reads that miss, by the size of the cache."""
    sizes = [size for size in curve["size_bytes"] if size > 0]
    shown = curve["miss_ratio"][-len(sizes) :]
    values = [{"bytes": size, "miss": miss} for size, miss in zip(sizes, shown, strict=True)]
    low, high = min(sizes), max(max(sizes), asked_bytes or 0)
    domain = alt.Scale(type="log", base=2, domain=[low, max(high, low * 2)], nice=False)
    axis = size_axis([low, high], "size of the cache", 4 if layout.narrow else 9, grid=False)
    marks = [{"at": curve["enough_bytes"], "words": "enough"}] if curve["enough_bytes"] else []
    marks += [{"at": asked_bytes, "words": "asked"}] if asked_bytes else []
    line = chart_of(values).mark_area(
        color=colour("there"), fillOpacity=0.14, interpolate="step-after",
        line={"color": colour("there"), "strokeWidth": 2, "interpolate": "step-after"},
    )  # fmt: skip
    layers = [
        line.encode(
            x=alt.X("bytes:Q", scale=domain, axis=axis),
            y=alt.Y(
                "miss:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(
                    title="reads that miss",
                    labelExpr=PERCENT,
                    tickCount=5,
                    domain=False,
                    ticks=False,
                ),
            ),
        )
    ]
    at = chart_of(marks)
    if marks:
        layers += [
            at.mark_rule(color=colour("muted"), strokeDash=[4, 3]).encode(x=alt.X("at:Q")),
            at.mark_text(baseline="bottom", dy=-4, color=colour("text")).encode(
                x=alt.X("at:Q"), y=alt.value(0), text=alt.Text("words:N")
            ),
        ]
    return sized(alt.layer(*layers), layout, 270)
