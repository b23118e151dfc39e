"""Time that at least one of several intervals covers."""

import numpy as np
from numpy.typing import NDArray

from spillcast.recording.distinct import ascending

Array = NDArray[np.int64]


def covered(start_ns: Array, end_ns: Array) -> tuple[Array, Array]:
    """Beginnings and lengths (ns) of what each interval adds to those before it, by start."""
    start, end = start_ns, end_ns
    if not ascending(start_ns):
        order = np.argsort(start_ns, kind="stable")
        start, end = start_ns[order], end_ns[order]
    reached = np.maximum.accumulate(end)
    begins = np.maximum(start, np.concatenate([start[:1], reached[:-1]]))
    return begins, np.maximum(end - begins, 0)


def covered_before_s(
    start_ns: Array, end_ns: Array, instants_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds before each instant that at least one of the intervals covers."""
    begins, length = covered(start_ns, end_ns)
    begins, length = begins[length > 0], length[length > 0]
    if not length.size:
        return np.zeros_like(instants_s)
    at = np.stack([begins, begins + length], axis=1).ravel()
    so_far = np.concatenate([[0], np.cumsum(length)])
    before = np.stack([so_far[:-1], so_far[1:]], axis=1).ravel()
    return np.interp(instants_s, at / 1e9, before / 1e9)
