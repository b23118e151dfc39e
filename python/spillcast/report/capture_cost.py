"""What a recording cost, in one sentence."""

from spillcast.recording.meta import CaptureAccount
from spillcast.units import format_bytes, format_duration


def cost_sentence(capture: CaptureAccount) -> str:
    """What the observed threads lost by recording, and what the recorder took itself."""
    # Recordings of earlier versions know the time of the reading thread alone.
    who = "the recorder" if capture.calls is not None else "the thread that reads events"
    tracer = f"{format_duration(capture.tracer_cpu_s)} of CPU"
    if capture.recorder_memory_bytes is not None:
        tracer += f" and {format_bytes(capture.recorder_memory_bytes)} of memory"
    if capture.overhead_s is None:
        return f"Overhead: not measured for the query; {who} used {tracer}."
    theirs = f"{format_duration(capture.overhead_s)}"
    if capture.overhead_low_s is not None and capture.overhead_high_s is not None:
        low, high = map(format_duration, (capture.overhead_low_s, capture.overhead_high_s))
        theirs += f" ({low} to {high})"
    return f"Overhead: the query ran about {theirs} longer; {who} used {tracer}."
