"""What observing added to a run: it is taken off, for nobody observes the query on the target."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import pyarrow.compute as pc

from spillcast.forecast.assumptions import INSIDE, INSIDE_ERROR, OBSERVED_ERROR
from spillcast.forecast.load import Load
from spillcast.recording import Recording

#: Of a normal distribution, standard deviations between the quartiles.
QUARTILES = 1.349


@dataclass(frozen=True)
class Observed:
    """Seconds that the observed threads lost, all together."""

    #: By load: within the timed intervals of its operations.
    inside_s: Sequence[float]
    #: Outside of these, and its standard error.
    outside_s: float
    error_s: float


def observed(recording: Recording, loads: Sequence[Load]) -> Observed:
    """What the recording's account of its capture says; nothing where it was not measured.

    A source does the same at every call and every switch, whatever the file. Of a temp call a part
    falls between its two times, with all of a switch in it; all else lies outside.
    """
    capture = recording.meta.capture
    call_s, calls = capture.call_cost_s, capture.calls
    if call_s is None or calls is None or capture.overhead_s is None:
        return Observed([0.0] * len(loads), 0.0, 0.0)
    blocked = _blocked_share(recording) * (capture.switch_cost_s or 0.0)
    inside_s = [load.count * (INSIDE * call_s + blocked) for load in loads]
    outside_s = max(capture.overhead_s - sum(inside_s), 0.0)
    low_s, high_s = capture.overhead_low_s, capture.overhead_high_s
    spread_s = 0.0 if low_s is None or high_s is None else (high_s - low_s) / QUARTILES
    moved_s = INSIDE_ERROR * call_s * sum(load.count for load in loads)
    share = outside_s / capture.overhead_s if capture.overhead_s else 0.0
    error_s = hypot(share * spread_s, OBSERVED_ERROR * outside_s, moved_s)
    return Observed(inside_s, outside_s, error_s)


def _blocked_share(recording: Recording) -> float:
    """Of the temp operations, those in which the thread left the CPU."""
    blocked = recording.temp_columns("blocked")["blocked"].drop_null()
    return float(pc.mean(blocked.cast("int8")).as_py()) if len(blocked) else 0.0
