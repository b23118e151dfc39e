"""A recording in which hardly anything was read yet, with what it wrote read back at its end.

For a probe: engines read what they spill at least once, so a storage is to tell of reads as well.
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
    """Each file from its beginning on in the sizes that it was written in, one after the other.

    The same recording where something was read, or its single waits are not all there. How long
    reads take is not known: they have the times of the writes.
    """
    temp = recording.temp_waits
    op = temp["op"].cast(pa.string())
    written = temp.filter(pa.compute.equal(op, "write"))
    if not recording.meta.raw.whole or written.num_rows < temp.num_rows or not written.num_rows:
        return recording
    offset = written["offset"].fill_null(0).to_numpy()
    reads = written.take(pa.array(np.lexsort((offset, codes(written["file"])))))
    elapsed_ns = reads["elapsed_ns"].to_numpy()
    ended_ns = round(recording.elapsed_s * 1e9)
    start_ns = ended_ns + np.cumsum(elapsed_ns) - elapsed_ns
    count = reads.num_rows
    for name, value in (
        ("start_ns", pa.array(start_ns)),
        ("op", pa.array(["read"] * count).dictionary_encode()),
        ("event", pa.array(["pread64"] * count).dictionary_encode()),
        ("cpu_before_ns", pa.array(np.zeros(count, dtype=np.int64))),
        ("woken_by", pa.nulls(count, pa.int64())),
    ):
        reads = with_column(reads, name, value)
    # All by the thread that wrote first: where several would share the work, nobody knows how.
    session = pa.array(np.full(count, written["session"][0].as_py(), dtype=np.int64))
    reads = with_column(reads, "session", session)
    waits = pa.concat_tables([recording.waits, reads]).unify_dictionaries()
    temp_meta = replace(recording.meta.temp, reads=count)
    meta = replace(
        recording.meta,
        elapsed_s=recording.elapsed_s + float(elapsed_ns.sum()) / 1e9,
        temp=temp_meta,
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    path = recording.path.with_name(f"{recording.path.stem}-read-back.spill")
    found = Recording(path, meta)
    found.waits = waits
    found.seconds = seconds_of(waits.filter(waits["op"].is_valid()))
    found.samples = recording.samples
    return found
