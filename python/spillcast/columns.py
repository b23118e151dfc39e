"""Columns of numbers for the core: numpy arrays out and in, Arrow only on the way."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast import _core

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def batch_of(columns: Mapping[str, NDArray[Any]]) -> pa.RecordBatch:
    """The columns as the core takes them, without a copy of numbers."""
    return pa.record_batch({name: _column(values) for name, values in columns.items()})


def arrays_of(table: Any) -> dict[str, NDArray[Any]]:
    """The columns that the core hands out, as numpy arrays."""
    batch = pa.record_batch(table)
    return {name: batch[name].to_numpy() for name in batch.schema.names}


def covered_s(begin_ns: Integers, end_ns: Integers) -> float:
    """Seconds that at least one of the intervals covers."""
    [ns] = _core.covered_ns(_intervals(begin_ns, end_ns))
    return ns / 1e9


def covered_by_stretch_s(
    begin_ns: Integers, end_ns: Integers, elapsed_s: float, stretches: int
) -> Floats:
    """The same by stretch of a run that takes ``elapsed_s``, all of equal length."""
    wide_ns = elapsed_s * 1e9 / stretches
    return np.array(_core.covered_ns(_intervals(begin_ns, end_ns), wide_ns, stretches)) / 1e9


def spread_by_stretch(
    begin_ns: Integers, end_ns: Integers, values: Floats, elapsed_s: float, stretches: int
) -> Floats:
    """Sums by stretch of what each interval has, spread evenly over it.

    What lies before the run counts in the first stretch, what lies after it in the last.
    """
    columns = {"begin_ns": begin_ns, "end_ns": end_ns, "values": np.asarray(values, dtype=float)}
    return np.array(_core.spread(batch_of(columns), elapsed_s * 1e9 / stretches, stretches))


def _intervals(begin_ns: Integers, end_ns: Integers) -> pa.RecordBatch:
    return batch_of({"begin_ns": begin_ns, "end_ns": end_ns})


def _column(values: NDArray[Any]) -> pa.Array:
    """``pa.array`` would import numpy.ma to ask whether some are masked."""
    if values.dtype == bool:
        return pa.array(values)
    contiguous = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(contiguous.dtype)
    return pa.Array.from_buffers(kind, len(contiguous), [None, pa.py_buffer(contiguous)])
