"""A recording while it is written: its clock, and samples and documents for the core's rows."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import _core
from spillcast.recording import SECOND_NS
from spillcast.recording.meta import Meta
from spillcast.recording.recording import FileSums, Recording, WrittenBytes

if TYPE_CHECKING:
    from spillcast.tables import Table


@dataclass(frozen=True)
class TimeShift:
    """Shifts the times of rows to a zero that is ``zero_ns`` after the recording's start.

    Drops rows that ended before zero, because they are not part of the run.
    """

    zero_ns: int = 0

    @classmethod
    def of(cls, origin_ns: int, started_ns: int | None) -> "TimeShift":
        """The shift for a recording that starts at ``origin_ns`` of a run from ``started_ns``."""
        return cls(0 if started_ns is None else max(started_ns - origin_ns, 0))

    def waits(self, rows: "Table") -> "Table":
        """Shifts waits; one that began before zero keeps only its part after, without CPU time."""
        if not self.zero_ns:
            return rows
        import numpy as np

        from spillcast.recording.schema import within

        rows = within(rows, self.zero_ns)
        start_ns, cpu_ns = rows["start_ns"].values - self.zero_ns, rows["cpu_before_ns"]
        cpu_ns = replace(cpu_ns, values=np.minimum(cpu_ns.values, start_ns))
        return rows.with_column("start_ns", start_ns).with_column("cpu_before_ns", cpu_ns)

    def seconds(self, rows: "Table") -> "Table":
        """Shifts per-second rows by whole seconds: the first may include time before zero."""
        return _since(rows, "second", self.zero_ns // SECOND_NS)

    def samples(self, rows: "Table") -> "Table":
        """Samples."""
        return _since(rows, "time_ns", self.zero_ns)

    def slices_s(self, slices: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Start and end of slices (s); a slice that began before zero keeps its part after zero."""
        zero_s = self.zero_ns / 1e9
        return [(max(start - zero_s, 0.0), end - zero_s) for start, end in slices if end > zero_s]


FROM_ITS_START = TimeShift()


def _since(rows: "Table", column: str, zero: int) -> "Table":
    rows = rows.filter(rows[column].values >= zero)
    return rows.with_column(column, rows[column].values - zero)


SAMPLES_FILE = "samples.parquet"


class Sink:
    """Receives a recording in progress, besides or instead of its folder; by default ignores it."""

    def add_rows(self, rows: _core.Rows) -> None:
        """Take the new rows of a capture."""

    def add_samples(self, rows: "Table") -> None:
        """Take samples."""

    def add_document(self, name: str, document: object) -> None:
        """Take a JSON document."""

    def finish(self, meta: Meta, clock: TimeShift = FROM_ITS_START) -> Recording:
        """Complete the recording, shifted by ``clock``; ``meta`` does not list the waits yet."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove everything that was written."""


class RecordingWriter(Sink):
    """Writes a recording of rows from any source, and renames it once it is complete.

    With ``share`` all users can read it; with ``force`` it replaces an older recording. Its rows
    are those of the capture of ``recorder``, or waits and seconds from elsewhere.
    """

    def __init__(
        self,
        path: Path,
        slices: int | None = None,
        *,
        share: bool = False,
        force: bool = False,
        recorder: _core.Recorder | None = None,
        **bounds: int,
    ) -> None:
        self._core = _core.RecordingWriter(path, slices, share=share, force=force, **bounds)
        self._recorder = recorder
        self._folder = self._core.folder
        self._samples: _core.ParquetWriter | None = None
        self._samples_lost: str | None = None

    def add_rows(self, rows: _core.Rows) -> None:
        """Write the new rows of a capture."""
        self._core.add_rows(rows)

    def add_waits(self, rows: Any) -> None:
        """Take raw waits with the columns of recording/schema.py."""
        self._core.add_waits(_checked(rows, "waits"))

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows with the columns of recording/schema.py."""
        self._core.add_seconds(_checked(rows, "seconds"))

    def add_samples(self, rows: "Table") -> None:
        """Take samples."""
        from spillcast.recording.schema import SAMPLES
        from spillcast.tables import Table

        if not rows.num_rows or self._samples_lost is not None:
            return
        try:
            if self._samples is None:
                like = Table.empty(SAMPLES)
                self._samples = _core.ParquetWriter(self._folder / "samples", like)
            self._samples.write(rows.cast(SAMPLES))
        except OSError as error:
            self._lose_samples(error)

    def add_document(self, name: str, document: object) -> None:
        """Write a JSON document next to the other files."""
        self._core.add_document(name, json.dumps(document))

    def finish(self, meta: Meta, clock: TimeShift = FROM_ITS_START) -> Recording:
        """Write the remaining rows and make the recording visible."""
        self._core.finish_rows(clock.zero_ns)
        if self._recorder is not None:
            self._core.add_stacks(self._recorder)
        try:
            self._finish_samples(clock)
        except OSError as error:
            self._lose_samples(error)
        path, text, sums = self._core.publish(json.dumps(meta.to_json()), self._samples_lost)
        finished = Recording(path, Meta.from_json(text), is_stored=True)
        finished.written_bytes = WrittenBytes(*sums["written_bytes"])
        finished.other_files = {name: FileSums(*file) for name, file in sums["other_files"].items()}
        return finished

    def discard(self) -> None:
        """Remove everything that was written."""
        if self._samples is not None:
            with suppress(OSError):
                self._samples.close()
        self._core.discard()

    def _lose_samples(self, error: OSError) -> None:
        """Continue without samples: a truncated file is unreadable."""
        self._samples_lost = f"samples could not be written: {error.strerror or error}"
        if self._samples is not None:
            with suppress(OSError):
                self._samples.close()
        self._samples = None
        (self._folder / "samples").unlink(missing_ok=True)

    def _finish_samples(self, clock: TimeShift) -> None:
        """Replace the empty samples file that the core writes."""
        if self._samples is None:
            return
        self._samples.close()
        path = self._folder / "samples"
        if clock.zero_ns:
            from spillcast.recording.schema import SAMPLES, SIGNED
            from spillcast.tables import ParquetTable, write_parquet

            samples = clock.samples(ParquetTable(path, SAMPLES, signed=SIGNED).read())
            write_parquet(self._folder / SAMPLES_FILE, samples)
            path.unlink()
        else:
            path.rename(self._folder / SAMPLES_FILE)


def _checked(rows: Any, table: str) -> Any:
    """Rows as a table with the columns of ``table``."""
    from spillcast.recording.schema import TABLES
    from spillcast.tables import Table

    return Table.from_arrow(rows).cast(TABLES[table])
