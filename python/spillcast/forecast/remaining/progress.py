"""How far a partly recorded query is: bytes and seconds done, and what its files hold unread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from spillcast.forecast.threads.overlap import RecordedThreads, simulated_threads
from spillcast.recording import Recording
from spillcast.recording.completeness import had_worked
from spillcast.recording.distinct import grouped
from spillcast.recording.event_names import OPS
from spillcast.recording.meta import KeptWaits
from spillcast.recording.observed import DoneBefore
from spillcast.recording.spill import codes, equals

Array = NDArray[np.float64]
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


def unread(recording: Recording, times: Mapping[str, float]) -> Unread:
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
            _File(
                held=float(held.pop(path, 0)),
                write=write[rows],
                offset=offset[rows],
                size=size[rows],
                gone=bool(ended),
            )
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


#: The last part of a recording, by which it is told whether its query writes or reads.
LAST = 0.2
#: Of the bytes moved in that part, what is less is no phase.
HARDLY = 0.1
#: Of all bytes recorded, an op that moved less was not seen: a few operations tell no rate.
SEEN_MIN = 0.01
#: A session that is hardly older than its query did nothing else.
ALONE, ALONE_S = 1.1, 0.5
#: Beside CPU time there are other waits, at most so many times as long in all.
WAITING_MOST = 2.0


@dataclass(frozen=True)
class Progress:
    """Bytes on temp files and seconds; an op that was not recorded has no rate."""

    recorded_s: float
    #: Elapsed time of the query before the recording.
    before_s: float
    #: Bytes by op within the recording, and before it.
    bytes: Mapping[str, float]
    before: Mapping[str, float]
    #: What was written by the end and is likely to be read yet.
    unread: Unread
    #: Elapsed time that goes with a byte, by op: of the operation itself, and beside it.
    io_s_per_byte: Mapping[str, float]
    rest_s_per_byte: Mapping[str, float]
    #: Ops that the last part of the recording did; all of it where that did none.
    doing: frozenset[str]
    #: How far off ``before`` may be, as a share of it.
    before_error: float
    #: Elapsed time before the recording that was no temp I/O; None where nothing tells.
    rest_before_s: float | None
    #: Seconds of latency, of all threads together, for one of elapsed time.
    overlap: float
    #: Of the time recorded, that before the query's first temp I/O: it goes with no byte.
    ahead_s: float

    @property
    def done_s(self) -> float:
        """Elapsed time of the query at the recording's end."""
        return self.before_s + self.recorded_s

    @property
    def rest_s(self) -> float:
        """Elapsed time outside temp I/O within the recording."""
        io_s = sum(self.bytes[op] * rate for op, rate in self.io_s_per_byte.items())
        return max(self.recorded_s - io_s, 0.0)

    def done(self, op: str) -> float:
        """Bytes moved by the recording's end."""
        return self.before[op] + self.bytes[op]


def progress_of(recording: Recording, threads: RecordedThreads) -> Progress | None:
    """None where the recording holds no single waits that could tell."""
    waits = recording.temp_waits
    raw = recording.meta.raw
    if raw.slices_of_all or not waits.num_rows or (raw.slices_s is None and _some_missing(raw)):
        return None
    op = np.array(OPS)[equals(waits["op"], OPS[1]).astype(int)]
    size = waits["bytes"].fill_null(0).to_numpy().astype(float)
    start_s = waits["start_ns"].to_numpy() / 1e9
    end_s = start_s + waits["elapsed_ns"].to_numpy() / 1e9
    kept = {name: float(size[op == name].sum()) for name in OPS}
    moved = _moved_bytes(recording, kept) if _some_missing(raw) else kept
    files = unread(recording, {name: moved[name] / max(kept[name], 1.0) for name in OPS})
    before_s = _before_s(recording)
    last = start_s >= (1 - LAST) * recording.elapsed_s
    late = {name: float(size[last & (op == name)].sum()) for name in OPS}
    fresh = raw.slices_s is None and not files.held_before
    ahead_s = float(start_s.min()) if fresh else 0.0
    rates = _s_per_byte(op, size, *_end_to_end(recording, start_s, end_s), ahead_s)
    if not rates:
        return None
    overlap = 1 / simulated_threads(threads).of_waits
    io_s = {
        name: min(float((end_s - start_s)[op == name].sum()) / overlap / kept[name], rate)
        for name, rate in rates.items()
    }
    earlier = max(moved["write"] - files.written_since, 0.0)
    before, error = _done_before(recording, files, earlier, before_s, rates)
    recorded_io_s = sum(moved[name] * io_s[name] for name in io_s)
    return Progress(
        recorded_s=recording.elapsed_s,
        before_s=before_s,
        bytes=moved,
        before=before,
        unread=files,
        io_s_per_byte=io_s,
        rest_s_per_byte={name: rate - io_s[name] for name, rate in rates.items()},
        doing=_doing(late) or _doing(kept),
        before_error=error,
        rest_before_s=_rest_before_s(recording, before_s, recorded_io_s),
        overlap=overlap,
        ahead_s=ahead_s,
    )


