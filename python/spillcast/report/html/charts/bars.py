"""Horizontal bars, a row a name, with their values in words beside them."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.scale import duration_axis
from spillcast.report.html.page import Layout

_ROW_PX = 30
#: Of the widest of the fonts that a page may be shown in.
_LETTER_PX = 7.7


def time_bars(
    rows: Sequence[tuple[str, float, str, str]], layout: Layout, title: str | None = None
) -> Any:
    """Rows of a name, seconds, words beside the bar and the name of a colour."""
    values = [
        {"name": name, "s": seconds, "words": words, "colour": colour(shade)}
        for name, seconds, words, shade in rows
    ]
    most = max((row[1] for row in rows), default=0.0) or 1.0
    # Room for the words to the right of the longest bar.
    letters = max((len(row[2]) for row in rows), default=0)
    plot_px = layout.width - (120 if layout.narrow else 180)
    domain = most / max(1 - letters * 7.2 / plot_px, 0.35)
    chart = chart_of(values)
    y = names_axis([row[0] for row in rows], layout)
    axis = duration_axis(most, title, 3 if layout.narrow else 6, grid=True, domain=False)
    x = alt.X("s:Q", scale=alt.Scale(domain=[0, domain], nice=False), axis=axis)
    layers = [
        chart.mark_bar(height=16).encode(x=x, y=y, color=alt.Color("colour:N", scale=None)),
        chart.mark_text(align="left", dx=6, color=colour("text")).encode(x=x, y=y, text="words:N"),
    ]
    return sized(alt.layer(*layers), layout, _ROW_PX * len(rows) + 40)


def names_axis(names: Sequence[str], layout: Layout, **options: Any) -> Any:
    """Names at the left, in the order given."""
    limit = 120 if layout.narrow else 240
    letters = max(map(len, names), default=0)
    return alt.Y(
        "name:N",
        sort=None,
        scale=alt.Scale(domain=list(dict.fromkeys(names))),
        axis=alt.Axis(
            title=None, domain=False, ticks=False, grid=False, labelColor=colour("text"),
            labelLimit=limit, minExtent=min(letters * _LETTER_PX, limit), **options,
        ),
    )  # fmt: skip


def legend_of(names: Sequence[str], layout: Layout) -> Any:
    """A legend in as many columns as there is room for its longest name."""
    letters = max(map(len, names), default=0)
    columns = max(1, min(len(names), int(layout.width / (letters * _LETTER_PX + 40))))
    return alt.Legend(columns=columns, labelLimit=layout.width / columns - 30)


def sized(chart: Any, layout: Layout, height: int) -> Any:
    """The chart with all of it as wide as the place, and so high."""
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    return chart.properties(width=layout.width, height=height, autosize=fit)
