"""Temp files that the page cache holds today: where they rank, and what is to be said of it."""

from collections.abc import Mapping

from spillcast.forecast.assumptions import NEGLIGIBLE
from spillcast.units import format_duration


def in_memory_words(without_cache_s: Mapping[str, float], now_s: float) -> tuple[str, str]:
    """Two sentences: what storage changes, and the elapsed times by storage without the cache."""
    times = " and ".join(f"{format_duration(s)} on {name}" for name, s in without_cache_s.items())
    return (
        "Today these temp files stay in memory: storage changes nothing while memory is free.",
        f"Where it is not, {times} instead of {format_duration(now_s)}.",
    )


def rank_s(forecast_s: float | None, without_cache_s: float | None) -> float:
    """The time that a storage is ranked by: what sits behind memory comes after memory."""
    if forecast_s is None:
        return float("inf")
    return max(forecast_s, without_cache_s or 0.0)


def negligible(saved_s: float, elapsed_s: float) -> bool:
    """Whether so much more or less of an elapsed time is about nothing."""
    return abs(saved_s) < NEGLIGIBLE * elapsed_s
