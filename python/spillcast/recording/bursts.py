"""CPU time of threads between two temp operations, after a wait of known length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.recording.distinct import ascending, distinct, grouped
from spillcast.recording.recording import Recording
from spillcast.recording.spill import slice_numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
READ, WRITE = 0, 1


@dataclass(frozen=True, eq=False)
class Bursts:
    """Arrays with an entry for each temp operation that is followed by another of its thread."""

    #: When the operation ended, s since the run began.
    end_s: Floats
    wait_s: Floats
    bytes: Ints
    #: READ or WRITE: the operation, and the one that follows.
    op: NDArray[np.int8]
    next_op: NDArray[np.int8]
    session: Ints
    #: CPU time of the thread from the one to the other, outside of temp operations.
    cpu_s: Floats

    def after(self, op: str) -> NDArray[np.bool_]:
        """Which ones follow a ``read`` or a ``write``."""
        return np.asarray(self.op == (WRITE if op == "write" else READ))

    def __len__(self) -> int:
        return len(self.cpu_s)


def bursts_of(recording: Recording) -> Bursts | None:
    """Those of the single waits that a recording keeps; None where CPU time is not among them."""
    waits = recording.waits
    if not waits.num_rows or waits["cpu_before_ns"].null_count == waits.num_rows:
        return None
    size = waits["bytes"].filled(0)
    chosen = waits["temp"].values & waits["op"].is_valid() & (size > 0)
    session, start_ns = waits["session"].values, waits["start_ns"].values
    number = distinct(session)[1]
    order = grouped(number) if ascending(start_ns) else np.lexsort((start_ns, number))
    at = np.flatnonzero(chosen[order])
    rows = order[at]
    cpu_ns = np.cumsum(waits["cpu_before_ns"].filled(0)[order])[at]
    number = number[rows]
    del order, at
    together = number[:-1] == number[1:]
    if recording.slices_s:
        # The time between two slices is unknown.
        stretch = slice_numbers(recording.slices_s, start_ns[rows])
        together &= stretch[:-1] == stretch[1:]
    del number
    positions, cpu_s = rows[:-1][together], np.diff(cpu_ns)[together] / 1e9
    ops = np.where(waits["op"].equals("write"), np.int8(WRITE), np.int8(READ))
    wait_s = waits["elapsed_ns"].values[positions] / 1e9
    return Bursts(
        start_ns[positions] / 1e9 + wait_s,
        wait_s,
        size[positions],
        ops[positions],
        ops[rows[1:][together]],
        session[positions],
        cpu_s,
    )


@dataclass(frozen=True, eq=False)
class TempOperations:
    """The temp operations that a recording keeps, of all threads together, by start."""

    start_ns: Ints
    is_read: NDArray[np.bool_]
    #: CPU time of the operation's thread from it until the thread's next one, and all time between
    #: its calls in place of CPU time.
    cpu_s: Floats
    gap_s: Floats
    #: Threads that did temp I/O.
    threads: int
    #: Begin and end (s) of the stretches that were kept; None for the entire run.
    slices_s: Sequence[tuple[float, float]] | None

    @classmethod
    def of(cls, recording: Recording) -> "TempOperations":
        """Read the waits of a recording."""
        rows = recording.waits.sort_by("session", "start_ns")
        session, start = rows["session"].values, rows["start_ns"].values
        end = start + rows["elapsed_ns"].values
        gap_ns = np.maximum(start - np.concatenate([start[:1], end[:-1]]), 0)
        cpu_ns = rows["cpu_before_ns"].filled(0)
        moved = rows["bytes"].filled(0) > 0
        is_operation = rows["temp"].values & rows["op"].is_valid()
        # A row's time belongs to the thread's last temp operation before it.
        at = np.arange(len(start))
        last = np.maximum.accumulate(np.where(is_operation & moved, at, -1)) if len(at) else at
        before = np.concatenate([[-1], last[:-1]])
        ours = (before >= 0) & (session[before] == session)
        order = np.flatnonzero(is_operation & moved)
        order = order[np.argsort(start[order], kind="stable")]
        cpu_s, gap_s = (
            np.bincount(before[ours], ns[ours], minlength=len(at))[order] / 1e9
            for ns in (cpu_ns, gap_ns)
        )
        is_read = rows["op"].equals("read")
        threads = max(1, len(np.unique(session[is_operation])))
        return cls(start[order], is_read[order], cpu_s, gap_s, threads, recording.slices_s)
