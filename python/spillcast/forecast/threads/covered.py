"""Time that at least one of several intervals covers."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core

Array = NDArray[np.int64]


def covered_s(start_ns: Array, end_ns: Array) -> float:
    """Seconds that at least one of the intervals covers."""
    [ns] = _core.covered_ns(_intervals(start_ns, end_ns))
    return ns / 1e9


def covered_by_stretch_s(
    start_ns: Array, end_ns: Array, elapsed_s: float, stretches: int
) -> NDArray[np.float64]:
    """The same by stretch of a run that takes ``elapsed_s``, all of equal length."""
    wide_ns = elapsed_s * 1e9 / stretches
    return np.array(_core.covered_ns(_intervals(start_ns, end_ns), wide_ns, stretches)) / 1e9


def _intervals(start_ns: Array, end_ns: Array) -> pa.RecordBatch:
    return pa.record_batch({"begin_ns": _column(start_ns), "end_ns": _column(end_ns)})


def _column(values: Array) -> pa.Array:
    """Without a copy; ``pa.array`` would import numpy.ma to ask whether some are masked."""
    whole = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])
