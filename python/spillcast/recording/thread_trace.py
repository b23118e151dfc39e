"""The work of a recording's threads: their trace, and sums of their waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.tables import Numbers, Table, arrays_of

Array = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
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


#: Operations as numbers.
READ, WRITE = 0, 1


@dataclass(frozen=True, eq=False)
class Bursts:
    """Arrays with an entry for each temp operation that is followed by another of its thread."""

    #: When the operation ended, s since the run began.
    end_s: Floats
    wait_s: Floats
    bytes: Array
    #: READ or WRITE: the operation, and the one that follows.
    op: NDArray[np.int8]
    next_op: NDArray[np.int8]
    session: Array
    #: CPU time of the thread from the one to the other, outside of temp operations.
    cpu_s: Floats

    def after(self, op: str) -> Flags:
        """Which bursts follow a ``read`` or a ``write``."""
        return np.asarray(self.op == (WRITE if op == "write" else READ))

    def __len__(self) -> int:
        return len(self.cpu_s)


@dataclass(frozen=True)
class ReadsOfData:
    """Reads of files other than temp files; cold ones were slower than memory and left the CPU."""

    total_ns: int
    cold: int
    cold_bytes: int
    #: Elapsed time of the cold ones: in each stretch of the run, divided by its active threads.
    cold_elapsed_s: float
    #: Mean number of active threads, on a CPU or in I/O, while any was: at least 1.
    threads_at_once: float


@dataclass(frozen=True, eq=False)
class Work:
    """What the threads of a recording did, by the single waits that were kept."""

    #: Threads that neither do temp I/O nor wait, at one remove or more, for one that does are left
    #: out: they sleep, or serve others. A thread's beginning is a row of its own.
    trace: ThreadTrace
    #: The number of threads that did temp I/O.
    threads: int
    #: Mean number of temp operations under way while at least one is; 0 without any.
    in_flight: float
    #: By op and size class (bytes), share of the temp operations that begin where the last one of
    #: the op on their file ended. Those without an offset are skipped, and so is the first one of
    #: each slice, whose predecessor is unknown.
    sequential: Mapping[tuple[str, int], float]
    #: Share of the temp operations that left the CPU; 0 where none is known to.
    blocked_share: float
    #: Calls that change temp files: event, number and time (ns).
    changes: Sequence[tuple[str, int, int]]
    #: CPU time from each temp operation to the next of its thread, by thread; None if unknown.
    bursts: Bursts | None
    data_reads: ReadsOfData
    #: Whether the recording shows which threads wait for each other.
    wakings_seen: bool
    #: The engine that gives the temp files their names; None if none is known to.
    temp_owner: str | None


def work_of(waits: Table, slices_ns: Sequence[tuple[int, int]], elapsed_s: float) -> Work:
    """The work of a run, in one pass over its waits; no ``slices_ns`` if they are of all of it."""
    known = calibrated()
    memory = known.memory_s, known.memory_bytes_per_s
    work = _core.work(waits, slices_ns, elapsed_s, memory)
    bursts = work["bursts"]
    return Work(
        trace=ThreadTrace(**arrays_of(work["trace"]), cpu_known=work["cpu_known"]),
        threads=work["threads"],
        in_flight=work["in_flight"],
        sequential={(op, size): share for op, size, share in work["sequential"]},
        blocked_share=work["blocked_share"],
        changes=work["changes"],
        bursts=None if bursts is None else Bursts(**arrays_of(bursts)),
        data_reads=ReadsOfData(**work["data_reads"]),
        wakings_seen=work["woken"],
        temp_owner=work["owner"],
    )


@dataclass(frozen=True, eq=False)
class TempOperations:
    """The temp operations that a recording keeps, of all threads together, by start."""

    start_ns: Array
    is_read: Flags
    #: Of the thread from this operation to its next one: CPU time, and all time between its calls.
    cpu_s: Floats
    gap_s: Floats
    #: Threads that did temp I/O.
    threads: int
    #: Begin and end (s) of the stretches that were kept; None for the entire run.
    slices_s: Sequence[tuple[float, float]] | None

    @classmethod
    def of(cls, waits: Table, slices_s: Sequence[tuple[float, float]] | None) -> "TempOperations":
        """Those among the waits of a recording that cover ``slices_s``."""
        rows = waits.sort_by("session", "start_ns")
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
        return cls(start[order], is_read[order], cpu_s, gap_s, threads, slices_s)

    def __len__(self) -> int:
        return len(self.start_ns)

    def first(self, count: int) -> "TempOperations":
        """The first of them."""
        return replace(
            self,
            start_ns=self.start_ns[:count],
            is_read=self.is_read[:count],
            cpu_s=self.cpu_s[:count],
            gap_s=self.gap_s[:count],
        )

    def cpu_after(self, op: str) -> Floats:
        """CPU time (s) after each operation of an op."""
        return self.cpu_s[self.is_read if op == "read" else ~self.is_read]
