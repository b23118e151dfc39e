"""Waits cut to a window of time."""

import numpy as np
import pyarrow as pa
import pyarrow.compute

_LATEST_NS = np.iinfo(np.int64).max


def within(waits: pa.Table, begin_ns: int, end_ns: int = _LATEST_NS) -> pa.Table:
    """The parts of waits within a window, without wakers outside of it."""
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
