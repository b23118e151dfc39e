"""Adds the missing op to a recording with reads or writes only, at its end.

For a probe: engines read what they spill at least once, and wrote what they read, so a storage is
to tell of both.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.recording.counted import seconds_of
from spillcast.recording.meta import KeptWaits
from spillcast.recording.recording import Recording
from spillcast.recording.spill import codes
from spillcast.recording.window import with_column


def read_back(recording: Recording) -> Recording:
    """Read back what was written, or write what was read, each file from its beginning.

    The same recording where both were seen, or its single waits are not all there. How long the
    other op takes is not known: it has the times of the one.
    """
    temp = recording.temp_waits
    ops = temp["op"].cast(pa.string()).unique().to_pylist()
    raw = recording.meta.raw
    if raw.rows < raw.rows_seen or len(ops) != 1:
        return recording
    [other] = {"read", "write"} - set(ops)
    offset = temp["offset"].fill_null(0).to_numpy()
    more = temp.take(pa.array(np.lexsort((offset, codes(temp["file"])))))
    elapsed_ns = more["elapsed_ns"].to_numpy()
    ended_ns = round(recording.elapsed_s * 1e9)
    start_ns = ended_ns + np.cumsum(elapsed_ns) - elapsed_ns
    count = more.num_rows
    for name, value in (
        ("start_ns", pa.array(start_ns)),
        ("op", pa.array([other] * count).dictionary_encode()),
        ("event", pa.array([f"p{other}64"] * count).dictionary_encode()),
        ("cpu_before_ns", pa.array(np.zeros(count, dtype=np.int64))),
        ("woken_by", pa.nulls(count, pa.int64())),
    ):
        more = with_column(more, name, value)
    # The first thread does it all: how several would share the work is unknown.
    session = pa.array(np.full(count, temp["session"][0].as_py(), dtype=np.int64))
    more = with_column(more, "session", session)
    waits = pa.concat_tables([recording.waits, more]).unify_dictionaries()
    temp_meta = replace(recording.meta.temp, reads=count, writes=count)
    meta = replace(
        recording.meta,
        elapsed_s=recording.elapsed_s + float(elapsed_ns.sum()) / 1e9,
        temp=temp_meta,
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    path = recording.path.with_name(f"{recording.path.stem}-read-back.spill")
    in_memory = Recording(path, meta)
    in_memory.waits = waits
    in_memory.seconds = seconds_of(waits.filter(waits["op"].is_valid()))
    in_memory.samples = recording.samples
    return in_memory
