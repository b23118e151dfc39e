"""The charts of cases as files: forecasts against measured times, and intervals that hold them."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from spillcast.report.html.bars import Bar, Bars, Rule, Span, Tick, percent_ticks

from spillcast.histogram import NORMAL_95
from spillcast.lab.case import Case
from spillcast.lab.summary import of_evidence, summarise
from spillcast.report.html.plots import Plot, scatter
from spillcast.report.verify import breakdown

AIM = (0.85, 0.95)
#: As style.css has them in its light scheme.
_COLOURS = {
    "text": "#1b2430", "muted": "#55616f", "grid": "#e4e8ed", "domain": "#98a3b0",
    "band": "#dfeee3", "series-1": "#1d5a8e", "series-2": "#d97f2f", "series-3": "#2e7d5b",
    "series-4": "#8a4a85",
}  # fmt: skip
_OUTLINES = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "square": "M-3.5 -3.5h7v7h-7z",
    "triangle": "M0 -4.5L4.5 3.5H-4.5z", "diamond": "M0 -5L5 0L0 5L-5 0z",
}  # fmt: skip
#: The side of a plot, the width of bars, a row's height, a line's height, and margins, px.
_SIDE_PX, _BARS_PX, _ROW_PX, _LINE_PX, _MARGIN_PX = 440, 380, 18, 20, 60
_NAMES_PX = 250


def draw_charts(cases: Sequence[Case], folder: Path) -> list[str]:
    """Draw what there is to draw; names of the files."""
    answered = [case for case in of_evidence(cases) if case.forecast.forecast_s is not None]
    if not answered:
        return []
    points = [
        (case.measured_to_s, case.forecast.forecast_s or 1.0, case.direction) for case in answered
    ]
    charts = {
        "forecast.svg": plot_svg(
            scatter(points), "Forecast against measured time; dashed: 10 % off"
        ),
        "coverage.svg": bars_svg(
            coverage(cases),
            f"Share of {cases[0].forecast.confidence:.0%} intervals that hold the measured time",
        ),
    }
    for name, text in charts.items():
        (folder / name).write_text(text)
    return list(charts)


def coverage(cases: Sequence[Case]) -> Bars:
    """The share of intervals that hold the truth, group by group, with what chance does to it."""
    rows: list[Bar] = []
    for groups in breakdown(cases).values():
        rows += [_covered(name, of) for name, of in groups.items()] + [Bar("", [], "", 0.0)]
    rule = Rule(cases[0].forecast.confidence, colour="domain", solid=True)
    return Bars(rows[:-1], percent_ticks(), 0, rules=[rule], band=Span(*AIM, "band"))


def _covered(name: str, of: Sequence[Case]) -> Bar:
    given = sum(case.forecast.interval_s is not None for case in of)
    summary, label = summarise(of), f"{name} ({given})"
    if summary.coverage is None:
        return Bar(label, [], "", 0.0)
    low, high = _chance(summary.coverage, summary.cases - summary.refused)
    return Bar(label, [], "", 0.0, Span(low, high, "series-1"), summary.coverage)


def _chance(coverage: float, cases: int) -> tuple[float, float]:
    """A 90 % interval of the true share, if cases were independent: Wilson's interval."""
    z = NORMAL_95
    middle = (coverage + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * ((coverage * (1 - coverage) + z * z / (4 * cases)) / cases) ** 0.5
    half /= 1 + z * z / cases
    return middle - half, middle + half


def plot_svg(plot: Plot, title: str) -> str:
    """A plot with equal axes as a file of its own, on white."""
    top = _LINE_PX * (len(plot.legend) + 2)
    parts = [_text(_MARGIN_PX, 14, title)]
    for number, (name, colour, outline) in enumerate(plot.legend):
        y = 14.0 + _LINE_PX * (number + 1)
        parts += [_mark(_MARGIN_PX + 6, y - 5, outline, colour, filled=False)]
        parts += [_text(_MARGIN_PX + 18, y, name)]
    parts.append(f'<g transform="translate({_MARGIN_PX} {top})">')
    for tick in plot.y:
        y = _SIDE_PX * (1 - tick.at)
        parts += [_line(0, y, _SIDE_PX, y, "grid"), _text(-8, y + 4, tick.text, "end", "muted")]
    for tick in plot.x:
        if tick.narrow:
            parts.append(_text(_SIDE_PX * tick.at, _SIDE_PX + 18, tick.text, "middle", "muted"))
    parts.append(_line(0, _SIDE_PX, _SIDE_PX, _SIDE_PX, "domain"))
    for shape in plot.shapes:
        dash = f' stroke-dasharray="{shape.dash}"' if shape.dash else ""
        parts.append(
            f'<path d="{shape.path}" transform="scale({_SIDE_PX / 1000})" fill="none" '
            f'stroke="{_COLOURS[shape.stroke]}" vector-effect="non-scaling-stroke"{dash}/>'
        )
    for mark in plot.marks:
        place = _SIDE_PX * mark.x, _SIDE_PX * (1 - mark.y)
        parts.append(_mark(*place, mark.shape, mark.colour, filled=mark.filled))
    parts.append(_text(_SIDE_PX / 2, _SIDE_PX + 38, plot.x_title, "middle", "muted"))
    parts += [_text(0, -8, plot.y_title, "start", "muted"), "</g>"]
    return _file(parts, _SIDE_PX + _MARGIN_PX + 30, top + _SIDE_PX + 48)


def bars_svg(bars: Bars, title: str) -> str:
    """Rows of points and intervals as a file of its own, on white."""
    height = _ROW_PX * len(bars.rows)
    parts = [_text(0, 14, title), f'<g transform="translate({_NAMES_PX} 28)">']
    if bars.band is not None:
        low, high = (_BARS_PX * at for at in (bars.band.low, bars.band.high))
        parts.append(
            f'<rect x="{low:.1f}" width="{high - low:.1f}" height="{height}" '
            f'fill="{_COLOURS[bars.band.colour]}"/>'
        )
    parts += [_tick(tick, height) for tick in bars.ticks]
    for rule in bars.rules:
        parts.append(_line(_BARS_PX * rule.at, 0, _BARS_PX * rule.at, height, rule.colour))
    for number, row in enumerate(bars.rows):
        y = _ROW_PX * (number + 0.5)
        parts.append(_text(-8, y + 4, row.name, "end"))
        if row.interval is not None and row.point is not None:
            low, high = (_BARS_PX * at for at in (row.interval.low, row.interval.high))
            parts.append(_line(low, y, high, y, row.interval.colour))
            parts.append(_mark(_BARS_PX * row.point, y, "circle", row.interval.colour))
    return _file([*parts, "</g>"], _NAMES_PX + _BARS_PX + 30, height + 56)


def _tick(tick: Tick, height: float) -> str:
    x = _BARS_PX * tick.at
    return _line(x, 0, x, height, "grid") + _text(x, height + 18, tick.text, "middle", "muted")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{_COLOURS[colour]}"/>'


def _mark(x: float, y: float, shape: str, colour: str, *, filled: bool = True) -> str:
    fill = _COLOURS[colour] if filled else "#fff"
    return (
        f'<path d="{_OUTLINES[shape]}" transform="translate({x:.1f} {y:.1f})" fill="{fill}" '
        f'stroke="{_COLOURS[colour]}" stroke-width="1.4"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "text") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_COLOURS[colour]}">'
        f"{escape(text)}</text>"
    )


def _file(parts: Sequence[str], width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )
