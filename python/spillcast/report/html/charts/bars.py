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
#: From one tick with its words to the next.
_TICK_PX = 62
#: Beside the plot, and before words; words take no more of the plot than this.
_MARGINS_PX, _GAP_PX, _WORDS_MOST = 14, 8, 0.65


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
    names = [row[0] for row in rows]
    room = words_share([row[2] for row in rows], names, layout)
    domain = most / (1 - room)
    chart = chart_of(values)
    y = names_axis(names, layout)
    bars_px = (1 - room) * (layout.width - _names_px(names, layout))
    ticks = max(1, min(6, int(bars_px / _TICK_PX)))
    axis = duration_axis(most, title, ticks, grid=True, domain=False)
    x = alt.X("s:Q", scale=alt.Scale(domain=[0, domain], nice=False), axis=axis)
    layers = [
        chart.mark_bar(height=16).encode(x=x, y=y, color=alt.Color("colour:N", scale=None)),
        chart.mark_text(align="left", dx=6, color=colour("text")).encode(
            x=x, y=y, text=alt.Text("words:N")
        ),
    ]
    return sized(alt.layer(*layers), layout, _ROW_PX * len(rows) + 40)


def words_share(words: Sequence[str], names: Sequence[str], layout: Layout) -> float:
    """Of the width that names at the left leave, the share that words at the right take."""
    plot_px = layout.width - _names_px(names, layout) - _MARGINS_PX
    return min((max(map(len, words), default=0) * _LETTER_PX + _GAP_PX) / plot_px, _WORDS_MOST)


def _names_px(names: Sequence[str], layout: Layout) -> float:
    return min(max(map(len, names), default=0) * _LETTER_PX, _names_most_px(layout))


def _names_most_px(layout: Layout) -> int:
    return 120 if layout.narrow else 240


def names_axis(names: Sequence[str], layout: Layout, **options: Any) -> Any:
    """Names at the left, in the order given."""
    return alt.Y(
        "name:N",
        sort=None,
        scale=alt.Scale(domain=list(dict.fromkeys(names))),
        axis=alt.Axis(
            title=None, domain=False, ticks=False, grid=False, labelColor=colour("text"),
            labelLimit=_names_most_px(layout), minExtent=_names_px(names, layout), **options,
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
