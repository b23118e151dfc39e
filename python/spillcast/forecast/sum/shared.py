"""A forecast where bounds of what shared or took the temp I/O are known: it holds for all."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from spillcast.forecast.load import temp_load
from spillcast.forecast.refusals import too_wide
from spillcast.forecast.result import Forecast
from spillcast.forecast.sum.baseline import Baseline
from spillcast.recording import Recording
from spillcast.recording.between import shared_among, timed_in_all
from spillcast.recording.shared_by import HINT
from spillcast.units import format_duration


def ends_of(baseline: Baseline) -> Sequence[Baseline]:
    """The query with the least and with the most of what has bounds; empty where all is known.

    That is how much temp I/O it did, how many processes shared that, or how long it took.
    """
    ends = baseline.recording.ends
    if ends is None:
        recordings = bounding(baseline.recording)
    else:
        recordings = [
            recording for run in (ends.least, ends.most) for recording in bounding(run) or [run]
        ]
    return [
        replace(baseline, recording=recording, loads=temp_load(recording))
        for recording in recordings
    ]


def bounding(recording: Recording) -> list[Recording]:
    """The counts at each bound of processes and of times; empty where both are known."""
    temp = recording.meta.temp
    each = [recording]
    if temp.shared_by is not None:
        each = [shared_among(recording, n) for n in (temp.shared_by.least, temp.shared_by.most)]
    if temp.within is None:
        return [] if temp.shared_by is None else each
    # The bounds are parts of the elapsed time, in as many processes as there are taken to be.
    return [
        timed_in_all(run, s * (run.meta.temp.processes or 1.0) / (temp.processes or 1.0))
        for run in each
        for s in (temp.within.least_s, temp.within.most_s)
    ]


def forecast_between(
    baseline: Baseline, ends: Sequence[Baseline], of: Callable[[Baseline], Forecast]
) -> Forecast:
    """The forecast midway, with an interval from the lowest to the highest of both ends."""
    central = of(baseline)
    if not ends:
        return central
    forecasts, bounds = [central, *map(of, ends)], list[tuple[float, float]]()
    for end in forecasts:
        if (ends_s := bounds_s(end)) is None:
            return end
        bounds.append(ends_s)
    low_s, high_s = around(bounds)
    ceilings = [end.ceiling_interval_s for end in forecasts if end.ceiling_interval_s is not None]
    limit_s = around(ceilings, most_s=max(central.baseline_s, central.ceiling_s))
    central = replace(central, uncertainty=None, ceiling_interval_s=limit_s)
    within = baseline.recording.meta.temp.within
    # Of times that are not known bounds are the answer, however wide.
    if too_wide(low_s, high_s) is None or (within is not None and not within.close):
        return replace(central, interval_s=(low_s, high_s))
    text = (
        f"{unknown_words(baseline.recording)}, so that it may take {format_duration(low_s)} or "
        f"{format_duration(high_s)}; {known_from(baseline.recording)}"
    )
    return replace(
        central, forecast_s=None, interval_s=None, refused=text, terms=baseline.rest, warnings=[]
    )


def unknown_words(recording: Recording) -> str | None:
    """What has only bounds, in words; None where nothing has."""
    if recording.ends is not None:
        return recording.ends.unknown.words
    temp = recording.meta.temp
    bounds = temp.within or temp.shared_by
    return None if bounds is None else bounds.words


def known_from(recording: Recording) -> str:
    """What would tell it."""
    if recording.ends is not None:
        return recording.ends.unknown.hint
    within = recording.meta.temp.within
    return HINT if within is None else within.hint


def bounds_s(forecast: Forecast) -> tuple[float, float] | None:
    """The interval, also one that was too wide for a number; None where nothing is known."""
    if forecast.interval_s is not None or forecast.uncertainty is None:
        return forecast.interval_s
    return forecast.uncertainty.bounds_s(forecast.confidence)


def around(intervals: Sequence[tuple[float, float]], most_s: float = inf) -> tuple[float, float]:
    """From the lowest to the highest of all, but no more than ``most_s``."""
    low_s, high_s = min(low for low, _ in intervals), max(high for _, high in intervals)
    return min(low_s, most_s), min(high_s, most_s)
