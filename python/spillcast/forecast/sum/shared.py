"""A forecast where bounds of the processes that shared the temp I/O are known: it holds for all."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from spillcast.forecast.result import Forecast
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.too_wide import too_wide
from spillcast.recording.explain.counted import shared_among
from spillcast.recording.shared_by import TOLD_BY
from spillcast.units import format_duration


def ends_of(baseline: Baseline) -> Sequence[Baseline]:
    """The query with the fewest and with the most processes; empty where they are known."""
    shared = baseline.recording.meta.temp.shared_by
    if shared is None:
        return []
    return [
        replace(baseline, recording=shared_among(baseline.recording, processes))
        for processes in (shared.least, shared.most)
    ]


def forecast_between(
    baseline: Baseline, ends: Sequence[Baseline], of: Callable[[Baseline], Forecast]
) -> Forecast:
    """The forecast midway, with an interval from the lowest to the highest of both ends."""
    said = of(baseline)
    if not ends:
        return said
    found, bounds = [said, *map(of, ends)], list[tuple[float, float]]()
    for one in found:
        if (ends_s := bounds_s(one)) is None:
            return one
        bounds.append(ends_s)
    low_s, high_s = _around(bounds)
    ceilings = [one.ceiling_interval_s for one in found if one.ceiling_interval_s is not None]
    said = replace(said, uncertainty=None, ceiling_interval_s=_around(ceilings))
    if too_wide(low_s, high_s) is None:
        return replace(said, interval_s=(low_s, high_s))
    shared = baseline.recording.meta.temp.shared_by
    assert shared is not None
    text = (
        f"{shared.words}, so that it may take {format_duration(low_s)} or "
        f"{format_duration(high_s)}; {TOLD_BY}"
    )
    return replace(
        said, forecast_s=None, interval_s=None, refused=text, terms=baseline.rest, warnings=[]
    )


def bounds_s(said: Forecast) -> tuple[float, float] | None:
    """The interval, also one that was too wide for a number; None where nothing is known."""
    if said.interval_s is not None or said.uncertainty is None:
        return said.interval_s
    return said.uncertainty.bounds_s(said.confidence)


def _around(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """From the lowest to the highest of all."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)
