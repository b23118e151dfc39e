"""How far a partly recorded query is, and estimates of quantities of the entire query."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from math import exp, hypot, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spillcast.columns import Flags, Floats, Integers
from spillcast.recording import OPS, Recording
from spillcast.recording.meta import Meta
from spillcast.recording.observed import EarlierWork, SizedFile
from spillcast.stats import NORMAL_95
from spillcast.tables import Table

#: Quantities of the entire query: bytes written and read, time outside temp I/O (``rest``), elapsed
#: time; and ``writes``, the bytes that remain to be written.
Quantity = Literal["written", "read", "rest", "elapsed", "writes"]
#: Sources of estimates, as messages name them.
ELAPSED, FILES_SOURCE, PLAN_SOURCE, HISTORY_SOURCE, CALLS_SOURCE = (
    "--elapsed",
    "files written and not yet read",
    "the plan, which was not run",
    "a previous run",
    "previous calls, by pg_stat_statements",
)
#: Least standard deviation of the logarithm of an estimate.
MIN_SPREAD = 0.01
#: If 0 is the most likely value, a draw is 0 up to this many standard deviations.
ZERO_DEVIATIONS = 0.5


@dataclass(frozen=True)
class Estimated:
    """A quantity of the entire query on the recorded storage, with a 90 % interval."""

    quantity: Quantity
    low: float
    centre: float
    high: float
    source: str

    @classmethod
    def around(
        cls,
        quantity: Quantity,
        centre: float,
        spread: float,
        source: str,
        above: float | None = None,
    ) -> "Estimated":
        """An estimate with a standard deviation of its logarithm, and a different one ``above``."""
        low = centre * exp(-NORMAL_95 * spread)
        high = centre * exp(NORMAL_95 * (spread if above is None else above))
        return cls(quantity, low, centre, high, source)

    @property
    def spreads(self) -> tuple[float, float]:
        """Standard deviations of the logarithm, below and above."""
        below = log(self.centre / self.low) / NORMAL_95 if self.low > 0 else 1.0
        above = log(self.high / self.centre) / NORMAL_95
        return max(below, MIN_SPREAD), max(above, MIN_SPREAD)

    @property
    def spread(self) -> float:
        """Root mean square of ``spreads``."""
        return hypot(*self.spreads) / 2**0.5

    def drawn(self, normal: Floats) -> Floats:
        """Draws of the quantity, from draws of a standard normal distribution."""
        if not self.centre:
            beyond = np.maximum(normal - ZERO_DEVIATIONS, 0.0) / (NORMAL_95 - ZERO_DEVIATIONS)
            return np.asarray(self.high * beyond)
        below, above = self.spreads
        draws: Floats = self.centre * np.exp(np.where(normal < 0, below, above) * normal)
        return draws


#: The share of a recording that counts as its last part, and the least share of a part's bytes that
#: an op must move to be one of its phases.
LATE, MIN_PHASE = 0.2, 0.1
#: Writes are at full rate if the late rate is at least this share of the earlier rate, and late
#: writes are at least this multiple of late reads; faster reads drain the files.
MIN_RATE, MIN_WRITES_PER_READ = 0.5, 0.8
#: The rate of an op is unknown below this share of the recorded bytes.
MIN_SEEN = 0.01
#: A trend is fitted to GROUPS groups of at least MIN_OPERATIONS operations. A slope below
#: MIN_ERRORS standard errors is not a trend.
GROUPS, MIN_OPERATIONS, MIN_ERRORS = 8, 6, 2.0
#: A session that is at most this much older than its query (factor and seconds) ran only the query.
ONLY_QUERY_FACTOR, ONLY_QUERY_S = 1.1, 0.5
#: Upper limit of the time outside temp I/O, over the CPU time.
MAX_WAITING = 2.0
#: Relative error of the bytes written before the recording, from counts and from the time left.
COUNTED_ERROR, TIMED_ERROR = 0.05, 0.3


@dataclass(frozen=True)
class Unread:
    """Bytes of temp files that are unread at the end of the recording.

    ``held_before`` and ``unread_before`` are bytes at the start of the recording or of its last
    burst; ``written_since`` are bytes written since then.
    """

    lower: float
    middle: float
    upper: float
    held_before: float
    unread_before: float
    written_since: float

    def drawn(self, uniform: Floats) -> Floats:
        """Draws, from uniform draws between 0 and 1; half of them are near ``middle``."""
        near = (self.lower + self.middle) / 2, (self.middle + self.upper) / 2
        ends = (self.lower, *near, self.upper)
        return np.asarray(np.interp(uniform, (0.0, 0.25, 0.75, 1.0), ends))


@dataclass(frozen=True)
class Rate:
    """Elapsed time per byte of an op: in the operation, and between operations (``rest_s``).

    ``growth`` is the relative growth of ``rest_s`` over the recording, and its error.
    """

    io_s: float
    rest_s: float
    growth: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class QueryProgress:
    """Bytes of temp I/O and seconds of a query, within the recording and before it."""

    recorded_s: float
    #: Elapsed time before the recording, and the part outside temp I/O; None if unknown.
    before_s: float
    rest_before_s: float | None
    #: Bytes by op within the recording.
    bytes: Mapping[str, float]
    #: Bytes written by the recording's end, and the relative error of those before its start.
    written: float
    before_error: float
    unread: Unread
    #: Rates of the recorded ops.
    rates: Mapping[str, Rate]
    #: Ops in the last part of the recording, or in all of it if that part has none.
    recent_ops: frozenset[str]
    #: Whether nothing at the end of the recording shows that writing will end.
    writes_at_full_rate: bool
    #: Seconds of latency, summed over threads, per second of elapsed time.
    overlap: float
    #: Recorded time before the first temp I/O of the query, which counts for no byte.
    ahead_s: float
    #: Tables of known size that are read in order: name, and first and last position (shares).
    scans: Sequence[tuple[str, float, float]]

    @property
    def done_s(self) -> float:
        """Elapsed time of the query at the recording's end."""
        return self.before_s + self.recorded_s

    @property
    def rest_s(self) -> float:
        """Elapsed time outside temp I/O within the recording."""
        io_s = sum(self.bytes[op] * rate.io_s for op, rate in self.rates.items())
        return max(self.recorded_s - io_s, 0.0)


