"""A synthetic external sort: sizes of its I/O, merge levels, reads and writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spillcast.errors import InputError, OptionInvalid
from spillcast.storage.plan import steps_of
from spillcast.tables import Table
from spillcast.units import format_bytes, parse_bytes

#: More settings than these are no table that anyone reads.
SETTINGS_MAX = 200
#: The replay's largest operation.
SIZE_MAX_BYTES = 64 << 20
BLOCK_MIN_BYTES, BLOCK_MAX_BYTES = 512, 1 << 20


@dataclass(frozen=True, order=True)
class Setting:
    """An engine's I/Os have at least ``min_bytes`` where it can, and never more than the other."""

    max_bytes: int
    min_bytes: int

    def clamp(self, size_bytes: int) -> int:
        """The size that an engine takes which would take ``size_bytes``."""
        return max(self.min_bytes, min(size_bytes, self.max_bytes))


def parse_block(text: str) -> int:
    """The block that sizes are multiples of: a power of two. InputError where it is none."""
    size = parse_bytes(text)
    if not BLOCK_MIN_BYTES <= size <= BLOCK_MAX_BYTES or size & (size - 1):
        raise OptionInvalid(
            f"--block {text}: a block is a power of two from 512 bytes to 1 MiB",
            "Oracle's are 8K or 16K, PostgreSQL's 8K",
        )
    return size


def parse_sizes(flag: str, text: str, block_bytes: int) -> list[int]:
    """Sizes from ``48K..1M`` (doubled up to the end, which counts too) or ``48K,240K``, ascending.

    InputError for one that is no multiple of the block.
    """
    first, dots, last = text.partition("..")
    sizes = [
        _size(flag, text, part, block_bytes)
        for part in ([first, last] if dots else text.split(","))
    ]
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


def settings_of(mins: Sequence[int], maxs: Sequence[int]) -> list[Setting]:
    """Every pair whose least size is not above its most. InputError where there is none."""
    settings = sorted(Setting(most, least) for least in mins for most in maxs if least <= most)
    if not settings:
        raise OptionInvalid("every --min is above every --max", "for example --min 48K --max 240K")
    if len(settings) > SETTINGS_MAX:
        message = f"--min and --max make {len(settings)} settings, and {SETTINGS_MAX} are the most"
        raise OptionInvalid(message, "give a range, which doubles: 48K..1M")
    return settings


def size_text(size_bytes: int) -> str:
    """A size as it is written on the command line: ``240K``, ``1M``."""
    for unit, scale in (("M", 1 << 20), ("K", 1 << 10)):
        if size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    return str(size_bytes)


def setting_text(setting: Setting) -> str:
    """Most and least: ``240K/48K``."""
    return f"{size_text(setting.max_bytes)}/{size_text(setting.min_bytes)}"


