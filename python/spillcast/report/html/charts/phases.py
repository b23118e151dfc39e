"""A run that was seen in part: how far its time and its temp I/O are, and what is to come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import legend_of, names_axis, sized
from spillcast.report.html.charts.scale import PERCENT
from spillcast.report.html.page import Layout

BEFORE, SEEN, COMING = "before the recording", "recorded", "remaining"
_SHADES = {BEFORE: "now", SEEN: "there", COMING: "band"}
_ROW_PX, _BAR_PX, _LEGEND_PX = 48, 18, 22
#: Ends of intervals are drawn up to so many times the whole; the words beside have them all.
_SHOWN_MOST = 3.0


@dataclass(frozen=True)
class Track:
    """One measure of a run from its beginning to its end: its parts in order, all in one unit."""

    name: str
    before: float
    seen: float
    coming: float
    #: What is to come, nine in ten within; in words with that, and without.
    low: float
    high: float
    words: str
    short: str

    @property
    def whole(self) -> float:
        """All of it, never 0."""
        return (self.before + self.seen + self.coming) or 1.0


def phases(tracks: Sequence[Track], layout: Layout) -> Any:
    """Each track as shares of its whole, with a line over where its end may be."""
    bars, ends = list[dict[str, Any]](), list[dict[str, Any]]()
    for track in tracks:
        begin = 0.0
        for part, size in zip(_SHADES, (track.before, track.seen, track.coming), strict=True):
            if size:
                high = begin + size / track.whole
                bars.append({"name": track.name, "part": part, "low": begin, "high": high})
                begin = high
        done = (track.before + track.seen) / track.whole
        span = (done + one / track.whole for one in (track.low, track.high))
        low, high = (min(one, _SHOWN_MOST) for one in span)
        words = track.short if layout.narrow else track.words
        ends.append({"name": track.name, "low": low, "high": high, "words": words})
    most = max(1.0, *(end["high"] for end in ends))
    ticks = [share / 4 for share in range(int(4 * most) + 1)][
        :: 2 if most > 1.5 or layout.narrow else 1
    ]
    axis = alt.Axis(values=ticks, labelExpr=PERCENT, title=None, grid=True, domain=False)
    x = alt.X("low:Q", scale=alt.Scale(domain=[0, most * 1.02], nice=False), axis=axis)
    y = names_axis([track.name for track in tracks], layout)
    scale = alt.Scale(domain=list(_SHADES), range=[colour(one) for one in _SHADES.values()])
    legend = legend_of(list(_SHADES), layout)
    sure = chart_of(ends)
    layers = [
        chart_of(bars)
        .mark_bar(height=_BAR_PX)
        .encode(
            x=x, x2=alt.X2("high:Q"), y=y, color=alt.Color("part:N", scale=scale, legend=legend)
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
        sure.mark_text(align="left", dy=-19, color=colour("muted")).encode(
            x=alt.value(2), y=y, text=alt.Text("words:N")
        ),
    ]
    height = _ROW_PX * len(tracks) + _LEGEND_PX * -(-len(_SHADES) // legend.columns) + 40
    return sized(alt.layer(*layers), layout, height)
