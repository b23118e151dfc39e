"""A forecast where bounds of the processes that shared the temp I/O are known: it holds for all."""

from collections.abc import Sequence
from dataclasses import replace

from spillcast.forecast.assumptions import USELESS
from spillcast.forecast.result import Forecast
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.estimate import forecast_of
from spillcast.recording.explain.counted import shared_among
from spillcast.recording.shared_by import TOLD_BY
from spillcast.storage import Storage
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
    baseline: Baseline, ends: Sequence[Baseline], target: Storage, confidence: float
) -> Forecast:
    """The forecast midway, with an interval from the lowest to the highest of both ends."""
    said = forecast_of(baseline, target, confidence)
    if not ends or (said.forecast_s is None and said.uncertainty is None):
        return said
    found = [said, *(forecast_of(end, target, confidence) for end in ends)]
    ceilings = [one.ceiling_interval_s for one in found if one.ceiling_interval_s is not None]
    said = replace(said, uncertainty=None, ceiling_interval_s=_around(ceilings))
    low_s, high_s = _around(
        [one.uncertainty.bounds_s(confidence) for one in found if one.uncertainty is not None]
    )
    if high_s <= USELESS * low_s:
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


def _around(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """From the lowest to the highest of all."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)
