"""A recording on disk: a folder with meta.json and Parquet files, checked as they are read.

meta.json has the sums of the rows; if the rows do not add up to them, they are incomplete.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spillcast.errors import EvidenceDamaged, PathMissing, PermissionDenied, TimesUnknown
from spillcast.gate import damaged, json_of, reading, text_of
from spillcast.public import checked
from spillcast.recording.meta import META_FILE, Meta, ObservedEngine, check_name
from spillcast.tabular import Column, Display, Displayed, polars_of
from spillcast.text import path_hint
from spillcast.units import format_duration

if TYPE_CHECKING:
    import polars as pl

    from spillcast import _core
    from spillcast.columns import Flags
    from spillcast.recording.thread_trace import ThreadWork
    from spillcast.tables import Table

TableName = Literal["waits", "seconds", "samples"]
_DISPLAYED = (
    Column("", None),
    Column("count", None, "count"),
    Column("bytes", None, "bytes"),
    *(Column(name, None, "s") for name in ("time", "mean")),
)
AGAIN = "copy the whole folder again from where it was recorded, or record again"
#: Rows per batch for scans that keep nothing: few enough to stay in the caches of a CPU.
_SCANNED_ROWS = 8_192
#: A row may end this much after its recording, because the clocks are read one after the other.
_LATER_S, _LATER_SHARE = 1.0, 0.01
#: The counts in meta.json may include I/O from before the run; the rows have at least this share.
_IN_RUN_SHARE = 0.9


class WrittenBytes(NamedTuple):
    """Bytes written to temp files and to other files."""

    temp: int
    other: int


class FileSums(NamedTuple):
    """The bytes written to and read from a file."""

    written_bytes: int = 0
    read_bytes: int = 0


class Totals(NamedTuple):
    """The sums of single waits, and the end of the last of them."""

    rows: int = 0
    bytes: int = 0
    total_ns: int = 0
    end_ns: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """The totals of both sets of rows."""
        summed = Totals(*map(add, self, other))
        return summed._replace(end_ns=max(self.end_ns, other.end_ns))

    @classmethod
    def of(cls, waits: "Table") -> "Totals":
        """The totals of single waits."""
        elapsed_ns = waits["elapsed_ns"].values
        end = (waits["start_ns"].values + elapsed_ns).max(initial=0)
        return cls(len(waits), waits["bytes"].sum(), int(elapsed_ns.sum()), int(end))


@dataclass(frozen=True)
class SelectedWaits:
    """The selection of single waits from a large recording."""

    #: The recording with all waits.
    whole: "Recording"
    rows: int
    #: Start and end (s) of each stretch of the run whose waits were all selected.
    slices_s: Sequence[tuple[float, float]]
    #: The number of the window that each slice belongs to.
    windows: Sequence[int]
    #: Peak bytes in all temp files, and the number of operations without an offset.
    held_bytes: tuple[int, int]


class Recording(Displayed):
    """The recording of one run. Tables are read when they are first used."""

    def __init__(self, path: Path, meta: Meta, *, is_stored: bool = False) -> None:
        self.path = path
        self.meta = meta
        #: The content of meta.json, which the files must match; None for a recording in memory.
        self._stored_meta = meta if is_stored else None
        #: Tables whose files were read to the end and are complete.
        self._whole_tables = set[str]()
        #: JSON documents of the recording that are in memory, by the names of their files.
        self.documents: dict[str, object] = {}
        #: The selection of ``waits`` from a larger recording; None if all kept waits are there.
        self.sample: SelectedWaits | None = None

    @classmethod
    @checked
    def open(cls, path: str | Path) -> "Recording":
        """Open the folder at ``path``. InputError if it is not a complete recording."""
        path = Path(path)
        check_name(path)
        meta_path = path / META_FILE
        try:
            if not path.exists():
                raise PathMissing("no such recording", path_hint(path), path)
            is_whole = meta_path.is_file()
        except PermissionError as error:
            hint = "become that user, or record with --share"
            raise PermissionDenied(
                "another user's recording, readable only by them", hint, path
            ) from error
        if not is_whole:
            raise EvidenceDamaged(
                f"not a recording, or an incomplete one: it has no {META_FILE}",
                "record again with: spillcast record -o run.spill -- COMMAND",
                path,
            )
        with reading(meta_path, AGAIN):
            meta = Meta.from_json(text_of(meta_path))
        return cls(path, meta, is_stored=True)

    @classmethod
    def of_tables(
        cls, path: Path, meta: Meta, waits: "Table", seconds: "Table", samples: "Table"
    ) -> "Recording":
        """A recording in memory; ``waits`` are sorted by start."""
        recording = cls(path, meta)
        recording.waits, recording.seconds, recording.samples = waits, seconds, samples
        return recording

    def need_io(self) -> None:
        """Refusal for samples without I/O: they show shares of time, not counts or sizes."""
        if not self.meta.captured:
            because = self.meta.capture.absent_because
            raise TimesUnknown(
                f"{self.path} contains only samples of waits, no I/O: {because}",
                "record on the server's own machine, as root or as its user; or with --explain: a "
                "plan allows a forecast",
            )

    @property
    def plan_alone(self) -> Path | None:
        """The plan's file in a recording without I/O; None if it has I/O or no plan."""
        file = self.meta.engine.plan_file
        if self.meta.captured or file is None:
            return None
        path = self.path / file
        return path if path.is_file() else None

    def document(self, name: str) -> Any:
        """The JSON document in a file of the recording; None without it."""
        path = self.path / name
        if name not in self.documents and path.is_file():
            with reading(path, AGAIN):
                self.documents[name] = json_of(text_of(path))
        return self.documents.get(name)

    @property
    def waits_in_memory(self) -> bool:
        """Whether the single waits are in memory already."""
        return "waits" in vars(self)

    @property
    def elapsed_s(self) -> float:
        """Wall time of the observed run."""
        return self.meta.elapsed_s

    @property
    def engine(self) -> ObservedEngine:
        """The engine and the query that ran."""
        return self.meta.engine

    @cached_property
    def seconds(self) -> "Table":
        """The whole run, summed by second, op and size; SECONDS of recording/schema.py."""
        rows = self._table("seconds")
        if self._stored_meta is not None and self._stored_meta.captured:
            with reading(self.path / "seconds.parquet", AGAIN):
                _check_seconds(rows, self._stored_meta)
        return rows

    @cached_property
    def waits(self) -> "Table":
        """Single waits of the whole run or of ``slices_s``, sorted by start."""
        rows = self._table("waits")
        self.check_waits(Totals.of(rows))
        return rows.sort_by("start_ns")

    def with_waits(self, waits: "Table", sample: SelectedWaits) -> "Recording":
        """The same recording with ``waits``, a sample of its waits in any order."""
        recording = Recording(self.path, self.meta)
        recording._stored_meta, recording.documents = self._stored_meta, self.documents
        recording.seconds, recording.sample = self.seconds, sample
        recording.waits = waits.sort_by("start_ns")
        return recording

    @property
    def whole(self) -> "Recording":
        """The recording that this recording is a sample of; itself if it is not a sample."""
        return self if self.sample is None else self.sample.whole

    @property
    def slices_s(self) -> Sequence[tuple[float, float]] | None:
        """Start and end of each stretch of the run that ``waits`` cover; None for the whole run."""
        return self.meta.raw.slices_s if self.sample is None else self.sample.slices_s

    @property
    def slices_ns(self) -> list[tuple[int, int]]:
        """Start and end of each of ``slices_s``, ns; empty for the whole run."""
        # The end is rounded down, so a row that starts at the next nanosecond is excluded.
        return [
            (round(begin_s * 1e9), floor(end_s * 1e9)) for begin_s, end_s in self.slices_s or ()
        ]

    @cached_property
    def samples(self) -> "Table":
        """Samples of the states of sessions; SAMPLES of recording/schema.py."""
        rows = self._table("samples")
        self._check_samples(rows)
        return rows

    @cached_property
    def temp_waits(self) -> "Table":
        """Reads and writes of temp files, sorted by start."""
        return self.waits.filter(self._temp_moved)

    def temp_columns(self, *names: str) -> "Table":
        """The named columns of ``temp_waits``; they take less memory than all columns."""
        if "temp_waits" in vars(self):
            return self.temp_waits.select(names)
        return self.waits.select(names).filter(self._temp_moved)

    @cached_property
    def _temp_moved(self) -> "Flags":
        return _temp_rows(self.waits, with_op=True)

    @cached_property
    def temp_changes(self) -> "Table":
        """Calls that create, resize, sync, remove or look up temp files, and writeback."""
        from spillcast.recording.schema import WAITS
        from spillcast.tables import Table

        if self.waits_in_memory:
            return self.waits.filter(_temp_rows(self.waits, with_op=False))
        # The per-second rows are much faster to read than the waits, and often show that there
        # are no such calls.
        if not _temp_rows(self.seconds, with_op=False).any():
            return Table.empty(WAITS)
        tables = [rows.filter(_temp_rows(rows, with_op=False)) for rows in self.batches("waits")]
        return Table.concat(tables).sort_by("start_ns")

    @cached_property
    def temp_seconds(self) -> "Table":
        """The per-second rows of reads and writes of temp files."""
        return self.seconds.filter(_temp_rows(self.seconds, with_op=True))

    @cached_property
    def written_bytes(self) -> WrittenBytes:
        """Bytes written to temp files and to other files."""
        writes = self.seconds.filter(self.seconds["op"].equals("write"))
        temp, size = writes["temp"].values, writes["bytes"].values
        return WrittenBytes(int(size[temp].sum()), int(size[~temp].sum()))

    @cached_property
    def held_bytes(self) -> int:
        """Upper bound of the bytes that all temp files held at once: the sum of their sizes.

        If some offsets are unknown, it is at least the bytes written.
        """
        from spillcast import _core

        if self.sample is not None:
            held, without_offset = self.sample.held_bytes
        else:
            held, without_offset = self.scan(_core.Scan()).held_bytes()
        return max(held, self.written_bytes.temp) if without_offset else held

    @cached_property
    def other_files(self) -> dict[str, FileSums]:
        """The bytes of each file that is not a temp file, by name."""
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

    @checked
    def to_arrow(self, table: TableName = "waits") -> "Table":
        """One of the tables; docs/schema.md lists the columns."""
        selected: Table = getattr(self, table)
        return selected

    @checked
    def to_polars(self, table: TableName = "waits") -> "pl.DataFrame":
        """The table for Polars. SpillcastError if Polars is not installed."""
        return polars_of(self.to_arrow(table))

    def display(self) -> Display:
        """The engine, the elapsed time and the temp I/O by op."""
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
    def work(self) -> "ThreadWork":
        """The work of the recorded threads, from the single waits."""
        from spillcast.recording.thread_trace import work_of

        return work_of(self.waits, self.slices_ns, self.elapsed_s)

    def check_rows(self, table: Literal["waits", "samples"]) -> None:
        """InputError if a table is incomplete; for code that reads the table's file directly."""
        if table not in vars(self) and table not in self._whole_tables:
            for _ in self.batches(table):
                pass

    def check_waits(self, seen: Totals) -> None:
        """InputError if ``seen``, the totals of all waits in the file, shows missing rows."""
        meta = self._stored_meta
        if meta is not None and meta.captured:
            figures = [("waits", seen.rows, meta.raw.rows)]
            if meta.sums is not None:
                figures.append(("bytes", seen.bytes, meta.sums.waits_bytes))
                figures.append(("ns of waits", seen.total_ns, meta.sums.waits_ns))
            with reading(self.path / "waits.parquet", AGAIN):
                _check(figures)
                _check_end(seen.end_ns / 1e9, meta)
        self._whole_tables.add("waits")

    def _check_samples(self, samples: "Table") -> None:
        """InputError if a sample was taken after the end of the recording."""
        if self._stored_meta is not None:
            end_s = (samples["time_ns"].max() or 0) / 1e9
            with reading(self.path / "samples.parquet", AGAIN):
                _check_end(end_s, self._stored_meta)

    def batches(self, table: Literal["waits", "samples"], *names: str) -> Iterator["Table"]:
        """The rows of a table in the batches of its file, or in one batch if it is in memory.

        InputError, at the latest after the last batch, if the table is incomplete. With ``names``,
        only these columns, unchecked.
        """
        from spillcast.recording.schema import SIGNED, TABLES
        from spillcast.tables import batches_of

        if table in vars(self):
            yield self.to_arrow(table).select(names) if names else self.to_arrow(table)
            return
        path = self.path / f"{table}.parquet"
        if names:
            columns = [field for field in TABLES[table] if field.name in names]
            yield from batches_of(path, columns, AGAIN, signed=SIGNED)
            return
        seen = Totals()
        for rows in batches_of(path, TABLES[table], AGAIN, signed=SIGNED):
            if table == "waits":
                seen = seen.plus(Totals.of(rows))
            else:
                self._check_samples(rows)
            yield rows
        if table == "waits":
            self.check_waits(seen)
        self._whole_tables.add(table)

    def scan(self, scan: "_core.Scan") -> "_core.Scan":
        """Pass all waits of the whole recording to ``scan``, without keeping them in memory.

        InputError if the waits are incomplete.
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

    def _table(self, name: TableName) -> "Table":
        from spillcast.recording.schema import SIGNED, TABLES
        from spillcast.tables import table_of

        return table_of(self.path / f"{name}.parquet", TABLES[name], AGAIN, signed=SIGNED)


def _temp_rows(rows: "Table", *, with_op: bool) -> "Flags":
    """Flags of the rows of temp files: reads and writes, or other calls."""
    has_op = rows["op"].is_valid()
    return rows["temp"].values & (has_op if with_op else ~has_op)


def _check_seconds(seconds: "Table", meta: Meta) -> None:
    """InputError if the per-second rows are fewer than ``meta`` counts."""
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


def _check_temp(seconds: "Table", meta: Meta) -> None:
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
