"""The tables of a recording: columns, files, rows within a window, size classes, and totals.

The files are checked as they are read: meta.json has the sums of their rows; if the rows do not add
up to them, they are incomplete.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spillcast import _core
from spillcast.columns import NAME, ColumnValues, Field
from spillcast.gate import damaged, reading
from spillcast.recording import OPS, SECOND_NS
from spillcast.recording.meta import COPY_AGAIN, Meta, OtherIO, TableName, Temp
from spillcast.tables import ParquetTable, Table, distinct


@dataclass(frozen=True)
class Described(Field):
    """A column: name, type, whether it may be null, meaning, example."""

    meaning: str = ""
    example: object = None


_COUNTS = "list of int64"

WAITS = (
    Described("start_ns", "int64", False, "start, ns since the run began", 1_204_518),
    Described("elapsed_ns", "int64", False, "duration, ns", 1_064_220),
    Described("session", "int64", False, "thread id (Linux) or session id (Oracle)", 4711),
    Described("event", NAME, False, "system call or wait event", "pread64"),
    Described("op", NAME, True, "read, write, or null for neither", "read"),
    Described(
        "temp",
        "bool",
        False,
        "whether it reads, writes or changes a temp file, or waits for writeback of such",
        True,
    ),
    Described("file", NAME, True, "path, or file number", "/t/duckdb_temp_storage_DEFAULT-0.tmp"),
    Described(
        "offset",
        "int64",
        True,
        "byte offset in the file; its new length where it is truncated",
        786_432,
    ),
    Described("bytes", "int64", True, "bytes moved", 262_144),
    Described("blocked", "bool", True, "whether the thread left the CPU meanwhile", True),
    Described("cpu_before_ns", "int64", True, "CPU since the session's last row, ns", 310_442),
    Described("woken_by", "int64", True, "session that ended the wait", None),
    Described("sql_id", NAME, True, "statement the wait belongs to", None),
    Described("object", "int64", True, "database object number", None),
    Described("line", "int64", True, "line in the source file, from 1", None),
)

SECONDS = (
    Described("second", "int64", False, "whole seconds since the run began", 3),
    Described("op", NAME, True, "read, write, or null for neither", "write"),
    Described("temp", "bool", False, "whether the files are temp files", True),
    Described("size_class_bytes", "int64", False, "size, up to 1/8 of its power of 2", 262_144),
    Described("count", "int64", False, "waits that began in this second", 412),
    Described("bytes", "int64", False, "bytes moved", 108_003_328),
    Described("total_ns", "int64", False, "sum of their durations, ns", 438_459_012),
    Described("latency_ns", _COUNTS, False, "histogram: middle of each bucket, ns", [1_052_672]),
    Described("latency_count", _COUNTS, False, "histogram: waits in each bucket", [412]),
)

SAMPLES = (
    Described("time_ns", "int64", False, "instant, ns since the run began", 2_000_000_000),
    Described("session", "int64", False, "session or backend", 815),
    Described("event", NAME, True, "wait event; null on CPU", "BufFileRead"),
    Described("time_waited_us", "int64", True, "length of the wait that was seen, us", 19_305),
    Described("weight_us", "int64", False, "time this sample represents, us", 1_000_000),
    Described("sql_id", NAME, True, "statement", "09bmj7j9q8a5z"),
    Described("sql_exec_id", "int64", True, "execution of the statement", 16_777_216),
    Described("plan_line", "int64", True, "line of its plan", 4),
    Described("coordinator", "int64", True, "session that a parallel worker serves", None),
)

#: The columns by the name of the table.
TABLES = {"waits": WAITS, "seconds": SECONDS, "samples": SAMPLES}
#: Columns with possibly negative numbers: identifiers assigned by a server or the kernel.
SIGNED = frozenset(("session", "object", "sql_exec_id", "coordinator"))

_LATEST_NS = np.iinfo(np.int64).max


def within(waits: Table, begin_ns: int, end_ns: int = _LATEST_NS) -> Table:
    """The parts of waits within a window, without wakers outside it."""
    start = waits["start_ns"].values
    end = start + waits["elapsed_ns"].values
    rows = waits.filter((start < end_ns) & ((start >= begin_ns) | (end > begin_ns)))
    start = rows["start_ns"].values
    end = start + rows["elapsed_ns"].values
    earlier, later = start < begin_ns, end > end_ns
    start, end = np.maximum(start, begin_ns), np.minimum(end, end_ns)
    cpu_ns, woken_by = rows["cpu_before_ns"], rows["woken_by"]
    changed = {
        "start_ns": start,
        "elapsed_ns": end - start,
        "cpu_before_ns": replace(
            cpu_ns, values=np.where(earlier, 0, cpu_ns.values), valid=cpu_ns.is_valid() | earlier
        ),
        "woken_by": replace(woken_by, valid=woken_by.is_valid() & ~later),
    }
    return Table({**rows.columns, **changed}, rows.num_rows)


def size_classes(size_bytes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The size classes that occur, and the index of each row's class."""
    sizes, which = distinct(size_bytes)
    of_size = np.array([_core.size_class_bytes(int(n)) for n in sizes], dtype=np.int64)
    classes, number = np.unique(of_size, return_inverse=True)
    return classes, number[which]


