"""Recordings: making, writing and reading them; the names of operations and wait events in them."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]

OPS = ("read", "write")
SECOND_NS = 1_000_000_000
#: The waits that a spill to temp makes.
TEMP_EVENTS = "direct path * temp"
#: A thread's wait for room in memory that pages of temp files leave once they are written back.
WRITEBACK = "writeback"
#: The waits of a session for files of tables that other processes read for it.
DATA_READ_BY_OTHERS = ("AioIoCompletion",)


def is_like(event: str, pattern: str) -> bool:
    """Whether an event is like a pattern, upper and lower case alike; ``*`` is any text."""
    return fnmatchcase(event.lower(), pattern.lower())


def __getattr__(name: str) -> Any:
    """Import ``Recording`` on first use: it loads Arrow."""
    if name != "Recording":
        raise AttributeError(f"module 'spillcast.recording' has no attribute {name!r}")
    from spillcast.recording.recording import Recording

    return Recording
