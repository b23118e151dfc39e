"""The spill of a synthetic external sort: its reads and writes, as steps to issue."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spillcast.errors import OptionInvalid
from spillcast.lab.io_size.merge import fan_in, levels
from spillcast.units import format_bytes

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

    def operations(self, unit_bytes: int) -> int:
        """About how many reads and writes it does."""
        return 2 * self.levels(unit_bytes) * -(-self.data_bytes // unit_bytes)

    def steps(self, unit_bytes: int) -> pa.RecordBatch:
        """What it reads and writes: sorted runs of the memory's size, merged level by level.

        Each level's runs lie one after the other in a file. Each level reads all of one file and
        writes all of another, but for the last, whose output leaves the sort.
        """
        if self.operations(unit_bytes) > OPERATIONS_MAX:
            unit = format_bytes(unit_bytes)
            raise OptionInvalid(
                f"I/Os of {unit} make {self.operations(unit_bytes):,} operations, too many",
                "give larger sizes or less --data",
            )
        parts = list(self._parts(unit_bytes))
        write, file, offset, size = (np.concatenate(column) for column in zip(*parts, strict=True))
        return pa.record_batch(
            {
                "thread": pa.array(np.zeros(len(write)), pa.uint32()),
                "file": pa.array(file, pa.uint32()),
                "write": pa.array(write.astype(bool)),
                "offset": pa.array(offset, pa.uint64()),
                "bytes": pa.array(size, pa.uint32()),
                "delay_ns": pa.array(np.zeros(len(write)), pa.uint64()),
            }
        )

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
