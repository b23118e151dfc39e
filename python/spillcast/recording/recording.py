"""A recording on disk: a folder of meta.json and Parquet files that any reader opens.

Its writer knows the sums of the rows, and rows that were read must agree with them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from spillcast.errors import (
    EvidenceDamaged,
    PathMissing,
    PermissionDenied,
    TimesUnknown,
)
from spillcast.gate import damaged, text_of
from spillcast.recording.meta import META_FILE, Meta, ObservedEngine, check_name
from spillcast.tabular import Column, Display, Displayed, polars_of
from spillcast.text import path_hint
from spillcast.units import format_duration

if TYPE_CHECKING:
    import polars as pl

    from spillcast import _core
    from spillcast.columns import Flags
    from spillcast.recording.thread_trace import Work
    from spillcast.tables import Table

TableName = Literal["waits", "seconds", "samples"]
_DISPLAYED = (
    Column("", None),
    Column("count", None, "count"),
    Column("bytes", None, "bytes"),
    *(Column(name, None, "s") for name in ("time", "mean")),
)
AGAIN = "copy the whole folder again from where it was recorded, or record again"
#: Rows that are decoded at a time, if no part of them is kept: they stay in the caches of a CPU.
_SCANNED_ROWS = 8_192
#: A row may end so much after its recording did, as clocks are read one after the other.
_LATER_S, _LATER_SHARE = 1.0, 0.01
#: Of what was counted, at least so much was done after the run began.
_BEFORE_SHARE = 0.9


class WrittenBytes(NamedTuple):
    """Bytes written to temp files, and to others."""

    temp: int
    other: int


class FileSums(NamedTuple):
    """Sums up the bytes of a file."""

    written_bytes: int = 0
    read_bytes: int = 0


class Totals(NamedTuple):
    """Sums up single waits: their number, bytes and time, and the end of the last."""

    rows: int = 0
    bytes: int = 0
    total_ns: int = 0
    end_ns: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """The totals of these and other rows."""
        summed = Totals(*map(add, self, other))
        return summed._replace(end_ns=max(self.end_ns, other.end_ns))

    @classmethod
    def of(cls, waits: "Table") -> "Totals":
        """The totals of single waits."""
        elapsed_ns = waits["elapsed_ns"].values
        end = (waits["start_ns"].values + elapsed_ns).max(initial=0)
        return cls(len(waits), waits["bytes"].sum(), int(elapsed_ns.sum()), int(end))


@dataclass(frozen=True)
class Sample:
    """Describes the selection of a recording's waits."""

    #: The recording with all waits.
    whole: "Recording"
    rows: int
    #: Start and end of each stretch of the run of which all waits were taken, s; and the number of
    #: its window.
    slices_s: Sequence[tuple[float, float]]
    windows: Sequence[int]
    #: The most that temp files held together, and the number of operations without an offset.
    held_bytes: tuple[int, int]


