"""I/O at offsets of files, from recordings and traces, as columns that the core takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spillcast import _core
from spillcast.columns import TEXT, Column, Flags, Integers, fields_of
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceUnsuited
from spillcast.evidence.oracle.trace_recording import name_blocks, waits_of
from spillcast.evidence.text import distinct, repeated_words
from spillcast.recording import Recording
from spillcast.tables import Table
from spillcast.units import format_count

SCAN, READ, WRITE, TEMP_READ, TEMP_WRITE = range(5)
TEMP_OBJECT = "temp"


@dataclass(frozen=True)
class Rows:
    """Reads and writes of ranges of files, in the order of time; columns of the same length."""

    time_s: Integers
    file: Integers
    offset: Integers
    bytes: Integers
    object: Integers
    query: Integers
    cls: Integers
    #: Names by number in ``object``.
    objects: Sequence[str]
    #: Notes for the user: skipped rows, assumptions.
    notes: Sequence[str] = field(default_factory=list)

    def requests(self, line_bytes: int) -> _core.CacheRequests:
        """The rows as requests for lines. InputError for offsets out of bounds."""
        # The last temp I/O of each query.
        temp = np.flatnonzero(self.cls >= TEMP_READ)[::-1]
        _, last = np.unique(self.query[temp], return_index=True)
        ends_query = np.zeros(len(self.cls), dtype=np.int64)
        ends_query[temp[last]] = 1
        columns = {
            "time_s": self.time_s - min(self.time_s, default=0),
            "file": self.file,
            "offset": self.offset,
            "bytes": self.bytes,
            "object": self.object,
            "query": self.query,
            "class": self.cls,
            "ends_query": ends_query,
        }
        types = dict.fromkeys(columns, "int64")
        try:
            return _core.CacheRequests.rows(Table(columns).cast(fields_of(types)), line_bytes)
        except ValueError as error:
            raise EvidenceDamaged(f"the I/O cannot be cut into lines: {error}") from error


def coded(names: Column) -> tuple[Integers, Sequence[str]]:
    """Each name as its number, and the names by number, in the order they come in."""
    used, first, number = np.unique(names.values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    # The last place is that of null.
    all_names = [*names.names, "?"]
    return place[number], [all_names[code] for code in used[order]]


def is_sequential(file: Integers, offset: Integers, size: Integers) -> Flags:
    """Whether each row begins where the row before it on its file ended."""
    order = np.argsort(file, kind="stable")
    end, at = (offset + size)[order], file[order]
    follows = np.zeros(len(file), dtype=bool)
    follows[order[1:]] = (at[1:] == at[:-1]) & (offset[order][1:] == end[:-1])
    return follows


#: Waits of scans in Oracle's traces.
SCAN_EVENTS = ("direct path read", "db file scattered read")
#: A recorded read of this size or more is part of a scan, wherever it begins.
SCAN_BYTES = 64 << 10
_TRACE_COLUMNS = ("start_ns", "session", "event", "op", "temp", "file", "sql_id", "object")


def of_recording(recording: Recording, *, only_temp: bool = False) -> Rows:
    """The raw waits of a recording. InputError if none has an offset."""
    recording.need_io()
    waits = recording.temp_waits if only_temp else recording.waits
    known = waits.filter(waits["offset"].is_valid() & (waits["bytes"].filled(0) > 0))
    _need_offsets(str(recording.path), waits.num_rows, known.num_rows, "a recording of I/O calls")
    notes = _left_out(waits.num_rows - known.num_rows)
    if (slices := recording.meta.raw.slices_s) is not None:
        notes.append(
            f"the recording keeps {format_count(len(slices), 'slice')} of its waits: what was read "
            "again between them is not seen; record with more --slices, or a shorter run"
        )
    file, names = coded(known["file"])
    offset, size = known["offset"].to_numpy(), known["bytes"].to_numpy()
    temp = known["temp"].to_numpy()
    writes = known["op"].equals("write")
    scans = is_sequential(file, offset, size) | (size >= SCAN_BYTES)
    object_, objects = _with_temp(file, [Path(name).name for name in names], temp)
    return Rows(
        known["start_ns"].to_numpy() // 1_000_000_000,
        file,
        offset,
        size,
        object_,
        np.zeros(len(file), dtype=np.int64),
        _classes(temp, writes, scans),
        objects,
        notes,
    )


def of_traces(paths: Sequence[Path], block_bytes: int, *, lenient: bool = False) -> Rows:
    """The I/O of traces with file and block. InputError if none has both."""
    paths, repeated = distinct(paths)
    names = [*_TRACE_COLUMNS, "blocks", "p2"]
    waits = waits_of(paths, names, lambda waits: waits["op"].is_valid(), lenient=lenient)
    known = waits.filter(name_blocks(waits)).sort_by("start_ns")
    _need_offsets(str(paths[0]), waits.num_rows, known.num_rows, "waits with file# and block#")
    temp = known["temp"].to_numpy()
    scans = known["event"].isin(SCAN_EVENTS)
    file, numbers = coded(known["file"])
    objects_of = [
        f"file {numbers[at]}" if number is None or number <= 0 else str(number)
        for at, number in zip(file, known["object"].to_pylist(), strict=True)
    ]
    object_, objects = _with_temp(*coded(Column.of(objects_of, TEXT)), temp)
    # A trace shows no more of a query than the statement of a session.
    sql = coded(known["sql_id"])[0]
    _, query = np.unique(np.stack([known["session"].to_numpy(), sql]), axis=1, return_inverse=True)
    return Rows(
        known["start_ns"].to_numpy() // 1_000_000_000,
        file,
        known["p2"].to_numpy() * block_bytes,
        known["blocks"].to_numpy() * block_bytes,
        object_,
        query.astype(np.int64).reshape(-1),
        _classes(temp, known["op"].equals("write"), scans),
        objects,
        [*_left_out(waits.num_rows - known.num_rows), *repeated_words(repeated)],
    )


def _classes(temp: Flags, writes: Flags, scans: Flags) -> Integers:
    others = np.where(writes, WRITE, np.where(scans, SCAN, READ))
    return np.where(temp, np.where(writes, TEMP_WRITE, TEMP_READ), others).astype(np.int64)


def _with_temp(object_: Integers, names: Sequence[str], temp: Flags) -> tuple[Integers, list[str]]:
    """The objects with all temp data as one more, and only those that are used."""
    numbers = np.where(temp, len(names), object_)
    used, numbers = np.unique(numbers, return_inverse=True)
    all_names = [*names, TEMP_OBJECT]
    return numbers.reshape(-1).astype(np.int64), [all_names[at] for at in used]


def _need_offsets(where: str, rows: int, known: int, needed: str) -> None:
    if rows == 0:
        raise EvidenceIncomplete(
            f"{where}: holds no reads and no writes", f"a cache needs {needed}"
        )
    if known == 0:
        raise EvidenceUnsuited(
            f"{where}: {format_count(rows, 'operation')}, none with an offset",
            f"what is read again is known by file and offset: give {needed}",
        )


def _left_out(count: int) -> list[str]:
    words = f"{format_count(count, 'operation')} without file and offset skipped"
    return [words] if count else []
