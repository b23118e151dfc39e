"""The work of a recording's threads, each in its order: CPU, waits, waits for each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast.columns import Column
from spillcast.recording.distinct import distinct, grouped
from spillcast.recording.recording import Recording
from spillcast.recording.spill import codes, slice_numbers
from spillcast.tables import Table

Array = NDArray[np.int64]
#: Threads, files and rows by number: there are many of them in memory.
Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Slices = Sequence[tuple[float, float]]
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

    A thread's beginning is a row of its own. It, and a wait that no observed thread is known to
    have ended, is taken to follow the last row of another thread that had ended by then: engines
    look in turns whether others are done. Where no other had done anything meanwhile, the wait
    lasts as long as it did.

    Threads that neither do temp I/O nor wait, at one remove or more, for one that does are skipped:
    they sleep, or serve others.
    """
    rows = _Rows.of(recording.waits, recording.slices_s)
    rows = rows.of_threads(rows.concerned())
    first = rows.first()
    rows = rows.with_beginnings(first, recording.slices_s)
    edges = _Edges(rows)
    blocked = np.flatnonzero(rows.blocked_outside)
    several = rows.threads > 1
    known = rows.woken_by[blocked] != NONE
    edges.by_waker(blocked[known])
    if several:
        edges.by_latest(blocked[~known])
        edges.by_latest(_begun(rows, recording.slices_s))
    return ThreadTrace(
        rows.thread,
        rows.start_ns,
        rows.cpu_ns,
        np.where(rows.source == NONE, 0, rows.gap_ns - rows.cpu_ns),
        rows.end_ns - rows.start_ns,
        rows.on_core,
        edges.after,
        edges.after_cpu_ns,
        rows.temp,
        rows.change,
        ~rows.blocked_outside & (rows.source != NONE),
        rows.source,
        *_operations(recording.waits, rows.temp, rows.source),
        rows.cpu_known,
    )


def _begun(rows: "_Rows", slices_s: Slices | None) -> Array:
    """The beginnings of threads, but for those of which a first slice shows only that they ran."""
    begun = np.flatnonzero(rows.source == NONE)
    if not slices_s or slices_s[0][0] == 0:
        return begun
    return begun[rows.end_ns[begun] > slices_s[0][1] * 1e9]


def _operations(waits: Table, temp: Flags, source: Numbers) -> tuple[Numbers, Array, Array, Flags]:
    """File, offset, bytes and whether it writes, of the temp operations; 0 for other rows."""
    rows = waits.select(["op", "file", "offset", "bytes"])
    rows = rows.take(source[temp])

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        whole = np.zeros(len(source), dtype=values.dtype)
        whole[temp] = values
        return whole

    write = rows["op"].equals("write")
    return (
        spread(codes(rows["file"])),
        spread(rows["offset"].filled(NONE)),
        spread(rows["bytes"].filled(0)),
        spread(write),
    )


def wakings_seen(recording: Recording) -> bool:
    """Whether the recording shows which threads wait for each other."""
    woken_by = recording.waits["woken_by"]
    return bool(woken_by.null_count < len(woken_by))


