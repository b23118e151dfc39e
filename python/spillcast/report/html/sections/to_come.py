"""Of a query that was seen in part: what was seen, what is to come, and who tells it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from spillcast.report.html.answer import ranked
from spillcast.report.html.charts.phases import Track, phases
from spillcast.report.html.page import Section, Table, figure
from spillcast.report.html.words import seconds
from spillcast.units import format_bytes, format_duration

Forecast = Mapping[str, Any]


def sections(forecasts: Sequence[Forecast]) -> list[Section]:
    """One, for what is to come is the same whatever the target; none of queries seen whole."""
    told = [one for one in ranked(forecasts) if one.get("to_come")]
    if not told:
        return []
    first = told[0]
    coming = first["to_come"]
    tracks = _tracks(first)
    drawn = figure(
        "Progress, and what remains",
        "Each bar is the whole; the line is where its end may be, nine in ten within.",
        "Phases: " + "; ".join(f"{track.name}: {track.words}" for track in tracks),
        partial(phases, tracks),
        _table(coming),
    )
    unused = [f"Not used: {text}." for text in coming.get("unused", ())]
    return [Section("What remains", [_left(first), *unused], [drawn])]


def _left(forecast: Forecast) -> str:
    """What is gained by moving it now, which loses what was done."""
    alone = forecast["to_come"]["elapsed_s"]
    bounds = " to ".join(format_duration(alone[end]) for end in ("low", "high"))
    said = f"Left running it takes about another {format_duration(alone['centre'])} ({bounds})"
    if forecast["forecast_s"] is None:
        return f"{said}."
    there, target = seconds(forecast["forecast_s"]), forecast["target"]
    return f"{said}; moved to {target} now and restarted it takes {there}."


def _tracks(forecast: Forecast) -> list[Track]:
    """Time, writes and reads, each from the run's beginning to its end."""
    coming = forecast["to_come"]
    elapsed = coming["elapsed_s"]
    recorded_s = min(forecast["recorded_s"] or coming["done_s"], coming["done_s"])
    before_s = coming["done_s"] - recorded_s
    tracks = [_track("time", before_s, recorded_s, elapsed, format_duration)]
    for name, key in (("temp writes", "writes_bytes"), ("temp reads", "reads_bytes")):
        one = coming[key]
        if one.get("done") is not None and one.get("recorded") is not None:
            seen = min(one["recorded"], one["done"])
            tracks.append(_track(name, one["done"] - seen, seen, one, format_bytes))
    return tracks


def _track(
    name: str, before: float, seen: float, coming: Mapping[str, Any], told: Callable[[float], str]
) -> Track:
    low, about, high = coming["low"], coming["centre"], coming["high"]
    short = f"{told(before + seen)} done, {told(about)} remaining"
    words = f"{short} ({told(low)} to {told(high)})"
    return Track(name, before, seen, about, low, high, words, short)


def _table(coming: Mapping[str, Any]) -> Table:
    rows = []
    for name, key, told in (
        ("time", "elapsed_s", format_duration),
        ("temp writes", "writes_bytes", format_bytes),
        ("temp reads", "reads_bytes", format_bytes),
    ):
        one = coming[key]
        figures = [told(one[each]) for each in ("low", "centre", "high")]
        rows.append([name, *figures, one["source"]])
    return Table(["remaining", "from", "about", "to", "known from"], rows, left=(0, 4))
