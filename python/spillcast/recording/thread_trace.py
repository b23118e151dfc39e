"""The work of a recording's threads, each in its order: CPU, waits, waits for each other."""

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.recording.recording import Recording
from spillcast.tables import arrays_of

Array = NDArray[np.int64]
#: Threads, files and rows by number: there are many of them in memory.
Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
#: No row of another thread.
NONE = -1


@dataclass(frozen=True)
class ThreadTrace:
    """One row a wait, by start; each thread's rows are in its order.

    A thread burns ``cpu_ns`` until ``start_ns`` and then waits: for ``wait_ns``, on the core where
    ``on_core``, or, where ``after`` is not NONE, until the thread of row ``after`` has ended that
    row and then burned ``after_cpu_ns``. ``temp`` are the operations on temp files, as recorded;
    of those ``file``, ``offset`` (NONE where it is not known), ``bytes`` and ``write`` are known.
    Of them ``change`` are those that move no bytes but make, resize, sync or remove a file.
    """

    thread: Numbers
    start_ns: Array
    cpu_ns: Array
    #: Ready without a core, between the end of the thread's last row and this one's start.
    ready_ns: Array
    wait_ns: Array
    on_core: Flags
    after: Numbers
    after_cpu_ns: Array
    temp: Flags
    change: Flags
    #: Calls on files, temp files and others.
    io: Flags
    #: Rows of ``Recording.waits``; NONE for the beginning of a thread.
    source: Numbers
    file: Numbers
    offset: Array
    bytes: Array
    write: Flags
    #: Whether CPU time was measured; else all time between two rows is taken to be it.
    cpu_known: bool

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(self.thread.max(initial=NONE)) + 1

    def io_ns(self, wait_ns: NDArray[Any]) -> NDArray[Any]:
        """The part of each row's wait in which its thread had I/O in flight.

        A thread that waits for something else does nothing meanwhile: engines look in turns of some
        ms whether there is work again, and no other thread wakes them.
        """
        under_way: NDArray[Any] = np.where(self.io, wait_ns, 0)
        return under_way

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns that ``_core.simulate`` takes.

        It may have more: ``cached_ns``, how long each takes that a page cache answers,
        ``missing_bytes``, what of a read it lacks, and ``call_ns``, CPU time within waits.
        """
        return {
            "thread": self.thread, "cpu_ns": self.cpu_ns, "wait_ns": self.wait_ns,
            "after": self.after, "after_cpu_ns": self.after_cpu_ns, "on_core": self.on_core,
            "temp": self.temp, "file": self.file, "offset": self.offset, "bytes": self.bytes,
            "write": self.write,
        }  # fmt: skip


def thread_trace(recording: Recording) -> ThreadTrace:
    """The trace of a recording that holds single waits.

    A thread's beginning is a row of its own. Threads that neither do temp I/O nor wait, at one
    remove or more, for one that does are skipped: they sleep, or serve others.
    """
    rows, cpu_known = _core.thread_trace(recording.waits, slices_ns(recording))
    return ThreadTrace(**arrays_of(rows), cpu_known=cpu_known)


def slices_ns(recording: Recording) -> list[tuple[int, int]]:
    """Begin and end of each stretch of the run that the waits cover; empty for the whole run."""
    # An end that is not a whole ns is before the row at the next one.
    slices = recording.slices_s or ()
    return [(round(begin_s * 1e9), floor(end_s * 1e9)) for begin_s, end_s in slices]


def wakings_seen(recording: Recording) -> bool:
    """Whether the recording shows which threads wait for each other."""
    woken_by = recording.waits["woken_by"]
    return bool(woken_by.null_count < len(woken_by))
