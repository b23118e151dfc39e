"""Recordings: making, writing and reading them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]


def __getattr__(name: str) -> Any:
    """Import ``Recording`` on first use: it loads Arrow."""
    if name != "Recording":
        raise AttributeError(f"module 'spillcast.recording' has no attribute {name!r}")
    from spillcast.recording.recording import Recording

    return Recording
