"""The charts of cases as files: forecasts against measured times, and intervals that hold them."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from spillcast.lab.case import Case
from spillcast.report.html.axes import log_scale, percent_ticks, scatter_ticks
from spillcast.report.html.charts import DIRECTIONS
from spillcast.stats import NORMAL_95
from spillcast_lab.summary import of_evidence, summarise
from spillcast_lab.verify_page import breakdown

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
    (folder / "forecast.svg").write_text(scatter_svg(points))
    (folder / "coverage.svg").write_text(coverage_svg(cases))
    return ["forecast.svg", "coverage.svg"]


def scatter_svg(points: Sequence[tuple[float, float, str]]) -> str:
    """Measured time, forecast and direction of cases, on equal logarithmic axes."""
    ends = [s for point in points for s in point[:2]]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    scale = log_scale(low, high)
    counts = {way: sum(point[2] == way for point in points) for way in DIRECTIONS}
    legend = [(f"{way} ({n})", *DIRECTIONS[way]) for way, n in counts.items() if n]
    top = _LINE_PX * (len(legend) + 2)
    parts = [_text(_MARGIN_PX, 14, "Forecast against measured time; dashed: 10 % off")]
    for number, (name, colour, outline) in enumerate(legend):
        y = 14.0 + _LINE_PX * (number + 1)
        parts += [_mark(_MARGIN_PX + 6, y - 5, outline, colour, filled=False)]
        parts += [_text(_MARGIN_PX + 18, y, name)]
    parts.append(f'<g transform="translate({_MARGIN_PX} {top})">')
    for value, label in scatter_ticks(low, high):
        at = _SIDE_PX * scale(value)
        y = _SIDE_PX - at
        parts += [_line(0, y, _SIDE_PX, y, "grid"), _text(-8, y + 4, label, "end", "muted")]
        parts.append(_text(at, _SIDE_PX + 18, label, "middle", "muted"))
    parts.append(_line(0, _SIDE_PX, _SIDE_PX, _SIDE_PX, "domain"))
    for factor, dash in ((0.9, "2 3"), (1.0, ""), (1.1, "2 3")):
        first, last = max(low, low / factor), min(high, high / factor)
        ends_px = [(_SIDE_PX * scale(s), _SIDE_PX * (1 - scale(s * factor))) for s in (first, last)]
        parts.append(_line(*ends_px[0], *ends_px[1], "domain", dash))
    for measured_s, forecast_s, way in points:
        colour, outline = DIRECTIONS[way]
        place = _SIDE_PX * scale(measured_s), _SIDE_PX * (1 - scale(forecast_s))
        parts.append(_mark(*place, outline, colour, filled=False))
    parts.append(_text(_SIDE_PX / 2, _SIDE_PX + 38, "measured elapsed time", "middle", "muted"))
    parts += [_text(0, -8, "forecast", "start", "muted"), "</g>"]
    return _file(parts, _SIDE_PX + _MARGIN_PX + 30, top + _SIDE_PX + 48)


def coverage_svg(cases: Sequence[Case]) -> str:
    """The share of intervals that contain the truth by group, with its interval by chance."""
    rows: list[tuple[str, Sequence[Case]]] = []
    for groups in breakdown(cases).values():
        rows += [*groups.items(), ("", [])]
    height, confidence = _ROW_PX * (len(rows) - 1), cases[0].forecast.confidence
    title = f"Share of {confidence:.0%} intervals that hold the measured time"
    low, high = (_BARS_PX * share for share in AIM)
    parts = [_text(0, 14, title), f'<g transform="translate({_NAMES_PX} 28)">']
    parts.append(
        f'<rect x="{low:.1f}" width="{high - low:.1f}" height="{height}" '
        f'fill="{_COLOURS["band"]}"/>'
    )
    for share, label in percent_ticks():
        x = _BARS_PX * share
        parts += [_line(x, 0, x, height, "grid"), _text(x, height + 18, label, "middle", "muted")]
    parts.append(_line(_BARS_PX * confidence, 0, _BARS_PX * confidence, height, "domain"))
    for number, (name, of) in enumerate(rows[:-1]):
        y, summary = _ROW_PX * (number + 0.5), summarise(of) if of else None
        if summary is None:
            continue
        given = sum(case.forecast.interval_s is not None for case in of)
        parts.append(_text(-8, y + 4, f"{name} ({given})", "end"))
        if summary.coverage is not None:
            bounds = _chance(summary.coverage, summary.cases - summary.refused)
            parts.append(_line(_BARS_PX * bounds[0], y, _BARS_PX * bounds[1], y, "series-1"))
            parts.append(_mark(_BARS_PX * summary.coverage, y, "circle", "series-1"))
    return _file([*parts, "</g>"], _NAMES_PX + _BARS_PX + 30, height + 56)


def _chance(coverage: float, cases: int) -> tuple[float, float]:
    """A 90 % interval of the true share, if cases were independent: Wilson's interval."""
    z = NORMAL_95
    middle = (coverage + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * ((coverage * (1 - coverage) + z * z / (4 * cases)) / cases) ** 0.5
    half /= 1 + z * z / cases
    return middle - half, middle + half


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{_COLOURS[colour]}"{dashed}/>'


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
