"""Charts of plain values as HTML and inline SVG, for any width without a script.

Shapes are SVG that is stretched to the width of the page. Texts are HTML, each in its own cell:
names and values beside a bar, the meaning of a line in the legend, and only as many ticks as fit on
the narrowest axis. Therefore no texts overlap. Colours are custom properties of style.css.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import NamedTuple

from spillcast.forecast.result import Interval
from spillcast.profile.timeline import CPU, READ, STATES, WRITE
from spillcast.report import EDGES, edge_s
from spillcast.report.html.axes import (
    STEPS_SESSIONS,
    Tick,
    around_durations,
    clock,
    duration_ticks,
    fitting_durations,
    log_scale,
    multiples,
    percent_ticks,
    scatter_ticks,
    share,
    side,
    size_ticks,
    thinned,
)
from spillcast.tabular import join_units
from spillcast.text import capitalized
from spillcast.units import format_bytes, format_duration

#: The name for all parts of a bar without their own colour.
OTHERS = "others"
#: An axis ends at no more than this multiple of today's time, or of a bar drawn as shares.
_AXIS_FACTOR_MAX = 3.0

_OUTLINES = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", "square": "M-4 -4h8v8h-8z",
    "triangle": "M0 -5L5 4H-5z", "diamond": "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
    "line": "M0 -6V6", "dashed": "M0 -6V6", "beyond": "M0 -5L5 0L0 5z",
}  # fmt: skip
STATE_COLOURS = dict(
    zip(STATES, ("cpu", "series-3", "read", "write", "other-io", "waits"), strict=True)
)
_OTHER_COLOURS = ("series-3", "series-4", "other-io", "waits", "domain", "muted", "grid")
SERIES = ("series-1", "series-2", "series-3", "series-4")
_DASHES = ("", "6 3", "2 2", "8 3 2 3")
_SHAPES = ("circle", "square", "triangle", "diamond")
#: Direction of a verified case -> its colour and shape.
DIRECTIONS = {
    "slow to fast": ("series-2", "circle"),
    "fast to slow": ("series-1", "square"),
    "slow to slow": ("series-3", "triangle"),
    "fast to fast": ("series-4", "diamond"),
}
#: Text, colour and shape of an entry of a legend.
Entry = tuple[str, str, str]
_BEYOND: Entry = ("goes on beyond the axis", "text", "beyond")
#: Size (bytes), seconds, their interval, and whether they were measured.
ChartPoint = tuple[float, float, Interval | None, bool]


class Markup(str):
    """HTML that the template does not escape."""

    __slots__ = ()

    def __html__(self) -> str:
        """The text itself, for jinja."""
        return self


class Chart(NamedTuple):
    """A chart, and its content as a sentence for screen readers."""

    html: Markup
    label: str


class Bar(NamedTuple):
    """A row of a bar chart: stacked parts by name, and optionally the interval of their sum."""

    name: str
    text: str
    parts: Mapping[str, float]
    interval: Sequence[float] | None = None

    @property
    def reach(self) -> float:
        """The end of the bar or of its interval."""
        return max(sum(self.parts.values()), *(self.interval or ()), 0.0)

    def as_shares(self) -> "Bar":
        """The bar in shares of its sum."""
        unit = sum(self.parts.values()) or 1.0
        parts = {name: value / unit for name, value in self.parts.items()}
        ends = [min(end / unit, _AXIS_FACTOR_MAX) for end in self.interval or ()]
        return self._replace(parts=parts, interval=ends)


class Span(NamedTuple):
    """A row of a time line: start and end (s) and the bound, before and after."""

    name: str
    text: str
    before: tuple[float, float, str]
    after: tuple[float, float, str]


class Axis(NamedTuple):
    """A title, ticks, and the function from a value to its share of the axis."""

    title: str
    ticks: Sequence[Tick]
    scale: Callable[[float], float]


class ReferenceLine(NamedTuple):
    """A vertical line at a value; the legend has it if it has a text."""

    text: str
    at: float
    colour: str = "muted"
    dashed: bool = True


# Parts of charts.


def unbroken(text: str, intervals: bool = True) -> str:
    """HTML of a text that is not wrapped within ``5 min 48 s``, nor within ``intervals``."""
    text = join_units(text, "\u00a0")
    text = re.sub(r"(?<=\d\u00a0min) (?=\d)|(?<=\d\u00a0h) (?=\d)|(?<=~) ", "\u00a0", text)
    ends = r"(\u00a0(?:[num]?s|min|h|[KMGT]?i?B)) to (?=-?\d)"
    return escape(re.sub(ends, "\\1\u00a0to\u00a0", text) if intervals else text)


def _mark(shape: str, colour: str, *, filled: bool = True) -> str:
    """A shape around the origin of an SVG."""
    dash = ' stroke-dasharray="3 3"' if shape == "dashed" else ""
    fill = colour if filled else "page"
    return f'<path d="{_OUTLINES[shape]}" fill="var(--{fill})" stroke="var(--{colour})"{dash}/>'


def legend_html(entries: Sequence[Entry], rules: Sequence[ReferenceLine] = ()) -> str:
    """The meaning of colours and shapes, then of vertical lines."""
    of_rules = [(r.text, r.colour, "dashed" if r.dashed else "line") for r in rules if r.text]
    items = "".join(
        f'<span><svg viewBox="-7 -7 14 14" aria-hidden="true">{_mark(shape, colour)}</svg>'
        f"{unbroken(text)}</span>"
        for text, colour, shape in [*entries, *of_rules]
    )
    return f'<p class="legend">{items}</p>' if items else ""


def _rules(rules: Sequence[ReferenceLine], x: Axis) -> str:
    return "".join(
        f'<line class="rule{" dashed" if rule.dashed else ""}" stroke="var(--{rule.colour})" '
        f'x1="{share(x.scale(rule.at))}" x2="{share(x.scale(rule.at))}" y2="100%"/>'
        for rule in rules
        if 0 <= x.scale(rule.at) <= 1
    )


def _labels(axis: Axis) -> str:
    places = [(axis.scale(value), label) for value, label in axis.ticks]
    return "".join(
        f'<span class="{side(at)}" style="left:{share(at)}">{unbroken(label)}</span>'
        for at, label in places
    )


def _bar(row: Bar, colours: Mapping[str, str], max_value: float) -> str:
    """The shapes of a bar and of its interval."""
    parts = dict.fromkeys([*colours, OTHERS], 0.0)
    for name, value in row.parts.items():
        parts[name if name in colours else OTHERS] += value
    shapes, begins = "", accumulate(parts.values(), initial=0.0)
    for begin, (name, value) in zip(begins, parts.items(), strict=False):
        if (value := min(value, max_value - begin)) > 0:
            shapes += (
                f'<rect class="bar" x="{share(begin / max_value)}" y="-8" height="16" '
                f'width="{share(value / max_value)}" fill="var(--{colours[name]})"/>'
            )
    if row.interval and row.interval[0] < max_value:
        shapes += _interval(*(min(end / max_value, 1.0) for end in row.interval))
    if row.reach > max_value:
        shapes += f'<svg x="100%">{_mark(*_BEYOND[:0:-1])}</svg>'
    return shapes


def bars(
    rows: Sequence[Bar],
    colours: Mapping[str, str],
    *,
    shares: bool = False,
    ticks_of: Callable[[float], list[Tick]] = fitting_durations,
    limit: ReferenceLine | None = None,
    today: float = math.inf,
) -> Chart:
    """Bars below each other, of parts in seconds, or in ``shares`` of each bar's sum.

    Parts without a colour are drawn as one. ``ticks_of`` gives the ticks of another unit's axis up
    to a value. ``limit`` is a line across all bars. Bars much longer than ``today`` leave the axis.
    """
    if shares:
        rows, ticks_of = [row.as_shares() for row in rows], percent_ticks
    if any(value for row in rows for name, value in row.parts.items() if name not in colours):
        colours = {**colours, OTHERS: "grid"}
    reach = max(row.reach for row in rows)
    max_value = min(reach, _AXIS_FACTOR_MAX * today) or 1.0
    tracks = [_bar(row, colours, max_value) for row in rows]
    entries = [(name, colour, "square") for name, colour in colours.items()]
    legend = entries if any(len(row.parts) > 1 for row in rows) else []
    legend += [_BEYOND] if reach > max_value else []
    titles, rules = [(row.name, row.text) for row in rows], [limit] if limit else []
    return _tracks(titles, tracks, ticks_of(max_value), max_value, legend, rules)


def spans(rows: Sequence[Span], colours: Mapping[str, str]) -> Chart:
    """Spans on a time axis: each row has the span before above the span after."""
    max_s = max(span[1] for row in rows for span in (row.before, row.after)) or 1.0
    shown = {span[2] for row in rows for span in (row.before, row.after)}
    entries = [(name, colour, "square") for name, colour in colours.items() if name in shown]
    tracks = [
        "".join(
            f'<rect class="bar" x="{share(begin_s / max_s)}" y="{y}" height="9" '
            f'width="{share((end_s - begin_s) / max_s)}" fill="var(--{colours[bound]})"/>'
            for y, (begin_s, end_s, bound) in ((-10, row.before), (1, row.after))
        )
        for row in rows
    ]
    titles = [(row.name, row.text) for row in rows]
    return _tracks(titles, tracks, fitting_durations(max_s), max_s, entries)


def _tracks(
    titles: Sequence[tuple[str, str]],
    tracks: Sequence[str],
    ticks: Sequence[Tick],
    max_value: float,
    legend: Sequence[Entry],
    rules: Sequence[ReferenceLine] = (),
) -> Chart:
    """A legend; for each row its name, its value and a track of shapes; and an axis from 0."""
    axis = Axis("", ticks, lambda value: value / max_value)
    grid = "".join(
        f'<line class="grid" x1="{share(at)}" x2="{share(at)}" y2="100%"/>'
        for at in (axis.scale(value) for value, _ in ticks)
    )
    lines = [
        f'<span class="name">{unbroken(name).replace("&amp;", "&amp;<wbr>")}</span>'
        f'<span class="value">{unbroken(text)}</span>'
        f'<svg class="track" aria-hidden="true">{grid}<svg y="50%">{shapes}</svg>'
        f"{_rules(rules, axis)}</svg>"
        for (name, text), shapes in zip(titles, tracks, strict=True)
    ]
    html = [
        f'{legend_html(legend, rules)}<div class="bars">',
        *lines,
        f'<div class="axis">{_labels(axis)}</div></div>',
    ]
    label = "; ".join(f"{name}: {text}" for name, text in titles) + "."
    return Chart(Markup("\n".join(html)), label)


def _interval(low: float, high: float) -> str:
    """A line between two shares of the width, with a stroke at either end."""
    left, right = share(low), share(high)
    return (
        f'<g class="interval"><line class="halo" x1="{left}" x2="{right}" />'
        f'<line x1="{left}" x2="{right}"/>'
        f'<line x1="{left}" x2="{left}" y1="-6" y2="6"/>'
        f'<line x1="{right}" x2="{right}" y1="-6" y2="6"/></g>'
    )


def colours_of(states: Mapping[str, str | None]) -> dict[str, str]:
    """A colour for each name; the first name of CPU, reads and writes has the state's colour."""
    others, colours = iter(_OTHER_COLOURS), dict[str, str]()
    for name, state in states.items():
        colour = STATE_COLOURS[state] if state in (CPU, READ, WRITE) else None
        if colour is None or colour in colours.values():
            colour = next(others, _OTHER_COLOURS[-1])
        colours[name] = colour
    return colours


