"""When an elapsed time that is given is not that of the query that the evidence is of."""

from spillcast.errors import InputError
from spillcast.forecast.assumptions import SHORTER
from spillcast.units import format_duration


def check_elapsed(elapsed_s: float | None, seen_s: float, least: float = SHORTER) -> None:
    """InputError for less than a ``least`` share of the time that the evidence covers."""
    if elapsed_s is not None and 0 < elapsed_s < least * seen_s:
        raise InputError(
            f"an elapsed time of {format_duration(elapsed_s)} is less than the "
            f"{format_duration(seen_s)} that were recorded",
            "--elapsed is the time of the whole query: write minutes as 12m or 12:53",
        )