class Recording(Displayed):
    """The recording of one run. Tables are read when they are first used."""

    def __init__(self, path: Path, meta: Meta) -> None:
        self.path = path
        self.meta = meta
        #: meta.json as it was read; None for a recording that was made in memory.
        self._stored_meta: Meta | None = None
        #: Tables whose files were read to their end and are complete.
        self._whole_tables = set[str]()
        #: JSON documents of a recording that is nowhere on disk, by name.
        self.documents: dict[str, object] = {}
        #: Of a large recording: which of its single waits these are; None for all that were kept.
        self.sample: Sample | None = None

    @classmethod
    def open(cls, path: str | Path) -> "Recording":
        """Open the folder at ``path``. InputError if it is not a complete recording."""
        path = Path(path)
        check_name(path)
        meta_path = path / META_FILE
        if not path.exists():
            raise PathMissing(f"{path}: no such recording", path_hint(path))
        try:
            is_whole = meta_path.is_file()
        except PermissionError as error:
            hint = "become that user, or record with --share"
            raise PermissionDenied(
                f"{path}: another user's recording, readable only by them", hint
            ) from error
        if not is_whole:
            raise EvidenceDamaged(
                f"{path}: not a recording, or an incomplete one: it has no {META_FILE}",
                "record again with: spillcast record -o run.spill -- COMMAND",
            )
        recording = cls(path, Meta.from_json(text_of(meta_path, AGAIN), str(meta_path)))
        recording._stored_meta = recording.meta
        return recording

    def need_io(self) -> None:
        """Refusal if there are only samples, which show shares but neither counts nor sizes."""
        if not self.meta.captured:
            because = self.meta.capture.absent_because
            raise TimesUnknown(
                f"{self.path} contains only samples of waits, no I/O: {because}",
                "record on the server's own machine, as root or as its user; or with --explain: a "
                "plan allows a forecast",
            )

    @property
    def plan_alone(self) -> Path | None:
        """The plan that it contains instead of I/O; None if it has I/O or no plan."""
        file = self.meta.engine.plan_file
        if self.meta.captured or file is None:
            return None
        path = self.path / file
        return path if path.is_file() else None

    @property
    def waits_in_memory(self) -> bool:
        """Whether the single waits are in memory, so that they are not read from disk."""
        return "waits" in vars(self)

    @property
    def elapsed_s(self) -> float:
        """Wall time of the observed run."""
        return self.meta.elapsed_s

    @property
    def engine(self) -> ObservedEngine:
        """What ran."""
        return self.meta.engine

    @cached_property
    def seconds(self) -> "Table":
        """Per second, op and size: the whole run. See recording/schema.py."""
        rows = self._table("seconds")
        _check_seconds(rows, self._stored_meta, self.path / "seconds.parquet")
        return rows

    @cached_property
    def waits(self) -> "Table":
        """Single waits by start, of the whole run or of slices of it."""
        from spillcast.tables import ascending

        rows = self._table("waits")
        _check_waits(Totals.of(rows), self._stored_meta, self.path / "waits.parquet")
        return rows if ascending(rows["start_ns"].values) else rows.sort_by("start_ns")

    def with_waits(self, waits: "Table", sample: Sample) -> "Recording":
        """The same recording with a sample of its waits, which need not be in order."""
        from spillcast.tables import ascending

        recording = Recording(self.path, self.meta)
        recording._stored_meta, recording.documents = self._stored_meta, self.documents
        recording.seconds, recording.sample = self.seconds, sample
        in_order = ascending(waits["start_ns"].values)
        recording.waits = waits if in_order else waits.sort_by("start_ns")
        return recording

    @property
    def whole(self) -> "Recording":
        """The recording that this one is a sample of; itself if it is no sample."""
        return self if self.sample is None else self.sample.whole

    @property
    def slices_s(self) -> Sequence[tuple[float, float]] | None:
        """Start and end of each stretch of the run that ``waits`` cover; None for the whole run."""
        return self.meta.raw.slices_s if self.sample is None else self.sample.slices_s

    @property
    def slices_ns(self) -> list[tuple[int, int]]:
        """Start and end of each of ``slices_s``, ns; empty for the whole run."""
        # An end that is not a whole ns is before the row at the next one.
        return [
            (round(begin_s * 1e9), floor(end_s * 1e9)) for begin_s, end_s in self.slices_s or ()
        ]

    @cached_property
    def samples(self) -> "Table":
        """Samples of what sessions did."""
        rows = self._table("samples")
        _check_samples(rows, self._stored_meta, self.path / "samples.parquet")
        return rows

    @cached_property
    def temp_waits(self) -> "Table":
        """Reads and writes of temp files, by start."""
        return self.waits.filter(self._temp_moved)

    def temp_columns(self, *names: str) -> "Table":
        """Some columns of ``temp_waits``, which takes less memory than all of them."""
        if "temp_waits" in vars(self):
            return self.temp_waits.select(names)
        return self.waits.select(names).filter(self._temp_moved)

    @cached_property
    def _temp_moved(self) -> "Flags":
        return _is_temp(self.waits, moved=True)

    @cached_property
    def temp_changes(self) -> "Table":
        """Calls that create, resize, sync or remove temp files, and writeback, by start."""
        from spillcast.recording.schema import WAITS
        from spillcast.tables import Table

        if "waits" in vars(self):
            return self.waits.filter(_is_temp(self.waits, moved=False))
        # The seconds, which are read in no time, mostly count none.
        if not _is_temp(self.seconds, moved=False).any():
            return Table.empty(WAITS)
        tables = [rows.filter(_is_temp(rows, moved=False)) for rows in self.batches("waits")]
        return Table.concat(tables).sort_by("start_ns")

    @cached_property
    def temp_seconds(self) -> "Table":
        """The per-second rows of reads and writes of temp files."""
        return self.seconds.filter(_is_temp(self.seconds, moved=True))

    @cached_property
    def written_bytes(self) -> WrittenBytes:
        """Bytes written to temp files, and to others."""
        writes = self.seconds.filter(self.seconds["op"].equals("write"))
        temp, size = writes["temp"].values, writes["bytes"].values
        return WrittenBytes(int(size[temp].sum()), int(size[~temp].sum()))

    @cached_property
    def held_bytes(self) -> int:
        """The most that the temp files held together: the sum of their ends, as if all had stayed.

        Where offsets are not known, all that was written counts.
        """
        from spillcast import _core

        sample = self.sample
        held, unplaced = (
            self.scan(_core.Scan()).held_bytes() if sample is None else sample.held_bytes
        )
        return max(held, self.written_bytes.temp) if unplaced else held

    @cached_property
    def other_files(self) -> dict[str, FileSums]:
        """The sums of files that are not temp files, by name."""
        by_file: dict[str, dict[str, int]] = {}
        for waits in self.whole.batches("waits"):
            others = waits.filter(waits["file"].is_valid() & ~waits["temp"].values)
            groups = others.group_by("file", "op")
            sizes = groups.sum(others["bytes"].filled(0)).tolist()
            for row, size in zip(groups.keys.to_pylist(), sizes, strict=True):
                sums = by_file.setdefault(row["file"], {"write": 0, "read": 0})
                if row["op"] in sums:
                    sums[row["op"]] += size
        return {file: FileSums(sums["write"], sums["read"]) for file, sums in by_file.items()}

    def to_arrow(self, table: TableName = "waits") -> "Table":
        """One of its tables; docs/schema.md lists the columns."""
        selected: Table = getattr(self, table)
        return selected

    def to_polars(self, table: TableName = "waits") -> "pl.DataFrame":
        """The same for Polars. SpillcastError if Polars is not installed."""
        return polars_of(self.to_arrow(table))

    def display(self) -> Display:
        """What was recorded, and its temp I/O."""
        ran = f"{format_duration(self.elapsed_s)} of {self.meta.engine.name}"
        headline = f"{self.path}: {ran}"
        if not self.meta.captured:
            return Display(headline, remarks=["Samples of waits, no I/O."])
        rows = []
        for op in sorted(self.temp_seconds["op"].unique()):
            of_op = self.temp_seconds.filter(self.temp_seconds["op"].equals(op))
            count, size, total_ns = (of_op[n].sum() for n in ("count", "bytes", "total_ns"))
            rows.append([f"temp {op}", count, size, total_ns / 1e9, total_ns / 1e9 / count])
        return Display(headline, _DISPLAYED, rows)

    @cached_property
    def work(self) -> "Work":
        """What its threads did, by the single waits."""
        from spillcast.recording.thread_trace import work_of

        return work_of(self.waits, self.slices_ns, self.elapsed_s)

    def check_rows(self, table: Literal["waits", "samples"]) -> None:
        """InputError if a table is incomplete; for code that reads its file directly.

        Rows are read without being kept in memory.
        """
        if table not in vars(self) and table not in self._whole_tables:
            for _ in self.batches(table):
                pass

    def check_waits(self, seen: Totals) -> None:
        """InputError if the waits are incomplete; their rows were checked elsewhere."""
        _check_waits(seen, self._stored_meta, self.path / "waits.parquet")
        self._whole_tables.add("waits")

    def batches(self, table: Literal["waits", "samples"]) -> Iterator["Table"]:
        """The rows of a table, in batches as they are in its file, or all at once from memory.

        InputError, at the latest after the last batch, if they are incomplete.
        """
        from spillcast.recording.schema import SIGNED, TABLES
        from spillcast.tables import batches_of

        if table in vars(self):
            yield self.to_arrow(table)
            return
        path, seen = self.path / f"{table}.parquet", Totals()
        for rows in batches_of(path, TABLES[table], AGAIN, signed=SIGNED):
            if table == "waits":
                seen = seen.plus(Totals.of(rows))
            else:
                _check_samples(rows, self._stored_meta, path)
            yield rows
        if table == "waits":
            _check_waits(seen, self._stored_meta, path)
        self._whole_tables.add(table)

    def scan(self, scan: "_core.Scan") -> "_core.Scan":
        """Give all waits to ``scan``, also those that a sample lacks, without keeping them.

        InputError if they are incomplete.
        """
        from spillcast.recording.schema import SIGNED, WAITS
        from spillcast.tables import core_batches_of

        whole = self.whole
        if whole.waits_in_memory:
            scan.push(whole.waits)
            return scan
        path = whole.path / "waits.parquet"
        for rows in core_batches_of(path, WAITS, AGAIN, signed=SIGNED, rows=_SCANNED_ROWS):
            scan.push(rows)
        whole.check_waits(Totals(*scan.sums()))
        return scan

    def waits_unchecked(self, *names: str) -> Iterator["Table"]:
        """Some columns of the waits, in batches, without the check that none is missing."""
        from spillcast.recording.schema import SIGNED, WAITS
        from spillcast.tables import batches_of

        if self.waits_in_memory:
            yield self.waits.select(names)
            return
        only = [field for field in WAITS if field.name in names]
        path = self.path / "waits.parquet"
        yield from batches_of(path, only, AGAIN, signed=SIGNED)

    def _table(self, name: TableName) -> "Table":
        from spillcast.recording.schema import SIGNED, TABLES
        from spillcast.tables import table_of

        return table_of(self.path / f"{name}.parquet", TABLES[name], AGAIN, signed=SIGNED)


