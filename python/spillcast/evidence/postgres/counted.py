"""Temp blocks and their times, as PostgreSQL counts them -> counts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from spillcast.evidence.counts import Bounds, Counts, OpCounts, middle
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, MEMORY_BLOCK_S, TempIO
from spillcast.recording.meta import ObservedEngine

#: The source of such counts.
EXPLAIN = "explain"


def untimed_bounds(
    blocks: int, elapsed_s: float, other_s: float, processes: float, reason: str, remedy: str
) -> Bounds[float]:
    """Bounds of the time of temp blocks (s): memory's speed, and all of the run but ``other_s``."""
    upper_s = max(elapsed_s - other_s, 0.1 * elapsed_s) * processes
    return Bounds(min(blocks * MEMORY_BLOCK_S, upper_s), upper_s, reason, remedy)


def counts_of_blocks(
    path: Path,
    elapsed_s: float,
    temp: TempIO,
    engine: ObservedEngine,
    *,
    time_bounds: Bounds[float] | None = None,
    held_bytes: int | None = None,
    **more: Any,
) -> Counts:
    """The counts of one query; ``more`` are fields of Counts.

    Where the time of temp I/O has bounds, all blocks take as long, so that their total is midway.
    ``held_bytes`` is what the temp files held at most, None for all that was written.
    """
    counts = Counts(
        path=path,
        elapsed_s=elapsed_s,
        reads=OpCounts.timed(temp.read, temp.read * BLOCK_BYTES, temp.read_s),
        writes=OpCounts.timed(temp.written, temp.written * BLOCK_BYTES, temp.write_s),
        source=EXPLAIN,
        engine=engine,
        held_bytes=held_bytes or temp.written * BLOCK_BYTES,
        time_bounds=time_bounds,
        **more,
    )
    if time_bounds is None:
        return counts
    block_s = middle(time_bounds) / temp.blocks
    reads, writes = (
        OpCounts.timed(its.count, its.bytes, its.count * block_s)
        for its in (counts.reads, counts.writes)
    )
    return replace(counts, reads=reads, writes=writes)
