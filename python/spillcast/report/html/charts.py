"""Charts of plain values as HTML and inline SVG, for any width without a script.

Texts are HTML, each in a cell of its own: names and values beside a bar, what a line means in the
legend, and no more ticks than fit on the narrowest axis. So no text can lie on another. Shapes are
SVG that is stretched to the width of the page. Colours are custom properties of style.css.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise, zip_longest
from typing import NamedTuple

from spillcast.forecast.result import Interval
from spillcast.report.table import glued
from spillcast.units import format_duration

#: Narrowest axis, width of a letter of its ticks and distance between them, px.
_AXIS_PX, _LETTER_PX, _GAP_PX = 280, 7.2, 6
TICKS_MAX = 6
_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY_S = 86_400.0
#: Changes below this share of the elapsed time are not drawn.
_CHANGE_MIN = 0.002
#: Bars that differ by a larger factor are drawn as shares.
_RATIO_MAX = 5.0
#: The end of an interval is drawn at most at so many times the whole.
_REACH_MAX = 3.0

_OUTLINES = {
    "circle": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", "square": "M-4 -4h8v8h-8z",
    "triangle": "M0 -5L5 4H-5z", "diamond": "M0 -5.5L5.5 0L0 5.5L-5.5 0z",
    "line": "M0 -6V6", "dashed": "M0 -6V6", "band": "M-6 -6h12v12h-12z",
}  # fmt: skip
#: A value on an axis and its label.
Tick = tuple[float, str]
#: Text, colour and shape of an entry of a legend.
Entry = tuple[str, str, str]


class Markup(str):
    """HTML, which the template takes as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Itself, as jinja asks for it."""
        return self


class Chart(NamedTuple):
    """A chart, and its content as a sentence for those who do not see it."""

    html: Markup
    label: str


class Bar(NamedTuple):
    """A row of a bar chart: spans in colours, and perhaps an interval and a point in it."""

    name: str
    text: str
    spans: Sequence[tuple[float, float, str]] = ()
    interval: Interval | None = None
    point: float | None = None


class Rule(NamedTuple):
    """A vertical line at a value, or a band between two; the legend has it if it has a text."""

    text: str
    at: float
    until: float | None = None
    colour: str = "muted"
    dashed: bool = True


# Axes.


def duration_ticks(max_s: float, count: int = 6) -> list[float]:
    """Round durations (s) from 0 to ``max_s``, about ``count`` of them."""
    step_min = max(max_s, 1e-9) / count
    if step_min < 1:
        step = _round_up(step_min)
    elif step_min <= _STEPS_S[-1]:
        step = next(float(s) for s in _STEPS_S if s >= step_min * 0.999)
    else:
        step = _DAY_S * _round_up(step_min / _DAY_S)
    return [round(step * n, 10) for n in range(int(max_s / step + 1e-9) + 1)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 or 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= value * 0.999)


def clock(seconds: float) -> str:
    """The label of a duration: ``1 min 30 s``, ``20 min``, ``2.5 s``."""
    if seconds < 60:
        return format_duration(seconds) if seconds else "0"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (left, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def durations(max_s: float) -> list[Tick]:
    """As many ticks of an axis of durations as fit on it."""
    for count in range(TICKS_MAX - 1, 0, -1):
        ticks = [(s, clock(s)) for s in duration_ticks(max_s, count)]
        if _fit(ticks, lambda s: s / (max_s or 1.0)):
            return ticks
    return ticks


def percent_ticks(max_share: float = 1.0, count: int = 4) -> list[Tick]:
    """Round shares from 0 to ``max_share``."""
    steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
    step = next((step for step in steps if max_share / step <= count), 1.0)
    return [(step * n, f"{100 * step * n:.3g} %") for n in range(int(max_share / step + 1e-9) + 1)]


def _fit(ticks: Sequence[Tick], x: Callable[[float], float]) -> bool:
    """Whether labels, placed as in ``labels_html``, keep a distance on the narrowest axis."""
    boxes_px = []
    for value, label in ticks:
        at, width_px = x(value), _LETTER_PX * len(label)
        shift = {"first": 0.0, "last": 1.0}.get(_side(at), 0.5)
        boxes_px.append((_AXIS_PX * at - shift * width_px, _AXIS_PX * at + (1 - shift) * width_px))
    return all(after[0] - before[1] >= _GAP_PX for before, after in pairwise(boxes_px))


def _side(at: float) -> str:
    """How a label stands at its tick, so that the outermost ones stay within the axis."""
    return "first" if at < 0.04 else "last" if at > 0.9 else ""


def thinned(ticks: Sequence[Tick], x: Callable[[float], float]) -> list[Tick]:
    """Every tick, or every second, third or later one, so that their labels fit."""
    kept = list(ticks)
    step = 1
    while len(kept) > 1 and not _fit(kept, x):
        step += 1
        kept = list(ticks)[::step]
    return kept


def share(part: float) -> str:
    """A share of a length, which stays within a chart."""
    return f"{100 * min(max(part, -0.01), 1.01):.5g}%"


def words(text: str) -> str:
    """A text that is not broken between a number and its unit."""
    return escape(glued(text, "\u00a0"))


# Parts of charts.


def mark(shape: str, colour: str, *, filled: bool = True) -> str:
    """A shape around the origin of an SVG."""
    fill = f"var(--{colour if filled else 'page'})"
    stroke = "var(--muted)" if shape == "band" else f"var(--{colour})"
    dash = ' stroke-dasharray="3 3"' if shape == "dashed" else ""
    return f'<path d="{_OUTLINES[shape]}" fill="{fill}" stroke="{stroke}"{dash}/>'


def legend_html(entries: Sequence[Entry], rules: Sequence[Rule]) -> str:
    """What colours and shapes, and then vertical lines and bands, stand for."""
    of_rules = [
        (r.text, r.colour, "band" if r.until is not None else "dashed" if r.dashed else "line")
        for r in rules
        if r.text
    ]
    items = "".join(
        f'<span><svg viewBox="-7 -7 14 14" aria-hidden="true">{mark(shape, colour)}</svg>'
        f"{words(text)}</span>"
        for text, colour, shape in [*entries, *of_rules]
    )
    return f'<p class="legend">{items}</p>' if items else ""


def rules_html(rules: Sequence[Rule], x: Callable[[float], float]) -> str:
    """Vertical lines and bands."""
    parts = []
    for rule in rules:
        if rule.until is not None:
            low, high = (min(max(x(value), 0.0), 1.0) for value in (rule.at, rule.until))
            parts.append(
                f'<rect class="band" x="{share(low)}" width="{share(high - low)}" height="100%" '
                f'fill="var(--{rule.colour})"/>'
            )
        elif 0 <= x(rule.at) <= 1:
            at, dash = share(x(rule.at)), ' stroke-dasharray="4 3"' if rule.dashed else ""
            parts.append(
                f'<line x1="{at}" x2="{at}" y2="100%" stroke="var(--{rule.colour})" '
                f'stroke-width="1.4"{dash}/>'
            )
    return "".join(parts)


def labels_html(ticks: Sequence[Tick], x: Callable[[float], float]) -> str:
    """Labels below an axis."""
    parts = []
    for value, label in ticks:
        side = f' class="{_side(x(value))}"' if _side(x(value)) else ""
        parts.append(f'<span{side} style="left:{share(x(value))}">{words(label)}</span>')
    return "".join(parts)


def _bars(
    rows: Sequence[Bar],
    max_value: float,
    ticks: Sequence[Tick] | None = None,
    *,
    legend: Sequence[Entry] = (),
    rules: Sequence[Rule] = (),
) -> Chart:
    """Bars below each other, of durations where no ``ticks`` are given."""
    max_value = max_value or 1.0

    def x(value: float) -> float:
        return value / max_value

    ticks = durations(max_value) if ticks is None else ticks
    grid = "".join(
        f'<line class="grid" x1="{share(x(value))}" x2="{share(x(value))}" y2="100%"/>'
        for value, _ in ticks
    )
    lines = [f'{legend_html(legend, rules)}<div class="bars">']
    for row in rows:
        shapes = "".join(
            f'<rect class="bar" x="{share(x(min(low, high)))}" y="6" height="16" '
            f'width="{share(abs(x(high) - x(low)))}" fill="var(--{colour})"/>'
            for low, high, colour in row.spans
        )
        lines.append(
            f'<span class="name">{words(row.name)}</span>'
            f'<span class="value">{words(row.text)}</span>'
            f'<svg class="track" aria-hidden="true">{grid}{rules_html(rules, x)}{shapes}'
            f"{_interval(row, x)}</svg>"
        )
    lines.append(f'<div class="axis">{labels_html(ticks, x)}</div></div>')
    label = "; ".join(f"{row.name}: {row.text}" for row in rows) + "."
    return Chart(Markup("\n".join(lines)), label)


def _interval(row: Bar, x: Callable[[float], float]) -> str:
    if row.interval is None:
        return ""
    low, high = (share(x(end)) for end in row.interval)
    lines = [(low, high, 14, 14), (low, low, 8, 20), (high, high, 8, 20)]
    drawn = "".join(f'<line x1="{a}" x2="{b}" y1="{c}" y2="{d}"/>' for a, b, c, d in lines)
    halo = f'<line class="halo" x1="{low}" x2="{high}" y1="14" y2="14"/>' if row.spans else ""
    point = (
        "" if row.point is None else f'<circle class="point" cx="{share(x(row.point))}" cy="14"/>'
    )
    return f'<g class="interval">{halo}{drawn}{point}</g>'


def drawn_as_shares(totals: Sequence[float]) -> bool:
    """Whether the longest bar would make the shortest illegible."""
    return max(totals) > _RATIO_MAX * min(totals)


def stacked(
    rows: Sequence[tuple[str, str, Mapping[str, float]]],
    colours: Mapping[str, str],
    *,
    shares: bool = False,
    intervals: Sequence[Interval | None] = (),
) -> Chart:
    """A bar for each name and text, of parts in seconds, or in ``shares`` of their sum.

    ``intervals`` are those of the ends of the bars.
    """
    bars = []
    for (name, text, parts), interval in zip_longest(rows, intervals):
        unit = (sum(parts.values()) or 1.0) if shares else 1.0
        spans, end = [], 0.0
        for part, value in parts.items():
            spans.append((end, end + value / unit, colours[part]))
            end += value / unit
        ends = None
        if interval is not None:
            ends = min(interval[0] / unit, _REACH_MAX), min(interval[1] / unit, _REACH_MAX)
        bars.append(Bar(name, text, spans, ends))
    reach = [bar.interval[1] for bar in bars if bar.interval]
    reach += [bar.spans[-1][1] for bar in bars if bar.spans]
    max_value = max(reach, default=1.0)
    one_part = all(len(parts) == 1 for _, _, parts in rows)
    legend = [] if one_part else [(part, colour, "square") for part, colour in colours.items()]
    return _bars(bars, max_value, percent_ticks(max_value) if shares else None, legend=legend)


def targets(
    rows: Sequence[tuple[str, float | None, Interval]],
    today_s: float,
    floor_s: float | None,
    floor_interval_s: Interval | None,
) -> Chart:
    """The interval of each target, with its forecast unless only bounds are known.

    Beside it stand today's time, and the time or its interval on zero-latency storage.
    """
    bars = []
    for name, forecast_s, interval_s in rows:
        bounds = " to ".join(map(format_duration, interval_s))
        text = bounds if forecast_s is None else f"{format_duration(forecast_s)} ({bounds})"
        bars.append(Bar(name, text, interval=interval_s, point=forecast_s))
    rules = [*_floor_rules(floor_s, floor_interval_s)]
    rules.append(Rule(f"today, {format_duration(today_s)}", today_s, colour="text", dashed=False))
    return _bars(bars, max(today_s, *(high for _, _, (_, high) in rows)), rules=rules)


def _floor_rules(floor_s: float | None, interval_s: Interval | None) -> list[Rule]:
    """The time on zero-latency storage as a dashed line in the band of its interval."""
    text = (
        "zero-latency storage"
        if floor_s is None
        else f"zero-latency storage, {format_duration(floor_s)}"
    )
    line = [] if floor_s is None else [Rule("" if interval_s else text, floor_s)]
    if interval_s is None:
        return line
    bounds = " to ".join(map(format_duration, interval_s))
    text += f", {bounds}" if floor_s is None else f" ({bounds})"
    return [Rule(text, *interval_s, colour="floor"), *line]


def waterfall(
    today_s: float,
    changes: Sequence[tuple[str, float, str]],
    target: tuple[str, float, Interval],
    floor_s: float,
    floor_interval_s: Interval | None,
) -> Chart:
    """From today's time, change by change (name, seconds, text), to the time on the target."""
    rows, at_s, max_s = (
        [Bar("today", format_duration(today_s), [(0, today_s, "now")])],
        today_s,
        0.0,
    )
    for name, change_s, text in sorted(changes, key=lambda change: change[1]):
        if abs(change_s) >= _CHANGE_MIN * today_s:
            colour = "saved" if change_s < 0 else "lost"
            rows.append(Bar(name, text, [(at_s, at_s + change_s, colour)]))
            at_s += change_s
            max_s = max(max_s, at_s)
    name, target_s, interval_s = target
    bounds = " to ".join(map(format_duration, interval_s))
    text = f"{format_duration(target_s)} ({bounds})"
    rows.append(Bar(name, text, [(0, target_s, "target")], interval_s))
    max_s = max(max_s, today_s, interval_s[1])
    return _bars(rows, max_s, rules=_floor_rules(floor_s, floor_interval_s))
