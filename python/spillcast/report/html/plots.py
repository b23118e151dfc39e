"""Charts over two axes as shares of them, which the template draws as SVG for any width."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.profile.timeline import ON_CPU, READ, STATES, WRITE, state_of
from spillcast.recording.event_names import OPS
from spillcast.report.html.bars import (
    NARROW_PX,
    WIDE_PX,
    Rule,
    Tick,
    clock,
    duration_ticks,
    durations,
    percent_ticks,
    thinned,
)
from spillcast.units import format_bytes, format_duration

#: The colours of style.css that states, parts and series have.
STATE_COLOURS = dict(zip(STATES, ("cpu", "read", "write", "other-io", "waits"), strict=True))
SERIES = ("series-1", "series-2", "series-3", "series-4")
_EVENT_COLOURS = ("series-3", "series-4", "other-io", "waits", "domain", "muted", "grid")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
SHAPES = ("circle", "square", "triangle", "diamond")
#: Direction of a verified case -> its colour and shape.
DIRECTIONS = {
    "slow to fast": ("series-2", "circle"),
    "fast to slow": ("series-1", "square"),
    "slow to slow": ("series-3", "triangle"),
    "fast to fast": ("series-4", "diamond"),
}
#: Bins to a power of ten of latency.
_BINS = 10


@dataclass(frozen=True)
class Shape:
    """A path of SVG; its coordinates are thousandths of the plot."""

    path: str
    fill: str = ""
    stroke: str = ""
    dash: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A point of a plot, by shares of its width and height."""

    x: float
    y: float
    colour: str
    shape: str = "circle"
    filled: bool = True


@dataclass(frozen=True)
class Plot:
    """Shapes and points over two axes."""

    x: Sequence[Tick]
    y: Sequence[Tick]
    x_title: str
    y_title: str
    shapes: Sequence[Shape]
    marks: Sequence[Mark] = ()
    rules: Sequence[Rule] = ()
    #: Name, colour and shape of each series.
    legend: Sequence[tuple[str, str, str]] = ()
    square: bool = False
    kind: str = "plot"

    @property
    def label(self) -> str:
        """Its axes, series and rules in words."""
        names = [name for name, _, _ in self.legend] + [rule.text for rule in self.rules]
        series = f": {', '.join(names)}" if names else ""
        return f"{self.y_title[:1].upper()}{self.y_title[1:]} by {self.x_title}{series}."


