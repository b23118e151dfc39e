"""Rows of all sessions of a server, on disk by second, until those of a query are taken.

Per-second counts do not tell sessions apart, so the counts of a query are made from its single
waits. A query whose waits were not all kept gets no recording. Rows that no running query can need
are deleted.
"""

import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from spillcast.recording.clock import FROM_ITS_START, Clock
from spillcast.recording.meta import Meta
from spillcast.recording.recording import Recording
from spillcast.recording.schema import SAMPLES_SCHEMA, WAITS_SCHEMA
from spillcast.recording.window import within

PART_NS = 1_000_000_000
#: Rows kept in all, some GB: from then on the oldest go.
ROWS_MAX = 50_000_000
#: A second is written out when no more rows of it are likely to come.
OPEN = 2


class _Kind:
    """Keeps rows of one schema in parts of a second: the last in memory, earlier ones in files."""

    def __init__(self, folder: Path, schema: pa.Schema, time: str) -> None:
        folder.mkdir(parents=True)
        self.schema, self.rows = schema, 0
        self._folder, self._time = folder, time
        self._open: dict[int, list[pa.RecordBatch]] = {}
        self._files: dict[int, list[tuple[Path, int]]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        batch = batch.cast(self.schema)
        part_of = pa.compute.divide(batch[self._time], PART_NS)
        for part in part_of.unique().to_pylist():
            rows = batch.filter(pa.compute.equal(part_of, part))
            self._open.setdefault(part, []).append(rows)
        self.rows += batch.num_rows
        self._close(before=pa.compute.max(part_of).as_py() - OPEN)

    def tables(self, begin_ns: int, end_ns: int) -> Iterator[pa.Table]:
        """The rows of each second that touches a window, all sessions."""
        for part in sorted(self._files.keys() | self._open.keys()):
            if part * PART_NS <= end_ns and (part + 1) * PART_NS > begin_ns:
                tables = [pq.read_table(path) for path, _ in self._files.get(part, ())]
                tables.append(pa.Table.from_batches(self._open.get(part, []), self.schema))
                yield pa.concat_tables([table.cast(self.schema) for table in tables])

    def forget(self, before: int) -> None:
        """Drop whole seconds."""
        for part in [part for part in self._files if part < before]:
            for path, rows in self._files.pop(part):
                path.unlink()
                self.rows -= rows
        for part in [part for part in self._open if part < before]:
            self.rows -= sum(batch.num_rows for batch in self._open.pop(part))

    @property
    def oldest(self) -> int:
        """The first second of which there are rows; there must be some."""
        return min(self._files.keys() | self._open.keys())

    def _close(self, before: int) -> None:
        for part in [part for part in self._open if part < before]:
            table = pa.Table.from_batches(self._open.pop(part)).unify_dictionaries()
            files = self._files.setdefault(part, [])
            path = self._folder / f"{part:08d}-{len(files)}.parquet"
            pq.write_table(table, path, compression="zstd")
            files.append((path, table.num_rows))


class SessionRows:
    """Receives the rows of a capture of a whole server, as the recorder's sink.

    Times count from the capture's start, ns. Single waits are whole from ``whole_from_ns`` on.
    """

    def __init__(self, folder: Path) -> None:
        self.whole_from_ns = 0
        self._folder = folder
        self._waits = _Kind(folder / "waits", WAITS_SCHEMA, "start_ns")
        self._samples = _Kind(folder / "samples", SAMPLES_SCHEMA, "time_ns")
        #: Seconds in which a process did temp I/O.
        self._temp: set[tuple[int, int]] = set()

    def add_waits(self, rows: Any) -> None:
        """Take raw waits."""
        batch = pa.record_batch(rows)
        self._waits.add(batch)
        temp = batch.filter(batch["temp"])
        seconds = pa.compute.divide(temp["start_ns"], PART_NS)
        self._temp.update(zip(temp["session"].to_pylist(), seconds.to_pylist(), strict=True))
        while self._waits.rows > ROWS_MAX:
            self._drop(self._waits.oldest + 2)

    def add_seconds(self, rows: Any) -> None:
        """Ignore per-second rows, which do not distinguish sessions; waits give the counts."""

    def add_samples(self, batch: pa.RecordBatch) -> None:
        """Take samples."""
        self._samples.add(batch)

    def add_document(self, name: str, document: object) -> None:
        """Ignore documents."""

    def finish(self, meta: Meta, clock: Clock = FROM_ITS_START) -> Recording:
        """Never asked: each query has a recording of its own."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove all rows."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def spilled(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> bool:
        """Whether any of these did temp I/O in the seconds of a window."""
        seconds = range(max(begin_ns, 0) // PART_NS, end_ns // PART_NS + 1)
        if len(seconds) * len(sessions) < len(self._temp):
            return any(
                (session, second) in self._temp for session in sessions for second in seconds
            )
        return any(session in sessions and second in seconds for session, second in self._temp)

    def waits(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> Iterator[pa.Table]:
        """Their waits in a window, whose begin becomes zero, second by second."""
        clock = Clock(begin_ns)
        # A wait that began in an earlier second may reach into the window.
        for rows in self._of(self._waits.tables, sessions, begin_ns - PART_NS, end_ns):
            yield clock.waits(within(rows, begin_ns, end_ns))

    def samples(self, sessions: Collection[int], begin_ns: int, end_ns: int) -> Iterator[pa.Table]:
        """Their samples in a window, whose begin becomes zero, second by second."""
        for rows in self._of(self._samples.tables, sessions, begin_ns, end_ns):
            yield Clock(begin_ns).samples(
                rows.filter(pa.compute.less_equal(rows["time_ns"], end_ns))
            )

    @staticmethod
    def _of(
        tables: Callable[[int, int], Iterator[pa.Table]],
        sessions: Collection[int],
        begin_ns: int,
        end_ns: int,
    ) -> Iterator[pa.Table]:
        wanted = pa.array(list(sessions), pa.int64())
        for rows in tables(begin_ns, end_ns):
            yield rows.filter(pa.compute.is_in(rows["session"], wanted))

    def forget(self, before_ns: int) -> None:
        """Drop what began before, of which no query will be asked."""
        second = before_ns // PART_NS
        self._drop(second)
        self._temp = {(session, at) for session, at in self._temp if at >= second}

    def _drop(self, second: int) -> None:
        """Drop the rows before a second, but one for waits that reach over."""
        self.lack(second * PART_NS)
        self._waits.forget(second - 1)
        self._samples.forget(second - 1)

    def lack(self, at_ns: int) -> None:
        """Note that waits up to an instant are incomplete."""
        self.whole_from_ns = max(self.whole_from_ns, at_ns)
