"""A sample of the single waits of a large recording, in windows that are spread evenly over it.

Ten million waits say hardly more about the overlap of threads than 256,000 do, and take fifty
times as long and eight times the memory. Single waits picked at random would not show which thread
waits for which, so a sample contains all waits of some windows. Readers treat it like a recording
that kept slices: nothing is known between two windows.

The file is still read and checked to its end, in batches, which takes a second. Which reads missed
a page cache is estimated meanwhile, from regions of the files: ``CachedReads``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import Column
from spillcast.recording.recording import Recording
from spillcast.recording.spill import slice_numbers
from spillcast.tables import Table, arrays_of

Array = NDArray[np.int64]
Flags = NDArray[np.bool_]
#: What is known of a window's threads ends with it, so it must be long.
WINDOWS = 64
#: Parts of a sample, each as evenly spread: their distance shows how certain it is.
PARTS = 4
#: Slices are chosen by the start of every 64th wait.
STEP = 64
#: A column for the number of a wait among all.
_NUMBER = "number"
#: The column of a sample's waits: of reads of temp files, what had to be read of a storage.
COLUMN = "missing_bytes"
#: The value for rows that are not reads.
NONE = -1
#: Regions are picked so that about as many operations are on them.
OPERATIONS = 1_000_000
#: A read of a region that was not picked lacked what one of so many before or behind it did: those
#: of many regions, for what is read ahead lies at the beginning of each.
NEIGHBOURS = 1024
#: The columns of waits that identify them.
_NEEDED = ("session", "op", "file", "offset", "bytes", "elapsed_ns")


@dataclass(frozen=True)
class PageCacheRoom:
    """Holds the engine's page cache, and its calls that were as fast as memory."""

    bytes: int
    #: Of elapsed times (ns) and sizes (bytes).
    as_fast: Callable[[Array, Array], Flags]


class CachedReads:
    """Takes the waits of a recording in order, then gives the missed bytes of a sample's reads."""

    def __init__(self, room: PageCacheRoom, operations: int, parts: int) -> None:
        """``operations`` are those on temp files, about; ``parts`` those of the sample."""
        self._room = room
        rate = min(1.0, OPERATIONS / max(operations, 1))
        # Each part has regions of its own, so that their chance shows in how far apart parts
        # are; where all are picked there is none.
        self._groups = parts if rate < 1.0 else 1
        self._core = _core.PageCacheReads(rate, self._groups)
        self._numbers = dict[str | None, int]()
        self._rows = 0
        self._picked: list[_Reads] = []
        self._sampled: list[_Reads] = []

    def push(self, waits: Table, part: Array) -> None:
        """Take the next waits, and the part of the sample that each is in; NONE for no part."""
        moving = waits["temp"].values & (waits["bytes"].filled(0) > 0) & waits["op"].is_valid()
        chosen = waits.select(_NEEDED).filter(moving)
        file, write = self._files(chosen["file"]), chosen["op"].equals("write")
        size = chosen["bytes"].values
        offset = chosen["offset"].filled(NONE)
        operations = Table({"file": file, "offset": offset, "bytes": size, "write": write})
        pushed = arrays_of(self._core.push(operations))
        group, sequential = pushed["group"], pushed["sequential"]
        fast = self._room.as_fast(chosen["elapsed_ns"].values, size)
        row, part = self._rows + np.flatnonzero(moving), part[moving]
        reads = _Reads(row, chosen["session"].values, fast, sequential, ~write, group)
        self._picked.append(reads.at(np.flatnonzero(group >= 0)))
        sampled = replace(reads, group=part % self._groups)
        self._sampled.append(sampled.at(np.flatnonzero(part != NONE)))
        self._rows += waits.num_rows

    @property
    def held_bytes(self) -> int | None:
        """The most that temp files held together; None if an offset is unknown."""
        return self._core.held_bytes()

    def missing_bytes(self, sampled: Array) -> Array:
        """By wait of the sample, given by number, the bytes the cache lacked; NONE for no reads."""
        picked, sampled_reads = _Reads.of(self._picked), _Reads.of(self._sampled)
        table = self._core.missing_bytes(self._room.bytes)
        known = arrays_of(table)["missing_bytes"][picked.read]
        picked, sampled_reads = picked.at(picked.read), sampled_reads.at(sampled_reads.read)
        matches = np.full(len(sampled), NONE, dtype=np.int64)
        for group in range(self._groups):
            its, of = sampled_reads.at(sampled_reads.group == group), picked.group == group
            if not of.any():
                of = np.ones(len(of), dtype=bool)
            if len(of):
                matches[np.searchsorted(sampled, its.row)] = _like(picked.at(of), known[of], its)
        return matches

    def _files(self, names: Column) -> NDArray[np.int32]:
        """The number of each name; in parts of a file the same name has not the same code."""
        of = [self._numbers.setdefault(name, len(self._numbers)) for name in (*names.names, None)]
        # The last place is that of null.
        numbers: NDArray[np.int32] = np.array(of, dtype=np.int32)[names.values]
        return numbers


