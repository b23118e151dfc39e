"""A run in stretches of equal time: how many threads had work in each, and when nobody had any."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.threads.covered import covered_before_s
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
        self._edges_s = np.linspace(0, elapsed_s, STRETCHES + 1)
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
        return np.diff(covered_before_s(self._work_ns, self._end_ns, self._edges_s))

    @property
    def idle_s(self) -> Seconds:
        """Seconds in which none had."""
        idle: Seconds = np.diff(self._edges_s) - self.active_s
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
        wide_ns = self._edges_s[-1] / STRETCHES * 1e9
        begin, end = (np.clip(ns / wide_ns, 0, STRETCHES) for ns in (begin_ns, end_ns))
        first, last = (np.minimum(at.astype(np.int64), STRETCHES - 1) for at in (begin, end))
        sums = np.bincount(first, np.where(first == last, values, 0.0), STRETCHES)
        if (over := first < last).any():
            begin, end, first, last = begin[over], end[over], first[over], last[over]
            a_stretch = values[over] / (end - begin)
            sums += np.bincount(first, a_stretch * (first + 1 - begin), STRETCHES)
            sums += np.bincount(last, a_stretch * (end - last), STRETCHES)
            # Those between have all of it: on from the one after the first, off at the last.
            on = np.bincount(first + 1, a_stretch, STRETCHES + 1)
            sums += np.cumsum(on - np.bincount(last, a_stretch, STRETCHES + 1))[:STRETCHES]
        return sums.astype(np.float64)
