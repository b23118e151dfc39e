"""CPU time of threads on a storage where each temp operation makes more of it."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillcast.recording.distinct import grouped
from spillcast.recording.thread_trace import ThreadTrace

Array = NDArray[np.int64]


class CpuAfter:
    """The CPU time between the steps of threads, and what operations add to it."""

    def __init__(self, trace: ThreadTrace) -> None:
        self._trace = trace

    def with_more(self, cpu_s: NDArray[np.float64]) -> Array:
        """CPU times of all steps (ns) where each temp operation makes so much more after it."""
        trace = self._trace
        if not cpu_s.any():
            return trace.cpu_ns
        cpu_ns = trace.cpu_ns.astype(float)
        more = np.zeros(len(cpu_ns))
        more[trace.temp] = cpu_s * 1e9
        row, following = self._following
        cpu_ns[following] += more[row]
        changed: Array = np.maximum(cpu_ns, 0).astype(np.int64)
        return changed

    @cached_property
    def _following(self) -> tuple[Array, Array]:
        """Rows that another one of their thread follows, and those."""
        thread = self._trace.thread
        order = grouped(thread)
        same = thread[order][1:] == thread[order][:-1]
        return order[:-1][same], order[1:][same]
