"""The columns of a recording's files, with unit, meaning and an example of each."""

from dataclasses import dataclass

import pyarrow as pa


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
