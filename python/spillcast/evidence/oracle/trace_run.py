"""The temp I/O of Oracle's traces as a recording in memory: what a probe can do again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillcast import _core
from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.oracle.block_size import BLOCKS_MAX
from spillcast.evidence.oracle.trace import ReadFailures, open_reader
from spillcast.evidence.text import distinct
from spillcast.interruptible import run_interruptibly
from spillcast.recording.meta import CaptureAccount, KeptWaits, Meta, ObservedEngine
from spillcast.recording.recording import Recording
from spillcast.recording.schema import WAITS_SCHEMA, seconds_of, totals

#: The capture of such a recording: what a database wrote down itself.
TRACE = "trace"
#: What a trace tells of a wait, but for its place in the file.
_COLUMNS = ("start_ns", "elapsed_ns", "session", "event", "op", "temp", "file", "sql_id", "line")


def recording_of_traces(
    paths: Sequence[Path], block_bytes: int, *, lenient: bool = False
) -> Recording:
    """Each temp read and write of the traces, by session, file, block and time.

    A wait without file, block or count is not among them. InputError where there is none.
    """
    paths, _ = distinct(paths)
    waits = _temp_waits(paths, block_bytes, lenient)
    if waits.num_rows == 0:
        raise EvidenceIncomplete(
            f"{paths[0]}: its waits name no temp file, block and count",
            "a probe replays the direct path read temp and write temp of a trace",
        )
    starts = waits["start_ns"]
    first_ns = pa.compute.min(starts).as_py()
    last_ns = pa.compute.max(pa.compute.add(starts, waits["elapsed_ns"])).as_py()
    waits = waits.set_column(0, WAITS_SCHEMA.field(0), pa.compute.subtract(starts, first_ns))
    temp, other_io = totals(waits)
    elapsed_s = (last_ns - first_ns) / 1e9
    meta = Meta(
        elapsed_s=elapsed_s,
        recorded_s=elapsed_s,
        engine=ObservedEngine("oracle"),
        temp=temp,
        other_io=other_io,
        capture=CaptureAccount(TRACE),
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    recording = Recording(paths[0], meta)
    recording.waits = recording.temp_waits = waits
    recording.seconds = seconds_of(waits)
    return recording


def name_blocks(waits: "pa.RecordBatch | pa.Table") -> Any:
    """Which waits name a file, the first block and how many of them; of damaged lines none do."""
    known = waits["file"].is_valid()
    for name, min_value in (("p2", 0), ("blocks", 1)):
        column = waits[name]
        enough = pa.compute.greater_equal(column, min_value)
        possible = pa.compute.and_(enough, pa.compute.less_equal(column, BLOCKS_MAX))
        known = pa.compute.and_(known, pa.compute.fill_null(possible, False))
    return known


def _temp_waits(paths: Sequence[Path], block_bytes: int, lenient: bool) -> pa.Table:
    reader, _ = open_reader(paths, lenient, None)
    batches: list[pa.RecordBatch] = []

    def take(waits: _core.Table, *_others: _core.Table) -> None:
        batch = pa.record_batch(waits)
        known = pa.compute.and_(batch["op"].is_valid(), name_blocks(batch))
        picked = pa.compute.and_(batch["temp"], known)
        batches.append(batch.filter(picked).select([*_COLUMNS, "p2", "blocks"]))

    with ReadFailures():
        run_interruptibly(lambda: reader.rows(take), reader.cancel)
    rows = pa.Table.from_batches(batches).unify_dictionaries().sort_by("start_ns")
    columns = {name: rows[name] for name in _COLUMNS}
    columns["file"] = rows["file"].cast(pa.string())
    columns["offset"] = pa.compute.multiply(rows["p2"], block_bytes)
    columns["bytes"] = pa.compute.multiply(rows["blocks"], block_bytes)
    columns["blocked"] = pa.repeat(True, rows.num_rows)
    none = {field.name: pa.nulls(rows.num_rows, field.type) for field in WAITS_SCHEMA}
    return pa.table({**none, **columns}).select(WAITS_SCHEMA.names).cast(WAITS_SCHEMA)