def _is_temp(rows: "Table", *, moved: bool) -> "Flags":
    """Whether rows are of temp files, of those with an op or of those without."""
    has_op = rows["op"].is_valid()
    return rows["temp"].values & (has_op if moved else ~has_op)


def _check_waits(totals: Totals, meta: "Meta | None", path: Path) -> None:
    """InputError where the single waits are not those that ``meta`` counts."""
    if meta is None or not meta.captured:
        return
    _check(path, [("waits", totals.rows, meta.raw.rows)])
    if meta.sums is not None:
        figures = ("bytes", totals.bytes, meta.sums.waits_bytes)
        _check(path, [figures, ("ns of waits", totals.total_ns, meta.sums.waits_ns)])
    _check_end(totals.end_ns / 1e9, meta, path)


def _check_seconds(seconds: "Table", meta: "Meta | None", path: Path) -> None:
    """InputError where the per-second rows are not all that ``meta`` counts."""
    if meta is None or not meta.captured:
        return
    latencies, counts = seconds["latency_ns"], seconds["latency_count"]
    alike = (latencies.lengths == counts.lengths).all()
    assert counts.items is not None
    if not alike or counts.items.sum() != seconds["count"].sum():
        raise damaged(path, "its histograms do not add up to its counts", AGAIN)
    if meta.sums is None:
        _check_temp(seconds, meta, path)
    else:
        figures = [
            ("rows", len(seconds), meta.sums.seconds_rows),
            ("waits", seconds["count"].sum(), meta.sums.seconds_count),
            ("bytes", seconds["bytes"].sum(), meta.sums.seconds_bytes),
            ("ns of waits", seconds["total_ns"].sum(), meta.sums.seconds_ns),
        ]
        _check(path, figures)
    _check_end(seconds["second"].max() or 0, meta, path)


