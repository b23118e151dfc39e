"""Forecasts of several recordings, such as those of a server: a row for each and each target."""

from collections.abc import Sequence
from typing import Any

from spillcast.forecast import Forecast
from spillcast.forecast.ranking import forecasts_document, ranked
from spillcast.forecast.result import FORECAST_SCHEMA
from spillcast.recording import Recording
from spillcast.report.page import Page, Words
from spillcast.report.table import Column, Table
from spillcast.units import format_duration

#: A recording and the forecasts of it.
Each = tuple[Recording, Sequence[Forecast]]
_COLUMNS = (
    Column("recording", "recording"),
    Column("query", "query", "words", spare=2),
    Column("today", "baseline_s", "s"),
    Column("target", "target"),
    Column("elapsed", "forecast_s", "s"),
    Column("interval", None, "interval"),
    Column("speed-up", "speedup", "ratio", spare=1),
    Column("", "refused", "words"),
)


def forecast_each_page(each: Sequence[Each]) -> Page:
    """The sum for each target, and a row for each recording and target, the longest query first."""
    order = sorted(each, key=lambda pair: -pair[0].elapsed_s)
    rows = [
        _row(recording, forecast)
        for recording, forecasts in order
        for forecast in ranked(forecasts)
    ]
    table = Table(_COLUMNS, rows)
    return Page([Words(_sums(each), indent=""), table], table)


def forecast_each_document(each: Sequence[Each]) -> dict[str, Any]:
    """The document of docs/schema.md: that of a single recording for each of them."""
    recordings = [
        {"recording": str(recording.path), "query": recording.meta.engine.query}
        | forecasts_document(forecasts)
        for recording, forecasts in each
    ]
    return {"schema": FORECAST_SCHEMA, "recordings": recordings}


def _sums(each: Sequence[Each]) -> list[str]:
    """For each target, what the queries take in all there and today."""
    sums: dict[str, tuple[int, float, float]] = {}
    for _, forecasts in each:
        for forecast in forecasts:
            if forecast.forecast_s is not None:
                count, target_s, today_s = sums.get(forecast.target, (0, 0.0, 0.0))
                target_s += forecast.forecast_s
                sums[forecast.target] = count + 1, target_s, today_s + forecast.baseline_s
    return [
        f"On {target} {count} of {len(each)} queries would take {format_duration(target_s)} in all "
        f"instead of {format_duration(today_s)}."
        for target, (count, target_s, today_s) in sums.items()
    ] or ["No forecast for any of them."]


def _row(recording: Recording, forecast: Forecast) -> list[Any]:
    text = " ".join((recording.meta.engine.query or "").split())
    return [
        recording.path.name, text, forecast.baseline_s, forecast.target, forecast.forecast_s,
        forecast.interval_s, forecast.speedup, forecast.refused or "",
    ]  # fmt: skip
