"""Makes, writes and reads recordings; names of the operations and wait events in them."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]

OPS = ("read", "write")
SECOND_NS = 1_000_000_000
#: The wait events of a spill to temp.
TEMP_EVENTS = "direct path * temp"
#: A thread's wait until the kernel has written back pages of temp files, which frees memory.
WRITEBACK = "writeback"
#: The waits of a session for reads of table files that other processes do for it.
DATA_READ_BY_OTHERS = ("AioIoCompletion",)


def is_like(event: str, pattern: str) -> bool:
    """Whether an event matches a pattern, ignoring case; ``*`` matches any text."""
    return fnmatchcase(event.lower(), pattern.lower())


def __getattr__(name: str) -> Any:
    """Import ``Recording`` on first use, because it loads Arrow."""
    if name != "Recording":
        raise AttributeError(f"module 'spillcast.recording' has no attribute {name!r}")
    from spillcast.recording.recording import Recording

    return Recording
