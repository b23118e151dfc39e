"""Totals and per-second rows from single waits, counted as a recorder does."""

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast import _core
from spillcast.recording.event_names import OPS
from spillcast.recording.meta import OtherIO, Temp
from spillcast.recording.schema import SECONDS_SCHEMA

_OPS = pa.array(OPS)


def totals(waits: pa.Table) -> tuple[Temp, OtherIO]:
    """The totals of temp files and of other files."""
    temp = waits.filter(pa.compute.and_(waits["temp"], waits["op"].is_valid()))
    other = waits.filter(pa.compute.and_(pa.compute.invert(waits["temp"]), waits["op"].is_valid()))
    ops = temp["op"].combine_chunks().cast(pa.string())
    return (
        Temp(
            reads=sum_of(pa.compute.equal(ops, "read")),
            writes=sum_of(pa.compute.equal(ops, "write")),
            bytes=sum_of(temp["bytes"]),
            total_s=sum_of(temp["elapsed_ns"]) / 1e9,
        ),
        OtherIO(other.num_rows, sum_of(other["elapsed_ns"]) / 1e9),
    )


def seconds_of(waits: pa.Table) -> pa.Table:
    """The per-second rows of single waits; latencies are kept to the nanosecond."""
    size_bytes = waits["bytes"].fill_null(0).to_pylist()
    classes = {size: _core.size_class_bytes(size) for size in set(size_bytes)}
    keys = {
        "second": pa.compute.divide(waits["start_ns"], 1_000_000_000),
        "op": waits["op"].cast(pa.string()),
        "temp": waits["temp"],
        "size_class_bytes": pa.array([classes[size] for size in size_bytes], pa.int64()),
    }
    table = pa.table({**keys, "bytes": waits["bytes"].fill_null(0), "ns": waits["elapsed_ns"]})
    groups = table.group_by(list(keys), use_threads=False).aggregate(
        [("ns", "list"), ("bytes", "sum")]
    )
    rows = []
    for row in groups.to_pylist():
        latency_ns, count = np.unique(row.pop("ns_list"), return_counts=True)
        row |= {"count": int(count.sum()), "bytes": row.pop("bytes_sum")}
        row["total_ns"] = int((latency_ns * count).sum())
        rows.append(row | {"latency_ns": latency_ns.tolist(), "latency_count": count.tolist()})
    table = pa.Table.from_pylist(rows, SECONDS_SCHEMA)
    # The same values in all of them, as of a recorder: then files of several such can be grouped.
    ops = pa.compute.index_in(table["op"].cast(pa.string()), _OPS).combine_chunks()
    column = pa.DictionaryArray.from_arrays(ops, _OPS)
    return table.set_column(
        SECONDS_SCHEMA.get_field_index("op"), SECONDS_SCHEMA.field("op"), column
    )


def sum_of(values: pa.ChunkedArray | pa.Array) -> int:
    """The sum; 0 if empty."""
    return int(pa.compute.sum(values).as_py() or 0)
