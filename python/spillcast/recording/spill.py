"""The temp files of a recording: how much they held; numbers of sizes, names and slices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import Column
from spillcast.recording.recording import Recording
from spillcast.tables import Numbers, distinct

Array = NDArray[np.int64]


def spill_bytes(recording: Recording) -> int:
    """The most that the temp files held together: the sum of their ends, as if none was removed.

    Where offsets are not known, all that was written counts.
    """
    sample = recording.sample
    held, unplaced = (
        recording.scan(_core.Scan()).held_bytes() if sample is None else sample.held_bytes
    )
    return max(held, recording.written_bytes.temp) if unplaced else held


def size_classes(size_bytes: Array) -> tuple[Array, Array]:
    """The size classes that there are, and by row the number of its own."""
    sizes, which = distinct(size_bytes)
    of_size = np.array([_core.size_class_bytes(int(n)) for n in sizes], dtype=np.int64)
    classes, number = np.unique(of_size, return_inverse=True)
    return classes, number[which]


def codes(names: Column) -> Numbers:
    """A number for each name, by the first rows; one more for none."""
    distinct_codes, number = distinct(names.codes().astype(np.int64))
    first = np.full(len(distinct_codes), len(number))
    np.minimum.at(first, number, np.arange(len(number)))
    first[distinct_codes < 0] = len(number)
    place = np.empty(len(first), dtype=np.int32)
    place[np.argsort(first)] = np.arange(len(first))
    return place[number]


def slice_numbers(slices_s: Sequence[tuple[float, float]], start_ns: Array) -> Array:
    """Which of some slices, in order, rows that begin then are of: from 1, 0 before the first."""
    # Seconds are no whole ns: a row at an edge is of the slice behind it.
    begin_ns = np.round([begin_s * 1e9 for begin_s, _ in slices_s])
    return np.searchsorted(begin_ns, start_ns, side="right")
