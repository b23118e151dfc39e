"""Writing a recording while it runs: raw waits in parts, thinned out when they grow many."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillcast.errors import InputError
from spillcast.recording.clock import FROM_ITS_START, Clock
from spillcast.recording.meta import META_FILE, KeptWaits, Meta
from spillcast.recording.recording import Recording, is_recording
from spillcast.recording.schema import (
    SAMPLES_SCHEMA,
    SECONDS_SCHEMA,
    WAITS_SCHEMA,
)

#: Raw waits kept in all, unless slices are asked for.
ROWS_MAX = 10_000_000
#: Length of a part: short where slices are asked for, so that many fit into a short run.
PART_NS = 1_000_000_000
SLICE_NS = 300_000_000
PARTS_MAX = 2_000


class RecordingWriter:
    """Writes ``NAME.spill`` beside itself as ``NAME.spill.partial`` and renames it when whole.

    Raw waits go to parts of equal time. Whenever too many rows or parts are held, every second
    part is dropped and from then on only every second one is kept: what remains is spread evenly
    over the run, however long it gets. The per-second rows are never thinned.
    """

    def __init__(self, path: Path, slices: int | None = None) -> None:
        self.path = path
        self.slices = slices
        self._part_ns = SLICE_NS if slices else PART_NS
        self._stride = 1
        self._parts: dict[int, int] = {}
        self._files: dict[int, list[Path]] = {}
        self._open: dict[int, list[pa.RecordBatch]] = {}
        self._rows_seen = 0
        self._folder = path.with_name(path.name + ".partial")
        check_output(path)
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "parts").mkdir(parents=True)
        self._seconds = pq.ParquetWriter(self._folder / "seconds.parquet", SECONDS_SCHEMA)
        self._samples = pq.ParquetWriter(self._folder / "samples.parquet", SAMPLES_SCHEMA)

    def add_waits(self, batch: pa.RecordBatch) -> None:
        """Take raw waits; parts that can grow no more go to disk."""
        self._rows_seen += batch.num_rows
        if batch.num_rows == 0:
            return
        batch = batch.cast(WAITS_SCHEMA)
        part_of = pa.compute.divide(batch["start_ns"], self._part_ns)
        for index in part_of.unique().to_pylist():
            if index % self._stride == 0:
                rows = batch.filter(pa.compute.equal(part_of, index))
                self._open.setdefault(index, []).append(rows)
        newest = pa.compute.max(part_of).as_py()
        self._close_parts(before=newest - 1)

    def add_seconds(self, batch: pa.RecordBatch) -> None:
        """Take per-second rows."""
        if batch.num_rows:
            self._seconds.write_batch(batch.cast(SECONDS_SCHEMA))

    def add_samples(self, batch: pa.RecordBatch) -> None:
        """Take samples."""
        if batch.num_rows:
            self._samples.write_batch(batch.cast(SAMPLES_SCHEMA))

    def add_document(self, name: str, document: object) -> None:
        """Write a JSON document beside the other files."""
        with (self._folder / name).open("w") as file:
            json.dump(document, file, indent=2)
            file.write("\n")

    def finish(self, meta: Meta, clock: Clock = FROM_ITS_START) -> Recording:
        """Write what is left and make the recording visible, whole or not at all."""
        self._close_parts(before=None)
        self._seconds.close()
        self._samples.close()
        if clock.zero_ns:
            for name, moved in (("seconds", clock.seconds), ("samples", clock.samples)):
                path = self._folder / f"{name}.parquet"
                pq.write_table(moved(pq.read_table(path)), path)
        kept, dropped = self._kept_parts(), 0
        with pq.ParquetWriter(
            self._folder / "waits.parquet", WAITS_SCHEMA, compression="zstd"
        ) as writer:
            for index in kept:
                for path in self._files[index]:
                    rows = pq.read_table(path).cast(WAITS_SCHEMA)
                    of_run = clock.waits(rows)
                    dropped += rows.num_rows - of_run.num_rows
                    writer.write_table(of_run)
        shutil.rmtree(self._folder / "parts")
        meta = replace(meta, raw=self._raw(kept, dropped, clock))
        self.add_document(META_FILE, meta.to_json())
        shutil.rmtree(self.path, ignore_errors=True)
        os.rename(self._folder, self.path)
        return Recording(self.path, meta)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._seconds.close()
        self._samples.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_parts(self, before: int | None) -> None:
        for index in sorted(self._open):
            if before is None or index < before:
                table = pa.Table.from_batches(self._open.pop(index)).unify_dictionaries()
                # A wait that ends long after its part was closed gets another file there.
                files = self._files.setdefault(index, [])
                files.append(self._folder / "parts" / f"{index:08d}-{len(files)}.parquet")
                pq.write_table(table, files[-1])
                self._parts[index] = self._parts.get(index, 0) + table.num_rows
        while self._too_many():
            self._stride *= 2
            for index in [i for i in self._parts if i % self._stride]:
                del self._parts[index]
                for path in self._files.pop(index):
                    path.unlink()

    def _too_many(self) -> bool:
        if self.slices:
            return len(self._parts) > 2 * self.slices
        return sum(self._parts.values()) > ROWS_MAX or len(self._parts) > PARTS_MAX

    def _kept_parts(self) -> list[int]:
        kept = sorted(self._parts)
        if self.slices and len(kept) > self.slices:
            step = (len(kept) - 1) / max(self.slices - 1, 1)
            kept = sorted({kept[round(i * step)] for i in range(self.slices)})
        return kept

    def _raw(self, kept: list[int], dropped: int, clock: Clock) -> KeptWaits:
        rows = sum(self._parts[index] for index in kept)
        whole = rows == self._rows_seen
        part_s = self._part_ns / 1e9
        slices = clock.slices_s([(index * part_s, (index + 1) * part_s) for index in kept])
        return KeptWaits(rows - dropped, self._rows_seen - dropped, None if whole else slices)


def check_output(path: Path) -> None:
    """InputError unless a recording can be written at ``path``: an old one may be replaced."""
    if path.exists() and not is_recording(path):
        raise InputError(f"{path}: exists and is not a recording", "name another with -o")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no directory {path.absolute().parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(f"{path}: its directory is not writable", "name another with -o")