# Plots over two axes.


def _plot(
    shapes: str,
    x: Axis,
    y: Axis,
    *,
    marks: str = "",
    legend: Sequence[Entry] = (),
    rules: Sequence[ReferenceLine] = (),
    square: bool = False,
) -> Chart:
    """A plot: shapes in thousandths of its size, with marks and vertical lines over them."""
    levels = "".join(
        f'<line class="grid" x2="100%" y1="{share(1 - y.scale(v))}" y2="{share(1 - y.scale(v))}"/>'
        for v, _ in y.ticks
    )
    widest = max((label for _, label in y.ticks), key=len, default="")
    y_labels = "".join(
        f'<span style="bottom:{share(y.scale(value))}">{unbroken(label)}</span>'
        for value, label in y.ticks
    )
    html = (
        f"{legend_html(legend, rules)}"
        f'<p class="axis-title">{unbroken(y.title)}</p>'
        f'<div class="plot{" equal" if square else ""}">'
        f'<div class="y-axis"><span class="widest">{unbroken(widest)}</span>{y_labels}</div>'
        f'<svg class="area" aria-hidden="true">{levels}'
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">'
        f"{shapes}</svg>{_rules(rules, x)}{marks}</svg>"
        f'<div class="axis">{_labels(x)}</div>'
        f'<p class="axis-title x">{unbroken(x.title)}</p></div>'
    )
    names = ", ".join([*(name for name, _, _ in legend), *(rule.text for rule in rules)])
    title = f"{capitalized(y.title)} by {x.title}"
    return Chart(Markup(html), f"{title}: {names}." if names else f"{title}.")


