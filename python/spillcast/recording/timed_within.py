"""What temp I/O took in all, where only bounds of it are known."""

from dataclasses import dataclass

from spillcast.document import key
from spillcast.units import format_duration


@dataclass(frozen=True)
class TimedWithin:
    """Bounds of the time of all temp I/O, summed over all threads."""

    least_s: float = key("of figures, never on disk: the least that temp I/O took in all")
    most_s: float = key("of figures, never on disk: the most")
    because: str = key("of figures, never on disk: what the bounds rest on")
    mend: str = key("of figures, never on disk: what would tell it")
    counts_too: bool = key(
        "of figures, never on disk: whether the counts follow from the time and a mean latency"
    )

    @property
    def words(self) -> str:
        """What is not known, in words."""
        least, most = format_duration(self.least_s), format_duration(self.most_s)
        return f"how long temp I/O took is not known: {least} to {most} ({self.because})"
