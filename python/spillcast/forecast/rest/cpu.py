"""CPU time on the target: what all that is known of this query and this machine says together."""

from collections.abc import Collection, Sequence

import numpy as np

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, blended, counts
from spillcast.forecast.rest.machine import machine_change
from spillcast.recording import Recording
from spillcast.storage import Storage

#: Names of what is asked, for experiments that leave one out.
SOURCES = ("machine",)


def cpu_change(
    recording: Recording,
    loads: Sequence[Load],
    found: Sequence[Latency],
    target: Storage | None,  # noqa: ARG001
    without: Collection[str] = (),
) -> CpuChange:
    """CPU time that operations take more with the latencies ``found`` than with those recorded.

    ``target`` is what has these latencies; None for storage of none, which there is not.
    """
    estimates: list[CpuChange] = []
    if "machine" not in without:
        estimates.append(machine_change(recording, loads, found))
    if not estimates:
        return CpuChange("", np.zeros(len(loads)), counts(loads), 0.0)
    return blended(estimates)
