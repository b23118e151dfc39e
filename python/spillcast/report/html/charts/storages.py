"""Latency by the size of an operation, as a storage's figures have it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import sized
from spillcast.report.html.charts.scale import latency_axis, size_axis
from spillcast.report.html.page import Layout

_SHADES = {"read": "series-1", "write": "series-2"}
_SHAPES = {"read": "circle", "write": "square"}


def alone(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The groups of operations one at a time, of one way of access and one pattern."""
    first = min((group["depth"] for group in groups), default=1)
    found = [group for group in groups if group["depth"] == first and group["count"]]
    for key in ("access", "pattern"):
        if found:
            found = [group for group in found if group.get(key) == found[0].get(key)]
    return sorted(found, key=lambda group: (group["op"], group["size_class_bytes"]))


def by_size(groups: Sequence[Mapping[str, Any]], layout: Layout) -> Any:
    """Mean latency of reads and writes by size, both on logarithmic scales."""
    values = [
        {"op": f"{group['op']}s", "bytes": group["size_class_bytes"],
         "us": group["total_ns"] / group["count"] / 1e3}
        for group in groups
    ]  # fmt: skip
    ops = list(dict.fromkeys(value["op"] for value in values))
    sizes = [value["bytes"] for value in values]
    latencies = [max(value["us"], 1e-3) for value in values]
    low, high = min(latencies) / 1.3, max(latencies) * 1.3
    ends = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high))
    x = alt.X(
        "bytes:Q",
        scale=alt.Scale(
            type="log", base=2, domain=[min(sizes) / 1.2, max(sizes) * 1.2], nice=False
        ),
        axis=size_axis(sizes, "size of an operation", 4 if layout.narrow else 9, grid=False),
    )
    y = alt.Y(
        "us:Q",
        scale=alt.Scale(type="log", domain=ends, nice=False),
        axis=latency_axis(*ends, "mean latency", domain=False, ticks=False),
    )
    legend = alt.Legend(columns=2, symbolOpacity=1)
    marks = [op.removesuffix("s") for op in ops]
    shades = alt.Scale(domain=ops, range=[colour(_SHADES[mark]) for mark in marks])
    shapes = alt.Scale(domain=ops, range=[_SHAPES[mark] for mark in marks])
    color = alt.Color("op:N", scale=shades, legend=legend)
    chart = chart_of(values)
    layers = [
        chart.mark_line(strokeWidth=2).encode(x=x, y=y, color=color),
        chart.mark_point(filled=True, size=55, opacity=1).encode(
            x=x, y=y, color=color, shape=alt.Shape("op:N", scale=shapes, legend=legend)
        ),
    ]
    return sized(alt.layer(*layers), layout, 260)
