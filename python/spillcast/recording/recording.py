"""A recording on disk: a folder of meta.json and Parquet files that any reader opens."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spillcast.errors import (
    EvidenceDamaged,
    PathMissing,
    PermissionDenied,
    TimesUnknown,
)
from spillcast.gate import text_of
from spillcast.recording import sums
from spillcast.recording.meta import META_FILE, Meta, ObservedEngine, check_name
from spillcast.recording.sums import AGAIN
from spillcast.tabular import Column, Display, Displayed, polars_of
from spillcast.text import path_hint
from spillcast.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from spillcast.columns import Flags
    from spillcast.recording.bursts import Bursts
    from spillcast.recording.completeness import Check
    from spillcast.recording.sample import Sample
    from spillcast.tables import Table

TableName = Literal["waits", "seconds", "samples"]
_DISPLAYED = (
    Column("", None),
    Column("count", None, "count"),
    Column("bytes", None, "bytes"),
    *(Column(name, None, "s") for name in ("time", "mean")),
)


class Recording(Displayed):
    """The recording of one run. Tables are read when they are first used."""

    def __init__(self, path: Path, meta: Meta) -> None:
        self.path = path
        self.meta = meta
        #: What meta.json says of the rows beside it; None of rows that were never apart from it.
        self._stored_meta: Meta | None = None
        #: Those whose files were read to their end, and were whole.
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
        sums.check_seconds(rows, self._stored_meta, self.path / "seconds.parquet")
        return rows

    @cached_property
    def waits(self) -> "Table":
        """Single waits by start, of the whole run or of slices of it."""
        from spillcast.recording.distinct import ascending

        rows = self._table("waits")
        sums.check_waits(sums.of_waits(rows), self._stored_meta, self.path / "waits.parquet")
        return rows if ascending(rows["start_ns"].values) else rows.sort_by("start_ns")

    def with_waits(self, waits: "Table", sample: "Sample") -> "Recording":
        """The same recording with a sample of its waits, which need not be in order."""
        from spillcast.recording.distinct import ascending

        recording = Recording(self.path, self.meta)
        recording._stored_meta, recording.documents = self._stored_meta, self.documents
        recording.seconds, recording.sample = self.seconds, sample
        in_order = ascending(waits["start_ns"].values)
        recording.waits = waits if in_order else waits.sort_by("start_ns")
        return recording

    @property
    def whole(self) -> "Recording":
        """The recording that this one is a sample of; itself if it is not a sample."""
        return self if self.sample is None else self.sample.whole

    @property
    def slices_s(self) -> Sequence[tuple[float, float]] | None:
        """Start and end of each stretch of the run that ``waits`` cover; None for the whole run."""
        return self.meta.raw.slices_s if self.sample is None else self.sample.slices_s

    @cached_property
    def samples(self) -> "Table":
        """Samples of what sessions did."""
        rows = self._table("samples")
        sums.check_samples(rows, self._stored_meta, self.path / "samples.parquet")
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

    def temp_batches(self, *names: str) -> Iterator["Table"]:
        """The same for all waits, some rows at a time, also for a recording that is a sample."""
        whole = self.whole
        # Rows that were checked need not be read in full again.
        checked = whole.is_checked("waits")
        batches = whole.waits_unchecked(*names, "op", "temp") if checked else whole.batches("waits")
        for rows in batches:
            yield rows.select(names).filter(_is_temp(rows, moved=True))

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
    def written_bytes(self) -> sums.WrittenBytes:
        """Bytes written to temp files, and to others."""
        return sums.written_bytes(self.seconds)

    @cached_property
    def other_files(self) -> dict[str, sums.FileSums]:
        """Names of files that are not temp files."""
        return sums.other_files(self.whole.batches("waits"))

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
    def bursts(self) -> "Bursts | None":
        """CPU time from each kept temp operation to the next of its thread; None if unknown."""
        from spillcast.recording.bursts import bursts_of

        return bursts_of(self)

    @cached_property
    def contradictions(self) -> "Sequence[Check]":
        """What its parts contradict of each other, the largest difference first."""
        from spillcast.recording.completeness import contradictions_of

        return contradictions_of(self)

    def check_rows(self, table: Literal["waits", "samples"]) -> None:
        """InputError if a table is incomplete; for code that reads its file directly.

        Rows are read without being kept in memory.
        """
        if not self.is_checked(table):
            for _ in self.batches(table):
                pass

    def is_checked(self, table: Literal["waits", "samples"]) -> bool:
        """Whether all rows of a table have been checked."""
        return table in vars(self) or table in self._whole_tables

    def check_waits(self, seen: sums.Totals) -> None:
        """InputError if the waits are incomplete; their rows were checked elsewhere."""
        sums.check_waits(seen, self._stored_meta, self.path / "waits.parquet")
        self._whole_tables.add("waits")

    def batches(self, table: Literal["waits", "samples"]) -> Iterator["Table"]:
        """The rows of a table, in batches as they are in its file, or all at once from memory.

        InputError, at the latest after the last batch, if they are incomplete.
        """
        from spillcast.parquet import batches_of
        from spillcast.recording.schema import SIGNED, TABLES

        if table in vars(self):
            yield self.to_arrow(table)
            return
        path, seen = self.path / f"{table}.parquet", sums.NOTHING
        for rows in batches_of(path, TABLES[table], AGAIN, signed=SIGNED):
            if table == "waits":
                seen = seen.plus(sums.of_waits(rows))
            else:
                sums.check_samples(rows, self._stored_meta, path)
            yield rows
        if table == "waits":
            sums.check_waits(seen, self._stored_meta, path)
        self._whole_tables.add(table)

    def waits_unchecked(self, *names: str) -> Iterator["Table"]:
        """Some columns of the waits, in batches; they need not be all, as ``batches`` has them."""
        from spillcast.parquet import batches_of
        from spillcast.recording.schema import SIGNED, WAITS

        if self.waits_in_memory:
            yield self.waits.select(names)
            return
        only = [field for field in WAITS if field.name in names]
        path = self.path / "waits.parquet"
        yield from batches_of(path, only, AGAIN, signed=SIGNED)

    def _table(self, name: TableName) -> "Table":
        from spillcast.parquet import table_of
        from spillcast.recording.schema import SIGNED, TABLES

        return table_of(self.path / f"{name}.parquet", TABLES[name], AGAIN, signed=SIGNED)


def _is_temp(rows: "Table", *, moved: bool) -> "Flags":
    """Whether rows are of temp files, of those with an op or of those without."""
    has_op = rows["op"].is_valid()
    return rows["temp"].values & (has_op if moved else ~has_op)