def _path(
    points: str, *, fill: str = "", stroke: str = "", dash: str = "", opacity: float = 1.0
) -> str:
    colours = f'fill="{f"var(--{fill})" if fill else "none"}"'
    colours += f' stroke="var(--{stroke})"' if stroke else ' class="sharp"'
    colours += f' stroke-dasharray="{dash}"' if dash else ""
    colours += f' {"fill" if fill else "stroke"}-opacity="{opacity}"' if opacity < 1 else ""
    return f'<path d="{points}" {colours}/>'


def _line(points: Iterable[tuple[float, float]]) -> str:
    """A line through points, given as shares of the width and height."""
    return "M" + "L".join(f"{1000 * x:.5g} {1000 * (1 - y):.5g}" for x, y in points)


def _area(edges: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """The outline between two staircases, whose steps end at ``edges``; all are shares."""
    right = [(x, 1 - y) for x, y in zip(edges[1:], high, strict=True)]
    left = [(x, 1 - y) for x, y in zip(edges[:-1], low, strict=True)][::-1]
    steps = "".join(f"V{1000 * y:.5g}H{1000 * x:.5g}" for x, y in (*right, *left))
    return f"M{1000 * edges[0]:.5g} {1000 * (1 - low[0]):.5g}{steps}Z"


def _mark_at(x: float, y: float, shape: str, colour: str, *, filled: bool = True) -> str:
    place = f'x="{share(x)}" y="{share(1 - y)}"'
    return f'<svg class="mark" {place}>{_mark(shape, colour, filled=filled)}</svg>'


def over_time(
    busy: Mapping[str, Sequence[float]], length_s: float, colours: Mapping[str, str]
) -> Chart:
    """Mean number of sessions by state, or event, in intervals of ``length_s``, stacked."""
    shown = {state: busy[state] for state in colours if state in busy}
    count = len(next(iter(shown.values()), []))
    sums = [[0.0] * count]
    for means in shown.values():
        sums.append([below + mean for below, mean in zip(sums[-1], means, strict=True)])
    peak = max(sums[-1], default=0.0) or 1.0
    edges = [at / count for at in range(count + 1)]
    layers = [[value / peak for value in layer] for layer in sums]
    shapes = "".join(
        _path(_area(edges, low, high), fill=colours[state])
        for state, (low, high) in zip(shown, pairwise(layers), strict=True)
    )
    y_ticks = [(n, f"{n:g}") for n in multiples(peak, 5, STEPS_SESSIONS)]
    total_s = count * length_s
    return _plot(
        shapes,
        Axis("time since the start", fitting_durations(total_s), lambda s: s / (total_s or 1.0)),
        Axis("sessions", y_ticks, lambda sessions: sessions / peak),
        legend=[(state, colours[state], "square") for state in shown],
    )


def latencies(groups: Sequence[tuple[str, Mapping[int, float], float]]) -> Chart:
    """Shares of operations by latency (s), for one or two names: shares by bin, and the mean."""
    first = min(min(shares) for _, shares, _ in groups) - 1
    last = max(max(shares) for _, shares, _ in groups) + 2
    peak = 1.15 * max(max(shares.values()) for _, shares, _ in groups)
    scale = log_scale(edge_s(first), edge_s(last))
    shapes, legend, rules = "", list[Entry](), []
    for (name, shares, mean_s), colour in zip(groups, ("now", "target"), strict=False):
        span, is_now = range(min(shares), max(shares) + 1), colour == "now"
        edges = [scale(edge_s(at)) for at in (*span, span[-1] + 1)]
        area = _area(edges, [0.0] * len(span), [shares.get(at, 0.0) / peak for at in span])
        style = {} if is_now else {"stroke": colour, "opacity": 0.16}
        shapes += _path(area, fill=colour, **style)  # type: ignore[arg-type]
        line = "muted" if is_now else colour
        rules.append(ReferenceLine("", mean_s, line, is_now))
        legend += [(name, colour, "square")] if len(groups) > 1 else []
        shape = "dashed" if is_now else "line"
        legend.append((f"mean {format_duration(mean_s)}", line, shape))
    steps = (1,) if last - first > 3 * len(EDGES) else (1, 2, 5)
    values_s = [10.0**power * step for power in range(-9, 8) for step in steps]
    ticks = [(s, format_duration(s)) for s in values_s if 0 < scale(s) < 1]
    return _plot(
        shapes,
        Axis("latency of one operation", thinned(ticks, scale), scale),
        Axis("share of the operations", percent_ticks(peak), lambda share: share / peak),
        legend=legend,
        rules=rules,
    )


def lines_by_size(
    series: Mapping[str, Sequence[ChartPoint]],
    x_title: str,
    y_title: str,
    *,
    logarithmic: bool,
    x_ticks: Callable[..., list[Tick]] = size_ticks,
) -> Chart:
    """Seconds over sizes, a line for each name; unmeasured points are open."""
    points = [point for drawn in series.values() for point in drawn]
    sizes = [size for size, *_ in points]
    ends_s = [end for _, s, interval_s, _ in points for end in (s, *(interval_s or ()))]
    low, high = min(sizes) / 1.15, max(sizes) * 1.15
    x = log_scale(low, high)
    if logarithmic:
        low_s, high_s = around_durations(0.95 * min(ends_s), 1.05 * max(ends_s))
        y_ticks, y = scatter_ticks(low_s, high_s), log_scale(low_s, high_s)
    else:
        max_s: float = 1.05 * max(ends_s)
        y_ticks, y = [(s, clock(s)) for s in duration_ticks(max_s)], lambda s: s / max_s
    shapes, marks, legend = "", "", []
    for (name, of), colour, shape, dash in zip(
        series.items(), SERIES, _SHAPES, _DASHES, strict=False
    ):
        for size, s, interval_s, measured in of:
            if interval_s is not None:
                ends = [(x(size), y(end)) for end in interval_s]
                shapes += _path(_line(ends), stroke=colour, opacity=0.6)
            marks += _mark_at(x(size), y(s), shape, colour, filled=measured)
        shapes += _path(_line((x(size), y(s)) for size, s, *_ in of), stroke=colour, dash=dash)
        legend.append((name, colour, shape))
    x_axis, y_axis = Axis(x_title, x_ticks(low, high, x), x), Axis(y_title, y_ticks, y)
    return _plot(shapes, x_axis, y_axis, marks=marks, legend=legend)


def miss_ratio(
    points: Sequence[tuple[float, float]], sizes: Sequence[tuple[str, float | None]]
) -> Chart:
    """The share of reads that miss by the size (bytes) of the cache, and named sizes in it."""
    marked = [(name, size) for name, size in sizes if size]
    low = min(size for size, _ in points)
    high = max(2 * low, *(size for size, _ in points), *(size for _, size in marked))
    scale = log_scale(low, high)
    edges = [*(scale(size) for size, _ in points), 1.0]
    area = _area(edges, [0.0] * len(points), [miss for _, miss in points])
    rules = [
        ReferenceLine(f"{name}, {format_bytes(size)}", size, dashed=number == 0)
        for number, (name, size) in enumerate(marked)
    ]
    return _plot(
        _path(area, fill="target", stroke="target", opacity=0.14),
        Axis("size of the cache", size_ticks(low, high, scale), scale),
        Axis("reads that miss", percent_ticks(1.0, 5), lambda share: share),
        rules=rules,
    )


def scatter(points: Sequence[tuple[float, float, str]]) -> Chart:
    """Measured time, forecast and direction of cases; they are equal on the line."""
    ends = [s for point in points for s in point[:2]]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    scale, ticks = log_scale(low, high), scatter_ticks(low, high)
    shapes = ""
    for factor, dash in ((0.9, "2 3"), (1.0, ""), (1.1, "2 3")):
        ends_s = max(low, low / factor), min(high, high / factor)
        line = [(scale(s), scale(s * factor)) for s in ends_s]
        shapes += _path(_line(line), stroke="domain", dash=dash)
    counts = {d: sum(direction == d for _, _, direction in points) for d in DIRECTIONS}
    return _plot(
        shapes,
        Axis("measured elapsed time", thinned(ticks, scale), scale),
        Axis("forecast", ticks, scale),
        marks="".join(
            _mark_at(scale(s), scale(f), DIRECTIONS[d][1], DIRECTIONS[d][0], filled=False)
            for s, f, d in points
        ),
        legend=[(f"{d} ({count})", *DIRECTIONS[d]) for d, count in counts.items() if count],
        square=True,
    )
