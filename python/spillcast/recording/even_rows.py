"""Rows of ``seconds`` where only sums are known: all in the first second, and equally long."""

from collections.abc import Iterable

import pyarrow as pa

from spillcast import _core
from spillcast.recording.schema import SECONDS_SCHEMA


def even_seconds(sums: Iterable[tuple[str, int, int, float]]) -> pa.Table:
    """A row for each op, count, bytes and total time (s); none for a count of 0."""
    rows = []
    for op, count, moved_bytes, total_s in sums:
        if not count:
            continue
        total_ns = round(total_s * 1e9)
        rows.append(
            {
                "second": 0,
                "op": op,
                "temp": True,
                "size_class_bytes": _core.size_class_bytes(moved_bytes // count),
                "count": count,
                "bytes": moved_bytes,
                "total_ns": total_ns,
                "latency_ns": [total_ns // count],
                "latency_count": [count],
            }
        )
    return pa.Table.from_pylist(rows, SECONDS_SCHEMA)
