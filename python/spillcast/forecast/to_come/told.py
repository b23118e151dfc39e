"""What the user knows of the whole query: its time, how far it is, how much it writes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillcast.errors import InputError
from spillcast.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from spillcast.forecast.to_come.said import QuantityEstimate
    from spillcast.forecast.to_come.seen import Seen

#: What a user says is meant to within so much (standard deviation of the logarithm).
ELAPSED_SPREAD, WRITTEN_SPREAD = 0.02, 0.05
#: What tells the elapsed time for sure.
ELAPSED = "--elapsed"
#: A share is rounded, and of work rather than of time.
PROGRESS_SPREAD = 0.15


@dataclass(frozen=True)
class UserEstimate:
    """As options give it; None for what is not given."""

    elapsed_s: float | None = None
    progress: float | None = None
    written_bytes: float | None = None


#: Nothing at all.
NO_ESTIMATE = UserEstimate()


def estimates_by_user(given: UserEstimate, seen: "Seen") -> "list[QuantityEstimate]":
    """InputError for what cannot be, by what was seen."""
    from spillcast.forecast.to_come.said import about

    estimates = []
    if given.elapsed_s is not None:
        estimates.append(about("elapsed", given.elapsed_s, ELAPSED_SPREAD, "told", ELAPSED))
    if given.progress is not None:
        spread = PROGRESS_SPREAD * (1 - given.progress) + ELAPSED_SPREAD
        whole_s = seen.done_s / given.progress
        estimates.append(about("elapsed", whole_s, spread, "told", "--progress"))
    if given.written_bytes is not None:
        done = seen.bytes["write"]
        if given.written_bytes < done:
            raise InputError(
                f"--written {format_bytes(given.written_bytes)}: {format_bytes(done)} were written "
                "while it was recorded",
                "it is what the whole query writes to temp files",
            )
        estimates.append(about("written", given.written_bytes, WRITTEN_SPREAD, "told", "--written"))
    return estimates


def parse_progress(text: str) -> float:
    """A share of a query such as ``20%`` or ``0.2``. InputError for anything else."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise InputError(
            f"--progress {text} is not a share of a query",
            "give the share that was done when the recording ended, such as 20%",
        )
    return share


def parse_written(text: str) -> float:
    """Bytes. InputError for anything else."""
    return float(parse_bytes(text, "--written"))
