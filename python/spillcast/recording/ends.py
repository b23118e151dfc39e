"""A run with bounds of its temp I/O: one recording for each bound."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording


@dataclass(frozen=True)
class Unknown:
    """Says which figure is unknown, and which evidence contains it."""

    words: str
    hint: str


@dataclass(frozen=True)
class Ends:
    """Holds the run with the least possible temp I/O, and with the most."""

    least: "Recording"
    most: "Recording"
    unknown: Unknown
