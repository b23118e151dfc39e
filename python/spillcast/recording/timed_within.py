"""Bounds of the total time of temp I/O."""

from dataclasses import dataclass

from spillcast.document import key
from spillcast.units import format_duration

#: Bounds of this ratio are those of a sample or of rounding.
CLOSE = 0.7


@dataclass(frozen=True)
class TimedWithin:
    """Bounds of the time of all temp I/O, summed over all threads."""

    least_s: float = key("for figures, never on disk: lower bound of the time of all temp I/O")
    most_s: float = key("for figures, never on disk: upper bound")
    because: str = key("for figures, never on disk: what the bounds are based on")
    hint: str = key("for figures, never on disk: evidence that would contain it")
    counts_too: bool = key(
        "for figures, never on disk: whether the counts follow from the time and a mean latency"
    )

    @property
    def close(self) -> bool:
        """Whether the bounds are so close that the time is about known."""
        return self.least_s >= CLOSE * self.most_s

    @property
    def middle_s(self) -> float:
        """As far from either bound."""
        return (self.least_s + self.most_s) / 2

    @property
    def words(self) -> str:
        """A sentence that names the unknown time."""
        least, most = format_duration(self.least_s), format_duration(self.most_s)
        return f"how long temp I/O took is not known: {least} to {most} ({self.because})"
