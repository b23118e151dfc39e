"""Charts over two axes, of plain values; ``charts.py`` has their parts."""

import math
from collections.abc import Callable, Mapping, Sequence

from spillcast.forecast.result import Interval
from spillcast.profile.timeline import ON_CPU, READ, STATES, WRITE, state_of
from spillcast.report.html.charts import (
    TICKS_MAX,
    Chart,
    Entry,
    Markup,
    Rule,
    Tick,
    clock,
    duration_ticks,
    durations,
    labels_html,
    legend_html,
    mark,
    percent_ticks,
    rules_html,
    share,
    thinned,
    words,
)
from spillcast.units import format_bytes, format_duration

#: Bins to a power of ten of latency, about 26 % wide.
BINS = 10

STATE_COLOURS = dict(zip(STATES, ("cpu", "read", "write", "other-io", "waits"), strict=True))
_EVENT_COLOURS = ("series-3", "series-4", "other-io", "waits", "domain", "muted", "grid")
SERIES = ("series-1", "series-2", "series-3", "series-4")
#: Ticks of each axis of a scatter plot.
_SCATTER_TICKS_MAX = 7
_DASHES = ("", "6 3", "2 2", "8 3 2 3")
_SHAPES = ("circle", "square", "triangle", "diamond")
#: Direction of a verified case -> its colour and shape.
DIRECTIONS = {
    "slow to fast": ("series-2", "circle"),
    "fast to slow": ("series-1", "square"),
    "slow to slow": ("series-3", "triangle"),
    "fast to fast": ("series-4", "diamond"),
}


def log_scale(low: float, high: float) -> Callable[[float], float]:
    """A function from a value to its share of a logarithmic axis."""
    width = math.log(high / low)
    return lambda value: math.log(max(value, 1e-12) / low) / width


def _sizes(low: float, high: float, x: Callable[[float], float]) -> list[Tick]:
    """Powers of two between two sizes."""
    powers = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
    return thinned([(2.0**n, format_bytes(2.0**n)) for n in powers], x)


def _plot(
    shapes: str,
    marks: str,
    x_axis: tuple[str, Sequence[Tick], Callable[[float], float]],
    y_axis: tuple[str, Sequence[Tick], Callable[[float], float]],
    *,
    legend: Sequence[Entry] = (),
    rules: Sequence[Rule] = (),
    square: bool = False,
) -> Chart:
    """Shapes in thousandths of the plot, and marks, over two axes: title, ticks and scale."""
    (x_title, x_ticks, x), (y_title, y_ticks, y) = x_axis, y_axis
    levels = "".join(
        f'<line class="grid" x2="100%" y1="{share(1 - y(value))}" y2="{share(1 - y(value))}"/>'
        for value, _ in y_ticks
    )
    widest = max((label for _, label in y_ticks), key=len, default="")
    y_labels = "".join(
        f'<span style="bottom:{share(y(value))}">{words(label)}</span>' for value, label in y_ticks
    )
    html = (
        f"{legend_html(legend, rules)}"
        f'<p class="axis-title">{words(y_title)}</p>'
        f'<div class="plot{" equal" if square else ""}">'
        f'<div class="y-axis"><span class="widest">{words(widest)}</span>{y_labels}</div>'
        f'<svg class="area" aria-hidden="true">{levels}'
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">'
        f"{shapes}</svg>{rules_html(rules, x)}{marks}</svg>"
        f'<div class="axis">{labels_html(x_ticks, x)}</div>'
        f'<p class="axis-title x">{words(x_title)}</p></div>'
    )
    names = ", ".join([*(name for name, _, _ in legend), *(rule.text for rule in rules)])
    title = f"{y_title[:1].upper()}{y_title[1:]} by {x_title}"
    return Chart(Markup(html), f"{title}: {names}." if names else f"{title}.")


def _path(
    points: str, *, fill: str = "", stroke: str = "", dash: str = "", opacity: float = 1.0
) -> str:
    colours = f'fill="{f"var(--{fill})" if fill else "none"}"'
    colours += f' stroke="var(--{stroke})"' if stroke else ' class="sharp"'
    colours += f' stroke-dasharray="{dash}"' if dash else ""
    colours += f' {"fill" if fill else "stroke"}-opacity="{opacity}"' if opacity < 1 else ""
    return f'<path d="{points}" {colours}/>'


def _line(points: Sequence[tuple[float, float]]) -> str:
    """A line through points, given as shares of the width and height."""
    return "M" + "L".join(f"{1000 * x:.5g} {_down(y)}" for x, y in points)


def _down(share: float) -> str:
    """A height from below as thousandths from above."""
    return f"{1000 * (1 - share):.5g}"


def _mark_at(x: float, y: float, shape: str, colour: str, *, filled: bool = True) -> str:
    place = f'x="{share(x)}" y="{share(1 - y)}"'
    return f'<svg class="mark" {place}>{mark(shape, colour, filled=filled)}</svg>'


