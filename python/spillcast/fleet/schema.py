"""The tables of a dataset. Counts and times are integers, times in microseconds.

Integers add up to the same in any order, so DuckDB and Spark agree to the last digit. Floats begin
in the forecast, which one process makes from sorted sums.
"""

import pyarrow as pa

DATASET_SCHEMA = "spillcast.dataset/1"

_BUCKETS = pa.list_(pa.int64())

#: The day or database of evidence that does not contain it.
UNKNOWN = "unknown"
#: Kinds of facts: a wait event, CPU time, or the time in which ASH saw the statement.
WAIT, CPU, ACTIVE = "wait", "cpu", "active"

#: A row for each source, statement and event. ``database`` and ``day`` are in the path.
FACTS = pa.schema(
    [
        pa.field("source", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("host", pa.string(), False),
        pa.field("instance", pa.string(), False),
        pa.field("sql_id", pa.string(), False),
        pa.field("measure", pa.string(), False),
        pa.field("event", pa.string(), False),
        pa.field("op", pa.string()),
        pa.field("idle", pa.bool_(), False),
        pa.field("count", pa.int64(), False),
        pa.field("total_us", pa.int64(), False),
        #: Blocks moved by the waits that contain a count, and the number of these waits.
        pa.field("blocks", pa.int64(), False),
        pa.field("blocks_count", pa.int64(), False),
        #: ASH: time that rows represent, and millionths of the waits that they represent.
        pa.field("sampled_us", pa.int64(), False),
        pa.field("waits_e6", pa.int64(), False),
        pa.field("latency_ns", _BUCKETS, False),
        pa.field("latency_count", _BUCKETS, False),
    ]
)

#: A row for each recording or plan, with the evidence itself. ``database``, ``day``: in the path.
RUNS = pa.schema(
    [
        pa.field("source", pa.string(), False),
        pa.field("kind", pa.string(), False),
        pa.field("host", pa.string(), False),
        pa.field("instance", pa.string(), False),
        pa.field("sql_id", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("evidence", pa.large_binary(), False),
    ]
)

#: A row for each source, ingested or rejected.
SOURCES = pa.schema(
    [
        pa.field("source", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("bytes", pa.int64(), False),
        pa.field("kind", pa.string()),
        pa.field("database", pa.string()),
        pa.field("host", pa.string()),
        pa.field("instance", pa.string()),
        #: Why it was rejected; null if it is in the dataset.
        pa.field("set_aside", pa.string()),
        pa.field("damaged", pa.int64(), False),
        #: The first damaged lines.
        pa.field(
            "damage", pa.list_(pa.struct([("line", pa.int64()), ("what", pa.string())])), False
        ),
        #: Files of the dataset that its rows are in.
        pa.field("parts", pa.list_(pa.string()), False),
    ]
)
