"""Charts of a run: what sessions did over time, and latencies here beside those elsewhere."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from spillcast.profile.timeline import ON_CPU, READ, STATES, WRITE, state_of
from spillcast.report.draw import chart_of, colour
from spillcast.report.html.charts.bars import legend_of, sized
from spillcast.report.html.charts.scale import PERCENT, duration_axis, latency_axis
from spillcast.report.html.page import Layout
from spillcast.units import format_duration

SHADES = dict(zip(STATES, ("cpu", "read", "write", "other-io", "waits"), strict=True))
#: Bins to a power of ten of latency.
_BINS = 10
#: What words beside a mean take, and what the axis does.
_WORDS_PX, _AXIS_PX = 110, 60


def shades_of_events(names: Sequence[str]) -> dict[str, str]:
    """A colour for each event, temp I/O as elsewhere."""
    left = iter(("series-3", "series-4", "other-io", "waits", "domain", "muted", "grid"))
    known = {ON_CPU: "cpu"}
    for name in names:
        state = state_of(name)
        if state in (READ, WRITE) and SHADES[state] not in known.values():
            known[name] = SHADES[state]
    return {name: known.get(name) or next(left) for name in names}


def timeline(line: Mapping[str, Any], layout: Layout, colours: Mapping[str, str] = SHADES) -> Any:
    """Mean number of sessions by state, or event, over the time of the run, one upon the other."""
    length_s, busy = line["length_s"], line["busy"]
    states = [state for state in colours if state in busy]
    stretches = len(next(iter(busy.values()), []))
    merged = 2 if layout.narrow and stretches > 80 else 1
    values = []
    for at in range(0, stretches, merged):
        top = 0.0
        for state in states:
            mean = sum(busy[state][at : at + merged]) / merged
            if mean:
                values.append(
                    {"from": at * length_s, "to": (at + merged) * length_s, "state": state,
                     "low": round(top, 4), "high": round(top + mean, 4)}
                )  # fmt: skip
            top += mean
    whole_s = stretches * length_s
    shades = alt.Color(
        "state:N",
        scale=alt.Scale(domain=states, range=[colour(colours[state]) for state in states]),
        legend=legend_of(states, layout),
    )
    axis = duration_axis(whole_s, "time since the start", 4 if layout.narrow else 8, grid=False)
    y_axis = alt.Axis(title="sessions", tickCount=4, domain=False, ticks=False)
    bars = (
        chart_of(values)
        .mark_rect(strokeWidth=0)
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=[0, whole_s], nice=False), axis=axis),
            x2=alt.X2("to:Q"),
            y=alt.Y("low:Q", axis=y_axis, scale=alt.Scale(zero=True)),
            y2=alt.Y2("high:Q"),
            color=shades,
        )
    )
    return sized(alt.layer(bars), layout, 300 if layout.narrow else 280)


def bins(latency_ns: Sequence[int], counts: Sequence[int]) -> dict[int, float]:
    """The share of the operations by bin, ten to a power of ten; bin 0 begins at 1 us."""
    whole = sum(counts) or 1
    found: dict[int, float] = {}
    for ns, count in zip(latency_ns, counts, strict=True):
        at = math.floor(_BINS * math.log10(max(ns, 1) / 1e3) + 1e-9)
        found[at] = found.get(at, 0.0) + count / whole
    return found


def edge_us(at: int) -> float:
    """Where a bin begins."""
    return float(10 ** (at / _BINS))


def mean_us(latency_ns: Sequence[int], counts: Sequence[int]) -> float:
    """Mean latency of a histogram."""
    total_ns = sum(ns * count for ns, count in zip(latency_ns, counts, strict=True))
    return total_ns / (sum(counts) or 1) / 1e3


def latencies(
    now: Mapping[str, Any], there: Mapping[str, Any] | None, names: tuple[str, str], layout: Layout
) -> Any:
    """Shares of operations by latency on a logarithmic scale: a filled shape, and an outline."""
    parts = [(names[0], now)] + ([(names[1], there)] if there else [])
    shares = {name: bins(of["latency_ns"], of["latency_count"]) for name, of in parts}
    first = min(min(found) for found in shares.values())
    last = max(max(found) for found in shares.values()) + 1
    span = edge_us(first - 1), edge_us(last + 1)
    scale = alt.Scale(type="log", domain=span, nice=False)
    axis = latency_axis(span[0] * 1.01, span[1] / 1.01, "latency of one operation", grid=True)
    most = max(max(found.values()) for found in shares.values())
    y = alt.Scale(domain=[0, most * 1.3], nice=False)
    y_axis = alt.Axis(
        title="share of the operations", labelExpr=PERCENT, tickCount=4, domain=False, ticks=False
    )
    shades = alt.Scale(domain=list(shares), range=[colour("now"), colour("there")][: len(shares)])
    layers = []
    for number, (name, found) in enumerate(shares.items()):
        solid = number == 0
        legend = alt.Legend(columns=1 if layout.narrow else 2) if there else None
        line = {"color": colour("there"), "strokeWidth": 1.8, "interpolate": "step-after"}
        # The outline is one shape: it falls to nothing where no operation is.
        steps = range(min(found), max(found) + 2)
        values = [{"at": edge_us(at), "share": found.get(at, 0.0), "of": name} for at in steps]
        layers.append(
            chart_of(values)
            .mark_area(
                interpolate="step-after", fillOpacity=1 if solid else 0.16,
                line=False if solid else line,
            )
            .encode(
                x=alt.X("at:Q", scale=scale, axis=axis),
                y=alt.Y("share:Q", scale=y, axis=y_axis, stack=None),
                color=alt.Color("of:N", scale=shades, legend=legend),
            )
        )  # fmt: skip
    means = [mean_us(of["latency_ns"], of["latency_count"]) for _, of in parts]
    for number, (height, right) in enumerate(_labels(means, span, layout)):
        layers += _mean(means[number], most * height, solid=number == 0, right=right)
    return sized(alt.layer(*layers), layout, 260)


def _labels(
    means: Sequence[float], span: tuple[float, float], layout: Layout
) -> list[tuple[float, bool]]:
    """For each mean how high its rule is, and whether its words stand to the right of it.

    Words of two stand apart from each other where there is room, else above the other's rule.
    """
    whole = math.log(span[1] / span[0])
    rooms = [math.log(mean / span[0]) / whole for mean in means]
    words_share = _WORDS_PX / (layout.width - _AXIS_PX)
    lower = min(range(len(means)), key=means.__getitem__)
    right = [room < 0.5 for room in rooms]
    if len(means) > 1:
        right = [
            room < words_share if at == lower else room < 1 - words_share
            for at, room in enumerate(rooms)
        ]
    high = next((at for at in range(len(means)) if (at == lower) == all(right)), 0)
    return [(1.26 if at == high else 1.14, right[at]) for at in range(len(means))]


def _mean(mean: float, height: float, *, solid: bool, right: bool) -> list[Any]:
    """A rule at the mean (us) with its words."""
    words = f"mean {format_duration(mean / 1e6)}"
    at = chart_of([{"mean": mean, "low": 0, "high": height, "words": words}])
    x = alt.X("mean:Q")
    dash = [4, 3] if solid else [1, 0]
    return [
        at.mark_rule(color=colour("muted" if solid else "there"), strokeDash=dash, strokeWidth=1.2)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        at.mark_text(
            align="left" if right else "right", dx=5 if right else -5, color=colour("text"),
            baseline="middle",
        ).encode(x=x, y=alt.Y("high:Q"), text=alt.Text("words:N")),
    ]  # fmt: skip
