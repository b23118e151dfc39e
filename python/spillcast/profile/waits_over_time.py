"""The time of single waits, and of the CPU before them, by time slice and state, in one pass."""

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.tables import Table

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

    def _add(self, rows: Table) -> None:
        begin, session = rows["start_ns"].values, rows["session"].values
        before = rows["cpu_before_ns"].filled(0)
        moved = rows["op"].is_valid()
        self._sessions.update(np.unique(session[moved | (before > 0)]).tolist())
        state = _states(rows)
        state[~moved & ~np.isin(session, [*self._working])] = -1
        for at in range(CPU):
            its = state == at
            if its.any():
                end = begin[its] + rows["elapsed_ns"].values[its]
                self.ns[at] += self._spread(begin[its], end)
        worked = before > 0
        self.ns[CPU] += self._spread(np.maximum(begin - before, 0)[worked], begin[worked])

    def _spread(self, begin: Array, end: Array) -> NDArray[np.float64]:
        columns = {"begin_ns": begin, "end_ns": end, "values": (end - begin).astype(float)}
        return np.array(_core.spread(Table(columns), float(self._stretch_ns), self._count))


def _states(rows: Table) -> NDArray[np.int8]:
    temp, op = rows["temp"].values, rows["op"]
    state = np.full(len(temp), OTHER_IO, dtype=np.int8)
    for number, name in enumerate(OPS):
        state[temp & op.equals(name)] = number
    state[~temp & op.is_null()] = WAITS
    return state


def _with_temp_io(recording: Recording) -> set[int]:
    """The sessions that read, write or change temp files."""
    with_temp = set[int]()
    for rows in recording.waits_unchecked("session", "temp"):
        with_temp.update(rows["session"][rows["temp"].values].unique())
    return with_temp
