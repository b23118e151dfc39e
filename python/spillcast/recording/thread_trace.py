"""The work of a recording's threads: their trace and sums of their waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.calibrated import calibrated
from spillcast.columns import Flags, Floats, Integers
from spillcast.recording.calibration import idle_s
from spillcast.tables import Numbers, Table, arrays_of

#: Stands for no row, or an unknown value.
NONE = -1


@dataclass(frozen=True)
class ThreadTrace:
    """The waits of all threads, one row each, sorted by start.

    A thread uses ``cpu_ns`` of CPU time until ``start_ns`` and then waits for ``wait_ns``; if
    ``on_core``, it stays on its core. If ``after`` is not NONE, it waits until the thread of row
    ``after`` has ended that row and then used ``after_cpu_ns``. Rows with ``temp`` are operations
    on temp files, which have ``file``, ``offset`` (NONE if unknown), ``bytes`` and ``write``. Rows
    with ``change`` move no bytes but create, resize, sync, remove or look up a file.
    """

    thread: Numbers
    start_ns: Integers
    cpu_ns: Integers
    #: Time runnable without a core, between the end of the thread's previous row and ``start_ns``.
    ready_ns: Integers
    wait_ns: Integers
    on_core: Flags
    after: Numbers
    after_cpu_ns: Integers
    temp: Flags
    change: Flags
    #: Whether the row is a call on a file of any kind.
    io: Flags
    #: Indexes of rows of ``Recording.waits``; NONE for the start of a thread.
    source: Numbers
    file: Numbers
    offset: Integers
    bytes: Integers
    write: Flags
    #: Whether CPU time was measured; if not, it is all time between two rows of a thread.
    cpu_known: bool

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(self.thread.max(initial=NONE)) + 1

    def io_ns(self, wait_ns: NDArray[Any]) -> NDArray[Any]:
        """``wait_ns`` of I/O rows, 0 for other rows: a thread that waits for work does no I/O."""
        return np.where(self.io, wait_ns, 0)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns that ``_core.simulate`` takes.

        Optional columns are ``cached_ns``, the time of an operation that a page cache serves,
        ``missing_bytes``, the bytes of a read that miss it, and ``call_ns``, CPU time in waits.
        """
        return {
            "thread": self.thread, "cpu_ns": self.cpu_ns, "wait_ns": self.wait_ns,
            "after": self.after, "after_cpu_ns": self.after_cpu_ns, "on_core": self.on_core,
            "temp": self.temp, "file": self.file, "offset": self.offset, "bytes": self.bytes,
            "write": self.write,
        }  # fmt: skip


#: Operations as numbers, for arrays.
READ, WRITE = 0, 1


@dataclass(frozen=True, eq=False)
class Bursts:
    """Arrays with an entry for each temp operation that is followed by another of its thread."""

    #: End of the operation, s since the start of the run.
    end_s: Floats
    wait_s: Floats
    bytes: Integers
    #: READ or WRITE: the operation and the next one.
    op: NDArray[np.int8]
    next_op: NDArray[np.int8]
    session: Integers
    #: CPU time of the thread between the two operations.
    cpu_s: Floats

    @cached_property
    def idle_s(self) -> Floats:
        """The waits in the operations, without the time of copying their data."""
        return idle_s(self.wait_s, self.bytes)

    def after(self, op: str) -> Flags:
        """Flags of the bursts that follow a ``read`` or a ``write``."""
        return np.asarray(self.op == (WRITE if op == "write" else READ))

    def __len__(self) -> int:
        return len(self.cpu_s)


@dataclass(frozen=True)
class ReadsOfData:
    """Reads of files other than temp files; cold reads were slower than memory and blocked."""

    total_ns: int
    cold: int
    cold_bytes: int
    #: Elapsed time of cold reads: in each stretch of the run, divided by its active threads.
    cold_elapsed_s: float
    #: Mean number of active threads, on a CPU or in I/O, while any is active, at least 1.
    threads_at_once: float


