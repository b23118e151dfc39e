"""The time of single waits, and of the CPU before them, by time slice and state, in one pass."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS

Array = NDArray[np.int64]
#: States by the op of a wait for temp I/O, then those of other waits and of no waits.
OTHER_IO, WAITS, CPU = len(OPS), len(OPS) + 1, len(OPS) + 2


class WaitsOverTime:
    """Sums over the waits of a recording, without keeping their rows.

    Waits other than I/O count only in sessions with temp I/O, because others may be idle. CPU
    time is that of the rows that ended it.
    """

    def __init__(self, recording: Recording, stretch_ns: int, count: int) -> None:
        """``count`` time slices; later waits count in the last one."""
        self._stretch_ns, self._count = stretch_ns, count
        self._working = _with_temp_io(recording)
        self._sessions = {*self._working}
        #: By state and stretch: ns of all sessions.
        self.ns = np.zeros((CPU + 1, count))
        for rows in recording.batches("waits"):
            self._add(rows)

    @property
    def sessions(self) -> int:
        """The number of sessions that did I/O or used a CPU."""
        return len(self._sessions)

    def _add(self, rows: pa.Table) -> None:
        begin, session = rows["start_ns"].to_numpy(), rows["session"].to_numpy()
        before = rows["cpu_before_ns"].fill_null(0).to_numpy()
        moved = rows["op"].is_valid().to_numpy()
        active = moved | (before > 0)
        self._sessions.update(pc.unique(rows["session"].filter(pa.array(active))).to_pylist())
        state = _states(rows)
        state[~moved & ~np.isin(session, [*self._working])] = -1
        for at in range(CPU):
            its = state == at
            if its.any():
                end = begin[its] + rows["elapsed_ns"].to_numpy()[its]
                self.ns[at] += self._spread(begin[its], end)
        worked = before > 0
        self.ns[CPU] += self._spread(np.maximum(begin - before, 0)[worked], begin[worked])

    def _spread(self, begin: Array, end: Array) -> NDArray[np.float64]:
        columns = {"begin_ns": begin, "end_ns": end, "values": (end - begin).astype(float)}
        batch = pa.record_batch({name: pa.array(of) for name, of in columns.items()})
        return np.array(_core.spread(batch, float(self._stretch_ns), self._count))


def _states(rows: pa.Table) -> NDArray[np.int8]:
    temp = rows["temp"].to_numpy()
    op = pc.index_in(rows["op"], pa.array(OPS)).fill_null(OTHER_IO).to_numpy()
    state = np.where(temp, op, OTHER_IO).astype(np.int8)
    state[~temp & rows["op"].is_null().to_numpy()] = WAITS
    return state


def _with_temp_io(recording: Recording) -> set[int]:
    """The sessions that read, write or change temp files."""
    with_temp = set[int]()
    for rows in recording.waits_unchecked("session", "temp"):
        with_temp.update(pc.unique(rows["session"].filter(rows["temp"])).to_pylist())
    return with_temp
