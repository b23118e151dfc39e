"""The distinct values of a long column, without sorting it: recordings hold few of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
Numbers = NDArray[np.int32]
#: The widest range of values that is counted rather than sorted.
_SPAN_MAX = 1 << 22


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    """The distinct values, ascending, and by row the number of its own."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), dtype=np.int32)
    if not len(values):
        return _sorted(values)
    low, high = int(values.min()), int(values.max())
    if high - low >= _SPAN_MAX:
        return _sorted(values)
    # Counted, which takes a tenth of the time: threads, sizes and codes are close to each other.
    is_used = np.zeros(high - low + 1, dtype=bool)
    is_used[values - low] = True
    number = (np.cumsum(is_used) - 1).astype(np.int32)
    return (np.flatnonzero(is_used) + low).astype(values.dtype), number[values - low]


def _sorted(values: NDArray[Any]) -> tuple[NDArray[Any], Numbers]:
    distinct_values, number = np.unique(values, return_inverse=True)
    return distinct_values, number.astype(np.int32)


def grouped(codes: NDArray[Any]) -> Array:
    """The rows by code, small whole numbers; of equal ones in order."""
    if len(codes) and codes.min() >= 0 and codes.max() <= np.iinfo(np.uint16).max:
        # Sorted by counting, which takes a tenth of the time.
        codes = codes.astype(np.uint16)
    order: Array = np.argsort(codes, kind="stable")
    return order


def ascending(values: NDArray[Any]) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())
