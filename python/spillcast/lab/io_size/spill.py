"""RecordedSpill I/O with operations of another size: coalesced and split as an engine would."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import EvidenceUnsuited
from spillcast.lab.io_size.synthetic_sort import Setting, Sort, levels, unit_within
from spillcast.lab.note import Note
from spillcast.recording import Recording
from spillcast.recording.meta import Meta
from spillcast.storage.plan import plan, steps_of
from spillcast.tables import Table
from spillcast.units import format_bytes

Array = NDArray[np.int64]


class ResizedIo:
    """The steps of a plan by streams: reads, or writes, of which each begins where one ended.

    A larger buffer joins what follows each other in a stream, however many operations on other
    streams lie between: a merge reads a run here and a run there. What is read is then read with
    the first of the joined operations, what is written with the last.
    """

    def __init__(self, steps: Table) -> None:
        self.write = steps["write"].filled(False)
        self.thread, self.file, self.offset, self.bytes, self.delay_ns = (
            steps[name].to_numpy().astype(np.int64)
            for name in ("thread", "file", "offset", "bytes", "delay_ns")
        )
        stream = _streams(self.file * 2 + self.write, self.offset, self.bytes)
        #: Rows stream by stream, each in its order.
        self._order = np.argsort(stream, kind="stable")
        self._stream = stream[self._order]

    def steps(self, setting: Setting) -> Table:
        """The same bytes in operations of the size that the setting makes of each recorded one.

        Neighbours in a stream that get the same size are cut anew from the first to the last.
        """
        rows = self._order
        sizes = self.bytes[rows]
        unit = np.clip(sizes, setting.min_bytes, setting.max_bytes)
        end = np.cumsum(sizes)
        begins = np.flatnonzero(_changes(self._stream) | _changes(unit))
        begin_at = end[begins] - sizes[begins]
        length = np.diff(begin_at, append=end[-1])
        pieces = -(-length // unit[begins])
        stretch = np.repeat(np.arange(len(begins)), pieces)
        nth = np.arange(len(stretch)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        within = nth * unit[begins][stretch]
        size = np.minimum(unit[begins][stretch], length[stretch] - within)
        at = begin_at[stretch] + within
        first = rows[np.searchsorted(end, at, side="right")]
        last = rows[np.searchsorted(end, at + size - 1, side="right")]
        anchor = np.where(self.write[first], last, first)
        order = np.argsort(anchor, kind="stable")
        anchor = anchor[order]
        offset = self.offset[rows[begins]][stretch] + within
        return steps_of(
            {
                "thread": self.thread[anchor],
                "file": self.file[anchor],
                "write": self.write[anchor],
                "offset": offset[order],
                "bytes": size[order],
                "delay_ns": self._delays(anchor),
            }
        )

    def _delays(self, anchor: Array) -> Array:
        """A thread's pauses before an operation, with those before what was joined to others."""
        delays = np.zeros(len(anchor), dtype=np.int64)
        for thread in np.unique(self.thread):
            mine = self.thread == thread
            passed = np.cumsum(np.where(mine, self.delay_ns, 0))
            rows = np.flatnonzero(self.thread[anchor] == thread)
            delays[rows] = np.diff(passed[anchor[rows]], prepend=0)
        return delays


