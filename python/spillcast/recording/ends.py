"""A run of which only bounds of its temp I/O are known: the same run at either end of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording


@dataclass(frozen=True)
class Unknown:
    """What is not known, in words, and what would tell it."""

    words: str
    mend: str


@dataclass(frozen=True)
class Ends:
    """The run with the least temp I/O that it may have done, and with the most."""

    least: "Recording"
    most: "Recording"
    unknown: Unknown
