"""Elapsed time where work moves between threads: in each stretch as many have work as had."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.threads.cpus import Cpus
from spillcast.forecast.threads.repairman import repairman_s
from spillcast.forecast.threads.stretches import Stretches
from spillcast.recording.thread_trace import ThreadTrace

Array = NDArray[np.int64]
Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class At:
    """What the rows of a trace wait and burn on a storage, ns, and the CPUs that there are."""

    wait_ns: Array | Seconds
    cpu_ns: Array
    cpus: Cpus


class Sharing:
    """The threads of a trace as they share CPUs; ``call_ns`` is CPU time within waits."""

    def __init__(
        self, trace: ThreadTrace, stretches: Stretches, call_ns: Array, cpus: Cpus
    ) -> None:
        """They were recorded on ``cpus``."""
        self._trace, self._stretches, self._call_ns = trace, stretches, call_ns
        self._recorded_on = cpus

    def elapsed_s(self, load_point: At) -> float:
        """Of the whole run; what nobody had work in stays as it was."""
        recorded_s, target_s = self._recorded_s, self._busy_s(load_point)
        active_s = self._stretches.active_s
        left_s = active_s - recorded_s
        times = np.divide(target_s, recorded_s, out=np.ones_like(target_s), where=recorded_s > 0)
        # What the model leaves unexplained, such as other work on the CPUs, does not grow.
        grows = (times > 1) & (left_s > 0)
        took_s = np.where(grows, target_s + left_s, active_s * times)
        return float((self._stretches.idle_s + took_s).sum())

    @cached_property
    def _recorded_s(self) -> Seconds:
        return self._busy_s(At(self._trace.wait_ns, self._trace.cpu_ns, self._recorded_on))

    def _busy_s(self, at: At) -> Seconds:
        """By stretch: how long the threads that have work take."""
        cpu_s = self._stretches.of_work(at.cpu_ns / 1e9)
        io_s = self._stretches.of_waits(self._trace.io_ns(at.wait_ns) / 1e9)
        cores = at.cpus.usable(self._trace)
        times_s = [
            repairman_s(threads, cores, cpu, io)
            for threads, cpu, io in zip(self._stretches.threads, cpu_s, io_s, strict=True)
        ]
        if at.cpus.quota_cpus is None or not self._trace.cpu_known:
            return np.array(times_s)
        trace = self._trace
        call_ns = np.where(trace.on_core, at.wait_ns, np.minimum(self._call_ns, at.wait_ns))
        had_s = cpu_s + self._stretches.of_waits(trace.io_ns(call_ns) / 1e9)
        return np.maximum(times_s, had_s / at.cpus.quota_cpus)
