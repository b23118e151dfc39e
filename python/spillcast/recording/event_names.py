"""Names of Oracle's events: those of a spill to temp, and those that are like a pattern."""

from fnmatch import fnmatchcase

#: The waits that a spill to temp makes.
TEMP_EVENTS = "direct path * temp"


def is_like(event: str, pattern: str) -> bool:
    """Whether an event is like a pattern, upper and lower case alike; ``*`` is any text."""
    return fnmatchcase(event.lower(), pattern.lower())