def fan_in(memory_bytes: int, unit_bytes: int) -> int:
    """Runs that are merged at once: a buffer of one unit for each of them and one for the output.

    InputError where that is less than two: such a sort would never end.
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
    """Times that all of the data is written and read back: ceil(log_F(S/M)); 0 where it fits."""
    at_once, runs, count = fan_in(memory_bytes, unit_bytes), -(-data_bytes // memory_bytes), 0
    while runs > 1:
        runs, count = -(-runs // at_once), count + 1
    return count


def unit_within(setting: Setting, data_bytes: int, memory_bytes: int, block_bytes: int) -> int:
    """The largest unit of a setting that costs no level more than its least does.

    That is what the room between least and most is for: an engine gives each run as large a buffer
    as its memory allows.
    """
    fewest = levels(data_bytes, memory_bytes, setting.min_bytes)
    runs, needed = -(-data_bytes // memory_bytes), 2
    while needed**fewest < runs:
        needed += 1
    largest = memory_bytes // (needed + 1) // block_bytes * block_bytes
    return setting.clamp(largest)


Array = NDArray[np.int64]
#: Whether each operation writes, its file, its offset and its bytes.
Operations = tuple[Array, Array, Array, Array]
#: More operations than these take too much memory.
OPERATIONS_MAX = 20_000_000


@dataclass(frozen=True)
class Sort:
    """So much data, sorted with so much memory by one thread that does nothing but I/O."""

    data_bytes: int
    memory_bytes: int

    def check(self) -> None:
        """InputError where nothing would spill."""
        if self.data_bytes <= self.memory_bytes:
            data, memory = format_bytes(self.data_bytes), format_bytes(self.memory_bytes)
            message = f"{data} of data fit into {memory} of memory: nothing would be spilled"
            raise OptionInvalid(message, "give more --data or less --memory")

    def levels(self, unit_bytes: int) -> int:
        """Times that all data is written and read back."""
        return levels(self.data_bytes, self.memory_bytes, unit_bytes)

    def steps(self, unit_bytes: int) -> Table:
        """What it reads and writes: sorted runs of the memory's size, merged level by level.

        Each level's runs lie one after the other in a file. Each level reads all of one file and
        writes all of another, but for the last, whose output leaves the sort.
        """
        operations = 2 * self.levels(unit_bytes) * -(-self.data_bytes // unit_bytes)
        if operations > OPERATIONS_MAX:
            message = f"I/Os of {format_bytes(unit_bytes)} make {operations:,} operations, too many"
            raise OptionInvalid(message, "give larger sizes or less --data")
        parts = list(self._parts(unit_bytes))
        write, file, offset, size = (np.concatenate(column) for column in zip(*parts, strict=True))
        thread = delay_ns = np.zeros(len(write))
        columns = {"thread": thread, "file": file, "write": write.astype(bool)}
        return steps_of({**columns, "offset": offset, "bytes": size, "delay_ns": delay_ns})

    def _parts(self, unit_bytes: int) -> Iterator[Operations]:
        whole, rest = divmod(self.data_bytes, self.memory_bytes)
        runs = np.array([self.memory_bytes] * whole + [rest] * bool(rest))
        for at, length in zip(_begins(runs), runs, strict=True):
            yield _pieces(True, 0, at, length, unit_bytes)
        level = 0
        while len(runs) > 1:
            groups = groups_of(len(runs), fan_in(self.memory_bytes, unit_bytes))
            begins, merged = _begins(runs), np.array([runs[group].sum() for group in groups])
            last = len(groups) == 1
            for group, out_at, out in zip(groups, _begins(merged), merged, strict=True):
                reads = _in_turn(level, begins[group], runs[group], unit_bytes)
                writes = _pieces(True, level + 1, out_at, out, unit_bytes)
                yield reads if last else _mixed(reads, writes)
            runs, level = merged, level + 1


def groups_of(runs: int, at_once: int) -> list[slice]:
    """The runs that are merged together: as few groups as can be, of about the same length."""
    count = -(-runs // at_once)
    return [slice(runs * at // count, runs * (at + 1) // count) for at in range(count)]


def _begins(lengths: Array) -> Array:
    return np.cumsum(lengths) - lengths


def _pieces(write: bool, file: int, begin: int, length: int, unit_bytes: int) -> Operations:
    """A run from its beginning to its end."""
    offset = np.arange(begin, begin + length, unit_bytes)
    size = np.minimum(unit_bytes, begin + length - offset)
    return np.full(len(offset), int(write)), np.full(len(offset), file), offset, size


def _in_turn(file: int, begins: Array, lengths: Array, unit_bytes: int) -> Operations:
    """Reads of several runs, a unit of each by turns."""
    runs = [_pieces(False, file, *run, unit_bytes) for run in zip(begins, lengths, strict=True)]
    turn = np.concatenate([np.arange(len(run[0])) for run in runs])
    order = np.argsort(turn, kind="stable")
    write, files, offset, size = (np.concatenate(c)[order] for c in zip(*runs, strict=True))
    return write, files, offset, size


def _mixed(reads: Operations, writes: Operations) -> Operations:
    """Each write comes once as much has been read."""
    done = [np.cumsum(part[3]) for part in (reads, writes)]
    order = np.argsort(np.concatenate(done), kind="stable")
    write, file, offset, size = (np.concatenate(c)[order] for c in zip(reads, writes, strict=True))
    return write, file, offset, size
