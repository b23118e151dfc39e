"""Spills with I/O of other sizes: a synthetic external sort, and a recorded spill."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spillcast.columns import Flags, Integers
from spillcast.document import Note
from spillcast.errors import EvidenceUnsuited, InputError, OptionInvalid
from spillcast.recording import Recording
from spillcast.recording.meta import Meta
from spillcast.storage.probe import plan, steps_of
from spillcast.tables import Table
from spillcast.units import format_bytes, parse_bytes

#: Maximum number of settings; more would make an unreadable table.
SETTINGS_MAX = 200
#: The replay's largest operation.
SIZE_MAX_BYTES = 64 << 20
BLOCK_MIN_BYTES, BLOCK_MAX_BYTES = 512, 1 << 20


@dataclass(frozen=True, order=True)
class IoSizeSetting:
    """An engine's I/Os move at most ``max_bytes``, and at least ``min_bytes`` if possible."""

    max_bytes: int
    min_bytes: int

    def clamp(self, size_bytes: int) -> int:
        """The size of an I/O that would have ``size_bytes`` without limits."""
        return max(self.min_bytes, min(size_bytes, self.max_bytes))


def parse_block(text: str) -> int:
    """The block size (bytes), a power of two. InputError for an invalid size."""
    size = parse_bytes(text)
    if not BLOCK_MIN_BYTES <= size <= BLOCK_MAX_BYTES or size & (size - 1):
        raise OptionInvalid(
            f"--block {text}: a block is a power of two from 512 bytes to 1 MiB",
            "Oracle's are 8K or 16K, PostgreSQL's 8K",
        )
    return size


def parse_sizes(flag: str, text: str, block_bytes: int) -> list[int]:
    """Sizes from ``48K..1M`` (doubled up to the end, inclusive) or ``48K,240K``, ascending.

    InputError for a size that is not a multiple of the block.
    """
    first, dots, last = text.partition("..")
    parts = [first, last] if dots else text.split(",")
    sizes = [_size(flag, text, part, block_bytes) for part in parts]
    if dots:
        at, end = sizes
        if at > end:
            raise OptionInvalid(f"{flag} {text}: the range ends before it begins")
        sizes = [end]
        while at < end:
            sizes.append(at)
            at *= 2
    return sorted(set(sizes))


def _size(flag: str, text: str, part: str, block_bytes: int) -> int:
    try:
        size = parse_bytes(part)
    except InputError as error:
        hint = "write for example 48K..1M, or 48K,240K,1M"
        raise OptionInvalid(f"{flag} {text}: '{part}' is not a size", hint) from error
    if not 0 < size <= SIZE_MAX_BYTES:
        raise OptionInvalid(f"{flag} {text}: an I/O has from one block to 64 MiB")
    if size % block_bytes:
        nearest = max(round(size / block_bytes), 1) * block_bytes
        raise OptionInvalid(
            f"{flag} {text}: {part} is not a multiple of the block, {format_bytes(block_bytes)}",
            f"write {size_text(nearest)}, or give another --block",
        )
    return size


def settings_of(mins: Sequence[int], maxs: Sequence[int]) -> list[IoSizeSetting]:
    """All pairs whose minimum is not above the maximum. InputError without any."""
    settings = sorted(
        IoSizeSetting(most, least) for least in mins for most in maxs if least <= most
    )
    if not settings:
        raise OptionInvalid("every --min is above every --max", "for example --min 48K --max 240K")
    if len(settings) > SETTINGS_MAX:
        message = f"--min and --max make {len(settings)} settings, and {SETTINGS_MAX} are the most"
        raise OptionInvalid(message, "give a range, which doubles: 48K..1M")
    return settings


def size_text(size_bytes: int) -> str:
    """A size in the notation of the command line: ``240K``, ``1M``."""
    for unit, scale in (("M", 1 << 20), ("K", 1 << 10)):
        if size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    return str(size_bytes)


