"""What a recording cost, in one sentence."""

from spillcast.recording.meta import CaptureAccount
from spillcast.units import format_bytes, format_duration


def cost_sentence(capture: CaptureAccount) -> str:
    """What recording took itself, and what the observed threads lost by it."""
    # Recordings of earlier versions know the time of the reading thread alone.
    who = "Recording" if capture.calls is not None else "Reading what was captured"
    own = f"{format_duration(capture.tracer_cpu_s)} of CPU"
    if capture.recorder_memory_bytes is not None:
        own += f" and {format_bytes(capture.recorder_memory_bytes)} of memory"
    if capture.overhead_s is None:
        return f"{who} took {own}; its cost to the observed threads was not measured."
    theirs = f"about {format_duration(capture.overhead_s)}"
    if capture.overhead_low_s is not None and capture.overhead_high_s is not None:
        low, high = map(format_duration, (capture.overhead_low_s, capture.overhead_high_s))
        theirs += f" ({low} to {high})"
    return f"{who} took {own}; it lengthened the observed threads by {theirs}."
