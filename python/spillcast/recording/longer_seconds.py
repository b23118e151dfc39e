"""Sums by second added up to sums by several seconds, with their histograms of latency."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillcast.recording.schema import SECONDS_SCHEMA

_KEYS = ["second", "op", "temp", "size_class_bytes"]
_SUMS = ["count", "bytes", "total_ns"]


def added_up(seconds: pa.Table, stride: int) -> pa.Table:
    """A row for ``stride`` seconds where there was one for each of them, in their first one."""
    whole = pc.multiply(pc.divide(seconds["second"], stride), stride)
    rows = seconds.set_column(0, "second", whole)
    rows = rows.set_column(1, "op", rows["op"].cast(pa.string())).combine_chunks()
    sums = _grouped(rows, _KEYS, [(name, "sum") for name in _SUMS])
    # A row of a table for each bucket, then a bucket for each latency of a group.
    of_row = pc.list_parent_indices(rows["latency_ns"])
    buckets = rows.select(_KEYS).take(of_row)
    for name in ("latency_ns", "latency_count"):
        buckets = buckets.append_column(name, pc.list_flatten(rows[name]))
    by_bucket = _grouped(buckets, [*_KEYS, "latency_ns"], [("latency_count", "sum")])
    lengths = _grouped(by_bucket, _KEYS, [("latency_ns", "count")])["latency_ns_count"].to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    columns = [
        *(sums[key] for key in _KEYS),
        *(sums[f"{name}_sum"] for name in _SUMS),
        *(
            pa.ListArray.from_arrays(offsets, by_bucket[name].combine_chunks())
            for name in ("latency_ns", "latency_count_sum")
        ),
    ]
    return pa.table(columns, names=SECONDS_SCHEMA.names).cast(SECONDS_SCHEMA)


def _grouped(rows: pa.Table, keys: list[str], sums: list[tuple[str, str]]) -> pa.Table:
    """Sums by group, in the order of their keys."""
    return rows.group_by(keys).aggregate(sums).sort_by([(key, "ascending") for key in keys])