def setting_text(setting: IoSizeSetting) -> str:
    """Maximum and minimum: ``240K/48K``."""
    return f"{size_text(setting.max_bytes)}/{size_text(setting.min_bytes)}"


def fan_in(memory_bytes: int, unit_bytes: int) -> int:
    """The number of runs that can be merged at once, with a buffer of one unit each and for output.

    InputError for less than two, with which a sort would never end.
    """
    runs = memory_bytes // unit_bytes - 1
    if runs < 2:
        memory, unit = format_bytes(memory_bytes), format_bytes(unit_bytes)
        raise OptionInvalid(
            f"{memory} of memory do not hold three buffers of {unit}, which a merge needs",
            "give more --memory or smaller sizes",
        )
    return runs


def levels(data_bytes: int, memory_bytes: int, unit_bytes: int) -> int:
    """Times that all data is written and read back: ceil(log_F(S/M)); 0 if it fits."""
    at_once, runs, count = fan_in(memory_bytes, unit_bytes), -(-data_bytes // memory_bytes), 0
    while runs > 1:
        runs, count = -(-runs // at_once), count + 1
    return count


#: Whether each operation writes, its file, its offset and its bytes.
OperationColumns = tuple[Integers, Integers, Integers, Integers]
#: Maximum number of operations; more would take too much memory.
OPERATIONS_MAX = 20_000_000


def groups_of(runs: int, at_once: int) -> list[slice]:
    """The groups of runs that are merged together: as few as possible, of about equal length."""
    count = -(-runs // at_once)
    return [slice(runs * at // count, runs * (at + 1) // count) for at in range(count)]


def _begins(lengths: Integers) -> Integers:
    return np.cumsum(lengths) - lengths


def _pieces(write: bool, file: int, begin: int, length: int, unit_bytes: int) -> OperationColumns:
    """A run from its beginning to its end."""
    offset = np.arange(begin, begin + length, unit_bytes)
    size = np.minimum(unit_bytes, begin + length - offset)
    return np.full(len(offset), int(write)), np.full(len(offset), file), offset, size


def _in_turn(file: int, begins: Integers, lengths: Integers, unit_bytes: int) -> OperationColumns:
    """Reads of several runs, alternating after each unit."""
    runs = [_pieces(False, file, *run, unit_bytes) for run in zip(begins, lengths, strict=True)]
    turn = np.concatenate([np.arange(len(run[0])) for run in runs])
    order = np.argsort(turn, kind="stable")
    write, files, offset, size = (np.concatenate(c)[order] for c in zip(*runs, strict=True))
    return write, files, offset, size


def _mixed(reads: OperationColumns, writes: OperationColumns) -> OperationColumns:
    """Reads and writes, interleaved: a write follows once the same amount was read."""
    done = [np.cumsum(part[3]) for part in (reads, writes)]
    order = np.argsort(np.concatenate(done), kind="stable")
    write, file, offset, size = (np.concatenate(c)[order] for c in zip(reads, writes, strict=True))
    return write, file, offset, size


class ResizedIo:
    """The steps of a plan by streams: sequences of reads or writes of adjacent ranges.

    A larger buffer joins consecutive operations of a stream, even if operations of other streams
    are in between, as when a merge alternates between runs. A joined read takes place at the first
    of its operations, a joined write at the last.
    """

    def __init__(self, steps: Table) -> None:
        self.write = steps["write"].filled(False)
        self.thread, self.file, self.offset, self.bytes, self.delay_ns = (
            steps[name].to_numpy().astype(np.int64)
            for name in ("thread", "file", "offset", "bytes", "delay_ns")
        )
        stream = _streams(self.file * 2 + self.write, self.offset, self.bytes)
        #: Rows by stream, in order within each.
        self._order = np.argsort(stream, kind="stable")
        self._stream = stream[self._order]

    def steps(self, setting: IoSizeSetting) -> Table:
        """The same bytes in operations of the new sizes.

        Neighbours in a stream with the same new size are joined, and split into such operations.
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

    def _delays(self, anchor: Integers) -> Integers:
        """The pauses before operations, with those of the operations that were joined to them."""
        delays = np.zeros(len(anchor), dtype=np.int64)
        for thread in np.unique(self.thread):
            mine = self.thread == thread
            passed = np.cumsum(np.where(mine, self.delay_ns, 0))
            rows = np.flatnonzero(self.thread[anchor] == thread)
            delays[rows] = np.diff(passed[anchor[rows]], prepend=0)
        return delays


def _changes(values: Integers) -> Flags:
    """Whether each value differs from the previous one; True for the first."""
    return np.append(True, values[1:] != values[:-1])


def _streams(kind: Integers, offset: Integers, size: Integers) -> Integers:
    """The stream of each operation: a stream of its kind that ends at its offset, or a new one."""
    ends: dict[tuple[int, int], int] = {}
    streams = np.empty(len(kind), dtype=np.int64)
    count = 0
    rows = zip(kind.tolist(), offset.tolist(), (offset + size).tolist(), strict=True)
    for at, (of, begin, end) in enumerate(rows):
        stream = ends.pop((of, begin), count)
        count += stream == count
        streams[at] = ends[of, end] = stream
    return streams


#: Ratio of all I/O to I/O in single waits, which miss a little, above which there is a warning.
WHOLE = 1.01


class SyntheticSpill:
    """An external sort in one thread that only does I/O.

    Each run gets the largest buffer that memory and setting allow. Settings with equal ``sizes``
    make the same I/O.
    """

    #: A synthetic spill has no recorded setting.
    recorded: IoSizeSetting | None = None

    def __init__(self, data_bytes: int, memory_bytes: int, block_bytes: int) -> None:
        data, memory = format_bytes(data_bytes), format_bytes(memory_bytes)
        if data_bytes <= memory_bytes:
            message = f"{data} of data fit into {memory} of memory: nothing would be spilled"
            raise OptionInvalid(message, "give more --data or less --memory")
        self._data_bytes, self._memory_bytes = data_bytes, memory_bytes
        self._block_bytes = block_bytes
        self.name = f"an external sort of {data} in {memory} of memory"
        self.like = Recording(Path("made-up.spill"), Meta())

    def unit_bytes(self, setting: IoSizeSetting) -> int:
        """The size of its operations: the largest that needs no more levels than the minimum size.

        InputError if no two runs can be merged.
        """
        fewest = levels(self._data_bytes, self._memory_bytes, setting.min_bytes)
        runs, needed = -(-self._data_bytes // self._memory_bytes), 2
        while needed**fewest < runs:
            needed += 1
        blocks = self._memory_bytes // (needed + 1) // self._block_bytes
        return setting.clamp(blocks * self._block_bytes)

    def sizes(self, setting: IoSizeSetting) -> tuple[int, ...]:
        """A single size."""
        return (self.unit_bytes(setting),)

    def levels(self, setting: IoSizeSetting) -> int:
        """Times that all data is written and read back."""
        return levels(self._data_bytes, self._memory_bytes, self.unit_bytes(setting))

    def steps(self, setting: IoSizeSetting) -> Table:
        """The reads and writes: sorted runs of the memory's size, merged level by level.

        Each level's runs are consecutive in a file. Each level reads all of one file and writes all
        of another, except the last level, whose output leaves the sort.
        """
        unit_bytes = self.unit_bytes(setting)
        operations = 2 * self.levels(setting) * -(-self._data_bytes // unit_bytes)
        if operations > OPERATIONS_MAX:
            message = f"I/Os of {format_bytes(unit_bytes)} make {operations:,} operations, too many"
            raise OptionInvalid(message, "give larger sizes or less --data")
        parts = list(self._parts(unit_bytes))
        write, file, offset, size = (np.concatenate(column) for column in zip(*parts, strict=True))
        thread = delay_ns = np.zeros(len(write))
        columns = {"thread": thread, "file": file, "write": write.astype(bool)}
        return steps_of({**columns, "offset": offset, "bytes": size, "delay_ns": delay_ns})

    def _parts(self, unit_bytes: int) -> Iterator[OperationColumns]:
        whole, rest = divmod(self._data_bytes, self._memory_bytes)
        runs = np.array([self._memory_bytes] * whole + [rest] * bool(rest))
        for at, length in zip(_begins(runs), runs, strict=True):
            yield _pieces(True, 0, at, length, unit_bytes)
        level = 0
        while len(runs) > 1:
            groups = groups_of(len(runs), fan_in(self._memory_bytes, unit_bytes))
            begins, merged = _begins(runs), np.array([runs[group].sum() for group in groups])
            last = len(groups) == 1
            for group, out_at, out in zip(groups, _begins(merged), merged, strict=True):
                reads = _in_turn(level, begins[group], runs[group], unit_bytes)
                writes = _pieces(True, level + 1, out_at, out, unit_bytes)
                yield reads if last else _mixed(reads, writes)
            runs, level = merged, level + 1

    def factor(self, _setting: IoSizeSetting) -> float:
        """1, because the steps contain all levels."""
        return 1.0

    def warnings(self) -> list[Note]:
        """A synthetic spill has no warnings."""
        return []


class RecordedSpill:
    """A recorded spill; its levels are known with ``memory_bytes``, the query's work memory.

    Settings with equal ``sizes`` make the same I/O.
    """

    def __init__(self, recording: Recording, memory_bytes: int | None) -> None:
        recording.need_io()
        self.like, self.name = recording, recording.path.name
        self._recut = ResizedIo(plan(recording))
        sizes = np.sort(self._recut.bytes)
        #: Temp I/O of the entire run over that in single waits.
        self._whole = max(1.0, recording.meta.temp.bytes / int(sizes.sum()))
        self._distinct_bytes = np.unique(sizes).tolist()
        #: The setting that changes no operation.
        self.recorded = IoSizeSetting(max_bytes=int(sizes[-1]), min_bytes=int(sizes[0]))
        self._memory_bytes = memory_bytes
        #: The median size of operations, weighted by bytes.
        self._usual_bytes = int(sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)])
        self._data_bytes = 0 if memory_bytes is None else self._data_of(memory_bytes)

    def sizes(self, setting: IoSizeSetting) -> tuple[int, ...]:
        """The new size for each recorded size."""
        return tuple(map(setting.clamp, self._distinct_bytes))

    def steps(self, setting: IoSizeSetting) -> Table:
        """The recorded operations, joined and split."""
        return self._recut.steps(setting)

    def levels(self, setting: IoSizeSetting) -> int | None:
        """Times that all data is written and read back; None if unknown."""
        if self._memory_bytes is None:
            return None
        return levels(self._data_bytes, self._memory_bytes, setting.clamp(self._usual_bytes))

    def factor(self, setting: IoSizeSetting) -> float:
        """Levels over the levels with the recorded sizes, times all I/O over the I/O in waits."""
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
                f"{1 / self._whole:.0%} of the run's I/O was recorded wait by wait and represents "
                "all of it"
            )
            warnings.append({"code": "slices", "message": message})
        if self._memory_bytes is None:
            message = (
                "larger I/Os leave room for fewer runs or partitions at once, which may add a "
                "merge level: not in these figures; --memory, the query's work memory, includes it"
            )
            warnings.append({"code": "fan-in", "message": message})
        return warnings

    def _data_of(self, memory_bytes: int) -> int:
        """Bytes of the data of a sort or join that wrote all of it once per level."""
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
            "give that of its sort or join; leave it out if the engine compressed or kept part",
        )


#: I/O that can be issued with other sizes.
Spill = SyntheticSpill | RecordedSpill
