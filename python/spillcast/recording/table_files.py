"""The Parquet files of a recording, checked as they are read.

meta.json has the sums of the rows; if the rows do not add up to them, they are incomplete.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from spillcast import _core
from spillcast.gate import damaged, reading
from spillcast.recording.meta import COPY_AGAIN, Meta, TableName
from spillcast.recording.schema import SIGNED, TABLES
from spillcast.tables import ParquetTable, Table

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
                    (_check_seconds if name == "seconds" else _check_samples)(rows, self._meta)
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


def _check_samples(samples: Table, meta: Meta) -> None:
    """InputError if a sample was taken after the end of the recording."""
    _check_end((samples["time_ns"].max() or 0) / 1e9, meta)


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
