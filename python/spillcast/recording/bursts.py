"""What threads burn between two temp operations: CPU time after a wait of known length."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast.recording.recording import Recording

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
READ, WRITE = 0, 1


@dataclass(frozen=True)
class Bursts:
    """An entry for each temp operation that another one of its thread follows, in order."""

    #: When the operation ended, s since the run began.
    end_s: Floats
    wait_s: Floats
    bytes: Ints
    #: READ or WRITE: the operation, and the one that follows.
    op: Ints
    next_op: Ints
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
    waits = waits.take(
        pa.compute.sort_indices(waits, [("session", "ascending"), ("start_ns", "ascending")])
    )
    op = waits["op"].cast(pa.string())
    moved = pa.compute.greater(waits["bytes"], 0).fill_null(False)
    chosen = pa.compute.and_(waits["temp"], pa.compute.and_(op.is_valid(), moved))
    at = np.flatnonzero(chosen.to_numpy())
    cpu_ns = np.cumsum(waits["cpu_before_ns"].fill_null(0).to_numpy())
    session = waits["session"].to_numpy()
    start_s = waits["start_ns"].to_numpy() / 1e9
    wait_s = waits["elapsed_ns"].to_numpy() / 1e9
    ops = np.where(
        np.array(pa.compute.equal(op, "write").to_numpy(zero_copy_only=False), bool), WRITE, READ
    )
    here, following = at[:-1], at[1:]
    together = session[here] == session[following]
    together &= _slice_of(recording, start_s[here]) == _slice_of(recording, start_s[following])
    here, following = here[together], following[together]
    return Bursts(
        start_s[here] + wait_s[here],
        wait_s[here],
        waits["bytes"].fill_null(0).to_numpy()[here],
        ops[here],
        ops[following],
        session[here],
        (cpu_ns[following] - cpu_ns[here]) / 1e9,
    )


def _slice_of(recording: Recording, times_s: Floats) -> Ints:
    """The number of the stretch that a time is in: what happened between two is not known."""
    starts_s = np.array([start_s for start_s, _ in recording.meta.raw.slices_s or ()])
    return np.searchsorted(starts_s, times_s, side="right").astype(np.int64)
