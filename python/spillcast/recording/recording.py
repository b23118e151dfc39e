"""A recording on disk: a folder with meta.json and Parquet files (schema.py)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from spillcast.errors import EvidenceDamaged, PathMissing, PermissionDenied, TimesUnknown
from spillcast.gate import json_of, reading, text_of
from spillcast.public import checked
from spillcast.recording.meta import (
    COPY_AGAIN,
    META_FILE,
    Meta,
    ObservedEngine,
    TableName,
    check_name,
)
from spillcast.tabular import Column, Display, Displayed, polars_of
from spillcast.text import path_hint
from spillcast.units import format_duration

if TYPE_CHECKING:
    import polars as pl

    from spillcast import _core
    from spillcast.columns import Flags
    from spillcast.recording.schema import BatchedTable, TableFiles
    from spillcast.recording.thread_trace import ThreadWork
    from spillcast.tables import Table

Decoded = TypeVar("Decoded")
_DISPLAYED = (
    Column("", None),
    Column("count", None, "count"),
    Column("bytes", None, "bytes"),
    *(Column(name, None, "s") for name in ("time", "mean")),
)


class WrittenBytes(NamedTuple):
    """Bytes written to temp files and to other files."""

    temp: int
    other: int


class FileSums(NamedTuple):
    """The bytes written to and read from a file."""

    written_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True)
class SelectedWaits:
    """The selection of single waits from a large recording."""

    #: The recording with all waits.
    whole: "Recording"
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
        with reading(meta_path, COPY_AGAIN):
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
        return self.decoded(name, lambda document: document)

    def decoded(self, name: str, decode: Callable[[Any], Decoded]) -> Decoded | None:
        """The JSON document in a file as ``decode`` reads it, with errors that name it; or None."""
        path = self.path / name
        with reading(path, COPY_AGAIN):
            if name not in self.documents and path.is_file():
                self.documents[name] = json_of(text_of(path))
            return decode(self.documents[name]) if name in self.documents else None

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
        return self._files.table("seconds")

    @cached_property
    def waits(self) -> "Table":
        """Single waits of the whole run or of ``slices_s``, sorted by start."""
        return self._files.table("waits").sort_by("start_ns")

    def with_waits(self, waits: "Table", sample: SelectedWaits) -> "Recording":
        """The same recording with ``waits``, a sample of its waits, sorted by start."""
        recording = Recording(self.path, self.meta)
        recording._files, recording.documents = self._files, self.documents
        recording.waits, recording.seconds, recording.sample = waits, self.seconds, sample
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
        return self._files.table("samples")

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
            stored = self._files.held_bytes
            held, without_offset = stored or self.scan(_core.Scan()).held_bytes()
        return max(held, self.written_bytes.temp) if without_offset else held

    @cached_property
    def other_files(self) -> dict[str, FileSums]:
        """The bytes of each file that is not a temp file, by name."""
        sums = Counter[tuple[str, str | None]]()
        for waits in self.whole.batches("waits"):
            others = waits.filter(waits["file"].is_valid() & ~waits["temp"].values)
            groups = others.group_by("file", "op")
            sizes = groups.sum(others["bytes"].filled(0)).tolist()
            for row, size in zip(groups.keys.to_pylist(), sizes, strict=True):
                sums[row["file"], row["op"]] += size
        return {file: FileSums(sums[file, "write"], sums[file, "read"]) for file, _ in sums}

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

    def checked_file(self, table: "BatchedTable") -> Path:
        """The Parquet file of a table, for code that reads it. InputError if it is incomplete."""
        return self._files.checked_file(table)

    def batches(self, table: "BatchedTable", *names: str) -> Iterator["Table"]:
        """The rows of a table in the batches of its file, or in one batch if it is in memory.

        InputError, at the latest after the last batch, if the table is incomplete. With ``names``,
        only these columns, unchecked.
        """
        if table not in vars(self):
            yield from self._files.batches(table, *names)
        else:
            yield self.to_arrow(table).select(names) if names else self.to_arrow(table)

    def scan(self, scan: "_core.Scan") -> "_core.Scan":
        """Pass all waits of the whole recording to ``scan``, without keeping them in memory.

        InputError if the waits are incomplete.
        """
        if self.whole.waits_in_memory:
            scan.push(self.whole.waits)
        else:
            self.whole._files.scan_waits(scan)
        return scan

    @cached_property
    def _files(self) -> "TableFiles":
        from spillcast.recording.schema import TableFiles

        return TableFiles(self.path, self._stored_meta)


def _temp_rows(rows: "Table", *, with_op: bool) -> "Flags":
    """Flags of the rows of temp files: reads and writes, or other calls."""
    has_op = rows["op"].is_valid()
    return rows["temp"].values & (has_op if with_op else ~has_op)
