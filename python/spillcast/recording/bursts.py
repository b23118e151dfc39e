"""CPU time of threads between two temp operations, after a wait of known length."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast.recording.distinct import ascending, distinct, grouped
from spillcast.recording.recording import Recording
from spillcast.recording.spill import equals, slice_numbers

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
    moved = pa.compute.greater(waits["bytes"], 0).fill_null(False)
    chosen = pa.compute.and_(waits["temp"], pa.compute.and_(waits["op"].is_valid(), moved))
    session, start_ns = waits["session"].to_numpy(), waits["start_ns"].to_numpy()
    number = distinct(session)[1]
    order = grouped(number) if ascending(start_ns) else np.lexsort((start_ns, number))
    at = np.flatnonzero(chosen.to_numpy()[order])
    rows = order[at]
    cpu_ns = np.cumsum(waits["cpu_before_ns"].fill_null(0).to_numpy()[order])[at]
    number = number[rows]
    del order, at
    together = number[:-1] == number[1:]
    if recording.slices_s:
        # The time between two slices is unknown.
        stretch = slice_numbers(recording.slices_s, start_ns[rows])
        together &= stretch[:-1] == stretch[1:]
    del number
    positions, cpu_s = rows[:-1][together], np.diff(cpu_ns)[together] / 1e9
    ops = np.where(equals(waits["op"], "write"), np.int8(WRITE), np.int8(READ))
    wait_s = waits["elapsed_ns"].to_numpy()[positions] / 1e9
    return Bursts(
        start_ns[positions] / 1e9 + wait_s,
        wait_s,
        waits["bytes"].fill_null(0).to_numpy()[positions],
        ops[positions],
        ops[rows[1:][together]],
        session[positions],
        cpu_s,
    )
