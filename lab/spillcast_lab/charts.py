"""Draws the charts of cases: forecasts against measured times, and coverage of intervals."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from spillcast.lab.case import Case
from spillcast.report.html.axes import log_scale, percent_ticks, scatter_ticks
from spillcast.report.html.charts import DIRECTIONS
from spillcast.stats import NORMAL_95
from spillcast_lab.summary import breakdown, by_direction, of_evidence, summarise

AIM = (0.85, 0.95)
#: The colours of the light scheme of style.css.
_COLOURS = {
    "text": "#1b2430", "muted": "#55616f", "grid": "#e4e8ed", "domain": "#98a3b0",
    "band": "#dfeee3", "series-1": "#1d5a8e", "series-2": "#d97f2f", "series-3": "#2e7d5b",
    "series-4": "#8a4a85",
}  # fmt: skip
_MARKS = {"circle": "○", "square": "□", "triangle": "△", "diamond": "◇"}
#: Side of a plot, width of bars and of their names, height of a row, px.
_SIDE, _BARS, _NAMES, _ROW = 440, 380, 340, 18


def draw_charts(cases: Sequence[Case], folder: Path) -> list[str]:
    """Draw the charts into ``folder``; returns the names of the files, none without forecasts."""
    points = [
        (case.measured_to_s, case.forecast.forecast_s, case.direction)
        for case in of_evidence(cases)
        if case.forecast.forecast_s is not None
    ]
    if not points:
        return []
    (folder / "forecast.svg").write_text(scatter_svg(points))
    (folder / "coverage.svg").write_text(coverage_svg(cases))
    return ["forecast.svg", "coverage.svg"]


def scatter_svg(points: Sequence[tuple[float, float, str]]) -> str:
    """Measured time, forecast and direction of cases, on equal logarithmic axes."""
    ends = [s for point in points for s in point[:2]]
    low, high = min(ends) / 1.3, max(ends) * 1.3
    scale = log_scale(low, high)
    parts = [_text(0, -20, "Forecast against measured time; dashed: 10 % off")]
    for value, label in scatter_ticks(low, high):
        at = _SIDE * scale(value)
        parts += [_line((0, _SIDE - at), (_SIDE, _SIDE - at), "grid")]
        parts += [_text(-8, _SIDE - at + 4, label, "end"), _text(at, _SIDE + 18, label, "middle")]
    for factor, dash in ((0.9, "2 3"), (1.0, ""), (1.1, "2 3")):
        begin, end = [
            (_SIDE * scale(s), _SIDE * (1 - scale(s * factor)))
            for s in (max(low, low / factor), min(high, high / factor))
        ]
        parts.append(_line(begin, end, "domain", dash))
    for measured_s, forecast_s, way in points:
        colour, shape = DIRECTIONS[way]
        x, y = _SIDE * scale(measured_s), _SIDE * (1 - scale(forecast_s))
        parts.append(_text(x, y + 5, _MARKS[shape], "middle", colour))
    for row, (way, (colour, shape)) in enumerate(DIRECTIONS.items()):
        if count := sum(point[2] == way for point in points):
            parts.append(_text(8, 18 + _ROW * row, f"{_MARKS[shape]} {way} ({count})", "", colour))
    parts.append(_text(_SIDE / 2, _SIDE + 38, "measured elapsed time", "middle"))
    return _file([*parts, _text(0, -4, "forecast")], 60, _SIDE + 90, _SIDE + 84)


def coverage_svg(cases: Sequence[Case]) -> str:
    """The share of intervals that contain the measured time by group, with its 90 % interval."""
    rows: list[tuple[str, Sequence[Case]]] = []
    for groups in {**breakdown(cases), "direction": by_direction(of_evidence(cases))}.values():
        rows += [*groups.items(), ("", [])]
    height, confidence = _ROW * (len(rows) - 1), cases[0].forecast.confidence
    low, high = (_BARS * share for share in AIM)
    band, title = (
        _COLOURS["band"],
        f"Share of {confidence:.0%} intervals that hold the measured time",
    )
    parts = [
        _text(-_NAMES, -20, title),
        f'<rect x="{low:.1f}" width="{high - low:.1f}" height="{height}" fill="{band}"/>',
        _line((_BARS * confidence, 0), (_BARS * confidence, height), "domain"),
    ]
    for share, label in percent_ticks():
        parts += [_line((_BARS * share, 0), (_BARS * share, height), "grid")]
        parts += [_text(_BARS * share, height + 18, label, "middle")]
    for number, (name, of) in enumerate(rows[:-1]):
        y, summary = _ROW * (number + 0.5), summarise(of)
        given = sum(case.forecast.interval_s is not None for case in of)
        parts.append(_text(-8, y + 4, f"{name} ({given})" if of else "", "end", "text"))
        if summary.coverage is not None:
            bounds = _wilson(summary.coverage, summary.cases - summary.refused)
            parts.append(_line((_BARS * bounds[0], y), (_BARS * bounds[1], y), "series-1"))
            parts.append(_text(_BARS * summary.coverage, y + 4, "●", "middle", "series-1"))
    return _file(parts, _NAMES, _NAMES + _BARS + 30, height + 64)


def _wilson(coverage: float, cases: int) -> tuple[float, float]:
    """Wilson's 90 % interval of the true share, for independent cases."""
    z = NORMAL_95
    middle = (coverage + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z * ((coverage * (1 - coverage) + z * z / (4 * cases)) / cases) ** 0.5
    half /= 1 + z * z / cases
    return middle - half, middle + half


def _line(begin: tuple[float, float], end: tuple[float, float], colour: str, dash: str = "") -> str:
    (x1, y1), (x2, y2) = begin, end
    path = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    return f'<path d="{path}" stroke="{_COLOURS[colour]}" stroke-dasharray="{dash}"/>'


def _text(x: float, y: float, text: str, anchor: str = "", colour: str = "muted") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor or "start"}"'
    return f'<text {place} fill="{_COLOURS[colour]}">{escape(text)}</text>'


def _file(parts: Sequence[str], left: int, width: int, height: int) -> str:
    """An SVG whose origin is ``left`` px from its left edge, and 40 px from its top."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{-left} -40 {width} {height}" font-family="sans-serif" font-size="13">'
        f'<rect x="{-left}" y="-40" width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )
