"""A recording in progress, in memory: totals by event, latencies, and waits for a forecast."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spillcast import _core
from spillcast.columns import ColumnValues, Flags, Integers
from spillcast.recording import SECOND_NS
from spillcast.recording.derived import with_temp_column
from spillcast.recording.meta import KeptWaits, Meta
from spillcast.recording.observed import SizedFile
from spillcast.recording.recording import Recording
from spillcast.recording.schema import SAMPLES, SECONDS, WAITS, seconds_of
from spillcast.recording.writer import FROM_ITS_START, Sink, TimeShift
from spillcast.tables import Table

#: Latency bins per power of ten, each 6 % wide, and powers of ten from 1 ns to 10,000 s.
BINS, POWERS = 40, 13
#: Maximum number of single waits kept for a forecast: enough for exact sums, few enough for speed.
ROWS_MAX = 200_000
#: Maximum number of per-second rows, and of tallies of waits by event and thread: enough for hours
#: of a query with hundreds of threads.
SECONDS_MAX, WAITS_MAX = 100_000, 2_000
#: Session numbers under which the waits of many threads are summed: without and with temp I/O.
OTHERS, OTHERS_SPILLING = -1, -2
#: Maximum number of batches of per-second rows before they are merged.
BATCHES_MAX = 1_000
#: The number of latest seconds whose counts and sums are kept individually.
RECENT = 120
ON_CPU = "CPU"


@dataclass
class Tally:
    """Sums up operations of one kind: count, total time, distribution of latencies."""

    count: int = 0
    total_ns: int = 0
    bytes: int = 0
    bins: Integers = field(default_factory=lambda: np.zeros(BINS * POWERS, dtype=np.int64))
    #: Count and sum (ns) by second.
    recent: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, start_ns: Integers, elapsed_ns: Integers, size: int) -> None:
        """Count operations that moved ``size`` bytes in total."""
        self.count += len(elapsed_ns)
        self.total_ns += int(elapsed_ns.sum())
        self.bytes += size
        bins = (np.log10(np.maximum(elapsed_ns, 1)) * BINS).astype(np.int64)
        self.bins += np.bincount(np.minimum(bins, len(self.bins) - 1), minlength=len(self.bins))
        seconds, group = np.unique(start_ns // SECOND_NS, return_inverse=True)
        counts, sums_ns = np.bincount(group), np.bincount(group, weights=elapsed_ns).astype(int)
        self._add_recent(zip(seconds.tolist(), counts.tolist(), sums_ns.tolist(), strict=True))

    def _add_recent(self, rows: Iterable[tuple[int, int, int]]) -> None:
        for second, count, sum_ns in rows:
            before, before_ns = self.recent.get(second, (0, 0))
            self.recent[second] = before + count, before_ns + sum_ns
        for second in sorted(self.recent)[:-RECENT]:
            del self.recent[second]

    def merge(self, other: "Tally") -> None:
        """Add the operations of another tally, with those in ``recent``."""
        self.count += other.count
        self.total_ns += other.total_ns
        self.bytes += other.bytes
        self.bins = self.bins + other.bins
        self._add_recent((second, *sums) for second, sums in other.recent.items())

    @property
    def mean_ns(self) -> float:
        """Mean latency; requires at least one operation."""
        return self.total_ns / self.count

    def quantile_ns(self, quantile: float) -> float:
        """Latency (ns) below which the share ``quantile`` of operations lies, within 3 %."""
        sums = np.cumsum(self.bins)
        bin_number = int(np.searchsorted(sums, max(1.0, quantile * sums[-1])))
        return float(10 ** ((bin_number + 0.5) / BINS))


class Running(Sink):
    """Collects rows from a recorder.

    Memory is bounded for runs of any length. Single waits are kept for whole seconds: for every
    second, then for every 2nd, 4th, 8th ... Counts and totals include all waits. Per-second rows
    become sums of 2, 4, 8 ... seconds, and waits of many threads are summed.
    """

    def __init__(self) -> None:
        #: Reads and writes by event, op and whether the file is a temp file.
        self.tallies: dict[tuple[str, str | None, bool], Tally] = {}
        #: Waits that move no data, by event and session: idle threads have these all the time.
        self._waits: dict[tuple[str, int], Tally] = {}
        self._spilling: set[int] = set()
        #: Time (us) that samples represent, by wait event.
        self.sampled_us: dict[str, int] = {}
        self._rows_seen = 0
        self._parts: dict[int, list[Table]] = {}
        self._stride = 1
        self._documents: dict[str, object] = {}
        self._seconds: list[Table] = []
        self._seconds_rows = 0
        self._seconds_stride = 1
        #: Whether a file is a temp file, for files with rows from before the decision.
        self._decided: dict[str, bool] = {}

    def add_rows(self, rows: _core.Rows) -> None:
        """Take the new rows of a capture."""
        self._decided = rows.decided()
        self.add_waits(rows.waits())
        self.add_seconds(rows.seconds())

    def add_waits(self, rows: Any) -> None:
        """Count all waits; keep those of every ``_stride``-th second."""
        batch = Table.from_arrow(rows).cast(WAITS)
        if batch.num_rows == 0:
            return
        self._rows_seen += batch.num_rows
        self._count(batch)
        part_of = batch["start_ns"].values // SECOND_NS
        for part in np.unique(part_of).tolist():
            if part % self._stride == 0:
                self._parts.setdefault(part, []).append(batch.filter(part_of == part))
        while (
            len(self._parts) > 1
            and sum(rows.num_rows for kept in self._parts.values() for rows in kept) > ROWS_MAX
        ):
            self._stride *= 2
            self._parts = {
                part: rows for part, rows in self._parts.items() if part % self._stride == 0
            }

    def _count(self, batch: Table) -> None:
        event, op = batch["event"], batch["op"]
        temp, session = batch["temp"].values, batch["session"].values
        self._spilling.update(np.unique(session[temp]).tolist())
        codes = event.values.astype(np.int64) * 6 + temp + 2 * (op.values + 1)
        start, elapsed = batch["start_ns"].values, batch["elapsed_ns"].values
        size = batch["bytes"].filled(0)
        events, ops = event.names, [None, *op.names]
        for code in np.unique(codes).tolist():
            which = codes == code
            key = events[code // 6], ops[code % 6 // 2], bool(code % 2)
            if key[1] is None:
                self._count_waits(key[0], session, start, elapsed, which)
                continue
            tally = self.tallies.setdefault(key, Tally())
            tally.add(start[which], elapsed[which], int(size[which].sum()))

    def _count_waits(
        self, event: str, session: Integers, start: Integers, elapsed: Integers, which: Flags
    ) -> None:
        for session_number in np.unique(session[which]).tolist():
            of_session = which & (session == session_number)
            self._waits.setdefault((event, session_number), Tally()).add(
                start[of_session], elapsed[of_session], 0
            )
        if len(self._waits) > WAITS_MAX:
            self._add_up_waits()

    def _add_up_waits(self) -> None:
        tallies: dict[tuple[str, int], Tally] = {}
        for (event, session), tally in self._waits.items():
            spills = session in self._spilling
            key = event, OTHERS_SPILLING if spills else OTHERS
            tallies.setdefault(key, Tally()).merge(tally)
        if self._spilling:
            self._spilling.add(OTHERS_SPILLING)
        self._waits = tallies

    def waits(self) -> dict[str, Tally]:
        """Waits that move no data, by event; only of sessions with temp I/O, once there are any."""
        tallies: dict[str, Tally] = {}
        for (event, session), tally in self._waits.items():
            if not self._spilling or session in self._spilling:
                tallies.setdefault(event, Tally()).merge(tally)
        return tallies

    def add_seconds(self, rows: Any) -> None:
        """Keep per-second rows."""
        batch = Table.from_arrow(rows).cast(SECONDS)
        if not batch.num_rows:
            return
        self._seconds.append(batch)
        self._seconds_rows += batch.num_rows
        # Many small batches take much more memory than one batch with the same rows.
        if len(self._seconds) > BATCHES_MAX or self._seconds_rows > SECONDS_MAX:
            rows = Table.concat(self._seconds)
            while rows.num_rows > SECONDS_MAX / 2 and self._seconds_rows > SECONDS_MAX:
                self._seconds_stride *= 2
                rows = added_up(rows, self._seconds_stride)
            self._seconds = [rows]
            self._seconds_rows = rows.num_rows

    def add_samples(self, rows: Table) -> None:
        """Count the time that samples represent."""
        events, weights = rows["event"].to_pylist(), rows["weight_us"].to_pylist()
        for event, weight_us in zip(events, weights, strict=True):
            name = event or ON_CPU
            self.sampled_us[name] = self.sampled_us.get(name, 0) + weight_us

    def add_document(self, name: str, document: object) -> None:
        """Keep a document for the recording."""
        self._documents[name] = document

    def temp(self) -> dict[str, Tally]:
        """Reads and writes of temp files, by op."""
        tallies: dict[str, Tally] = {}
        for (_, op, temp), tally in self.tallies.items():
            if temp and op is not None:
                tallies.setdefault(op, Tally()).merge(tally)
        return tallies

    def recording(
        self, meta: Meta, clock: TimeShift = FROM_ITS_START, *, before_s: int | None = None
    ) -> Recording:
        """A recording in memory of the rows that start before ``before_s``, by default of all."""
        batches = [rows for _, kept in sorted(self._parts.items()) for rows in kept]
        waits = Table.concat(batches or [Table.empty(WAITS)])
        seconds = Table.concat(self._seconds or [Table.empty(SECONDS)])
        if self._decided:
            waits = with_temp_column(waits, self._decided)
            # Per-second rows have no file names, so they are rebuilt, unless waits were dropped.
            seconds = seconds_of(waits) if self._stride == 1 else seconds
        kept = waits.num_rows
        if before_s is not None:
            waits = waits.filter(waits["start_ns"].values < before_s * SECOND_NS)
            seconds = seconds.filter(seconds["second"].values < before_s)
        slices = None
        if self._stride > 1:
            slices = clock.slices_s([(float(part), part + 1.0) for part in sorted(self._parts)])
        of_run = clock.waits(waits)
        # Waits outside this recording do not count as seen by it.
        seen = self._rows_seen - (kept - of_run.num_rows)
        raw = KeptWaits(of_run.num_rows, seen, slices)
        recording = Recording(Path("so far"), replace(meta, raw=raw))
        recording.waits = of_run.sort_by("start_ns")
        folders = map(os.path.dirname, recording.temp_waits["file"].unique())
        before = {sized.file: sized.bytes for sized in meta.temp_before}
        read_bytes = {name: sums.read_bytes for name, sums in recording.other_files.items()}
        recording.meta = replace(
            recording.meta,
            temp_before=[SizedFile(*sized) for sized in _core.temp_of(before, list(folders))],
            inputs=[SizedFile(*sized) for sized in _core.inputs_of(read_bytes)],
        )
        recording.seconds = clock.seconds(seconds)
        recording.samples = Table.empty(SAMPLES)
        recording.documents = dict(self._documents)
        return recording

    def finish(self, meta: Meta, clock: TimeShift = FROM_ITS_START) -> Recording:
        """The whole run as a recording in memory."""
        return self.recording(meta, clock)


_KEYS = ("second", "op", "temp", "size_class_bytes")
_SUMS = ("count", "bytes", "total_ns")


def added_up(seconds: Table, stride: int) -> Table:
    """Per-second rows summed over ``stride`` seconds; ``second`` is the first of these seconds."""
    rows = seconds.with_column("second", seconds["second"].values // stride * stride)
    groups = rows.group_by(*_KEYS)
    latency_ns, latency_count = rows["latency_ns"], rows["latency_count"]
    assert latency_ns.items is not None
    assert latency_count.items is not None
    # Histograms of a group are merged: one row per bucket, summed by latency.
    buckets = Table(
        {
            "group": np.repeat(groups.number, latency_ns.lengths),
            "latency_ns": latency_ns.items,
            "count": latency_count.items,
        }
    ).sort_by("group", "latency_ns")
    by_latency = buckets.group_by("group", "latency_ns")
    lengths = np.bincount(by_latency.keys["group"].values, minlength=len(groups))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    counts = ColumnValues.of(by_latency.sum(buckets["count"].values))
    columns = {
        **groups.keys.columns,
        **{name: groups.sum(rows[name].values) for name in _SUMS},
        "latency_ns": ColumnValues("list of int64", ends, items=by_latency.keys["latency_ns"]),
        "latency_count": ColumnValues("list of int64", ends, items=counts),
    }
    return Table(columns).cast(SECONDS).sort_by(*_KEYS)
