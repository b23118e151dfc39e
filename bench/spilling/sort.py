"""An external merge sort of known fan-in, as an instrument: it does the I/O of the formulas.

It is not an engine: keys are random numbers of 8 bytes, and the output is checked and discarded.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from spillcast.lab.io_size.spill import SyntheticSpill, fan_in, groups_of

Keys = NDArray[np.uint64]
KEY_BYTES = 8
#: So few that their sum does not overflow.
KEYS = 1 << 32


@dataclass
class Counts:
    """Counts, bytes and total times of reads and writes; levels."""

    reads: int = 0
    writes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    levels: int = 0
    io_s: float = 0.0


class UnitFile:
    """An unnamed temp file, read and written in units, which are counted."""

    def __init__(self, directory: Path, unit_bytes: int, counts: Counts) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        self._unit_bytes, self._counts = unit_bytes, counts
        self._pending: list[Keys] = []
        self._pending_bytes = 0
        #: Bytes written so far.
        self.end = 0

    def write(self, keys: Keys) -> None:
        """Accepts keys; whole units go to the file."""
        self._pending.append(keys)
        self._pending_bytes += keys.nbytes
        if self._pending_bytes >= self._unit_bytes:
            self._issue(self._pending_bytes // self._unit_bytes * self._unit_bytes)

    def flush(self) -> None:
        """Writes the last, partial unit."""
        self._issue(self._pending_bytes)

    def _issue(self, count: int) -> None:
        data = np.concatenate(self._pending).tobytes() if self._pending else b""
        for at in range(0, count, self._unit_bytes):
            piece = data[at : min(at + self._unit_bytes, count)]
            began = time.perf_counter()
            os.pwrite(self._file.fileno(), piece, self.end)
            self._counts.io_s += time.perf_counter() - began
            self.end += len(piece)
            self._counts.writes += 1
            self._counts.write_bytes += len(piece)
        self._pending = [np.frombuffer(data[count:], dtype=np.uint64)]
        self._pending_bytes = len(data) - count

    def read(self, begin: int, end: int) -> Iterator[Keys]:
        """The keys between two offsets, a unit at a time."""
        for at in range(begin, end, self._unit_bytes):
            began = time.perf_counter()
            data = os.pread(self._file.fileno(), min(self._unit_bytes, end - at), at)
            self._counts.io_s += time.perf_counter() - began
            self._counts.reads += 1
            self._counts.read_bytes += len(data)
            yield np.frombuffer(data, dtype=np.uint64)

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def external_sort(
    directory: Path, *, data_bytes: int, memory_bytes: int, unit_bytes: int, seed: int = 1
) -> Counts:
    """Sorts random keys through ``directory``; returns its reads and writes.

    Sorted runs of the memory's size are consecutive in a file; each level merges ``fan_in(memory,
    unit)`` of them at once into the next file. InputError if nothing would spill or nothing could
    be merged. AssertionError if the output is not the sorted input.
    """
    SyntheticSpill(data_bytes, memory_bytes, unit_bytes)
    at_once, counts = fan_in(memory_bytes, unit_bytes), Counts()
    random = np.random.default_rng(seed)
    file, runs, total = UnitFile(directory, unit_bytes, counts), [], 0
    for length in _lengths(data_bytes, memory_bytes):
        keys = np.sort(random.integers(0, KEYS, length // KEY_BYTES, dtype=np.uint64))
        total += int(keys.sum())
        runs.append((file.end, file.end + keys.nbytes))
        file.write(keys)
        file.flush()
    while len(runs) > 1:
        counts.levels += 1
        groups = groups_of(len(runs), at_once)
        if len(groups) == 1:
            _check(merge([file.read(*run) for run in runs]), data_bytes // KEY_BYTES, total)
            break
        merged, merged_runs = UnitFile(directory, unit_bytes, counts), []
        for group in groups:
            begin = merged.end
            for keys in merge([file.read(*run) for run in runs[group]]):
                merged.write(keys)
            merged.flush()
            merged_runs.append((begin, merged.end))
        file.close()
        file, runs = merged, merged_runs
    file.close()
    return counts


def merge(runs: list[Iterator[Keys]]) -> Iterator[Keys]:
    """Merges sorted runs, with a buffer of one unit for each.

    Keys up to the minimum of the buffers' last keys cannot be preceded by unread ones.
    """
    buffers = [next(run) for run in runs]
    while buffers:
        bound = min(keys[-1] for keys in buffers)
        cuts = [int(np.searchsorted(keys, bound, side="right")) for keys in buffers]
        taken = [keys[:cut] for keys, cut in zip(buffers, cuts, strict=True)]
        yield np.sort(np.concatenate(taken))
        kept, kept_runs = [], []
        for keys, cut, run in zip(buffers, cuts, runs, strict=True):
            rest = keys[cut:] if cut < len(keys) else next(run, None)
            if rest is not None:
                kept.append(rest)
                kept_runs.append(run)
        buffers, runs = kept, kept_runs


def _lengths(data_bytes: int, memory_bytes: int) -> list[int]:
    whole, rest = divmod(data_bytes, memory_bytes)
    return [memory_bytes] * whole + [rest] * bool(rest)


def _check(output: Iterator[Keys], count: int, total: int) -> None:
    """Checks that the output is sorted and has the count and sum of the input."""
    last, result, added = np.uint64(0), 0, 0
    for keys in output:
        assert keys[0] >= last, "the output is not sorted"
        assert np.all(keys[1:] >= keys[:-1]), "the output is not sorted"
        last, result, added = keys[-1], result + len(keys), added + int(keys.sum())
    assert (result, added) == (count, total), "the output is not what was put in"