@dataclass(frozen=True)
class _Reads:
    """Columns of operations; ``row`` is their number among all waits.

    The group is that of their regions, or that of their part of the sample.
    """

    row: Array
    session: Array
    fast: Flags
    sequential: Flags
    read: Flags
    group: Array

    def at(self, which: NDArray[Any]) -> "_Reads":
        return _Reads(*(getattr(self, field.name)[which] for field in fields(self)))

    @classmethod
    def of(cls, parts: "list[_Reads]") -> "_Reads":
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*map(np.concatenate, columns))


def _like(picked: _Reads, known: Array, sampled: _Reads) -> Array:
    """The bytes that the sampled reads missed: their own, or those of a read close by.

    The read close by is of the same session, pattern (sequential or not) and speed (as fast as
    memory or not) if there is one, else of the same pattern and speed, else any. The mean is right
    however these are mixed, because both are drawn from the same reads.
    """
    draws = np.random.default_rng(0)
    off = draws.integers(-NEIGHBOURS, NEIGHBOURS, len(sampled.row))
    matches = np.full(len(sampled.row), NONE, dtype=np.int64)
    for group_of in (_by_session, _by_speed, _any):
        left = np.flatnonzero(matches == NONE)
        near = _near(
            group_of(picked), picked.row, group_of(sampled.at(left)), sampled.row[left], off[left]
        )
        matches[left[near != NONE]] = known[near[near != NONE]]
    position = np.searchsorted(picked.row, sampled.row)
    is_own = picked.row[np.minimum(position, len(picked.row) - 1)] == sampled.row
    matches[is_own] = known[position[is_own]]
    return matches


def _by_session(reads: _Reads) -> Array:
    return reads.session * 4 + reads.sequential * 2 + reads.fast


def _by_speed(reads: _Reads) -> Array:
    return reads.sequential * np.int64(2) + reads.fast


def _any(reads: _Reads) -> Array:
    return np.zeros(len(reads.row), dtype=np.int64)


def _near(group: Array, row: Array, sampled_group: Array, sampled_row: Array, off: Array) -> Array:
    """By sampled row, the position in ``row`` of a read of the same group, ``off`` places away.

    Places beyond an end of the group are counted back from it; NONE for an empty group. ``row``
    ascends.
    """
    order = np.argsort(group, kind="stable")
    matches = np.full(len(sampled_row), NONE)
    for group_id in np.unique(sampled_group):
        members = np.flatnonzero(sampled_group == group_id)
        low, high = np.searchsorted(group, [group_id, group_id + 1], sorter=order)
        if low == high:
            continue
        at = np.searchsorted(row[order[low:high]], sampled_row[members]) + off[members]
        # There and back: 0 1 2 1 0 1 ...
        at %= max(2 * (high - low - 1), 1)
        matches[members] = order[low + np.minimum(at, 2 * (high - low - 1) - at)]
    return matches


@dataclass(frozen=True)
class Sample:
    """Describes the selection of a recording's waits."""

    #: The recording with all waits.
    whole: Recording
    rows: int
    #: Start and end of each stretch of the run of which all waits were taken, s; and the number of
    #: its window.
    slices_s: Sequence[tuple[float, float]]
    windows: Sequence[int]
    #: The most that temp files held together; None if not computed, or unknown.
    spill_bytes: int | None = None


