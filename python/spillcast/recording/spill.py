"""The temp files of a recording: how much they held, and how much of their I/O was sequential."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording.distinct import Numbers, distinct, grouped
from spillcast.recording.recording import Recording

Array = NDArray[np.int64]


def temp_paths(recording: Recording) -> list[str]:
    """The paths of the temp files of which single operations were kept."""
    files = pa.compute.unique(recording.temp_columns("file")["file"]).drop_null()
    paths: list[str] = files.cast(pa.string()).to_pylist()
    return paths


def spill_bytes(recording: Recording) -> int:
    """The most that the temp files held together: the sum of their ends, as if none was removed.

    Where offsets are not known, all that was written counts.
    """
    if recording.sample is not None and (known := recording.sample.spill_bytes) is not None:
        return known
    ends, unknown = dict[str | None, int](), 0
    for waits in recording.temp_batches("file", "offset", "bytes"):
        placed = waits.filter(waits["offset"].is_valid()) if waits["offset"].null_count else waits
        unknown += waits.num_rows - placed.num_rows
        sized = placed.append_column("end", pa.compute.add(placed["offset"], placed["bytes"]))
        # Parts of a file name the same files by other numbers.
        sized = sized.unify_dictionaries()
        files = sized.group_by("file", use_threads=False).aggregate([("end", "max")])
        for row in files.to_pylist():
            ends[row["file"]] = max(ends.get(row["file"], 0), row["end_max"] or 0)
    held = sum(ends.values())
    if not unknown:
        return held
    seconds = recording.temp_seconds
    rows = seconds.filter(pa.compute.equal(seconds["op"].cast(pa.string()), "write"))
    return max(held, pa.compute.sum(rows["bytes"]).as_py() or 0)


def sequential_share(recording: Recording) -> dict[tuple[str, int], float]:
    """By op and size class (bytes), share of temp operations that follow the last on their file.

    The last one of the same op. Operations without an offset are skipped, and so is an op and size
    class without another. In a recording of slices, the first ones of each slice have an unknown
    predecessor.
    """
    waits = recording.temp_columns("start_ns", "op", "file", "offset", "bytes")
    if waits["offset"].null_count or waits["bytes"].null_count:
        waits = waits.filter(pa.compute.and_(waits["offset"].is_valid(), waits["bytes"].is_valid()))
    if waits.num_rows == 0:
        return {}
    offset, size = waits["offset"].to_numpy(), waits["bytes"].to_numpy()
    read = equals(waits["op"], "read")
    stream = codes(waits["file"]) * 2 + read
    follows = _follows(stream, offset, size)
    is_sequential = _is_sequential(recording, stream, waits["start_ns"].to_numpy())
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


def codes(names: pa.ChunkedArray) -> Numbers:
    """A number for each name, by the first rows; one more for none."""
    encoded = _encoded(names).indices.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(len(encoded.dictionary)), dtype=np.int32)


def equals(names: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """Whether each row has this name."""
    encoded = _encoded(names)
    known = encoded.dictionary.cast(pa.string()).to_pylist()
    if name not in known:
        return np.zeros(len(encoded), dtype=bool)
    is_equal: NDArray[np.bool_] = encoded.indices.fill_null(-1).to_numpy() == known.index(name)
    return is_equal


def _encoded(names: pa.ChunkedArray) -> pa.DictionaryArray:
    """The names as numbers in one dictionary."""
    if not pa.types.is_dictionary(names.type):
        return names.combine_chunks().dictionary_encode()
    return names.unify_dictionaries().combine_chunks()


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
