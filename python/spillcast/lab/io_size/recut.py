"""Recorded I/O with operations of another size: coalesced and split as an engine would."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast.lab.io_size.settings import Setting

Array = NDArray[np.int64]


class Recut:
    """The steps of a plan by streams: reads, or writes, of which each begins where one ended.

    A larger buffer joins what follows each other in a stream, however many operations on other
    streams lie between: a merge reads a run here and a run there. What is read is then read with
    the first of the joined operations, what is written with the last.
    """

    def __init__(self, steps: pa.RecordBatch) -> None:
        self.write = steps["write"].to_numpy(zero_copy_only=False)
        self.thread, self.file, self.offset, self.bytes, self.delay_ns = (
            steps[name].to_numpy().astype(np.int64)
            for name in ("thread", "file", "offset", "bytes", "delay_ns")
        )
        stream = _streams(self.file * 2 + self.write, self.offset, self.bytes)
        #: Rows stream by stream, each in its order.
        self._order = np.argsort(stream, kind="stable")
        self._stream = stream[self._order]

    @property
    def distinct_bytes(self) -> list[int]:
        """The sizes that were recorded, ascending."""
        return [int(size) for size in np.unique(self.bytes)]

    @property
    def moved_bytes(self) -> int:
        """All that was read and written."""
        return int(self.bytes.sum())

    @property
    def written_bytes(self) -> int:
        """All that was written."""
        return int(self.bytes[self.write].sum())

    def usual_bytes(self) -> int:
        """The size that half of the bytes were moved in operations up to."""
        sizes = np.sort(self.bytes)
        return int(sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)])

    def steps(self, setting: Setting) -> pa.RecordBatch:
        """The same bytes in operations of the size that the setting makes of each recorded one.

        Neighbours in a stream that get the same size are cut anew from the first to the last.
        """
        rows = self._order
        sizes = self.bytes[rows]
        unit = np.clip(sizes, setting.min_bytes, setting.max_bytes)
        end = np.cumsum(sizes)
        begins = np.flatnonzero(_changes(self._stream) | _changes(unit))
        begin_at = end[begins] - sizes[begins]
        length = np.diff(begin_at, append=end[-1])
        pieces = -(-length // unit[begins])
        stretch = np.repeat(np.arange(len(begins)), pieces)
        nth = np.arange(len(stretch)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        within = nth * unit[begins][stretch]
        size = np.minimum(unit[begins][stretch], length[stretch] - within)
        at = begin_at[stretch] + within
        first = rows[np.searchsorted(end, at, side="right")]
        last = rows[np.searchsorted(end, at + size - 1, side="right")]
        anchor = np.where(self.write[first], last, first)
        order = np.argsort(anchor, kind="stable")
        anchor = anchor[order]
        offset = self.offset[rows[begins]][stretch] + within
        return pa.record_batch(
            {
                "thread": pa.array(self.thread[anchor], pa.uint32()),
                "file": pa.array(self.file[anchor], pa.uint32()),
                "write": pa.array(self.write[anchor], pa.bool_()),
                "offset": pa.array(offset[order], pa.uint64()),
                "bytes": pa.array(size[order], pa.uint32()),
                "delay_ns": pa.array(self._delays(anchor), pa.uint64()),
            }
        )

    def _delays(self, anchor: Array) -> Array:
        """A thread's pauses before an operation, with those before what was joined to others."""
        delays = np.zeros(len(anchor), dtype=np.int64)
        for thread in np.unique(self.thread):
            mine = self.thread == thread
            passed = np.cumsum(np.where(mine, self.delay_ns, 0))
            rows = np.flatnonzero(self.thread[anchor] == thread)
            delays[rows] = np.diff(passed[anchor[rows]], prepend=0)
        return delays


def _changes(values: Array) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it, as a first one does."""
    return np.append(True, values[1:] != values[:-1])


def _streams(kind: Array, offset: Array, size: Array) -> Array:
    """A number for each operation's stream: that of the last one of its kind that ended where it
    begins and that no other has followed yet, or else a new one."""
    ends: dict[tuple[int, int], int] = {}
    streams = np.empty(len(kind), dtype=np.int64)
    count = 0
    rows = zip(kind.tolist(), offset.tolist(), (offset + size).tolist(), strict=True)
    for at, (of, begin, end) in enumerate(rows):
        stream = ends.pop((of, begin), count)
        count += stream == count
        streams[at] = ends[of, end] = stream
    return streams
