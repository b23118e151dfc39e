"""CPU time on the target: what all that is known of this query and this machine says together."""

from collections.abc import Collection, Sequence

import numpy as np

from spillcast.forecast.latency import Latency
from spillcast.forecast.load import Load
from spillcast.forecast.rest.change import CpuChange, blended, counts
from spillcast.forecast.rest.machine import machine_change
from spillcast.forecast.rest.rehearsed import rehearsed_change
from spillcast.forecast.rest.within_run import within_run_change
from spillcast.recording import Recording
from spillcast.storage import Storage


def cpu_change(
    recording: Recording,
    loads: Sequence[Load],
    latencies: Sequence[Latency],
    target: Storage | None,
    without: Collection[str] = (),
    compressing_s: float = 0.0,
    cores_each: float = 1.0,
) -> CpuChange:
    """CPU time that operations take more with the latencies ``found`` than with those recorded.

    ``target`` is what has these latencies; None for storage of none, which there is not. What
    compressing takes more, ``compressing_s``, is told apart and not a part of it. Threads have
    ``cores_each`` there, 1 at most.
    """
    answers: list[CpuChange | None] = []
    if "machine" not in without:
        answers.append(machine_change(recording, loads, latencies, cores_each))
    if "recording" not in without:
        answers.append(within_run_change(recording, loads, latencies))
    if target and target.rehearsal and "rehearsal" not in without:
        answers.append(rehearsed_change(recording, loads, target.rehearsal, compressing_s))
    estimates = [answer for answer in answers if answer is not None]
    if not estimates:
        return CpuChange("", np.zeros(len(loads)), counts(loads), 0.0)
    return blended(estimates)
