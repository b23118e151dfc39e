"""Recordings of a part of a query, built operation by operation, for tests of remaining work."""

import json
from dataclasses import replace

from evidence import known, storage, table
from spillcast.forecast import forecast
from spillcast.forecast.remaining import hints_of
from spillcast.recording.observed import RecordedQuery, SizedFile
from spillcast.recording.schema import WAITS, seconds_of
from spillcast.recording.writer import RecordingWriter

MS, BLOCK = 1_000_000, 8192
#: Each operation takes 2 ms and starts 2 ms after the end of the previous one.
STEP_S = 0.004
SAME = storage({("read", BLOCK): 2 * MS, ("write", BLOCK): 2 * MS})
FILE, DATA = "/t/pgsql_tmp7.0", "/data/base/5/16384"


def recorded(path, operations, threads=1, wait_ns=2 * MS, **parts):
    """A recording of (op, file, block number, block size) that ended before its query.

    The threads take the operations in turn; as many run at once as there are threads.
    """
    rows = [
        {
            "start_ns": round((at // threads + 0.5) * STEP_S * 1e9), "elapsed_ns": wait_ns,
            "session": at % threads + 1,
            "event": f"p{op}64", "op": op, "temp": file != DATA, "file": file,
            "offset": block * BLOCK, "bytes": size[0] if size else BLOCK,
        }
        for at, (op, file, block, *size) in enumerate(operations)
    ]  # fmt: skip
    waits = table(rows, WAITS)
    reads, writes = (sum(item[0] == op and item[1] != DATA for item in operations)
                     for op in ("read", "write"))  # fmt: skip
    writer = RecordingWriter(path)
    writer.add_waits(waits)
    writer.add_seconds(seconds_of(waits))
    meta = known(len(operations) // threads * STEP_S, reads, writes)
    made = writer.finish(replace(meta, ended_by="duration"))
    made.meta = replace(made.meta, **parts)
    (path / "meta.json").write_text(json.dumps(made.meta.to_json()))
    return made


def recorded_late(folder, operations, before, threads=1):
    """A session with ``before`` earlier operations, after which FILE holds 1000 blocks."""
    return recorded(
        folder / "part.spill",
        operations,
        threads,
        temp_before=[SizedFile(FILE, 1000 * BLOCK)],
        server=query(before * STEP_S),
    )


def query(before_s):
    return RecordedQuery(7, None, None, before_s, "duration", None, [], 0, [])


def blocks(left):
    return tuple(round(each / BLOCK) for each in (left.low, left.centre, left.high))


def former_run(folder, count=600, **parts):
    """An entire run, of as many writes as reads."""
    operations = [(op, FILE, n) for op in ("write", "read") for n in range(count)]
    return recorded(folder / "former.spill", operations, ended_by="end", **parts)


def with_history(part, *paths):
    """The forecast of a part for the same storage, with files of ``--history``."""
    return forecast(part, SAME, known=hints_of(paths))