@dataclass(frozen=True)
class _Rows:
    """Columns of the waits as numbers; ``woken_by`` is a thread of ours or NONE."""

    thread: Numbers
    start_ns: Array
    end_ns: Array
    gap_ns: Array
    cpu_ns: Array
    on_core: Flags
    temp: Flags
    change: Flags
    blocked_outside: Flags
    woken_by: Numbers
    source: Numbers
    cpu_known: bool

    @property
    def threads(self) -> int:
        return int(self.thread.max(initial=NONE)) + 1

    @classmethod
    def of(cls, waits: Table, slices_s: Slices | None) -> "_Rows":
        beside = beside_others(waits)
        source = np.flatnonzero(~beside).astype(np.int32)
        waits = waits.filter(~beside)
        sessions, thread = distinct(waits["session"].values)
        start = waits["start_ns"].values
        end = start + waits["elapsed_ns"].values
        temp, op_known = waits["temp"].values, waits["op"].is_valid()
        # Calls on files and waits for writeback; any other row is a thread that waits.
        on_file = op_known | waits["file"].is_valid() | temp
        blocked = waits["blocked"].filled(True)
        woken_by = _number_of(sessions, waits["woken_by"])
        cpu = waits["cpu_before_ns"]
        cpu_known = cpu.null_count < len(cpu)
        gaps = _gaps(thread, start, end)
        if slices_s:
            # What is before a row's slice is not known, but for its own CPU time.
            known = start - _slice_starts(start, slices_s)
            gaps = np.minimum(gaps, np.maximum(known, cpu.filled(0)))
        return cls(
            thread,
            start,
            end,
            gaps,
            np.minimum(cpu.filled(0), gaps) if cpu_known else gaps,
            ~blocked & on_file,
            temp & on_file,
            temp & on_file & ~op_known,
            ~on_file,
            woken_by,
            source,
            cpu_known,
        )

    def concerned(self) -> Array:
        """Threads that temp I/O can hold up, ascending."""
        concerned = np.zeros(self.threads, dtype=bool)
        concerned[self.thread[self.temp]] = True
        woken = self.woken_by != NONE
        waiter, waker = self.thread[woken], self.woken_by[woken]
        while (more := waiter[~concerned[waiter] & concerned[waker]]).size:
            concerned[more] = True
        return np.flatnonzero(concerned)

    def first(self) -> Array:
        """The first row of each thread."""
        first = np.full(self.threads, len(self.thread))
        first[self.thread[::-1]] = np.arange(len(self.thread))[::-1]
        return first

    def of_threads(self, threads: Array) -> "_Rows":
        """Only their rows, with the threads numbered anew."""
        if len(threads) == self.threads:
            return self
        number = np.full(self.threads + 1, NONE, dtype=np.int32)
        number[threads] = np.arange(len(threads))
        kept = number[self.thread] != NONE
        return _Rows(
            number[self.thread[kept]],
            self.start_ns[kept],
            self.end_ns[kept],
            self.gap_ns[kept],
            self.cpu_ns[kept],
            self.on_core[kept],
            self.temp[kept],
            self.change[kept],
            self.blocked_outside[kept],
            # NONE is the last place, which holds NONE.
            number[self.woken_by[kept]],
            self.source[kept],
            self.cpu_known,
        )

    def with_beginnings(self, first: Array, slices_s: Slices | None) -> "_Rows":
        """Insert a row of no length at the beginning of each thread, given its first row."""
        begin = np.maximum(self.start_ns[first] - self.cpu_ns[first], 0)
        known = np.minimum(_slice_starts(self.start_ns[first], slices_s), begin)
        # Before that it was not ready, but not there.
        gap_ns = self.gap_ns.copy()
        gap_ns[first] = self.cpu_ns[first]
        count = len(first)
        nothing, no = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        none = np.full(count, NONE, dtype=np.int32)
        # A beginning lasts from the start of the recording, or of the slice of it that its thread's
        # first row is in, and ends before that.
        order = np.argsort(begin, kind="stable")
        at = np.searchsorted(self.start_ns, begin[order], side="left")

        def joined(beginnings: NDArray, ends: NDArray) -> NDArray:  # type: ignore[type-arg]
            # A piece of the rows after each beginning, which numpy's insert is slow to make.
            pieces = np.split(ends, at)
            single = beginnings[order].astype(ends.dtype)[:, None]
            between = chain.from_iterable(zip(pieces, single, strict=False))
            return np.concatenate([*between, pieces[-1]])

        return _Rows(
            joined(self.thread[first], self.thread),
            joined(known, self.start_ns),
            joined(begin, self.end_ns),
            joined(nothing, gap_ns),
            joined(nothing, self.cpu_ns),
            joined(no, self.on_core),
            joined(no, self.temp),
            joined(no, self.change),
            joined(no, self.blocked_outside),
            joined(none, self.woken_by),
            joined(none, self.source),
            self.cpu_known,
        )


def _number_of(sessions: Array, wakers: Column) -> Numbers:
    """By row, the number of the session that is its waker; NONE for no session of ours."""
    if wakers.null_count == len(wakers):
        return np.full(len(wakers), NONE, dtype=np.int32)
    waker = wakers.filled(NONE)
    at = np.clip(np.searchsorted(sessions, waker), 0, len(sessions) - 1)
    ours = (waker != NONE) & (sessions[at] == waker)
    return np.where(ours, at, NONE).astype(np.int32)