def _changes(values: Array) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it, as a first one does."""
    return np.append(True, values[1:] != values[:-1])


def _streams(kind: Array, offset: Array, size: Array) -> Array:
    """A number for each operation's stream: that of the last one of its kind that ended where it
    begins and that no other has followed yet, or else a new one."""
    ends: dict[tuple[int, int], int] = {}
    streams = np.empty(len(kind), dtype=np.int64)
    count = 0
    rows = zip(kind.tolist(), offset.tolist(), (offset + size).tolist(), strict=True)
    for at, (of, begin, end) in enumerate(rows):
        stream = ends.pop((of, begin), count)
        count += stream == count
        streams[at] = ends[of, end] = stream
    return streams


#: What is less than a hundredth more than the single waits is no more than they miss anyway.
WHOLE = 1.01


class Spill(Protocol):
    """I/O that can be issued with other sizes. Settings of one ``sizes`` make the same I/O."""

    #: What it is, in words.
    name: str
    #: The recording that says how much memory there was.
    like: Recording
    #: The setting that leaves all as it was; None where it never was.
    recorded: Setting | None = None

    def sizes(self, setting: Setting) -> tuple[int, ...]:
        """The sizes that its operations get."""

    def steps(self, setting: Setting) -> Table:
        """Its operations with these sizes, for a replay."""

    def levels(self, setting: Setting) -> int | None:
        """Times that all data is written and read back; None where that is not known."""

    def factor(self, setting: Setting) -> float:
        """How many times the steps have to be done to do all levels."""

    def warnings(self) -> list[Note]:
        """What weakens it: ``code`` and ``message``."""
        return []


class SyntheticSpill(Spill):
    """An external sort that gives each run as large a buffer as its memory and setting allow."""

    def __init__(self, sort: Sort, block_bytes: int) -> None:
        sort.check()
        self._sort, self._block_bytes = sort, block_bytes
        data, memory = format_bytes(sort.data_bytes), format_bytes(sort.memory_bytes)
        self.name = f"an external sort of {data} in {memory} of memory"
        self.like = Recording(Path("made-up.spill"), Meta())

    def unit_bytes(self, setting: Setting) -> int:
        """The size of its operations. InputError where not even two runs can be merged."""
        sort = self._sort
        return unit_within(setting, sort.data_bytes, sort.memory_bytes, self._block_bytes)

    def sizes(self, setting: Setting) -> tuple[int, ...]:
        """One size for all."""
        return (self.unit_bytes(setting),)

    def steps(self, setting: Setting) -> Table:
        """What the sort does with this unit, all levels of it."""
        return self._sort.steps(self.unit_bytes(setting))

    def levels(self, setting: Setting) -> int:
        """Merge levels with this unit."""
        return self._sort.levels(self.unit_bytes(setting))

    def factor(self, _setting: Setting) -> float:
        """1: the steps hold all levels."""
        return 1.0


class RecordedSpill(Spill):
    """A recorded spill. ``memory_bytes``, the query's work memory, tells its levels too."""

    def __init__(self, recording: Recording, memory_bytes: int | None) -> None:
        recording.need_io()
        self.like, self.name = recording, recording.path.name
        self._recut = ResizedIo(plan(recording))
        sizes = np.sort(self._recut.bytes)
        #: The whole run over what is held of it in single waits.
        self._whole = max(1.0, recording.meta.temp.bytes / int(sizes.sum()))
        self._distinct_bytes = np.unique(sizes).tolist()
        self.recorded = Setting(max_bytes=int(sizes[-1]), min_bytes=int(sizes[0]))
        self._memory_bytes = memory_bytes
        #: The size that half of the bytes were moved in operations up to.
        self._usual_bytes = int(sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)])
        self._data_bytes = 0 if memory_bytes is None else self._data_of(memory_bytes)

    def sizes(self, setting: Setting) -> tuple[int, ...]:
        """What the setting makes of each size that was recorded."""
        return tuple(map(setting.clamp, self._distinct_bytes))

    def steps(self, setting: Setting) -> Table:
        """The recorded operations, joined and split."""
        return self._recut.steps(setting)

    def levels(self, setting: Setting) -> int | None:
        """Levels of a sort or join of this data with this memory."""
        if self._memory_bytes is None:
            return None
        return levels(self._data_bytes, self._memory_bytes, setting.clamp(self._usual_bytes))

    def factor(self, setting: Setting) -> float:
        """Levels over those with the recorded sizes; more where only slices were recorded."""
        count = self.levels(setting)
        if self._memory_bytes is None or count is None:
            return self._whole
        recorded = levels(self._data_bytes, self._memory_bytes, self._usual_bytes)
        return self._whole * count / recorded

    def warnings(self) -> list[Note]:
        """Warnings about waits that were not recorded, and about unknown levels."""
        warnings = list[Note]()
        if self._whole > WHOLE:
            message = (
                f"{1 / self._whole:.0%} of the run's I/O was recorded wait by wait and stands for "
                "all of it"
            )
            warnings.append({"code": "slices", "message": message})
        if self._memory_bytes is None:
            message = (
                "larger I/Os leave room for fewer runs or partitions at once, which may cost a "
                "level: not in these figures; --memory, the query's work memory, adds it"
            )
            warnings.append({"code": "fan_in", "message": message})
        return warnings

    def _data_of(self, memory_bytes: int) -> int:
        """The data that a sort or join had which wrote all of it once a level."""
        written = round(self._whole * int(self._recut.bytes[self._recut.write].sum()))
        for count in range(1, 64):
            data_bytes = written // count
            if data_bytes > memory_bytes and (
                levels(data_bytes, memory_bytes, self._usual_bytes) <= count
            ):
                return data_bytes
        raise EvidenceUnsuited(
            f"--memory {format_bytes(memory_bytes)}: {self.name} has written "
            f"{format_bytes(written)}, which such a work memory does not explain",
            "give the memory that the query's sort or join had",
        )
