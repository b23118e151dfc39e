"""The folder of a recording while it is written: visible when it is whole, or not at all.

Where the disk is full or the folder is gone, fewer single waits are kept rather than nothing.
"""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast import _core
from spillcast.errors import OutputUnwritable
from spillcast.recording.clock import FROM_ITS_START, Clock
from spillcast.recording.folder import RecordingFolder
from spillcast.recording.meta import KeptWaits, Meta
from spillcast.recording.meta_file import META_FILE
from spillcast.recording.observed import inputs_of, temp_of, temp_places
from spillcast.recording.recording import Recording
from spillcast.recording.sums import FileSums, RowSums, WrittenBytes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SAMPLES_FILE = "samples.parquet"


class RecordingWriter:
    """Writes a recording beside its name, and renames it when it is complete.

    The core writes waits and seconds, thinned out as ``_core.RecordingWriter`` says; here are
    samples, documents and the folder.
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
        self._output = RecordingFolder(path, share=share, force=force)
        self._folder = self._output.folder
        self._samples: pq.ParquetWriter | None = None
        self._samples_lost: str | None = None
        try:
            self._rows = _core.RecordingWriter(self._folder, slices, **bounds)
        except OSError as error:
            self._output.discard()
            reason = f"cannot be written: {error.strerror or error}"
            raise OutputUnwritable(f"{path}: {reason}", "name another with -o") from error

    def add_waits(self, rows: Any) -> None:
        """Take raw waits, of the core or as columns of recording/schema.py."""
        if not isinstance(rows, _core.Waits):
            from spillcast.recording.schema import WAITS_SCHEMA

            rows = _cast(rows, WAITS_SCHEMA)
        self._rows.add_waits(rows)

    def add_seconds(self, rows: Any) -> None:
        """Take per-second rows, of the core or as columns of recording/schema.py."""
        if not isinstance(rows, _core.Seconds):
            from spillcast.recording.schema import SECONDS_SCHEMA

            rows = _cast(rows, SECONDS_SCHEMA)
        self._rows.add_seconds(rows)

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
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / name).open("w") as file:
            json.dump(document, file, indent=2)
            file.write("\n")

    def finish(self, meta: Meta, clock: Clock = FROM_ITS_START) -> Recording:
        """Write what is left and make the recording visible."""
        kept = self._rows.finish(clock.zero_ns)
        try:
            self._finish_samples(clock)
        except OSError as error:
            self._lose_samples(error)
        slices = kept["slices_ns"]
        slices_s = None if slices is None else [(a / 1e9, b / 1e9) for a, b in slices]
        slices_s = None if slices_s is None else clock.slices_s(slices_s)
        # A recording joined from bursts knows where each of them began.
        if slices_s is None and meta.raw.slices_s:
            slices_s = list(meta.raw.slices_s)
        # The rows may have been thinned out before.
        seen = max(kept["waits_seen"], meta.raw.rows_seen)
        because = kept["because"] or self._samples_lost or meta.raw.because
        raw = KeptWaits(kept["waits"], seen, slices_s, because)
        sums = RowSums(*kept["waits_sums"], *kept["seconds_sums"])
        places = temp_places(kept["temp_folders"])
        others = {name: FileSums(*sums) for name, sums in kept["other_files"].items()}
        meta = replace(
            meta,
            raw=raw,
            sums=sums,
            temp_places=places,
            temp_before=temp_of(meta.temp_before, kept["temp_folders"]),
            inputs=inputs_of({name: sums.read_bytes for name, sums in others.items()}),
        )
        self.add_document(META_FILE, meta.to_json())
        finished = Recording(self._output.publish(), meta)
        finished.written_bytes = WrittenBytes(*kept["written_bytes"])
        finished.other_files = others
        return finished

    def discard(self) -> None:
        """Remove everything that was written."""
        if self._samples is not None:
            with suppress(OSError):
                self._samples.close()
        self._output.discard()

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


def _cast(rows: Any, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.record_batch(rows).cast(schema)