def sampled(recording: Recording, rows: int, room: PageCacheRoom | None = None) -> Recording:
    """The same run with about so many of its single waits; its seconds count what they counted.

    With ``room``, the column COLUMN holds the bytes of each read that the page cache lacked.
    InputError where the file of waits is damaged.
    """
    slices, windows = _slices_ns(recording, rows)
    reads = None
    if room is not None:
        operations = recording.meta.temp.reads + recording.meta.temp.writes
        reads = CachedReads(room, operations, PARTS)
    part_of = np.array(windows, dtype=np.int64) % PARTS
    waits = Table.concat([*_beginning_in(recording, slices, part_of, reads)])
    spill_bytes = None
    if reads is not None:
        spill_bytes = reads.held_bytes
        missing = reads.missing_bytes(waits[_NUMBER].values)
        waits = waits.drop(_NUMBER).with_column(COLUMN, missing)
    slices_s = [(begin / 1e9, end / 1e9) for begin, end in slices.tolist()]
    sample = Sample(recording, len(waits), slices_s, windows, spill_bytes)
    return recording.with_waits(waits, sample)


def parts_of(recording: Recording) -> list[Recording]:
    """The PARTS of a sample, each with every fourth window; none if the recording is no sample."""
    if (sample := recording.sample) is None:
        return []
    part_of = np.array(sample.windows) % PARTS
    at = slice_numbers(sample.slices_s, recording.waits["start_ns"].values) - 1
    recordings = []
    for part in range(PARTS):
        waits = recording.waits.filter(part_of[at] == part)
        its = np.flatnonzero(part_of == part).tolist()
        part_sample = replace(
            sample,
            rows=len(waits),
            slices_s=[sample.slices_s[n] for n in its],
            windows=[sample.windows[n] for n in its],
        )
        recordings.append(recording.with_waits(waits, part_sample))
    return recordings


def _beginning_in(
    recording: Recording, slices: Array, part_of: Array, reads: CachedReads | None
) -> Iterator[Table]:
    """The waits that begin within slices, which do not overlap; ``reads`` sees all waits.

    ``part_of`` is the part of the sample that each slice is in.
    """
    edges, before = slices.ravel(), 0
    for rows in recording.batches("waits"):
        edge = np.searchsorted(edges, rows["start_ns"].values, side="right")
        within = edge % 2 == 1
        selected = rows.filter(within)
        if reads is not None:
            part = np.full(len(edge), NONE)
            part[within] = part_of[edge[within] // 2]
            reads.push(rows, part)
            selected = selected.with_column(_NUMBER, before + np.flatnonzero(within))
        before += rows.num_rows
        yield selected


def _slices_ns(recording: Recording, rows: int) -> tuple[Array, list[int]]:
    """Slices that hold about so many waits, and the window of each.

    The waits are cut into equal parts by number, of each of which a window is taken, anywhere in
    it: what comes again at equal times is met as often as not. Where slices alone were kept, a
    window ends with its slice.
    """
    start_ns = _some_starts_ns(recording)
    share = min(rows / max(recording.meta.raw.rows, 1), 1.0)
    anywhere = np.random.default_rng(0).uniform(0, 1 - share, WINDOWS)
    at = (np.arange(WINDOWS) + anywhere)[:, None] + [0.0, share]
    edges = np.quantile(start_ns, at / WINDOWS).astype(np.int64)
    kept = recording.meta.raw.slices_s
    if kept is None:
        pieces = [(begin, end, window) for window, (begin, end) in enumerate(edges.tolist())]
    else:
        kept_ns = [(round(begin * 1e9), round(end * 1e9)) for begin, end in kept]
        pieces = [
            (max(begin, first), min(end, last), window)
            for window, (begin, end) in enumerate(edges.tolist())
            for first, last in kept_ns
        ]
    pieces = [piece for piece in pieces if piece[0] < piece[1]]
    return np.array([piece[:2] for piece in pieces]).reshape(-1, 2), [p[2] for p in pieces]


def _some_starts_ns(recording: Recording) -> Array:
    """The start of every STEP-th wait, ascending."""
    starts = [
        # A copy: a view would keep the whole batch in memory.
        rows["start_ns"].values[::STEP].copy()
        for rows in recording.waits_unchecked("start_ns")
    ]
    return np.sort(np.concatenate(starts))
