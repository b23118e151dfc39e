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
        own = self._trace
        if not cpu_s.any():
            return own.cpu_ns
        cpu_ns = own.cpu_ns.astype(float)
        more = np.zeros(len(cpu_ns))
        more[own.temp] = cpu_s * 1e9
        row, following = self._following
        cpu_ns[following] += more[row]
        changed: Array = np.maximum(cpu_ns, 0).astype(np.int64)
        return changed

    @cached_property
    def _following(self) -> tuple[Array, Array]:
        """Rows that another one of their thread follows, and those."""
        own = self._trace.thread
        order = grouped(own)
        same = own[order][1:] == own[order][:-1]
        return order[:-1][same], order[1:][same]
