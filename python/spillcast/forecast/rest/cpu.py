"""CPU time on the target: what all that is known of this query and this machine says together."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, blended, counts
from spillcast.forecast.rest.machine import machine_change
from spillcast.forecast.rest.own import own_change
from spillcast.recording import Recording
from spillcast.storage import Storage

#: Who is asked, by the name under which experiments leave one out. None says nothing.
ASKED: Mapping[str, Callable[[Recording, Sequence[Load], Sequence[Latency]], CpuChange | None]] = {
    "machine": machine_change,
    "recording": own_change,
}


def cpu_change(
    recording: Recording,
    loads: Sequence[Load],
    found: Sequence[Latency],
    target: Storage,  # noqa: ARG001
    without: Collection[str] = (),
) -> CpuChange:
    """CPU time that operations take more with the latencies ``found`` than with those recorded."""
    answers = [ask(recording, loads, found) for name, ask in ASKED.items() if name not in without]
    estimates = [one for one in answers if one is not None]
    if not estimates:
        return CpuChange("", np.zeros(len(loads)), counts(loads), 0.0)
    return blended(estimates)
