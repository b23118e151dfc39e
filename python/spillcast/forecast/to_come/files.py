"""What lies in temp files and was not read yet, file by file: a spill is written to be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute

from spillcast.recording import Recording
from spillcast.recording.distinct import grouped
from spillcast.recording.spill import codes, equals

#: Of a file that was there before and is read out of order it is not known where reading is.
ANYWHERE = (0.0, 0.5, 1.0)
#: But what was written last is read first: while it reads nothing before this share of a file, it
#: has just begun, and so much of it is unread.
TOP, BEGUN = 0.6, (0.6, 0.9, 1.0)
#: Over bytes read of a file, those written that say nothing of where reading is.
STRAY = 0.01


@dataclass(frozen=True)
class Unread:
    """Bytes of all temp files, and of those held and unread when the recording began."""

    low: float
    about: float
    high: float
    held_before: float
    unread_before: float
    #: Bytes written since.
    written_since: float

    def drawn(self, uniform: np.ndarray) -> np.ndarray:
        """Draws, from draws between 0 and 1: the middle half is about what it says."""
        return np.asarray(np.interp(uniform, (0.0, 0.25, 0.75, 1.0), self._ends))

    @property
    def _ends(self) -> tuple[float, float, float, float]:
        low, high = (self.low + self.about) / 2, (self.about + self.high) / 2
        return self.low, low, high, self.high


@dataclass(frozen=True)
class _File:
    """One file: what it held before, and its operations in order."""

    held: float
    write: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    #: Whether it was cut or removed after the last of them.
    gone: bool


#: Of each op all that was seen is kept.
WHOLE: Mapping[str, float] = {"read": 1.0, "write": 1.0}


def unread(recording: Recording, times: Mapping[str, float] = WHOLE) -> Unread:
    """What of a recording's temp files is yet to be read at its end.

    Of each op ``times`` as much was moved as single waits are kept of.
    """
    files = _files(recording, times)
    leftovers = [_left(file) for file in files]
    low, about, high, held, before = (float(sum(row)) for row in zip(*leftovers, strict=True))
    written = float(sum(file.size[file.write].sum() for file in files))
    return Unread(low, about, high, held, before, written)


def _files(recording: Recording, times: Mapping[str, float]) -> Sequence[_File]:
    held = {sized.file: sized.bytes for sized in recording.meta.temp_before}
    waits = recording.temp_waits
    bursts = recording.meta.raw.slices_s
    if bursts and recording.meta.raw.rows == recording.meta.raw.rows_seen:
        # It is known what files held when the last of them began.
        began_ns = round(bursts[-1][0] * 1e9)
        waits = waits.filter(pa.compute.greater_equal(waits["start_ns"], began_ns))
    write = equals(waits["op"], "write")
    offset = waits["offset"].fill_null(0).to_numpy()
    size = waits["bytes"].fill_null(0).to_numpy() * np.where(write, times["write"], times["read"])
    start = waits["start_ns"].to_numpy()
    gone = _gone(recording)
    files = []
    for path, rows in _by_file(waits["file"]):
        ended = gone.get(path, -1) >= start[rows[-1]]
        files.append(
            _File(float(held.pop(path, 0)), write[rows], offset[rows], size[rows], bool(ended))
        )
    nothing = np.zeros(0, dtype=np.int64)
    files += [
        _File(float(size), nothing > 0, nothing, nothing, file in gone)
        for file, size in held.items()
    ]
    return files or [_File(0.0, nothing > 0, nothing, nothing, False)]


def _by_file(names: pa.ChunkedArray) -> Sequence[tuple[str, np.ndarray]]:
    """The rows of each file, by its name; the name of none is None."""
    number = codes(names)
    order = grouped(number)
    parts = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    by_name = [(str(names[int(rows[0])]), rows) for rows in parts if len(rows)]
    return sorted(by_name, key=lambda each: each[0])


def _gone(recording: Recording) -> Mapping[str, int]:
    """When each file was removed or cut to nothing, ns."""
    changes = recording.temp_changes
    event = changes["event"].cast(pa.string())
    cut = pa.compute.and_(
        pa.compute.match_substring(event, "truncate"), pa.compute.equal(changes["offset"], 0)
    )
    ends = pa.compute.or_(
        pa.compute.match_substring(event, "unlink"), pa.compute.fill_null(cut, False)
    )
    rows = changes.filter(ends)
    names = rows["file"].cast(pa.string()).to_pylist()
    return dict(zip(names, rows["start_ns"].to_pylist(), strict=True))


def _left(file: _File) -> tuple[float, float, float, float, float]:
    """Unread bytes at the end: low, about, high; and held and unread ones before."""
    held, reads = file.held, ~file.write
    written, read = (float(file.size[which].sum()) for which in (file.write, reads))
    if not read:
        left = 0.0 if file.gone else held + written
        return left, left, left, held, held
    if not held:
        left = 0.0 if file.gone else max(written - read, 0.0)
        return left, left, left, 0.0, 0.0
    if written > STRAY * read:
        before = min(held, max(read - written, 0.0))
        most = 0.0 if file.gone else max(held + written - read, 0.0)
        return most / 2, most * 0.9, most, held, max(held * 0.9, before)
    most = max(held + written - read, 0.0)
    if file.gone:
        return 0.0, 0.0, 0.0, held, read
    # Where several runs are read side by side, each is as far as the others.
    first = float(file.offset[reads].min())
    last = max(held - float((file.offset + file.size)[reads].max()), 0.0)
    if not _in_order(file.offset[reads]):
        if first > TOP * held:
            low, about, high = (most * share for share in BEGUN)
            return low, about, high, held, about + read
        if first + last < most * ANYWHERE[1]:
            about = most * (last / (first + last) if first + last else ANYWHERE[1])
            about = (about + most * ANYWHERE[1]) / 2
            return 0.0, about, most, held, about + read
    about = most * last / (first + last) if first + last else 0.0
    return about * 0.9, about, min(about * 1.1, most), held, about + read


def _in_order(offset: np.ndarray) -> bool:
    """Whether hardly any operation goes back."""
    return len(offset) < 2 or float((np.diff(offset) < 0).mean()) < 0.1
