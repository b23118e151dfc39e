"""The clock of a recording: zero is the run's start, or the recording's where that is later."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute

_LATEST_NS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Clock:
    """Moves rows whose times count from the recording's start to a zero ``zero_ns`` after it.

    What ended before zero is not of the run and is dropped.
    """

    zero_ns: int = 0

    @classmethod
    def of(cls, origin_ns: int, started_ns: int | None) -> "Clock":
        """Of a recording begun at ``origin_ns``; the run at ``started_ns``, if that is known."""
        return cls(0 if started_ns is None else max(started_ns - origin_ns, 0))

    def waits(self, rows: pa.Table) -> pa.Table:
        """Waits; one that began before zero keeps its part after it, and no CPU time before it."""
        if not self.zero_ns:
            return rows
        rows = within(rows, self.zero_ns)
        start_ns = pa.compute.subtract(rows["start_ns"], self.zero_ns)
        cpu_ns = pa.compute.min_element_wise(rows["cpu_before_ns"], start_ns, skip_nulls=False)
        rows = with_column(rows, "start_ns", start_ns)
        return with_column(rows, "cpu_before_ns", cpu_ns)

    def seconds(self, rows: pa.Table) -> pa.Table:
        """Per-second rows, moved by whole seconds: the first one may hold some of before zero."""
        first = self.zero_ns // 1_000_000_000
        rows = rows.filter(pa.compute.greater_equal(rows["second"], first))
        return with_column(rows, "second", pa.compute.subtract(rows["second"], first))

    def samples(self, rows: pa.Table) -> pa.Table:
        """Samples."""
        rows = rows.filter(pa.compute.greater_equal(rows["time_ns"], self.zero_ns))
        return with_column(rows, "time_ns", pa.compute.subtract(rows["time_ns"], self.zero_ns))

    def slices_s(self, slices: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Start and end of slices, s; of one that began before zero the part after it."""
        zero_s = self.zero_ns / 1e9
        return [(max(start - zero_s, 0.0), end - zero_s) for start, end in slices if end > zero_s]


FROM_ITS_START = Clock()


def within(waits: pa.Table, begin_ns: int, end_ns: int = _LATEST_NS) -> pa.Table:
    """The parts of waits that lie in a window; who ended one later, or made it begin, is gone."""
    start = waits["start_ns"].to_numpy()
    end = start + waits["elapsed_ns"].to_numpy()
    touched = (start < end_ns) & ((start >= begin_ns) | (end > begin_ns))
    rows, start, end = waits.filter(pa.array(touched)), start[touched], end[touched]
    earlier, later = pa.array(start < begin_ns), pa.array(end > end_ns)
    start, end = np.maximum(start, begin_ns), np.minimum(end, end_ns)
    rows = with_column(rows, "start_ns", pa.array(start))
    rows = with_column(rows, "elapsed_ns", pa.array(end - start))
    rows = with_column(rows, "cpu_before_ns", pa.compute.if_else(earlier, 0, rows["cpu_before_ns"]))
    nobody = pa.scalar(None, pa.int64())
    return with_column(rows, "woken_by", pa.compute.if_else(later, nobody, rows["woken_by"]))


def with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """A table with other values in a column."""
    column = table.schema.get_field_index(name)
    return table.set_column(column, table.schema.field(column), values)
