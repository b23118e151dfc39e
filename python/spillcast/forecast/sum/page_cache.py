"""What a page cache before the target makes of a forecast; both answers where it is not known."""

from collections.abc import Callable
from dataclasses import replace

from spillcast.forecast.assumptions import SHARE_REPORTED
from spillcast.forecast.result import Forecast, Warned
from spillcast.forecast.sum.baseline import Baseline
from spillcast.forecast.sum.projection import Projection
from spillcast.forecast.sum.shared import bounds_s
from spillcast.recording.observed import named_temp_places
from spillcast.recording.spill import spill_bytes
from spillcast.storage import Storage
from spillcast.storage.memory import IN_MEMORY
from spillcast.storage.source import ASSUMED
from spillcast.units import format_bytes, format_duration


def without_cache_s(
    projection: Projection, total_s: float, unhelped_s: float | None
) -> float | None:
    """The elapsed time without the page cache; None unless it holds the temp files.

    Memory is never slower than the storage behind it, whatever a model says of that storage.
    """
    if unhelped_s is None or projection.missed is None or projection.missed > SHARE_REPORTED:
        return None
    return max(total_s, unhelped_s)


def about_page_cache(
    baseline: Baseline, projection: Projection, total_s: float, unhelped_s: float | None
) -> list[Warned]:
    """That memory answers temp I/O there, where that makes a difference.

    ``unhelped_s`` is the elapsed time without; None where no page cache is taken to be there.
    """
    cache, missed = baseline.threads.page_cache, projection.missed
    if cache is None or missed is None or unhelped_s is None:
        return []
    if abs(unhelped_s - total_s) <= SHARE_REPORTED * total_s:
        return []
    without = f"without it the run would take about {format_duration(unhelped_s)}"
    if baseline.recording.meta.only_counts:
        text = (
            "temp I/O was as fast as memory, so the page cache probably held the temp files; it is "
            f"assumed to hold all of them on the target too; {without}"
        )
    else:
        room, spill = format_bytes(cache.room_bytes), format_bytes(spill_bytes(baseline.recording))
        text = (
            f"the page cache serves {1 - missed:.0%} of the temp I/O: temp files hold up to "
            f"{spill}, "
            f"and {room} of memory were free; {without}"
        )
    return [Warned("page-cache-answers", text)]


def about_skipped_cache(
    baseline: Baseline,
    target: Storage,
    total_s: float,
    on_it: Callable[[Baseline, Storage], float],
) -> list[Warned]:
    """Warn that an assumed latency also applies to cached I/O. ``on_it`` is with a page cache."""
    places = named_temp_places(baseline.recording.meta)
    on_disk = any(place.filesystem not in IN_MEMORY for place in places)
    if target.source is not ASSUMED or not on_disk or baseline.threads.page_cache is None:
        return []
    cached_s = on_it(baseline, target)
    if abs(cached_s - total_s) <= SHARE_REPORTED * total_s:
        return []
    text = (
        "every operation is assumed to take this long, even those that the page cache served in "
        f"the recording; if it serves them again, the run takes about {format_duration(cached_s)}"
    )
    return [Warned("page-cache-skipped", text)]


def with_and_without(cached: Forecast, without: Forecast) -> Forecast:
    """A forecast from counts, with an interval over both answers.

    No count tells how much memory there is. ``without`` is the forecast where no page cache holds
    temp files.
    """
    bounds = bounds_s(cached), bounds_s(without)
    if cached.forecast_s is None or bounds[0] is None or bounds[1] is None:
        return cached
    low_s, high_s = min(bounds[0][0], bounds[1][0]), max(bounds[0][1], bounds[1][1])
    return replace(cached, interval_s=(low_s, high_s), uncertainty=None)


def either_way(baseline: Baseline, forecast: Forecast) -> bool:
    """Whether a forecast rests on a page cache of which only counts tell."""
    return baseline.recording.meta.only_counts and forecast.without_cache_s is not None
