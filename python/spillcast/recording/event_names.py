"""Names of operations and wait events: spills of Oracle, data read by others, patterns."""

from fnmatch import fnmatchcase

OPS = ("read", "write")
#: The waits that a spill to temp makes.
TEMP_EVENTS = "direct path * temp"
#: A thread's wait for room in memory that pages of temp files leave once they are written back.
WRITEBACK = "writeback"
#: The waits of a session for files of tables that other processes read for it.
DATA_READ_BY_OTHERS = ("AioIoCompletion",)


def is_like(event: str, pattern: str) -> bool:
    """Whether an event is like a pattern, upper and lower case alike; ``*`` is any text."""
    return fnmatchcase(event.lower(), pattern.lower())