@dataclass(frozen=True, eq=False)
class ThreadWork:
    """The work of a recording's threads, by the single waits that were kept."""

    #: The threads that do temp I/O, or that wait for such a thread, directly or through others. The
    #: start of a thread has its own row.
    trace: ThreadTrace
    #: The number of threads that did temp I/O.
    threads: int
    #: Mean number of temp operations in flight while there are any; 0 without any.
    in_flight: float
    #: By op and size class (bytes): the share of temp operations that begin where the previous one
    #: of the op on their file ended. Operations without an offset do not count, nor do the first
    #: operations of a slice, whose predecessors are unknown.
    sequential: Mapping[tuple[str, int], float]
    #: Share of the temp operations that are known to have blocked.
    blocked_share: float
    #: Calls that change temp files: event, number and time (ns).
    changes: Sequence[tuple[str, int, int]]
    #: CPU time from each temp operation to the next of its thread, by thread; None if unknown.
    bursts: Bursts | None
    data_reads: ReadsOfData
    #: Whether the recording shows which threads wait for each other.
    wakings_seen: bool
    #: The engine whose temp files have the recorded names; None if unknown.
    temp_owner: str | None


def work_of(waits: Table, slices_ns: Sequence[tuple[int, int]], elapsed_s: float) -> ThreadWork:
    """The work of a run, in one pass over its waits; empty ``slices_ns`` for the whole run."""
    constants = calibrated()
    memory = constants.memory_s, constants.memory_bytes_per_s
    work = _core.work(waits, slices_ns, elapsed_s, memory)
    bursts = work["bursts"]
    return ThreadWork(
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
    """The temp operations of all threads in a recording, sorted by start."""

    start_ns: Integers
    is_read: Flags
    #: From an operation to the next one of its thread: CPU time, and all time outside waits.
    cpu_s: Floats
    gap_s: Floats
    #: Threads that did temp I/O.
    threads: int
    #: Start and end (s) of the kept stretches; None for the entire run.
    slices_s: Sequence[tuple[float, float]] | None

    @classmethod
    def of(cls, waits: Table, slices_s: Sequence[tuple[float, float]] | None) -> "TempOperations":
        """The temp operations among ``waits``, which cover ``slices_s``."""
        rows = waits.sort_by("session", "start_ns")
        session, start = rows["session"].values, rows["start_ns"].values
        end = start + rows["elapsed_ns"].values
        gap_ns = np.maximum(start - np.concatenate([start[:1], end[:-1]]), 0)
        cpu_ns = rows["cpu_before_ns"].filled(0)
        moved = rows["bytes"].filled(0) > 0
        is_operation = rows["temp"].values & rows["op"].is_valid()
        # The time before a row counts for the thread's previous temp operation.
        numbers = np.arange(len(start))
        last = np.where(is_operation & moved, numbers, -1)
        last = np.maximum.accumulate(last) if len(last) else last
        before = np.concatenate([[-1], last[:-1]])
        counted = (before >= 0) & (session[before] == session)
        order = np.flatnonzero(is_operation & moved)
        order = order[np.argsort(start[order], kind="stable")]
        cpu_s, gap_s = (
            np.bincount(before[counted], ns[counted], minlength=len(numbers))[order] / 1e9
            for ns in (cpu_ns, gap_ns)
        )
        is_read = rows["op"].equals("read")
        threads = max(1, len(np.unique(session[is_operation])))
        return cls(start[order], is_read[order], cpu_s, gap_s, threads, slices_s)

    def __len__(self) -> int:
        return len(self.start_ns)

    def first(self, count: int) -> "TempOperations":
        """The first ``count`` operations."""
        names = ("start_ns", "is_read", "cpu_s", "gap_s")
        return replace(self, **{name: getattr(self, name)[:count] for name in names})

    def cpu_after(self, op: str) -> Floats:
        """CPU time (s) after each operation of an op."""
        return self.cpu_s[self.is_read if op == "read" else ~self.is_read]