def event_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each event, temp I/O as elsewhere."""
    known = {ON_CPU: "cpu"}
    for name in names:
        state = state_of(name)
        if state in (READ, WRITE) and STATE_COLOURS[state] not in known.values():
            known[name] = STATE_COLOURS[state]
    others = iter(_EVENT_COLOURS)
    return {name: known.get(name) or next(others) for name in names}


def timeline(line: Mapping[str, Any], colours: Mapping[str, str] = STATE_COLOURS) -> Plot:
    """Mean number of sessions by state, or event, over the time of the run, stacked."""
    states = [state for state in colours if state in line["busy"]]
    count = len(next(iter(line["busy"].values()), []))
    below, layers = [0.0] * count, []
    for state in states:
        top = [low + mean for low, mean in zip(below, line["busy"][state], strict=True)]
        layers.append((colours[state], below, top))
        below = top
    most = max(below, default=0.0) or 1.0
    step = next(s for s in (0.1, 0.2, 0.25, 0.5, *_round()) if most / s <= 5)
    y = [Tick(step * n / most, f"{step * n:g}") for n in range(int(most / step + 1e-9) + 1)]
    whole_s = count * line["length_s"]
    return Plot(
        durations(whole_s, WIDE_PX - 40, NARROW_PX - 40, 8), y, "time since the start",
        "sessions",
        [Shape(_steps(low, high, most), fill=colour) for colour, low, high in layers],
        legend=[(state, colours[state], "square") for state in states],
    )  # fmt: skip


def _round() -> list[float]:
    """Round numbers from 1 on."""
    return [times * 10.0**power for power in range(10) for times in (1, 2, 5)]


def _steps(low: Sequence[float], high: Sequence[float], most: float) -> str:
    """The outline of what lies between two staircases."""
    width = 1000 / len(high)
    parts = [f"M0 {_down(low[0] / most)}"]
    parts += [f"V{_down(y / most)}H{width * (at + 1):.5g}" for at, y in enumerate(high)]
    parts += [f"V{_down(y / most)}H{width * at:.5g}" for at, y in reversed(list(enumerate(low)))]
    return "".join(parts) + "Z"


def _down(share: float) -> str:
    """A height from below, in thousandths from above."""
    return f"{1000 * (1 - share):.5g}"


def bins(latency_ns: Sequence[int], counts: Sequence[int]) -> dict[int, float]:
    """The share of the operations by bin, ten to a power of ten; bin 0 begins at 1 us."""
    whole = sum(counts) or 1
    shares: dict[int, float] = {}
    for ns, count in zip(latency_ns, counts, strict=True):
        at = math.floor(_BINS * math.log10(max(ns, 1) / 1e3) + 1e-9)
        shares[at] = shares.get(at, 0.0) + count / whole
    return shares


def edge_us(at: int) -> float:
    """Where a bin begins."""
    return float(10 ** (at / _BINS))


def mean_us(latency_ns: Sequence[int], counts: Sequence[int]) -> float:
    """Mean latency of a histogram."""
    total_ns = sum(ns * count for ns, count in zip(latency_ns, counts, strict=True))
    return total_ns / (sum(counts) or 1) / 1e3


def latencies(
    now: Mapping[str, Any], target: Mapping[str, Any] | None, names: tuple[str, str]
) -> Plot:
    """Shares of operations by latency on a logarithmic scale: a filled shape, and an outline."""
    groups = [now] + ([target] if target else [])
    shares = [bins(group["latency_ns"], group["latency_count"]) for group in groups]
    first = min(min(share) for share in shares) - 1
    last = max(max(share) for share in shares) + 2
    most = 1.3 * max(max(share.values()) for share in shares)

    def x_of(bin_at: float) -> float:
        return (bin_at - first) / (last - first)

    shapes = []
    for number, share in enumerate(shares):
        path = f"M{1000 * x_of(min(share)):.5g} 1000"
        for at in range(min(share), max(share) + 1):
            path += f"V{_down(share.get(at, 0.0) / most)}H{1000 * x_of(at + 1):.5g}"
        path += "V1000Z"
        shapes.append(
            Shape(path, "target", "target", opacity=0.16) if number else Shape(path, "now")
        )
    means = [mean_us(group["latency_ns"], group["latency_count"]) for group in groups]
    places = [x_of(_BINS * math.log10(max(mean, 1e-3))) for mean in means]
    rules = [
        Rule(places[n], f"mean {format_duration(mean / 1e6)}", "target" if n else "muted",
             right=places[n] < 0.5, height=(0.88, 0.98)[n], solid=bool(n))
        for n, mean in enumerate(means)
    ]  # fmt: skip
    decades = range(math.ceil(first / _BINS), math.floor(last / _BINS) + 1)
    steps = (1,) if len(decades) > 2 else (1, 2, 5)
    values_us = [10.0**power * step for power in range(-3, 10) for step in steps]
    x = [
        Tick(x_of(_BINS * math.log10(us)), format_duration(us / 1e6))
        for us in values_us
        if first < _BINS * math.log10(us) < last
    ]
    legend = [(names[0], "now", "square"), (names[1], "target", "square")] if target else []
    return Plot(
        thinned(x, NARROW_PX - 40) if x else [], percent_ticks(most), "latency of one operation",
        "share of the operations", shapes, rules=rules, legend=legend,
    )  # fmt: skip


@dataclass(frozen=True)
class _Log:
    """A logarithmic scale between two values."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        return math.log(max(value, 1e-12) / self.low) / math.log(self.high / self.low)

    def decades(self) -> list[Tick]:
        """Powers of ten, in us, as durations."""
        powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
        return [Tick(self(10.0**n), format_duration(10.0**n / 1e6)) for n in powers]

    def sizes(self, values: Sequence[float]) -> list[Tick]:
        """Powers of two that reach over ``values``, at most nine of them."""
        first, last = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
        step = max(-(-(last - first + 1) // 9), 1)
        powers = range(first, last + 1, step)
        ticks = [Tick(self(2.0**n), format_bytes(2.0**n)) for n in powers]
        return thinned([tick for tick in ticks if 0 <= tick.at <= 1], NARROW_PX - 50)


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{1000 * x:.5g} {_down(y)}" for x, y in points)


def single_operations(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The groups of operations one at a time, of one way of access and one pattern."""
    first = min((group["depth"] for group in groups), default=1)
    kept = [group for group in groups if group["depth"] == first and group["count"]]
    for key in ("access", "pattern"):
        kept = [group for group in kept if group.get(key) == kept[0].get(key)]
    return sorted(kept, key=lambda group: (group["op"], group["size_class_bytes"]))


def latency_by_size(groups: Sequence[Mapping[str, Any]]) -> Plot:
    """Mean latency of reads and writes by size, both on logarithmic scales."""
    mean = {id(g): max(g["total_ns"] / g["count"] / 1e3, 1e-3) for g in groups}
    sizes = [group["size_class_bytes"] for group in groups]
    x = _Log(min(sizes) / 1.2, max(sizes) * 1.2)
    low, high = (math.log10(end) for end in (min(mean.values()) / 1.3, max(mean.values()) * 1.3))
    y = _Log(10.0 ** math.floor(low), 10.0 ** math.ceil(high))
    shapes, marks, legend = list[Shape](), list[Mark](), []
    for op, colour, shape in zip(OPS, SERIES, SHAPES, strict=False):
        points = [(x(g["size_class_bytes"]), y(mean[id(g)])) for g in groups if g["op"] == op]
        if points:
            shapes.append(Shape(_line(points), stroke=colour))
            marks += [Mark(*point, colour, shape) for point in points]
            legend.append((f"{op}s", colour, shape))
    return Plot(
        x.sizes(sizes), y.decades(), "size of an operation", "mean latency", shapes, marks,
        legend=legend,
    )  # fmt: skip


def memory(points: Sequence[Mapping[str, Any]]) -> Plot:
    """Elapsed time over work memory, a line for each storage; measured points are filled."""
    known = [point for point in points if point["elapsed_s"] is not None]
    sizes = [point["memory_bytes"] for point in known]
    ends_s = [(point.get("interval_s") or (point["elapsed_s"],) * 2) for point in known]
    most_s = 1.05 * max(high for _, high in ends_s)
    x = _Log(min(sizes) / 1.15, max(sizes) * 1.15)
    shapes, marks, legend = list[Shape](), list[Mark](), []
    for number, name in enumerate(dict.fromkeys(point["storage"] for point in known)):
        colour, shape = SERIES[number], SHAPES[number]
        line = []
        for point, (low_s, high_s) in zip(known, ends_s, strict=True):
            if point["storage"] == name:
                at = x(point["memory_bytes"])
                line.append((at, point["elapsed_s"] / most_s))
                ends = [(at, low_s / most_s), (at, high_s / most_s)]
                shapes.append(Shape(_line(ends), stroke=colour, opacity=0.6))
                marks.append(Mark(*line[-1], colour, shape, point["measured"]))
        shapes.append(Shape(_line(line), stroke=colour, dash=DASHES[number]))
        legend.append((name, colour, shape))
    y = [Tick(s / most_s, clock(s)) for s in duration_ticks(most_s, 5)]
    return Plot(x.sizes(sizes), y, "work memory", "elapsed time", shapes, marks, legend=legend)


def miss_ratio(curve: Mapping[str, Any], wanted_bytes: float | None) -> Plot:
    """The share of reads that miss, by the size of the cache."""
    sizes = [size for size in curve["size_bytes"] if size > 0]
    missed = curve["miss_ratio"][-len(sizes) :]
    x = _Log(min(sizes), max(max(sizes), wanted_bytes or 0, 2 * min(sizes)))
    top = f"M0 {_down(missed[0])}"
    for size, miss in zip(sizes, missed, strict=True):
        top += f"H{1000 * x(size):.5g}V{_down(miss)}"
    top += "H1000"
    shapes = [Shape(f"{top}V1000H0Z", "target", opacity=0.14), Shape(top, stroke="target")]
    enough = curve["enough_bytes"]
    marked = [(enough, "enough"), (wanted_bytes, "asked")]
    rules = [
        Rule(x(size), text, right=x(size) < 0.8, height=height)
        for height, (size, text) in zip((0.98, 0.88), marked, strict=True)
        if size
    ]
    return Plot(
        x.sizes([x.low, x.high]), percent_ticks(1.0, 5), "size of the cache", "reads that miss",
        shapes, rules=rules,
    )  # fmt: skip


def scatter(points: Sequence[tuple[float, float, str]]) -> Plot:
    """Measured time, forecast and direction of cases, on logarithmic scales."""
    ends = [s for point in points for s in point[:2]]
    scale = _Log(min(ends) / 1.3, max(ends) * 1.3)
    steps = [0.5, *_round()]
    ticks = [Tick(scale(s), format_duration(s)) for s in steps if scale.low <= s <= scale.high]
    shapes = []
    for factor, dash in ((0.9, "2 3"), (1.0, ""), (1.1, "2 3")):
        low, high = max(scale.low, scale.low / factor), min(scale.high, scale.high / factor)
        line = [(scale(s), scale(s * factor)) for s in (low, high)]
        shapes.append(Shape(_line(line), stroke="domain", dash=dash))
    counts = {way: sum(point[2] == way for point in points) for way in DIRECTIONS}
    return Plot(
        thinned(ticks, NARROW_PX - 50), ticks, "measured elapsed time", "forecast", shapes,
        [Mark(scale(s), scale(f), *DIRECTIONS[way], filled=False) for s, f, way in points],
        legend=[(f"{way} ({n})", *DIRECTIONS[way]) for way, n in counts.items() if n], square=True,
    )  # fmt: skip
