"""What is known of a query that was seen in part: done before, done while it was recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spillcast.forecast.threads.overlap import Threads
from spillcast.forecast.to_come.files import Unread, unread
from spillcast.recording import Recording
from spillcast.recording.event_names import OPS
from spillcast.recording.meta import KeptWaits
from spillcast.recording.observed import DoneBefore
from spillcast.recording.part import had_worked
from spillcast.recording.spill import equals

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
class Seen:
    """Bytes on temp files and seconds; an op that was not seen has no rate."""

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
    rest_before_s: float | None = None
    #: Seconds of latency, of all threads together, for one of elapsed time.
    overlap: float = 1.0
    #: Of the time recorded, that before the query's first temp I/O: it goes with no byte.
    ahead_s: float = 0.0

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


def seen_of(recording: Recording, threads: Threads) -> Seen | None:
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
    moved = _moved(recording, kept) if _some_missing(raw) else kept
    files = unread(recording, {name: moved[name] / max(kept[name], 1.0) for name in OPS})
    before_s = _before_s(recording)
    last = start_s >= (1 - LAST) * recording.elapsed_s
    late = {name: float(size[last & (op == name)].sum()) for name in OPS}
    fresh = raw.slices_s is None and not files.held_before
    ahead_s = float(start_s.min()) if fresh else 0.0
    rates = _s_per_byte(op, size, *_end_to_end(recording, start_s, end_s), ahead_s)
    if not rates:
        return None
    overlap = 1 / threads.of_waits
    io_s = {
        name: min(float((end_s - start_s)[op == name].sum()) / overlap / kept[name], rate)
        for name, rate in rates.items()
    }
    earlier = max(moved["write"] - files.written_since, 0.0)
    before, error = _done_before(recording, files, earlier, before_s, rates)
    return Seen(
        recording.elapsed_s,
        before_s,
        moved,
        before,
        files,
        io_s,
        {name: rate - io_s[name] for name, rate in rates.items()},
        _doing(late) or _doing(kept),
        error,
        _rest_before_s(recording, before_s, sum(moved[name] * io_s[name] for name in io_s)),
        overlap,
        ahead_s,
    )


def _doing(moved: Mapping[str, float]) -> frozenset[str]:
    """Ops that moved more than hardly anything."""
    return frozenset(name for name in OPS if moved[name] > HARDLY * sum(moved.values()))


def _some_missing(raw: KeptWaits) -> bool:
    """Whether single waits are kept of some slices alone."""
    return raw.rows < raw.rows_seen


def _moved(recording: Recording, kept: Mapping[str, float]) -> dict[str, float]:
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
