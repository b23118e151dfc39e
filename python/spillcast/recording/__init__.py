"""Recordings: what was observed, on disk and in memory."""

from spillcast.recording.recording import Recording as Recording

__all__ = ["Recording"]
