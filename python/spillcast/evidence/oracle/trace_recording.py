"""Converts the temp I/O of traces to a recording in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from spillcast import _core
from spillcast.columns import Flags
from spillcast.errors import EvidenceIncomplete, EvidenceMixed
from spillcast.evidence.oracle import ORACLE
from spillcast.evidence.oracle.collected import BLOCKS_MAX
from spillcast.evidence.oracle.trace import OFFSET_MAX_US, read_rows
from spillcast.evidence.text import distinct
from spillcast.recording import Recording
from spillcast.recording.meta import CaptureAccount, KeptWaits, Meta
from spillcast.recording.schema import WAITS, seconds_of, totals
from spillcast.tables import Table

#: The capture source of such a recording: the database's own trace.
TRACE = "trace"
#: Columns of a wait in a trace, without its position in the temp file.
_COLUMNS = ("start_ns", "elapsed_ns", "session", "event", "op", "temp", "file", "sql_id", "line")


def recording_of_traces(
    paths: Sequence[Path], block_bytes: int, *, lenient: bool = False
) -> Recording:
    """The temp reads and writes of the traces that name file, block and count.

    InputError if there are none.
    """
    paths, _ = distinct(paths)
    waits = _temp_waits(paths, block_bytes, lenient)
    if waits.num_rows == 0:
        raise EvidenceIncomplete(
            "its waits name no temp file, block and count",
            "a probe replays the direct path read temp and write temp of a trace",
            paths[0],
        )
    starts = waits["start_ns"].values
    first_ns = int(starts.min())
    last_ns = int((starts + waits["elapsed_ns"].values).max())
    waits = waits.with_column("start_ns", starts - first_ns)
    temp, other_io = totals(waits)
    elapsed_s = (last_ns - first_ns) / 1e9
    meta = Meta(
        elapsed_s=elapsed_s,
        recorded_s=elapsed_s,
        engine=ORACLE,
        temp=temp,
        other_io=other_io,
        capture=CaptureAccount(TRACE),
        raw=KeptWaits(waits.num_rows, waits.num_rows, None),
    )
    recording = Recording(paths[0], meta)
    recording.waits = recording.temp_waits = waits
    recording.seconds = seconds_of(waits)
    return recording


def name_blocks(waits: Table) -> Flags:
    """Which waits name a file, a first block and a number of blocks that are plausible."""
    first, count = waits["p2"].filled(-1), waits["blocks"].filled(-1)
    possible = (first >= 0) & (first <= BLOCKS_MAX) & (count >= 1) & (count <= BLOCKS_MAX)
    return np.asarray(waits["file"].is_valid() & possible)


def waits_of(
    paths: Sequence[Path], names: Sequence[str], keep: Callable[[Table], Flags], *, lenient: bool
) -> Table:
    """The waits of traces for which ``keep`` is true, with these columns, all on one clock."""
    batches: list[Table] = []

    def take(waits: _core.Table, *_others: _core.Table) -> None:
        batch = Table.from_arrow(waits).select(list(dict.fromkeys([*names, "session", "source"])))
        batches.append(batch.filter(keep(batch)))

    traces = read_rows(paths, take, lenient=lenient)
    waits, more_us = Table.concat(batches), traces.more_us()
    if any(more_us):
        clocks = dict[tuple[int, int], int]()
        numbers = [
            (at, s["session"]) for at, file in enumerate(traces.files) for s in file["sessions"]
        ]
        for (source, number), more in zip(numbers, more_us, strict=True):
            # Waits without a session have the session number 0.
            if abs(clocks.setdefault((source, number or 0), more) - more) >= OFFSET_MAX_US:
                text = f"session {number} ran on machines with different clocks"
                raise EvidenceMixed(
                    text, "give the trace of each in a file of its own", paths[source]
                )
        starts, session = waits["start_ns"].values.copy(), waits["session"].filled(0)
        for (source, number), more in clocks.items():
            rows = (waits["source"].values == source) & (session == number)
            starts[rows] += (more - min(more_us)) * 1000
        waits = waits.with_column("start_ns", starts)
    return waits.select(names)


def _temp_waits(paths: Sequence[Path], block_bytes: int, lenient: bool) -> Table:
    def is_placed(waits: Table) -> Flags:
        return np.asarray(waits["temp"].values & waits["op"].is_valid() & name_blocks(waits))

    rows = waits_of(paths, [*_COLUMNS, "p2", "blocks"], is_placed, lenient=lenient)
    rows = rows.sort_by("start_ns")
    columns = {
        **{name: rows[name] for name in _COLUMNS},
        "offset": rows["p2"].values * block_bytes,
        "bytes": rows["blocks"].values * block_bytes,
        "blocked": np.ones(rows.num_rows, dtype=bool),
    }
    return Table(columns).cast(WAITS)
