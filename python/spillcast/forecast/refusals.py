"""Elapsed times and intervals that no forecast can be made of, whatever the evidence."""

from spillcast.errors import EvidenceContradictory, IntervalTooWide
from spillcast.forecast.assumptions import SHORTER, USELESS
from spillcast.units import format_duration


def check_elapsed(elapsed_s: float | None, seen_s: float, least: float = SHORTER) -> None:
    """InputError for less than a ``least`` share of the time that the evidence covers."""
    if elapsed_s is not None and 0 < elapsed_s < least * seen_s:
        raise EvidenceContradictory(
            f"an elapsed time of {format_duration(elapsed_s)} is less than the "
            f"{format_duration(seen_s)} that were recorded",
            "--elapsed is the time of the whole query: write minutes as 12m or 12:53",
        )


def too_wide(low_s: float, high_s: float, now_s: float = 0.0) -> IntervalTooWide | None:
    """Why there is no forecast with this interval; None where there is one.

    One that lies wholly below ``now_s``, the elapsed time as it is, tells that the move helps.
    """
    if high_s <= USELESS * low_s or high_s < now_s:
        return None
    low, high = format_duration(low_s), format_duration(high_s)
    return IntervalTooWide(f"the evidence shows only that it takes between {low} and {high}")