def progress_of(recording: Recording, overlap: float) -> QueryProgress | None:
    """The progress of a recorded query; None if the recording lacks the necessary single waits.

    ``overlap`` is that of a QueryProgress.
    """
    meta, raw, waits = recording.meta, recording.meta.raw, recording.temp_waits
    some_missing = raw.rows < raw.rows_seen
    if raw.slices_of_all or not waits.num_rows or (raw.slices_s is None and some_missing):
        return None
    rows = _Rows.of(waits, recording.elapsed_s, np.array(raw.slices_s) if some_missing else None)
    kept = {op: rows.moved(op) for op in OPS}
    moved = kept
    if some_missing:
        # Single waits were kept only in slices; the sums by second contain all bytes.
        seconds = recording.temp_seconds
        by_op = {op: float(seconds["bytes"].values[seconds["op"].equals(op)].sum()) for op in OPS}
        moved = {op: max(kept[op], by_op[op]) if kept[op] else 0.0 for op in OPS}
    times = {op: moved[op] / max(kept[op], 1.0) for op in OPS}
    files = _unread(meta, waits, _ends_ns(recording.temp_changes), times)
    fresh = raw.slices_s is None and not files.held_before
    ahead_s = float(rows.start_s.min()) if fresh else 0.0
    if not (rates := rows.rates(overlap, ahead_s)):
        return None
    before_s, counted = _before(meta)
    earlier = max(moved["write"] - files.written_since, 0.0)
    before, error = _written_before(counted, files, earlier, before_s, rates)
    rest_before_s = None
    if counted is not None and (cpu_s := meta.cpu_s):
        # Time outside temp I/O is proportional to CPU time, as in the recording.
        io_s = sum(moved[op] * rate.io_s for op, rate in rates.items())
        waiting = min(max(recording.elapsed_s - io_s, 0.0) / cpu_s, MAX_WAITING)
        rest_before_s = min(counted.cpu_s * waiting, before_s)
    late = {op: rows.moved(op, after=1 - LATE) for op in OPS}
    recent_ops = _phases(late) or _phases(kept)
    feeds = "write" in recent_ops and moved["write"] > 0
    return QueryProgress(
        recorded_s=recording.elapsed_s,
        before_s=before_s,
        rest_before_s=rest_before_s,
        bytes=moved,
        written=before + moved["write"],
        before_error=error,
        unread=files,
        rates=rates,
        recent_ops=recent_ops,
        writes_at_full_rate=_at_full_rate(rows, late),
        overlap=overlap,
        ahead_s=ahead_s,
        scans=list(_scans(recording.waits, meta.inputs, ahead_s)) if feeds else (),
    )


