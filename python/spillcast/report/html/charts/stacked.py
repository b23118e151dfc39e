"""Horizontal bars of several parts each, a row a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import legend_of, names_axis, sized
from spillcast.report.html.charts.scale import PERCENT, duration_axis
from spillcast.report.html.page import Layout
from spillcast.units import format_duration

#: Bars that are so many times as long as others are drawn in shares.
APART = 5.0
_ROW_PX, _BAR_PX, _LEGEND_PX = 34, 20, 18


@dataclass(frozen=True)
class Bar:
    """A name, and the seconds of its parts in order."""

    name: str
    parts_s: Mapping[str, float]

    @property
    def whole_s(self) -> float:
        """All parts."""
        return sum(self.parts_s.values())


def in_shares(bars: Sequence[Bar]) -> bool:
    """Whether the longest bar would leave the shortest too small to be told apart."""
    wholes_s = [bar.whole_s for bar in bars]
    return max(wholes_s) > APART * min(wholes_s)


def stacked_bars(bars: Sequence[Bar], shades: Mapping[str, str], layout: Layout) -> Any:
    """Parts one after the other, each in its colour, and the whole in words at the end.

    In seconds, or, of bars that are too unlike to be seen together, in shares of each.
    """
    shares, values, wholes = in_shares(bars), [], []
    for bar in bars:
        begin, unit_s = 0.0, (bar.whole_s or 1.0) if shares else 1.0
        for part, part_s in bar.parts_s.items():
            end = begin + part_s / unit_s
            if part_s:
                values.append({"name": bar.name, "part": part, "low": begin, "high": end})
            begin = end
        wholes.append({"name": bar.name, "end": begin, "words": format_duration(bar.whole_s)})
    most = 1.0 if shares else max((bar.whole_s for bar in bars), default=0.0) or 1.0
    # Room for the words to the right of the longest bar.
    domain = most * (1.4 if layout.narrow else 1.18)
    scale = alt.Scale(domain=list(shades), range=[colour(one) for one in shades.values()])
    ticks = 3 if layout.narrow else 6
    axis = duration_axis(most, None, ticks, grid=True, domain=False)
    if shares:
        axis = alt.Axis(
            values=[0, 0.25, 0.5, 0.75, 1], labelExpr=PERCENT, title=None, grid=True, domain=False
        )
    x = alt.X("low:Q", scale=alt.Scale(domain=[0, domain], nice=False), axis=axis)
    legend = legend_of(list(shades), layout)
    y = names_axis([bar.name for bar in bars], layout)
    layers = [
        chart_of(values)
        .mark_bar(height=_BAR_PX)
        .encode(
            x=x, x2=alt.X2("high:Q"), y=y, color=alt.Color("part:N", scale=scale, legend=legend)
        ),
        chart_of(wholes)
        .mark_text(align="left", dx=6, color=colour("text"))
        .encode(x=alt.X("end:Q"), y=y, text=alt.Text("words:N")),
    ]
    legend_px = _LEGEND_PX * -(-len(shades) // legend.columns)
    return sized(alt.layer(*layers), layout, _ROW_PX * len(bars) + legend_px + 40)