def _doing(moved: Mapping[str, float]) -> frozenset[str]:
    """Ops that moved more than hardly anything."""
    return frozenset(name for name in OPS if moved[name] > HARDLY * sum(moved.values()))


def _some_missing(raw: KeptWaits) -> bool:
    """Whether single waits are kept of some slices alone."""
    return raw.rows < raw.rows_seen


def _moved_bytes(recording: Recording, kept: Mapping[str, float]) -> dict[str, float]:
    """Bytes by op where single waits are kept of some slices alone: each second tells them all."""
    rows = recording.temp_seconds
    op, size = rows["op"].cast(pa.string()).to_pylist(), rows["bytes"].to_pylist()
    moved = dict(kept)
    for name in OPS:
        single_bytes = sum(each for each, of in zip(size, op, strict=True) if of == name)
        moved[name] = max(moved[name], float(single_bytes)) if moved[name] else 0.0
    return moved


def _end_to_end(
    recording: Recording, start_s: np.ndarray, end_s: np.ndarray
) -> tuple[np.ndarray, float]:
    """When operations ended and how long was recorded, without the time between slices."""
    raw = recording.meta.raw
    if raw.slices_s is None or not _some_missing(raw):
        return end_s, recording.elapsed_s
    edges = np.array(raw.slices_s)
    before_s = np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])])
    at = np.clip(np.searchsorted(edges[:, 0], start_s, side="right") - 1, 0, len(edges) - 1)
    within_s = np.clip(end_s, edges[at, 0], edges[at, 1]) - edges[at, 0]
    return before_s[at] + within_s, float(before_s[-1])


def _done_by_query_before(recording: Recording, before_s: float) -> DoneBefore | None:
    """What the kernel counted of the query alone: its process, or its session, began with it."""
    before = recording.meta.before
    if before is None or before_s <= 0:
        return None
    if recording.meta.server_query is None or before.ran_s < ALONE * before_s + ALONE_S:
        return before
    return None


def _rest_before_s(recording: Recording, before_s: float, io_s: float) -> float | None:
    """By the CPU time until then, with as much other waiting beside it as there was later."""
    before, cpu_s = _done_by_query_before(recording, before_s), recording.meta.cpu_s
    if before is None or not cpu_s:
        return None
    times = max(recording.elapsed_s - io_s, 0.0) / cpu_s
    return min(before.cpu_s * min(times, WAITING_MOST), before_s)


def _before_s(recording: Recording) -> float:
    """How long the query had taken by then: of a process, since it began to work."""
    meta = recording.meta
    if meta.server_query is not None:
        return meta.server_query.before_recording_s
    if meta.before is None or not had_worked(meta, meta.before):
        return 0.0
    return meta.before.ran_s


def _s_per_byte(
    op: np.ndarray, size: np.ndarray, end_s: np.ndarray, elapsed_s: float, ahead_s: float
) -> dict[str, float]:
    """Elapsed time by op: all that passes until an operation ends goes with it.

    But for ``ahead_s``, before the first one of all.
    """
    order = np.argsort(end_s, kind="stable")
    passed_s = np.diff(end_s[order], prepend=ahead_s)
    # What comes after the last one goes with it too.
    passed_s[-1] += max(elapsed_s - end_s[order][-1], 0.0)
    rates = {}
    for name in OPS:
        which = op[order] == name
        moved = float(size[order][which].sum())
        if moved > SEEN_MIN * size.sum():
            rates[name] = float(passed_s[which].sum()) / moved
    return rates


def _done_before(
    recording: Recording,
    files: Unread,
    earlier: float,
    before_s: float,
    rates: Mapping[str, float],
) -> tuple[dict[str, float], float]:
    """Bytes written and read before, and how far off that is.

    What was written and not read is there still. Of a process that did nothing else the kernel
    counts all that it wrote; else the time that is left had other files written and read.
    """
    if before_s <= 0:
        return dict.fromkeys(OPS, 0.0), 0.0
    counted = _done_by_query_before(recording, before_s)
    # Of what files held when the last burst began, ``earlier`` bytes were written in bursts before.
    held, unread_then = (
        max(before - earlier, 0.0) for before in (files.held_before, files.unread_before)
    )
    counted_bytes = None if counted is None else counted.written_bytes
    error = 0.05
    if counted_bytes is not None:
        written = max(float(counted_bytes), held)
    else:
        write_s, read_s = (rates.get(name, max(rates.values())) for name in ("write", "read"))
        left_s = before_s - held * write_s - (held - unread_then) * read_s
        written, error = held + max(left_s, 0.0) / (write_s + read_s), 0.3
    read = max(written - unread_then, 0.0)
    most = None if counted is None else counted.read_bytes
    if most is not None:
        read = min(read, float(most))
    return {"write": written, "read": read}, error
