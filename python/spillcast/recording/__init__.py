"""Recordings: what was observed, on disk and in memory."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]


def __getattr__(name: str) -> Any:
    """Import recordings when they are asked for: much here reads other evidence."""
    if name != "Recording":
        raise AttributeError(f"module 'spillcast.recording' has no attribute {name!r}")
    from spillcast.recording.recording import Recording

    return Recording
