"""Recordings: making, writing and reading them, and reading other evidence of a run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]


def __getattr__(name: str) -> Any:
    """Import ``Recording`` on first use: much of this package reads other evidence."""
    if name != "Recording":
        raise AttributeError(f"module 'spillcast.recording' has no attribute {name!r}")
    from spillcast.recording.recording import Recording

    return Recording