class _Edges:
    """Which rows end only when another thread has come so far."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self.after: Numbers = np.full(len(rows.thread), NONE, dtype=np.int32)
        self.after_cpu_ns: Array = np.zeros(len(rows.thread), dtype=np.int64)

    @cached_property
    def _of(self) -> list[Array]:
        """The rows of each thread."""
        threads = self._rows.threads
        counts = np.bincount(self._rows.thread, minlength=threads)
        return np.split(grouped(self._rows.thread), np.cumsum(counts)[:-1])

    def by_waker(self, blocked: Array) -> None:
        """Rows that their waker ended: it had ended a row of its own, and worked since."""
        for waker in np.unique(self._rows.woken_by[blocked]):
            which = blocked[self._rows.woken_by[blocked] == waker]
            edges = self._of[waker]
            ends = self._rows.end_ns[edges]
            woken = self._rows.end_ns[which]
            last = np.searchsorted(ends, woken, side="right") - 1
            seen = last >= 0
            self._tie(which[seen], edges, last[seen], woken[seen] - ends[last[seen]])

    def by_latest(self, which: Array) -> None:
        """Rows that end when, of all rows of other threads, the last one had ended by then."""
        rows = self._rows
        order = np.argsort(rows.end_ns, kind="stable")
        thread = rows.thread[order]
        woken = rows.end_ns[which]
        at = np.searchsorted(rows.end_ns[order], woken, side="right") - 1
        # Where it is a row of the same thread, the one before its like is another's.
        first = np.concatenate([[True], thread[1:] != thread[:-1]])
        begins = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        at = np.where(thread[at] == rows.thread[which], begins[at] - 1, at)
        other = order[at]
        # What had ended before the wait began ended no wait.
        during = (at >= 0) & (rows.end_ns[other] > rows.start_ns[which])
        for owner in np.unique(rows.thread[other[during]]):
            its = during & (rows.thread[other] == owner)
            edges = self._of[owner]
            last = np.searchsorted(edges, other[its])
            self._tie(which[its], edges, last, woken[its] - rows.end_ns[other[its]])

    def _tie(self, which: Array, threads: Array, last: Array, since_ns: Array) -> None:
        following = np.minimum(last + 1, len(threads) - 1)
        most_ns = np.where(last + 1 < len(threads), self._rows.cpu_ns[threads[following]], 0)
        self.after[which] = threads[last]
        self.after_cpu_ns[which] = np.clip(since_ns, 0, most_ns)


def _gaps(thread: Numbers, start: Array, end: Array) -> Array:
    """Time between the end of a thread's row and the start of its next; of the first, its start."""
    order = grouped(thread)
    same = np.concatenate([[False], thread[order][1:] == thread[order][:-1]])
    before = np.where(same, np.concatenate([[0], end[order][:-1]]), 0)
    gaps = np.empty_like(start)
    gaps[order] = np.maximum(start[order] - before, 0)
    return gaps


def _slice_starts(start: Array, slices_s: Slices | None) -> Array:
    """When the slice of each row begins; 0 where they are of the whole run."""
    if not slices_s:
        return np.zeros_like(start)
    edges = np.array([0, *(round(begin_s * 1e9) for begin_s, _ in slices_s)])
    starts: Array = np.minimum(edges[slice_numbers(slices_s, start)], start)
    return starts


#: How their events begin.
PREFIX = "io_uring_"


def beside_others(waits: Table) -> Flags:
    """Whether each row is a request in flight together with others of its thread.

    The rows of its thread show how it waited for them; one that is alone is such a row itself.
    """
    event = waits["event"]
    requests = [name for name in event.names if name.startswith(PREFIX)]
    if not requests:
        return np.zeros(len(event), dtype=bool)
    return event.isin(requests) & waits["blocked"].is_null()


def most_at_once(requests: Table) -> int:
    """The most of these rows that one session had under way at once."""
    start = requests["start_ns"].values
    end = start + requests["elapsed_ns"].values
    session = np.tile(requests["session"].values, 2)
    step = np.repeat([1, -1], len(start))
    order = np.lexsort((step, np.concatenate([start, end]), session))
    return int(np.cumsum(step[order]).max(initial=0))
