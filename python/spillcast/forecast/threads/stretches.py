"""A run in stretches of equal time: how many threads had work in each, and when nobody had any."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillcast.forecast.threads.covered import covered_before_s
from spillcast.recording.thread_trace import ThreadTrace

Array = NDArray[np.int64]
Seconds = NDArray[np.float64]

STRETCHES = 10


class Stretches:
    """The stretches of a program that took ``elapsed_s``.

    A thread has work while it is on a core, waits for one, or has I/O under way. A row belongs to
    the stretch that its wait begins in.
    """

    def __init__(self, trace: ThreadTrace, elapsed_s: float) -> None:
        self._trace = trace
        self._edges_s = np.linspace(0, elapsed_s, STRETCHES + 1)
        which = trace.start_ns / 1e9 / elapsed_s * STRETCHES
        self._of_row = np.clip(which, 0, STRETCHES - 1).astype(np.int64)

    def sums(self, values: Seconds) -> Seconds:
        """Sums of the rows' values, by stretch."""
        return np.bincount(self._of_row, values, STRETCHES).astype(np.float64)

    @cached_property
    def active_s(self) -> Seconds:
        """Seconds in which at least one thread had work."""
        return np.diff(covered_before_s(*self._work_ns, self._edges_s))

    @property
    def idle_s(self) -> Seconds:
        """Seconds in which none had."""
        idle: Seconds = np.diff(self._edges_s) - self.active_s
        return idle

    @cached_property
    def threads(self) -> Seconds:
        """How many had work while any had: at least 1."""
        begin_ns, end_ns = self._work_ns
        work_s = self.sums((end_ns - begin_ns) / 1e9)
        threads = work_s / np.maximum(self.active_s, 1e-9)
        return np.clip(threads, 1.0, max(self._trace.threads, 1))

    @property
    def _work_ns(self) -> tuple[Array, Array]:
        own = self._trace
        return own.start_ns - own.cpu_ns - own.ready_ns, own.start_ns + own.io_ns(own.wait_ns)
