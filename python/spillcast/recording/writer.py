"""What is added to a recording while it is written: samples, documents, and the facts of meta.json.

The core writes waits, seconds, meta.json and the folder. Where the disk is full or the folder is
gone, fewer single waits are kept rather than nothing.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import _core
from spillcast.recording.clock import FROM_ITS_START, Clock
from spillcast.recording.meta import Meta
from spillcast.recording.recording import Recording
from spillcast.recording.sums import FileSums, WrittenBytes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SAMPLES_FILE = "samples.parquet"


class RecordingOutput:
    """A recording of the core that is being written, with samples and documents beside its rows."""

    def __init__(self, rows: "_core.Recorder | _core.RecordingWriter") -> None:
        self._rows = rows
        folder = rows.folder
        assert folder is not None
        self._folder = folder
        self._samples: pq.ParquetWriter | None = None
        self._samples_lost: str | None = None

    def add_samples(self, batch: "pa.RecordBatch") -> None:
        """Take samples."""
        import pyarrow.parquet as pq

        from spillcast.recording.schema import SAMPLES_SCHEMA

        if not batch.num_rows or self._samples_lost is not None:
            return
        try:
            if self._samples is None:
                self._samples = pq.ParquetWriter(self._folder / "samples", SAMPLES_SCHEMA)
            self._samples.write_batch(batch.cast(SAMPLES_SCHEMA))
        except OSError as error:
            self._lose_samples(error)

    def add_document(self, name: str, document: object) -> None:
        """Write a JSON document beside the other files."""
        self._rows.add_document(name, json.dumps(document))

    def finish(self, meta: Meta, clock: Clock = FROM_ITS_START) -> Recording:
        """Write what is left and make the recording visible."""
        self._rows.finish_rows(clock.zero_ns)
        try:
            self._finish_samples(clock)
        except OSError as error:
            self._lose_samples(error)
        path, text, sums = self._rows.publish(json.dumps(meta.to_json()), self._samples_lost)
        finished = Recording(path, Meta.from_json(text, str(path)))
        finished.written_bytes = WrittenBytes(*sums["written_bytes"])
        finished.other_files = {name: FileSums(*file) for name, file in sums["other_files"].items()}
        return finished

    def discard(self) -> None:
        """Remove everything that was written."""
        if self._samples is not None:
            with suppress(OSError):
                self._samples.close()
        self._rows.discard()

    def _lose_samples(self, error: OSError) -> None:
        """Continue without samples: a truncated file is unreadable."""
        self._samples_lost = f"samples could not be written: {error.strerror or error}"
        if self._samples is not None:
            with suppress(OSError):
                self._samples.close()
        self._samples = None
        (self._folder / "samples").unlink(missing_ok=True)

    def _finish_samples(self, clock: Clock) -> None:
        """Put samples in place of the file without rows that the core writes."""
        if self._samples is None:
            return
        import pyarrow.parquet as pq

        self._samples.close()
        path = self._folder / "samples"
        if clock.zero_ns:
            pq.write_table(clock.samples(pq.read_table(path)), self._folder / SAMPLES_FILE)
            path.unlink()
        else:
            path.rename(self._folder / SAMPLES_FILE)


class RecordingWriter(RecordingOutput):
    """Writes a recording of rows from anywhere, and renames it when it is complete.

    With ``share`` all users may read it; with ``force`` it replaces an older recording.
    """

    def __init__(
        self,
        path: Path,
        slices: int | None = None,
        *,
        share: bool = False,
        force: bool = False,
        **bounds: int,
    ) -> None:
        self._writer = _core.RecordingWriter(path, slices, share=share, force=force, **bounds)
        super().__init__(self._writer)

    def add_waits(self, rows: Any) -> None:
        """Take raw waits, of the core or as columns of recording/schema.py."""
        if not isinstance(rows, _core.Waits):
            from spillcast.recording.schema import WAITS_SCHEMA

            rows = _cast(rows, WAITS_SCHEMA)
        self._writer.add_waits(rows)

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows, of the core or as columns of recording/schema.py."""
        if not isinstance(rows, _core.Seconds):
            from spillcast.recording.schema import SECONDS_SCHEMA

            rows = _cast(rows, SECONDS_SCHEMA)
        self._writer.add_seconds(rows)


def _cast(rows: Any, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(rows).cast(schema)