def _check_samples(samples: "Table", meta: "Meta | None", path: Path) -> None:
    """InputError where samples are of another time than the recording."""
    if meta is not None:
        _check_end((samples["time_ns"].max() or 0) / 1e9, meta, path)


def _check(path: Path, figures: Sequence[tuple[str, int, int]]) -> None:
    for name, has, stated in figures:
        if has != stated:
            raise damaged(path, f"it holds {has:,} {name}, and meta.json counts {stated:,}", AGAIN)


def _check_temp(seconds: "Table", meta: "Meta", path: Path) -> None:
    """Check a recording without sums of its rows by its counts of temp I/O.

    These may be more, by what was done before the run began.
    """
    temp, count = seconds["temp"].values, seconds["count"].values
    for name, all_of_them in (("read", meta.temp.reads), ("write", meta.temp.writes)):
        counted = int(count[temp & seconds["op"].equals(name)].sum())
        if not _BEFORE_SHARE * all_of_them <= counted <= all_of_them:
            _check(path, [(f"{name}s of temp files", counted, all_of_them)])


def _check_end(end_s: float, meta: "Meta", path: Path) -> None:
    """InputError where rows lie after the end. Some recordings do not tell how long they were."""
    length_s = max(meta.recorded_s, meta.elapsed_s)
    if meta.recorded_s and end_s > length_s * (1 + _LATER_SHARE) + _LATER_S:
        text = f"a row at {end_s:,.1f} s of a recording of {length_s:,.1f} s"
        raise damaged(path, text, AGAIN)