@dataclass(frozen=True)
class _Rows:
    """Temp operations ordered by end; times exclude the gaps between kept slices."""

    op: NDArray[np.str_]
    size: Floats
    start_s: Floats
    end_s: Floats
    latency_s: Floats
    elapsed_s: float

    @classmethod
    def of(cls, waits: Table, elapsed_s: float, edges: Floats | None) -> "_Rows":
        """Operations of the entire recorded time, or of slices with these ``edges`` (s)."""
        start_s, latency_s = (waits[name].values / 1e9 for name in ("start_ns", "elapsed_ns"))
        end_s = start_s + latency_s
        if edges is not None:
            before_s = np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])])
            at = np.clip(np.searchsorted(edges[:, 0], start_s, side="right") - 1, 0, len(edges) - 1)
            end_s = before_s[at] + np.clip(end_s, edges[at, 0], edges[at, 1]) - edges[at, 0]
            elapsed_s = float(before_s[-1])
        op = np.array(OPS)[waits["op"].equals(OPS[1]).astype(int)]
        size = waits["bytes"].filled(0).astype(float)
        order = np.argsort(end_s, kind="stable")
        return cls(
            op[order], size[order], start_s[order], end_s[order], latency_s[order], elapsed_s
        )

    def moved(self, op: str, after: float = 0.0) -> float:
        """Bytes of operations that ended after a share of the time."""
        return float(self.size[(self.op == op) & (self.end_s >= after * self.elapsed_s)].sum())

    def rates(self, overlap: float, ahead_s: float) -> dict[str, Rate]:
        """Rates by op; an operation's time counts from the end of the previous operation."""
        passed_s = np.diff(self.end_s, prepend=ahead_s)
        passed_s[-1] += max(self.elapsed_s - self.end_s[-1], 0.0)
        rates = {}
        for op in OPS:
            which = self.op == op
            moved = float(self.size[which].sum())
            if moved <= MIN_SEEN * self.size.sum():
                continue
            io_s, size = self.latency_s[which] / overlap, self.size[which]
            elapsed_s = passed_s[which]
            if size[1:].sum():
                # The time before the first operation may belong to another phase.
                elapsed_s, io_s, size = elapsed_s[1:], io_s[1:], size[1:]
            each_s = float(elapsed_s.sum() / size.sum())
            io_each_s = min(float(io_s.sum() / size.sum()), each_s)
            rates[op] = Rate(io_each_s, each_s - io_each_s, _growth(elapsed_s - io_s, size))
        return rates


def _growth(rest_s: Floats, size: Floats) -> tuple[float, float]:
    """Relative growth of the time per byte from first to last, by a line fit, and its error."""
    if len(size) < GROUPS * MIN_OPERATIONS:
        return 0.0, 0.0
    parts = np.array_split(np.arange(len(size)), GROUPS)
    per_byte_s = np.array([rest_s[part].sum() / max(size[part].sum(), 1.0) for part in parts])
    if (mean_s := float(per_byte_s.mean())) <= 0:
        return 0.0, 0.0
    at = (np.arange(GROUPS) + 0.5) / GROUPS - 0.5
    slope = float(at @ per_byte_s / (at @ at))
    scatter_s = per_byte_s - mean_s - slope * at
    error = float(np.sqrt(scatter_s @ scatter_s / (GROUPS - 2) / (at @ at)))
    kept = max(1 - (MIN_ERRORS * error / slope) ** 2, 0.0) if slope else 0.0
    return kept * slope / mean_s, kept * error / mean_s


def _phases(moved: Mapping[str, float]) -> frozenset[str]:
    return frozenset(op for op in OPS if moved[op] > MIN_PHASE * sum(moved.values()))


