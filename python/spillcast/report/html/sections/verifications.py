"""Verifications: forecasts beside the times that were then measured."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.report import charts
from spillcast.report.html.charts.bars import sized
from spillcast.report.html.page import Layout, Section, Table, figure
from spillcast.report.html.words import MINUS, between, percent, seconds
from spillcast.units import format_count

Case = Mapping[str, Any]


def sections(documents: Sequence[Mapping[str, Any]]) -> list[Section]:
    """Forecast against measured time, and all cases."""
    cases = [case for document in documents for case in document["cases"]]
    given = [case for case in cases if case["forecast"]["forecast_s"] is not None]
    table = Table(
        ["query", "from", "to", "forecast", "interval", "measured", "error"],
        [_row(case) for case in cases],
        left=(0, 1, 2),
    )
    figures = []
    if given:
        figures.append(
            figure(
                "Forecast against measured time",
                "Each point is a case; on the line they agree, the dotted ones are 10 % off.",
                f"Points of {format_count(len(given), 'case')}, measured time to the right, "
                "forecast upwards",
                partial(_points, given),
                table,
            )
        )
    return [
        Section("How good the forecasts are", figures=figures, tables=[] if figures else [table])
    ]


def _row(case: Case) -> list[str]:
    said, took_s = case["forecast"], case["measured_to_s"]
    error = None if said["forecast_s"] is None else said["forecast_s"] / took_s - 1
    return [
        f"{case['engine']} {case['workload']} x{case['threads']}",
        case["from"],
        case["to"],
        seconds(said["forecast_s"]),
        between(said["interval_s"]),
        seconds(took_s),
        percent(error).replace("-", MINUS),
    ]


def _points(given: Sequence[Case], layout: Layout) -> Any:
    points = [
        (case["measured_to_s"], case["forecast"]["forecast_s"], case["direction"]) for case in given
    ]
    side = min(layout.width, 460)
    place = Layout(side, layout.narrow)
    return sized(charts.scatter(points), place, side + 60)
