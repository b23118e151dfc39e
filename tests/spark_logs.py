"""Makes event logs in Spark's format, and compresses them with each of its codecs."""

import gzip
import json
import struct

import pyarrow as pa

#: Start time of the applications, in ms since 1970.
BEGIN_MS = 1_700_000_000_000


def event(name, **fields):
    return {"Event": f"SparkListener{name}", **fields}


def sql_event(name, **fields):
    return {"Event": f"org.apache.spark.sql.execution.ui.SparkListener{name}", **fields}


def task(
    stage, begin_s, end_s, cpu_s, *, spill=0, spilled_memory=0, peak=0, written=0, read=0,
    executor="1", ok=True, number=None,
):  # fmt: skip
    metrics = {
        "Executor Deserialize Time": 0,
        "Executor Run Time": round(1000 * (end_s - begin_s)),
        "Executor CPU Time": round(1e9 * cpu_s),
        "JVM GC Time": 0,
        "Result Serialization Time": 0,
        "Peak Execution Memory": peak,
        "Memory Bytes Spilled": spilled_memory,
        "Disk Bytes Spilled": spill,
        "Shuffle Read Metrics": {"Remote Bytes Read": 0, "Local Bytes Read": read},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": written, "Shuffle Write Time": 0},
    }
    info = {
        **({} if number is None else {"Task ID": number}),
        "Launch Time": BEGIN_MS + round(1000 * begin_s),
        "Finish Time": BEGIN_MS + round(1000 * end_s),
        "Executor ID": executor,
        "Host": f"host-{executor}",
        # Names of metrics are also in accumulables.
        "Accumulables": [{"Name": "internal.metrics.executorCpuTime", "Update": 1}],
    }
    return event(
        "TaskEnd", **{"Stage ID": stage, "Stage Attempt ID": 0, "Task Type": "ShuffleMapTask"},
        **{"Task End Reason": {"Reason": "Success" if ok else "ExecutorLostFailure"}},
        **{"Task Info": info}, **({"Task Metrics": metrics} if ok else {}),
    )  # fmt: skip


def stage_events(stage, begin_s, end_s, parents=(), tasks=None):
    info = {
        **({} if tasks is None else {"Number of Tasks": tasks}),
        "Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": f"stage {stage}",
        "Parent IDs": list(parents), "Submission Time": BEGIN_MS + round(1000 * begin_s),
    }  # fmt: skip
    ended = {**info, "Completion Time": BEGIN_MS + round(1000 * end_s)}
    submitted = event("StageSubmitted", **{"Stage Info": info})
    return submitted, event("StageCompleted", **{"Stage Info": ended})


def two_stages(*, properties=None, app="app-1", end_s=11.0):
    """A job of 1 s to 10 s: two tasks write a shuffle of 400 MB, one reads it and spills 300 MB."""
    begun, ended = stage_events(0, 1.0, 5.0, tasks=2)
    begun_1, ended_1 = stage_events(1, 5.0, 10.0, parents=[0], tasks=1)
    return [
        event("LogStart", **{"Spark Version": "4.0.1"}),
        event(
            "ExecutorAdded", **{"Timestamp": BEGIN_MS, "Executor ID": "1"},
            **{"Executor Info": {"Host": "host-1", "Total Cores": 2, "Log Urls": {}}},
        ),
        event("EnvironmentUpdate", **{"Spark Properties": {
            "spark.shuffle.sort.bypassMergeThreshold": "0", **(properties or {})}}),
        event("ApplicationStart", **{"App Name": "made", "App ID": app, "Timestamp": BEGIN_MS}),
        sql_event("SQLExecutionStart", executionId=7, description="insert", time=BEGIN_MS + 500),
        event(
            "JobStart", **{"Job ID": 0, "Submission Time": BEGIN_MS + 1000, "Stage IDs": [0, 1]},
            Properties={"spark.sql.execution.id": "7"},
        ),
        begun,
        task(0, 1.0, 5.0, 3.0, written=200_000_000, number=0),
        task(0, 1.0, 4.0, 3.0, written=200_000_000, number=1),
        ended,
        begun_1,
        task(
            1, 5.0, 10.0, 4.0, read=400_000_000, spill=300_000_000, spilled_memory=900 << 20,
            peak=100 << 20, number=2,
        ),
        ended_1,
        event("JobEnd", **{"Job ID": 0, "Completion Time": BEGIN_MS + 10_000},
              **{"Job Result": {"Result": "JobSucceeded"}}),
        sql_event("SQLExecutionEnd", executionId=7, time=BEGIN_MS + 10_500),
        event("ApplicationEnd", Timestamp=BEGIN_MS + round(1000 * end_s)),
    ]  # fmt: skip


def text(events):
    """Compact JSON with an event on each line, as Spark writes it."""
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in events).encode()


def lz4(content):
    """The block stream of lz4-java: stored blocks of 100 bytes, then an empty one."""
    stream = b""
    for block in [content[at : at + 100] for at in range(0, len(content), 100)] + [b""]:
        stream += b"LZ4Block\x15" + struct.pack("<III", len(block), len(block), 0) + block
    return stream


def snappy(content):
    """The stream of snappy-java."""
    stream = b"\x82SNAPPY\0" + struct.pack(">II", 1, 1)
    for block in [content[at : at + 1000] for at in range(0, len(content), 1000)]:
        packed = pa.compress(block, codec="snappy", asbytes=True)
        stream += struct.pack(">I", len(packed)) + packed
    return stream


def zstd(content):
    return pa.compress(content, codec="zstd", asbytes=True)


CODECS = {"": bytes, ".zstd": zstd, ".gz": gzip.compress, ".lz4": lz4, ".snappy": snappy}