def _at_full_rate(rows: _Rows, late: Mapping[str, float]) -> bool:
    """Whether late writes are not much slower than earlier ones, and reads do not drain files."""
    writes = rows.op == "write"
    if "write" not in _phases(late):
        return False
    began_s = float(rows.start_s[writes].min())
    earlier_s = (1 - LATE) * rows.elapsed_s - began_s
    earlier = rows.moved("write") - late["write"]
    slowed = earlier_s > 0 and late["write"] * earlier_s < (
        MIN_RATE * earlier * LATE * rows.elapsed_s
    )
    return not slowed and late["write"] >= MIN_WRITES_PER_READ * late["read"]


def _before(meta: Meta) -> tuple[float, EarlierWork | None]:
    """Elapsed time (s) of the query before the recording, and the kernel's counts until then.

    A process's query starts when the process starts to work. The counts are None unless they cover
    only the query, because its process or session started with it.
    """
    counted = meta.before
    if meta.server is not None:
        before_s = meta.server.before_recording_s
        alone = counted is not None and counted.ran_s < ONLY_QUERY_FACTOR * before_s + ONLY_QUERY_S
        return before_s, counted if alone and before_s > 0 else None
    if counted is None or not meta.may_have_begun or counted.ran_s <= 0:
        return 0.0, None
    return counted.ran_s, counted


def _written_before(
    counted: EarlierWork | None,
    files: Unread,
    earlier: float,
    before_s: float,
    rates: Mapping[str, Rate],
) -> tuple[float, float]:
    """Bytes written before the recording, and their relative error.

    Files still hold bytes that were written and not read. The kernel's counts contain all bytes
    that a process wrote if it ran only the query. Without counts, other files are assumed to be
    written and read in the time that the held bytes leave.
    """
    if before_s <= 0:
        return 0.0, 0.0
    # Of the bytes in files when the last burst began, ``earlier`` were written in earlier bursts.
    held, unread_then = (
        max(before - earlier, 0.0) for before in (files.held_before, files.unread_before)
    )
    if counted is not None and counted.written_bytes is not None:
        return max(float(counted.written_bytes), held), COUNTED_ERROR
    each_s = {op: rate.io_s + rate.rest_s for op, rate in rates.items()}
    write_s, read_s = (each_s.get(op, max(each_s.values())) for op in ("write", "read"))
    left_s = before_s - held * write_s - (held - unread_then) * read_s
    return held + max(left_s, 0.0) / (write_s + read_s), TIMED_ERROR


#: The progress of out-of-order reads of an earlier file is unknown, unless all are beyond the share
#: TOP of the file. Then reading has just begun, because the last bytes written are read first, and
#: the shares BEGUN are unread (lower, middle, upper).
TOP, BEGUN = 0.6, (0.6, 0.9, 1.0)
#: At a smaller ratio of bytes written to bytes read of a file, offsets show the progress of
#: reading.
STRAY_SHARE_MAX = 0.01
#: Reads are in order if at most this share of them goes backward.
MAX_BACKWARD = 0.1


def _unread(
    meta: Meta, waits: Table, ended_ns: Mapping[str, int], times: Mapping[str, float]
) -> Unread:
    """Unread bytes of the temp files; ``times`` is bytes moved over bytes in kept waits, by op."""
    held, raw = {sized.file: float(sized.bytes) for sized in meta.temp_before}, meta.raw
    if raw.slices_s and raw.rows == raw.rows_seen:
        # The sizes of files are known at the start of the last burst.
        began_ns = round(raw.slices_s[-1][0] * 1e9)
        waits = waits.filter(waits["start_ns"].values >= began_ns)
    write = waits["op"].equals("write")
    offset, start_ns = waits["offset"].filled(0), waits["start_ns"].values
    size = waits["bytes"].filled(0) * np.where(write, times["write"], times["read"])
    files = list[Unread]()
    groups = waits.group_by("file")
    for path, rows in zip(groups.keys["file"].to_pylist(), groups.rows(), strict=True):
        removed = ended_ns.get(path, -1) >= start_ns[rows[-1]]
        files.append(_of_file(held.pop(path, 0.0), write[rows], offset[rows], size[rows], removed))
    for path, bytes_before in held.items():
        left = 0.0 if path in ended_ns else bytes_before
        files.append(Unread(left, left, left, bytes_before, bytes_before, 0.0))
    sums = np.array([astuple(file) for file in files]).reshape(-1, len(fields(Unread))).sum(axis=0)
    return Unread(*sums.tolist())


