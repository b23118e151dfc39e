"""The columns of a recording's files, rows within a window, and totals of rows."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast import _core
from spillcast.recording.event_names import OPS
from spillcast.recording.meta import OtherIO, Temp


@dataclass(frozen=True)
class Column:
    """Describes a column: name, Arrow type, whether it may be null, meaning, example."""

    name: str
    type: pa.DataType
    nullable: bool
    meaning: str
    example: object


NAME = pa.dictionary(pa.int32(), pa.string())
_COUNTS = pa.list_(pa.int64())

WAITS = (
    Column("start_ns", pa.int64(), False, "start, ns since the run began", 1_204_518),
    Column("elapsed_ns", pa.int64(), False, "duration, ns", 1_064_220),
    Column("session", pa.int64(), False, "thread id (Linux) or session id (Oracle)", 4711),
    Column("event", NAME, False, "system call or wait event", "pread64"),
    Column("op", NAME, True, "read, write, or null for neither", "read"),
    Column("temp", pa.bool_(), False, "whether it reads, writes or changes a temp file", True),
    Column("file", NAME, True, "path, or file number", "/t/duckdb_temp_storage_DEFAULT-0.tmp"),
    Column(
        "offset",
        pa.int64(),
        True,
        "byte offset in the file; its new length where it is truncated",
        786_432,
    ),
    Column("bytes", pa.int64(), True, "bytes moved", 262_144),
    Column("blocked", pa.bool_(), True, "whether the thread left the CPU meanwhile", True),
    Column("cpu_before_ns", pa.int64(), True, "CPU since the session's last row, ns", 310_442),
    Column("woken_by", pa.int64(), True, "session that ended the wait", None),
    Column("sql_id", NAME, True, "statement the wait belongs to", None),
    Column("object", pa.int64(), True, "database object number", None),
    Column("line", pa.int64(), True, "line in the source file, from 1", None),
)

SECONDS = (
    Column("second", pa.int64(), False, "whole seconds since the run began", 3),
    Column("op", NAME, True, "read, write, or null for neither", "write"),
    Column("temp", pa.bool_(), False, "whether the files are temp files", True),
    Column("size_class_bytes", pa.int64(), False, "size, up to 1/8 of its power of 2", 262_144),
    Column("count", pa.int64(), False, "waits that began in this second", 412),
    Column("bytes", pa.int64(), False, "bytes moved", 108_003_328),
    Column("total_ns", pa.int64(), False, "sum of their durations, ns", 438_459_012),
    Column("latency_ns", _COUNTS, False, "histogram: middle of each bucket, ns", [1_052_672]),
    Column("latency_count", _COUNTS, False, "histogram: waits in each bucket", [412]),
)

SAMPLES = (
    Column("time_ns", pa.int64(), False, "instant, ns since the run began", 2_000_000_000),
    Column("session", pa.int64(), False, "session or backend", 815),
    Column("event", NAME, True, "wait event; null on CPU", "BufFileRead"),
    Column("time_waited_us", pa.int64(), True, "length of the wait that was seen, us", 19_305),
    Column("weight_us", pa.int64(), False, "time this sample stands for, us", 1_000_000),
    Column("sql_id", NAME, True, "statement", "09bmj7j9q8a5z"),
    Column("sql_exec_id", pa.int64(), True, "execution of the statement", 16_777_216),
    Column("plan_line", pa.int64(), True, "line of its plan", 4),
    Column("coordinator", pa.int64(), True, "session that a parallel worker serves", None),
)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of a file."""
    return pa.schema([pa.field(c.name, c.type, c.nullable) for c in columns])


WAITS_SCHEMA = arrow_schema(WAITS)
SECONDS_SCHEMA = arrow_schema(SECONDS)
SAMPLES_SCHEMA = arrow_schema(SAMPLES)
#: By the name of a table.
TABLES = {"waits": WAITS_SCHEMA, "seconds": SECONDS_SCHEMA, "samples": SAMPLES_SCHEMA}
#: Columns in which a number may be negative: names that a server or a kernel gives.
SIGNED = frozenset(("session", "object", "sql_exec_id", "coordinator"))


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
    nothing = pa.scalar(None, pa.int64())
    return with_column(rows, "woken_by", pa.compute.if_else(later, nothing, rows["woken_by"]))


def with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """A table with other values in a column."""
    column = table.schema.get_field_index(name)
    return table.set_column(column, table.schema.field(column), values)


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
