"""Figures of the accuracy of forecasts: aims and measured values, tables, and charts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

import numpy as np

from spillcast.lab.case import Case
from spillcast.report.checks import percent, share
from spillcast.report.html.axes import log_scale, percent_ticks, scatter_ticks
from spillcast.report.html.charts import DIRECTIONS
from spillcast.stats import NORMAL_95
from spillcast.tabular import markdown_table, paragraph
from spillcast.units import format_count
from spillcast_lab.outcome import FALLING, SUITES, engine_name, is_public
from spillcast_lab.summary import (
    EVIDENCE,
    SUMMARY_HEADER,
    breakdown,
    by_direction,
    forecast_with,
    grouped,
    of_evidence,
    recording_cost,
    repeated,
    summarise,
    summary_row,
    threads_of,
    without_estimate,
)
from spillcast_lab.variants import ADDED, LEFT_OUT, REHEARSED, without

#: Lower and upper bound of each figure of a ``Summary``; None without a bound.
Bounds = Mapping[str, tuple[float | None, float | None]]
CRITERIA = {
    "median": "median error",
    "p90": "90th percentile of the error",
    "coverage": "intervals that hold",
    "half_width": "median half-width",
    "ratio": "median error of the blog post's formula",
    "below_ceiling": "measured below the ceiling",
    "bias": "median signed error",
    "sign_test": "p-value of the errors' signs",
    "refused_share": "share refused",
}
#: Errors of one sign, even small ones, show a cause that the forecast lacks.
_NO_BIAS: Bounds = {"bias": (-0.03, 0.03), "sign_test": (0.05, None)}
_SEED_RATIO: Bounds = {"ratio": (1.0, None)}
_CEILING: Bounds = {"below_ceiling": (None, 0.05)}
_FEW_REFUSED: Bounds = {"refused_share": (None, 0.15)}
#: The names of the public suites.
PUBLIC = " and ".join(SUITES.values())
OTHER_DIRECTIONS = "other directions"
#: Parts of at least this length have separate aims: users do not attach for less.
ATTACHED_S = 1.0


def errors_within(middle: float, p90: float) -> Bounds:
    """Bounds of the median error and of its 90th percentile."""
    return {"median": (None, middle), "p90": (None, p90)}


def _intervals(width: float) -> Bounds:
    return {"coverage": (0.85, 0.95), "half_width": (None, width)}


_BY_THREADS = {
    1: errors_within(0.06, 0.15),
    2: errors_within(0.08, 0.20),
    4: errors_within(0.12, 0.30),
}
#: Bounds of the figures of parts of runs of unknown elapsed time, by evidence.
_PARTS: Mapping[str, Bounds] = {
    "minute": {**_FEW_REFUSED, **errors_within(0.12, 0.30), **_intervals(0.30)},
    "minute_former": {**_FEW_REFUSED, **errors_within(0.07, 0.18), **_intervals(0.30)},
    "first_fifth_alone": {**_FEW_REFUSED, "median": (None, 0.15)},
}


@dataclass(frozen=True)
class Aim:
    """A figure with its bounds and its measured value."""

    of: str
    criterion: str
    figure: float | None
    least: float | None
    most: float | None
    #: ``share``, ``points`` (percentage points), ``s``, or ``times the forecast's``.
    unit: str
    cases: int
    #: Cases without a number.
    refused: int = 0

    @property
    def met(self) -> bool | None:
        """Whether the figure is within its bounds; None without cases."""
        if self.figure is None:
            return None
        above = self.least is None or self.figure >= self.least
        return above and (self.most is None or self.figure <= self.most)

    @property
    def bounds_text(self) -> str:
        """The bounds, as ``at most 6.0 %``."""
        least, most = self.text(self.least), self.text(self.most)
        if self.least is None:
            return f"at most {most}"
        return f"at least {least}" if self.most is None else f"{least} to {most}"

    def text(self, value: float | None) -> str:
        """A figure in its unit."""
        if value is None or self.unit == "share":
            return share(value)
        return f"{value:.1f} {self.unit}"


def aims_table(aims: Iterable[Aim]) -> str:
    """A row for each aim."""
    words = {True: "met", False: "**missed**", None: "no cases"}
    rows = []
    for aim in aims:
        count = f"{aim.cases - aim.refused} of {aim.cases}" if aim.refused else f"{aim.cases}"
        figure = aim.text(aim.figure)
        rows.append([aim.of, aim.criterion, aim.bounds_text, figure, count, words[aim.met]])
    return markdown_table(("cases of", "figure", "aim", "measured", "cases", ""), rows)


def aims(cases: Sequence[Case]) -> list[Aim]:
    """The aims of all engines and kinds of evidence."""
    whole = of_evidence(cases)
    results = list[Aim]()
    for engine, of_engine in grouped(whole, engine_name).items():
        results += _of_engine(engine, of_engine)
    results += aims_of("all", whole, {"half_width": (None, 0.12), **_CEILING})
    if len(whole) == len(cases):
        return results
    results += _of_slices(cases)
    for name, bounds in _PARTS.items():
        of, parts = EVIDENCE[name], of_evidence(cases, name)
        results += aims_of(of, parts, bounds)
        if long := [case for case in parts if case.evidence.covers_s >= ATTACHED_S]:
            results += aims_of(f"{of}, of {ATTACHED_S:.0f} s or more", long, bounds)
    return results


def _of_engine(engine: str, cases: Sequence[Case]) -> list[Aim]:
    """The aims of queries of public suites from slow to fast, and of all other directions."""
    public = [case for case in cases if case.direction == FALLING and is_public(case)]
    others = [case for case in cases if case.direction != FALLING]
    rehearsed = forecast_with([case for case in public if case.threads in (1, 2)], REHEARSED)
    of = f"{engine}, {FALLING}, {PUBLIC}"
    results = list[Aim]()
    for threads, bounds in _BY_THREADS.items():
        of_threads = [case for case in public if case.threads == threads]
        results += aims_of(f"{of}, {format_count(threads, 'thread')}", of_threads, bounds)
    results += aims_of(of, public, {**_NO_BIAS, **_intervals(0.12), **_SEED_RATIO, **_CEILING})
    rehearsed_bounds = {**errors_within(0.04, 0.10), **_intervals(0.10)}
    results += aims_of(f"{of}, rehearsed", rehearsed, rehearsed_bounds)
    other_bounds = {**errors_within(0.03, 0.10), **_NO_BIAS, **_SEED_RATIO}
    return results + aims_of(f"{engine}, {OTHER_DIRECTIONS}", others, other_bounds)


def aims_of(of: str, cases: Sequence[Case], bounds: Bounds) -> list[Aim]:
    """An aim for each figure that has bounds."""
    summary = summarise(cases)
    return [
        Aim(
            of,
            CRITERIA[name],
            getattr(summary, name),
            *ends,
            "times the forecast's" if name == "ratio" else "share",
            summary.cases,
            summary.refused,
        )
        for name, ends in bounds.items()
    ]


def _of_slices(cases: Sequence[Case]) -> list[Aim]:
    """The aims of slices, compared with whole recordings of the same runs, and of their time."""

    def pair(case: Case) -> tuple[object, ...]:
        return case.engine, case.workload, case.threads, case.source, case.target

    slices = {pair(case): case for case in of_evidence(cases, "slices")}
    whole = [case for case in of_evidence(cases) if pair(case) in slices]
    sliced, entire = summarise(list(slices.values())).median, summarise(whole).median
    more = None if sliced is None or entire is None else 100 * (sliced - entire)
    times_s = [case.evidence.covers_s + case.evidence.probe_s for case in slices.values()]
    longest_s, count = max(times_s, default=None), len(slices)
    criterion = "median error above that of whole recordings"
    return [
        Aim(EVIDENCE["slices"], criterion, more, None, 3.0, "points", count),
        Aim(
            EVIDENCE["slices"],
            "longest time of recording and probe",
            longest_s,
            None,
            60.0,
            "s",
            count,
        ),
    ]


def figures_table(of: str, groups: Mapping[str, Sequence[Case]]) -> str:
    """A row of figures for each group."""
    rows = [summary_row(name, summarise(group)) for name, group in groups.items()]
    return markdown_table((of, *SUMMARY_HEADER[1:]), rows)


def headline(cases: Sequence[Case]) -> str:
    """A sentence or two about the errors of forecasts from slow storage to fast."""
    falling = [case for case in cases if case.direction == FALLING]
    public = [case for case in falling if is_public(case)]
    shown = public or falling
    if not shown:
        return "No forecast from slow storage to fast was verified."
    sentences, seeds = list[str](), list[str]()
    for engine, group in grouped(shown, engine_name).items():
        summary = summarise(group)
        refused = f", {summary.refused} refused" if summary.refused else ""
        forecasts = format_count(summary.cases, "forecast")
        sentences.append(
            f"{engine} median error {share(summary.median)}, 90th percentile {share(summary.p90)} "
            f"({forecasts}{refused}; {share(summary.coverage, 0)} of the intervals hold)"
        )
        seeds.append(share(summary.seed_median))
    which = f"queries of {PUBLIC}" if public else "queries of neither TPC-H nor TPC-DS"
    apart = summarise(shown).run_difference
    noise = (
        "" if apart is None else f" A repeated run there differs by {share(apart)} in the median."
    )
    return paragraph(
        f"From slow storage to fast, on {which}: {'; '.join(sentences)}. The blog post's formula: "
        f"median error {' and '.join(seeds)}.{noise}"
    )


_MEANS = {
    "fuse": "a FUSE file system",
    "preload": "a library that delays the engine's calls",
    "kernel": "the kernel",
}


def by_means(cases: Sequence[Case]) -> str:
    """A table by direction and by the cause of slowness, if that is known."""
    known = [case for case in cases if case.source_means and case.target_means]
    if not known:
        return "The file of these cases does not contain what made storage slow."

    def means_of(case: Case) -> str:
        ends = zip(
            case.direction.split(" to "), (case.source_means, case.target_means), strict=True
        )
        means = [_MEANS.get(str(means), str(means)) for speed, means in ends if speed == "slow"]
        return " to ".join(dict.fromkeys(means)) or "nothing"

    groups = {
        f"{direction}, {means}": group
        for direction, of_direction in by_direction(known).items()
        for means, group in grouped(of_direction, means_of).items()
    }
    return figures_table("slowed by", groups)


def estimates(cases: Sequence[Case]) -> str:
    """A table of forecasts without each estimate, and with a rehearsal or previous runs."""
    if not any(case.variants for case in cases):
        return "The file of these cases contains no forecasts without an estimate."
    rows = list[list[str]]()

    def add(of: str, words: str, differ: int | None, group: Sequence[Case]) -> None:
        figures = summary_row("", summarise(group))[1:8]
        rows.append([of, words, "" if differ is None else f"{differ}", *figures])

    falling = [case for case in cases if case.direction == FALLING]
    others = [case for case in cases if case.direction != FALLING]
    for direction, of_direction in ((FALLING, falling), (OTHER_DIRECTIONS, others)):
        for engine, of_engine in grouped(of_direction, engine_name).items():
            of = f"{direction}, {engine}"
            add(of, "today", None, of_engine)
            for name, words in LEFT_OUT.items():
                if differ := sum(without(name) in case.variants for case in of_engine):
                    add(of, f"without {words}", differ, without_estimate(of_engine, name))
            for name, words in ADDED.items():
                if variants := forecast_with(of_engine, name):
                    add(of, words, len(variants), variants)
                    same = [case for case in of_engine if name in case.variants]
                    add(of, "the same without that", None, same)
    return markdown_table(("of", "forecast", "differ", *SUMMARY_HEADER[1:8]), rows)


def noise(cases: Sequence[Case]) -> str:
    """A table of deviations of repeated runs and the cost of recording, by engine and threads."""
    groups = grouped(cases, lambda case: f"{engine_name(case)}, {threads_of(case)}")
    rows = []
    for name, group in (*groups.items(), ("all", cases)):
        deviations = repeated(group)
        # A recording is the baseline of several cases.
        recorded = {(case.engine, case.workload, case.threads, case.source): case for case in group}
        costs = [recording_cost(case) for case in recorded.values()]
        of_runs = [f"{len(deviations)}", *_median_and_p90(deviations)]
        of_costs = [f"{len(costs)}", percent(median(costs)), *_median_and_p90(map(abs, costs))]
        rows.append([name, *of_runs, *of_costs])
    header = ("", "runs", "difference, median", "90th", "recordings", "longer by, median",
              "difference, median", "90th")  # fmt: skip
    return markdown_table(header, rows)


def _median_and_p90(values: Iterable[float]) -> tuple[str, str]:
    if not (known := list(values)):
        return "-", "-"
    return share(median(known)), share(float(np.quantile(known, 0.9)))


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
    """Draw the charts into ``folder``; returns the file names, empty without forecasts."""
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
    return _file([*parts, _text(0, -4, "forecast", "end")], 60, _SIDE + 90, _SIDE + 84)


def coverage_svg(cases: Sequence[Case]) -> str:
    """The share of intervals that contain the measured time by group, with its 90 % interval."""
    rows: list[tuple[str, Sequence[Case]]] = []
    for groups in {**breakdown(cases), "direction": by_direction(of_evidence(cases))}.values():
        rows += [*groups.items(), ("", [])]
    height, confidence = _ROW * (len(rows) - 1), cases[0].forecast.confidence
    low, high = (_BARS * aim for aim in AIM)
    band = _COLOURS["band"]
    parts = [
        _text(-_NAMES, -20, f"Share of {confidence:.0%} intervals that hold the measured time"),
        f'<rect x="{low:.1f}" width="{high - low:.1f}" height="{height}" fill="{band}"/>',
        _line((_BARS * confidence, 0), (_BARS * confidence, height), "domain"),
    ]
    for tick, label in percent_ticks():
        parts += [_line((_BARS * tick, 0), (_BARS * tick, height), "grid")]
        parts += [_text(_BARS * tick, height + 18, label, "middle")]
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
