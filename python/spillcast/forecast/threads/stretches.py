"""A run in stretches of equal time: how many threads had work in each, and when nobody had any."""

from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core
from spillcast.forecast.threads.covered import covered_by_stretch_s
from spillcast.recording.thread_trace import ThreadTrace

Array = NDArray[np.int64]
Seconds = NDArray[np.float64]

STRETCHES = 100


class Stretches:
    """The stretches of a program that took ``elapsed_s``.

    A thread has work while it is on a core, waits for one, or has I/O under way.
    """

    def __init__(self, trace: ThreadTrace, elapsed_s: float) -> None:
        self._trace = trace
        self._elapsed_s = elapsed_s
        self._work_ns = trace.start_ns - trace.cpu_ns - trace.ready_ns
        self._end_ns = trace.start_ns + trace.io_ns(trace.wait_ns)

    def of_waits(self, values: Seconds) -> Seconds:
        """Sums of what rows have while they wait, by stretch, each in proportion to its time."""
        return self._spread(self._trace.start_ns, self._end_ns, values)

    def of_work(self, values: Seconds) -> Seconds:
        """Sums of what rows have before they wait, by stretch, each in proportion to its time."""
        return self._spread(self._work_ns, self._trace.start_ns, values)

    @cached_property
    def active_s(self) -> Seconds:
        """Seconds in which at least one thread had work."""
        return covered_by_stretch_s(self._work_ns, self._end_ns, self._elapsed_s, STRETCHES)

    @property
    def idle_s(self) -> Seconds:
        """Seconds in which none had."""
        idle: Seconds = self._elapsed_s / STRETCHES - self.active_s
        return idle

    @cached_property
    def threads(self) -> Seconds:
        """How many had work while any had: at least 1."""
        work_s = self._spread(self._work_ns, self._end_ns, (self._end_ns - self._work_ns) / 1e9)
        threads = work_s / np.maximum(self.active_s, 1e-9)
        return np.clip(threads, 1.0, max(self._trace.threads, 1))

    def _spread(self, begin_ns: Array, end_ns: Array, values: Seconds) -> Seconds:
        """What each interval has, spread evenly over it; sums by stretch.

        What lies before the run counts in the first stretch, what lies after it in the last.
        """
        rows = {"begin_ns": pa.array(begin_ns), "end_ns": pa.array(end_ns)}
        rows["values"] = pa.array(values, pa.float64())
        wide_ns = self._elapsed_s * 1e9 / STRETCHES
        return np.array(_core.spread(pa.record_batch(rows), wide_ns, STRETCHES))