def _ends_ns(changes: Table) -> Mapping[str, int]:
    """The time (ns) at which each file was removed or truncated to 0 bytes."""
    event = changes["event"]
    truncated, removed = (
        event.isin(name for name in event.names if call in name) for call in ("truncate", "unlink")
    )
    rows = changes.filter(removed | (truncated & (changes["offset"].filled(-1) == 0)))
    names = rows["file"].to_pylist()
    return dict(zip(names, rows["start_ns"].to_pylist(), strict=True))


def _of_file(held: float, write: Flags, offset: Integers, size: Floats, removed: bool) -> Unread:
    """The unread bytes of a file that held ``held`` bytes before and is ``removed`` at the end."""
    written, read = float(size[write].sum()), float(size[~write].sum())
    left = 0.0 if removed else max(held + written - read, 0.0)
    if not read or not held:
        return Unread(left, left, left, held, held, written)
    if written > STRAY_SHARE_MAX * read:
        before = max(held * 0.9, min(held, max(read - written, 0.0)))
        return Unread(left / 2, left * 0.9, left, held, before, written)
    # If several sorted runs of a file are merged, reading has progressed equally in each.
    first = float(offset[~write].min())
    last = max(held - float((offset + size)[~write].max()), 0.0)
    share = last / (first + last) if first + last else 0.0
    in_order = len(offset[~write]) < 2 or (np.diff(offset[~write]) < 0).mean() < MAX_BACKWARD
    if not in_order and first > TOP * held:
        lower, middle, upper = (left * begun for begun in BEGUN)
    elif not in_order and first + last < left / 2:
        middle = left * ((share if first + last else 0.5) + 0.5) / 2
        lower, upper = 0.0, left
    else:
        middle = left * share
        lower, upper = middle * 0.9, min(middle * 1.1, left)
    return Unread(lower, middle, upper, held, middle + read, written)


#: Fewer bytes read of a file are not a scan.
MIN_INPUT_BYTES = 1 << 20
#: Largest share of reads that are behind the scan by more than this share of the table.
LAG_SHARE = 0.1
#: Reads beyond this share of a table (its last blocks) are ignored. Fewer reads are not a scan.
ENDS, MIN_READS = 0.95, 4
#: PostgreSQL's segments of one table.
_SEGMENT = re.compile(r"\.(\d+)$")
_SEGMENT_BYTES = 1 << 30


def _scans(
    waits: Table, inputs: Sequence[SizedFile], after_s: float
) -> Iterator[tuple[str, float, float]]:
    """The ``scans`` of a QueryProgress over files of data, from the reads since ``after_s``."""
    known = waits["offset"].is_valid() & waits["file"].is_valid()
    later = waits["start_ns"].values >= round(after_s * 1e9)
    rows = waits.filter(known & later & waits["op"].equals("read") & ~waits["temp"].values)
    names = rows["file"].to_numpy()
    offset, size = rows["offset"].values, rows["bytes"].filled(0)
    # The offset of each file in its table, and the size of each table.
    begins, sizes = dict[str, dict[str, int]](), dict[str, int]()
    for file in inputs:
        match = _SEGMENT.search(file.file)
        table = file.file[: match.start()] if match else file.file
        begin = int(match[1]) * _SEGMENT_BYTES if match else 0
        begins.setdefault(table, {})[file.file] = begin
        sizes[table] = sizes.get(table, 0) + file.bytes
    for table, parts in begins.items():
        of_table = np.array([name in parts for name in names], dtype=bool)
        if int(size[of_table].sum()) < MIN_INPUT_BYTES or not sizes[table]:
            continue
        begin_bytes = np.array([parts[name] for name in names[of_table]], dtype=np.int64)
        share = (begin_bytes + offset[of_table] + size[of_table]) / sizes[table]
        share = share[share < ENDS]
        tops = np.maximum.accumulate(share)
        in_order = len(share) >= MIN_READS and (share < tops - LAG_SHARE).mean() <= LAG_SHARE
        if in_order:
            first = float(np.median(share[: max(len(share) // 10, 1)]))
            yield os.path.basename(table), first, float(tops[-1])