def totals(waits: Table) -> tuple[Temp, OtherIO]:
    """The totals of temp files and of other files."""
    is_temp, moved = waits["temp"].values, waits["op"].is_valid()
    temp, other = waits.filter(is_temp & moved), waits.filter(~is_temp & moved)
    return (
        Temp(
            reads=int(temp["op"].equals("read").sum()),
            writes=int(temp["op"].equals("write").sum()),
            bytes=temp["bytes"].sum(),
            total_s=temp["elapsed_ns"].sum() / 1e9,
        ),
        OtherIO(other.num_rows, other["elapsed_ns"].sum() / 1e9),
    )


def seconds_of(waits: Table) -> Table:
    """The per-second rows of single waits; latencies are exact to the nanosecond."""
    size, elapsed_ns = waits["bytes"].filled(0), waits["elapsed_ns"].values
    classes, which = size_classes(size)
    rows = Table(
        {
            "second": waits["start_ns"].values // SECOND_NS,
            "op": waits["op"],
            "temp": waits["temp"],
            "size_class_bytes": classes[which],
        }
    )
    groups = rows.group_by(*rows.column_names)
    histograms = [np.unique(elapsed_ns[at], return_counts=True) for at in groups.rows()]
    op = groups.keys["op"]
    # All files have the same dictionary, as from a recorder, so several files can be grouped.
    codes = np.select([op.equals(name) for name in OPS], range(len(OPS)), -1).astype(np.int32)
    return Table(
        {
            **groups.keys.columns,
            "op": ColumnValues(NAME, codes, names=OPS),
            "count": groups.count(),
            "bytes": groups.sum(size),
            "total_ns": groups.sum(elapsed_ns),
            "latency_ns": ColumnValues.lists([latency_ns for latency_ns, _ in histograms]),
            "latency_count": ColumnValues.lists([count for _, count in histograms]),
        }
    ).cast(SECONDS)


#: Tables whose rows can be read in batches.
BatchedTable = Literal["waits", "samples"]
#: Rows per batch for scans that keep nothing: few enough to stay in the caches of a CPU.
_SCANNED_ROWS = 8_192
#: A row may end this much after its recording, because the clocks are read one after the other.
_LATER_S, _LATER_SHARE = 1.0, 0.01
#: The counts in meta.json may include I/O from before the run; the rows have at least this share.
_IN_RUN_SHARE = 0.9