def event_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each event, temp I/O as elsewhere."""
    known = {ON_CPU: "cpu"}
    for name in names:
        state = state_of(name)
        if state in (READ, WRITE) and STATE_COLOURS[state] not in known.values():
            known[name] = STATE_COLOURS[state]
    others = iter(_EVENT_COLOURS)
    return {name: known.get(name) or next(others) for name in names}


def over_time(
    busy: Mapping[str, Sequence[float]], length_s: float, colours: Mapping[str, str]
) -> Chart:
    """Mean number of sessions by state, or event, in intervals of ``length_s``, stacked."""
    count = len(next(iter(busy.values()), []))
    below, layers, legend = [0.0] * count, [], list[Entry]()
    for state in (state for state in colours if state in busy):
        top = [low + mean for low, mean in zip(below, busy[state], strict=True)]
        layers.append((colours[state], below, top))
        legend.append((state, colours[state], "square"))
        below = top
    peak = max(below, default=0.0) or 1.0
    steps = (0.1, 0.2, 0.25, 0.5, *(n * 10.0**power for power in range(10) for n in (1, 2, 5)))
    step = next(s for s in steps if peak / s <= 5)
    y_ticks = [(step * n, f"{step * n:g}") for n in range(int(peak / step + 1e-9) + 1)]
    total_s = count * length_s
    shapes = "".join(_path(_between(low, high, peak), fill=of) for of, low, high in layers)
    return _plot(
        shapes,
        "",
        ("time since the start", durations(total_s), lambda s: s / (total_s or 1.0)),
        ("sessions", y_ticks, lambda sessions: sessions / peak),
        legend=legend,
    )


def _between(low: Sequence[float], high: Sequence[float], peak: float) -> str:
    """The outline of the area between two staircases."""
    width = 1000 / len(high)
    parts = [f"M0 {_down(low[0] / peak)}"]
    parts += [f"V{_down(y / peak)}H{width * (at + 1):.5g}" for at, y in enumerate(high)]
    parts += [f"V{_down(y / peak)}H{width * at:.5g}" for at, y in reversed(list(enumerate(low)))]
    return "".join(parts) + "Z"


def bins(latency_ns: Sequence[int], counts: Sequence[int]) -> dict[int, float]:
    """The share of operations by bin of latency; bin 0 begins at 1 us."""
    total = sum(counts) or 1
    shares: dict[int, float] = {}
    for ns, count in zip(latency_ns, counts, strict=True):
        at = math.floor(BINS * math.log10(max(ns, 1) / 1e3) + 1e-9)
        shares[at] = shares.get(at, 0.0) + count / total
    return shares


def edge_us(at: int) -> float:
    """The lower edge of a bin."""
    return float(10 ** (at / BINS))


def latencies(groups: Sequence[tuple[str, Mapping[int, float], float]]) -> Chart:
    """Shares of operations by latency, of one or two names: bins and mean (us) of each."""
    first = min(min(shares) for _, shares, _ in groups) - 1
    last = max(max(shares) for _, shares, _ in groups) + 2
    peak = 1.15 * max(max(shares.values()) for _, shares, _ in groups)
    x = log_scale(edge_us(first), edge_us(last))
    shapes, legend, rules = "", list[Entry](), []
    for (name, shares, mean_us), colour in zip(groups, ("now", "target"), strict=False):
        path = f"M{1000 * x(edge_us(min(shares))):.5g} 1000"
        for at in range(min(shares), max(shares) + 1):
            path += f"V{_down(shares.get(at, 0.0) / peak)}H{1000 * x(edge_us(at + 1)):.5g}"
        outline, opacity = (colour, 0.16) if colour == "target" else ("", 1.0)
        shapes += _path(f"{path}V1000Z", fill=colour, stroke=outline, opacity=opacity)
        line = "muted" if colour == "now" else colour
        rules.append(Rule("", mean_us, colour=line, dashed=colour == "now"))
        mean = f"mean {format_duration(mean_us / 1e6)}"
        legend += [(name, colour, "square")] if len(groups) > 1 else []
        legend.append((mean, line, "dashed" if colour == "now" else "line"))
    decades = range(math.ceil(first / BINS), math.floor(last / BINS) + 1)
    steps = (1,) if len(decades) > 2 else (1, 2, 5)
    values_us = [10.0**power * step for power in range(-3, 14) for step in steps]
    ticks = [(us, format_duration(us / 1e6)) for us in values_us if 0 < x(us) < 1]
    return _plot(
        shapes,
        "",
        ("latency of one operation", thinned(ticks, x), x),
        ("share of the operations", percent_ticks(peak), lambda share: share / peak),
        legend=legend,
        rules=rules,
    )


#: Size (bytes), seconds, their interval, and whether that was measured.
Point = tuple[float, float, Interval | None, bool]


def lines_by_size(
    series: Mapping[str, Sequence[Point]], x_title: str, y_title: str, *, logarithmic: bool
) -> Chart:
    """Seconds over sizes, a line for each name; points that were not measured are open."""
    points = [point for of in series.values() for point in of]
    sizes = [size for size, *_ in points]
    ends_s = [end for _, s, interval_s, _ in points for end in (s, *(interval_s or ()))]
    low, high = min(sizes) / 1.15, max(sizes) * 1.15
    x = log_scale(low, high)
    if logarithmic:
        first, last = (math.log10(max(end, 1e-9)) for end in (min(ends_s), max(ends_s)))
        powers = range(math.floor(first - 0.1), math.ceil(last + 0.1) + 1)
        y = log_scale(10.0 ** powers[0], 10.0 ** powers[-1])
        step = max(1, -(-len(powers) // TICKS_MAX))
        y_ticks = [(10.0**n, format_duration(10.0**n)) for n in powers[::step]]
    else:
        max_s: float = 1.05 * max(ends_s)
        y_ticks = [(s, clock(s)) for s in duration_ticks(max_s, 5)]

        def y(seconds: float) -> float:
            return seconds / max_s

    shapes, marks, legend = "", "", []
    for number, (name, of) in enumerate(series.items()):
        colour, shape = SERIES[number], _SHAPES[number]
        for size, s, interval_s, measured in of:
            if interval_s is not None:
                ends = [(x(size), y(end)) for end in interval_s]
                shapes += _path(_line(ends), stroke=colour, opacity=0.6)
            marks += _mark_at(x(size), y(s), shape, colour, filled=measured)
        through = [(x(size), y(s)) for size, s, *_ in of]
        shapes += _path(_line(through), stroke=colour, dash=_DASHES[number])
        legend.append((name, colour, shape))
    axes = (x_title, _sizes(low, high, x), x), (y_title, y_ticks, y)
    return _plot(shapes, marks, *axes, legend=legend)


def miss_ratio(
    points: Sequence[tuple[float, float]], sizes: Sequence[tuple[str, float | None]]
) -> Chart:
    """The share of reads that miss by the size (bytes) of the cache, and named sizes in it."""
    known = [(name, size) for name, size in sizes if size]
    low = min(size for size, _ in points)
    high = max(2 * low, *(size for size, _ in points), *(size for _, size in known))
    x = log_scale(low, high)
    top = f"M0 {_down(points[0][1])}"
    for size, miss in points:
        top += f"H{1000 * x(size):.5g}V{_down(miss)}"
    top += "H1000"
    shapes = _path(f"{top}V1000H0Z", fill="target", opacity=0.14) + _path(top, stroke="target")
    rules = [
        Rule(f"{name}, {format_bytes(size)}", size, dashed=dashed)
        for (name, size), dashed in zip(known, (True, False), strict=False)
    ]
    x_axis = "size of the cache", _sizes(low, high, x), x
    return _plot(
        shapes, "", x_axis, ("reads that miss", percent_ticks(1.0, 5), lambda s: s), rules=rules
    )


def scatter(points: Sequence[tuple[float, float, str]]) -> Chart:
    """Measured time, forecast and direction of cases; on the line they agree."""
    ends = [s for point in points for s in point[:2]]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    scale = log_scale(low, high)
    ticks = scatter_ticks(low, high)
    shapes = ""
    for factor, dash in ((0.9, "2 3"), (1.0, ""), (1.1, "2 3")):
        line = [
            (scale(s), scale(s * factor))
            for s in (max(low, low / factor), min(high, high / factor))
        ]
        shapes += _path(_line(line), stroke="domain", dash=dash)
    counts = {way: sum(point[2] == way for point in points) for way in DIRECTIONS}
    marks = "".join(
        _mark_at(scale(s), scale(f), DIRECTIONS[way][1], DIRECTIONS[way][0], filled=False)
        for s, f, way in points
    )
    return _plot(
        shapes,
        marks,
        ("measured elapsed time", thinned(ticks, scale), scale),
        ("forecast", ticks, scale),
        legend=[(f"{way} ({n})", *DIRECTIONS[way]) for way, n in counts.items() if n],
        square=True,
    )


def scatter_ticks(low_s: float, high_s: float) -> list[Tick]:
    """Round durations on a logarithmic axis, at most seven of a common range."""
    below_minute = [times * 10.0**power for power in range(-6, 1) for times in (1, 2, 5)]
    fine = [*below_minute, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 18_000, 43_200, 86_400]
    coarse = [*below_minute[::3], 10, 60, 600, 3600, 36_000, *(10.0**n for n in range(5, 12))]
    values = [s for s in fine if low_s <= s <= high_s]
    if len(values) > _SCATTER_TICKS_MAX or not values:
        values = [s for s in coarse if low_s <= s <= high_s]
    return [(s, clock(s)) for s in values]
