"""When an interval is no answer, whatever evidence it follows from."""

from spillcast.forecast.assumptions import USELESS
from spillcast.units import format_duration


def too_wide(low_s: float, high_s: float, now_s: float = 0.0) -> str | None:
    """Why there is no forecast with this interval; None where there is one.

    One that lies wholly below ``now_s``, the elapsed time as it is, tells that the move helps.
    """
    if high_s <= USELESS * low_s or high_s < now_s:
        return None
    low, high = format_duration(low_s), format_duration(high_s)
    return f"the evidence shows only that it takes between {low} and {high}"
