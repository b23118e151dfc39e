"""The temp files of a recording: how much they held, and how much of their I/O was sequential."""

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording.recording import Recording

Array = NDArray[np.int64]


def spill_bytes(recording: Recording) -> int:
    """The most that the temp files held together: the sum of their ends, as if none was removed.

    Where offsets are not known, all that was written counts, unless the recording says.
    """
    if (stated := recording.meta.temp.held_bytes) is not None:
        return stated
    waits = recording.temp_waits
    known = waits.filter(waits["offset"].is_valid())
    ends = known.append_column("end", pa.compute.add(known["offset"], known["bytes"]))
    files = ends.group_by("file", use_threads=False).aggregate([("end", "max")])
    held: int = pa.compute.sum(files["end_max"]).as_py() or 0
    if known.num_rows == waits.num_rows:
        return held
    seconds = recording.temp_seconds
    rows = seconds.filter(pa.compute.equal(seconds["op"].cast(pa.string()), "write"))
    return max(held, pa.compute.sum(rows["bytes"]).as_py() or 0)


def sequential_share(recording: Recording) -> dict[tuple[str, int], float]:
    """By op and size class (bytes), share of temp operations that follow the last on their file.

    The last one of the same op. Operations without an offset are skipped, and so is an op and size
    class that has no other.
    """
    waits = recording.temp_waits
    waits = waits.filter(pa.compute.and_(waits["offset"].is_valid(), waits["bytes"].is_valid()))
    if waits.num_rows == 0:
        return {}
    op = waits["op"].combine_chunks().cast(pa.string())
    size = waits["bytes"].to_numpy()
    file = codes(waits["file"])
    stream = file * 2 + (op.to_numpy(zero_copy_only=False) == "read")
    follows = _follows(stream, waits["offset"].to_numpy(), size)
    sizes, which = np.unique(size, return_inverse=True)
    classes = np.array([_core.size_class_bytes(int(n)) for n in sizes])[which]
    table = pa.table({"op": op, "size": classes, "follows": follows.astype(float)})
    shares = table.group_by(["op", "size"], use_threads=False).aggregate([("follows", "mean")])
    return {(row["op"], row["size"]): row["follows_mean"] for row in shares.to_pylist()}


def codes(names: pa.ChunkedArray) -> Array:
    """A number for each name; one more for none."""
    encoded = names.combine_chunks().cast(pa.string()).dictionary_encode()
    return np.asarray(encoded.indices.fill_null(len(encoded.dictionary)), dtype=np.int64)


def _follows(stream: Array, offset: Array, size: Array) -> NDArray[np.bool_]:
    """Whether each row begins where the row before it in its stream ended; a first one does."""
    order = np.argsort(stream, kind="stable")
    end = (offset + size)[order]
    same = stream[order][1:] == stream[order][:-1]
    follows = np.ones(len(order), dtype=bool)
    follows[order[1:]] = ~same | (offset[order][1:] == end[:-1])
    return follows