class TableFiles:
    """The tables in the folder of a recording, compared with its ``meta`` unless that is None.

    InputError, at the latest after the last batch, if a table is incomplete.
    """

    def __init__(self, folder: Path, meta: Meta | None) -> None:
        self._meta = meta
        self._files = {
            name: ParquetTable(folder / f"{name}.parquet", fields, COPY_AGAIN, SIGNED)
            for name, fields in TABLES.items()
        }
        #: Peak bytes in all temp files, and the number of operations without an offset; known once
        #: all waits were read.
        self.held_bytes: tuple[int, int] | None = None

    def table(self, name: TableName) -> Table:
        """All rows."""
        [rows] = self._checked(name, [self._files[name].read()])
        return rows

    def batches(self, name: BatchedTable, *columns: str) -> Iterator[Table]:
        """The rows in the batches of the file; with ``columns`` only these, unchecked."""
        file = self._files[name]
        if not columns:
            return self._checked(name, file.batches())
        return replace(file, fields=[f for f in file.fields if f.name in columns]).batches()

    def scan_waits(self, scan: _core.Scan) -> None:
        """Pass all waits to ``scan``, without keeping them."""
        for rows in self._files["waits"].core_batches(_SCANNED_ROWS):
            scan.push(rows)
        self._check_waits(scan)

    def checked_file(self, name: BatchedTable) -> Path:
        """The file of a table, which is read to check it unless its waits were."""
        if name == "samples":
            for _ in self.batches(name):
                pass
        elif self.held_bytes is None:
            self.scan_waits(_core.Scan())
        return Path(self._files[name].path)

    def _checked(self, name: TableName, batches: Iterable[Table]) -> Iterator[Table]:
        scan = _core.Scan()
        for rows in batches:
            if name == "waits":
                scan.push(rows)
            elif self._meta is not None:
                with reading(self._files[name].path, COPY_AGAIN):
                    if name == "seconds":
                        _check_seconds(rows, self._meta)
                    else:
                        _check_end((rows["time_ns"].max() or 0) / 1e9, self._meta)
            yield rows
        if name == "waits":
            self._check_waits(scan)

    def _check_waits(self, scan: _core.Scan) -> None:
        rows, size, total_ns, end_ns = scan.sums()
        if (meta := self._meta) is not None and meta.captured:
            figures = [("waits", rows, meta.raw.rows)]
            if meta.sums is not None:
                figures.append(("bytes", size, meta.sums.waits_bytes))
                figures.append(("ns of waits", total_ns, meta.sums.waits_ns))
            with reading(self._files["waits"].path, COPY_AGAIN):
                _check(figures)
                _check_end(end_ns / 1e9, meta)
        self.held_bytes = scan.held_bytes()


def _check_seconds(seconds: Table, meta: Meta) -> None:
    """InputError if the per-second rows are fewer than ``meta`` counts."""
    if not meta.captured:
        return
    latencies, counts = seconds["latency_ns"], seconds["latency_count"]
    paired = (latencies.lengths == counts.lengths).all()
    assert counts.items is not None
    if not paired or counts.items.sum() != seconds["count"].sum():
        raise damaged("its histograms do not add up to its counts")
    if meta.sums is None:
        _check_temp(seconds, meta)
    else:
        figures = [
            ("rows", len(seconds), meta.sums.seconds_rows),
            ("waits", seconds["count"].sum(), meta.sums.seconds_count),
            ("bytes", seconds["bytes"].sum(), meta.sums.seconds_bytes),
            ("ns of waits", seconds["total_ns"].sum(), meta.sums.seconds_ns),
        ]
        _check(figures)
    _check_end(seconds["second"].max() or 0, meta)


def _check(figures: Sequence[tuple[str, int, int]]) -> None:
    for name, has, stated in figures:
        if has != stated:
            raise damaged(f"it holds {has:,} {name}, and meta.json counts {stated:,}")


def _check_temp(seconds: Table, meta: Meta) -> None:
    """Compare the rows with the counts of temp I/O, in a recording without sums of its rows.

    The counts may exceed the rows by I/O from before the run.
    """
    temp, count = seconds["temp"].values, seconds["count"].values
    for op, stated in (("read", meta.temp.reads), ("write", meta.temp.writes)):
        in_rows = int(count[temp & seconds["op"].equals(op)].sum())
        if not _IN_RUN_SHARE * stated <= in_rows <= stated:
            _check([(f"{op}s of temp files", in_rows, stated)])


def _check_end(end_s: float, meta: Meta) -> None:
    """InputError if rows lie after the end of the recording. Older recordings do not state it."""
    length_s = max(meta.recorded_s, meta.elapsed_s)
    if meta.recorded_s and end_s > length_s * (1 + _LATER_SHARE) + _LATER_S:
        text = f"a row at {end_s:,.1f} s of a recording of {length_s:,.1f} s"
        raise damaged(text)
