"""The temp files of a recording: how much they held, and how much of their I/O was sequential."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import Column
from spillcast.recording.recording import Recording
from spillcast.tables import Numbers, distinct, grouped

Array = NDArray[np.int64]


def temp_owner(recording: Recording) -> str | None:
    """The engine that gives the temp files their names; None if none is known to."""
    paths = recording.temp_columns("file")["file"].unique()
    named = map(_core.temp_name_of, paths)
    return next((name[0] for name in named if name is not None), None)


def spill_bytes(recording: Recording) -> int:
    """The most that the temp files held together: the sum of their ends, as if none was removed.

    Where offsets are not known, all that was written counts.
    """
    sample = recording.sample
    held, unplaced = (
        recording.scan(_core.Scan()).held_bytes() if sample is None else sample.held_bytes
    )
    return max(held, recording.written_bytes.temp) if unplaced else held


def sequential_share(recording: Recording) -> dict[tuple[str, int], float]:
    """By op and size class (bytes), share of temp operations that follow the last on their file.

    The last one of the same op. Operations without an offset are skipped, and so is an op and size
    class without another. In a recording of slices, the first ones of each slice have an unknown
    predecessor.
    """
    waits = recording.temp_columns("start_ns", "op", "file", "offset", "bytes")
    waits = waits.filter(waits["offset"].is_valid() & waits["bytes"].is_valid())
    if waits.num_rows == 0:
        return {}
    offset, size = waits["offset"].values, waits["bytes"].values
    read = waits["op"].equals("read")
    stream = codes(waits["file"]) * 2 + read
    follows = _follows(stream, offset, size)
    is_sequential = _is_sequential(recording, stream, waits["start_ns"].values)
    classes, which = size_classes(size)
    shares = {}
    for name, its in (("read", read & is_sequential), ("write", ~read & is_sequential)):
        count = np.bincount(which[its], minlength=len(classes))
        following = np.bincount(which[its & follows], minlength=len(classes))
        for at in np.flatnonzero(count):
            shares[name, int(classes[at])] = float(following[at] / count[at])
    return shares


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


def _is_sequential(recording: Recording, stream: Numbers, start_ns: Array) -> NDArray[np.bool_]:
    """Whether the previous row of each row's stream is known."""
    is_sequential = np.ones(len(stream), dtype=bool)
    if recording.slices_s is not None:
        number = slice_numbers(recording.slices_s, start_ns)
        order = grouped(stream)
        same = stream[order][1:] == stream[order][:-1]
        is_sequential[order[1:]] = ~same | (number[order][1:] == number[order][:-1])
    return is_sequential


def slice_numbers(slices_s: Sequence[tuple[float, float]], start_ns: Array) -> Array:
    """Which of some slices, in order, rows that begin then are of: from 1, 0 before the first."""
    # Seconds are no whole ns: a row at an edge is of the slice behind it.
    begin_ns = np.round([begin_s * 1e9 for begin_s, _ in slices_s])
    return np.searchsorted(begin_ns, start_ns, side="right")


def _follows(stream: Numbers, offset: Array, size: Array) -> NDArray[np.bool_]:
    """Whether each row begins where the row before it in its stream ended; a first one does."""
    order = grouped(stream)
    end = (offset + size)[order]
    same = stream[order][1:] == stream[order][:-1]
    follows = np.ones(len(order), dtype=bool)
    follows[order[1:]] = ~same | (offset[order][1:] == end[:-1])
    return follows
