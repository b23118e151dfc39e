"""Reads I/O with offsets from recordings, traces, CSV and counts, as columns for the core."""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from spillcast import _core
from spillcast.columns import TEXT, ColumnValues, Flags, Integers, fields_of
from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceMixed,
    EvidenceUnsuited,
    FileTooLarge,
    PathMissing,
)
from spillcast.evidence.oracle.trace_recording import name_blocks, waits_of
from spillcast.evidence.text import distinct, repeated_notes
from spillcast.gate import COUNT_MAX, reading, text_of
from spillcast.recording import SECOND_NS, Recording
from spillcast.tables import Table
from spillcast.units import format_bytes, format_count, format_duration

SCAN, READ, WRITE, TEMP_READ, TEMP_WRITE = range(5)
TEMP_OBJECT = "temp"


@dataclass(frozen=True)
class FileAccesses:
    """Reads and writes of ranges of files, ordered by time.

    Columns of ``io`` are integers: ``time_s``, ``file``, ``offset``, ``bytes``, ``object``,
    ``query`` and ``class``.
    """

    io: Table
    #: Names by number in ``object``.
    objects: Sequence[str]
    #: Notes for the user: skipped rows, assumptions.
    notes: Sequence[str] = field(default_factory=list)

    def requests(self, line_bytes: int) -> _core.CacheRequests:
        """The rows as requests for lines. InputError for offsets out of bounds."""
        # The last temp I/O of each query.
        temp = np.flatnonzero(self.io["class"].values >= TEMP_READ)[::-1]
        _, last = np.unique(self.io["query"].values[temp], return_index=True)
        ends_query = np.zeros(len(self.io), dtype=np.int64)
        ends_query[temp[last]] = 1
        time_s = self.io["time_s"].values - (self.io["time_s"].min() or 0)
        columns = {**self.io.columns, "time_s": time_s, "ends_query": ends_query}
        types = dict.fromkeys(columns, "int64")
        try:
            return _core.CacheRequests.rows(Table(columns).cast(fields_of(types)), line_bytes)
        except ValueError as error:
            raise EvidenceDamaged(f"the I/O cannot be cut into lines: {error}") from error


def coded(names: ColumnValues) -> tuple[Integers, list[str]]:
    """The number of each row's name, and the names by number, in order of occurrence."""
    groups = Table({"name": names}).group_by("name")
    return groups.number, [
        "?" if name is None else name for name in groups.keys["name"].to_pylist()
    ]


def is_sequential(file: Integers, offset: Integers, size: Integers) -> Flags:
    """Flags of rows that begin at the end of the previous row of their file."""
    order = np.argsort(file, kind="stable")
    end, at = (offset + size)[order], file[order]
    follows = np.zeros(len(file), dtype=bool)
    follows[order[1:]] = (at[1:] == at[:-1]) & (offset[order][1:] == end[:-1])
    return follows


#: Waits of scans in Oracle's traces.
SCAN_EVENTS = ("direct path read", "db file scattered read")
#: A recorded read of this size or more is part of a scan, regardless of its offset.
SCAN_BYTES = 64 << 10
_TRACE_COLUMNS = ("start_ns", "session", "event", "op", "temp", "file", "sql_id", "object")


def of_recording(recording: Recording, *, only_temp: bool = False) -> FileAccesses:
    """The I/O of a recording with offsets. InputError without any."""
    recording.need_io()
    waits = recording.temp_waits if only_temp else recording.waits
    has_offset = waits["offset"].is_valid() & (waits["bytes"].filled(0) > 0)
    known, notes = _known(waits, has_offset, recording.path, "a recording of I/O calls")
    if (slices := recording.meta.raw.slices_s) is not None:
        notes.append(
            f"the recording keeps {format_count(len(slices), 'slice')} of its waits: repeated "
            "reads between them are not seen; record with more --slices, or a shorter run"
        )
    file, names = coded(known["file"])
    offset, size = known["offset"].to_numpy(), known["bytes"].to_numpy()
    temp = known["temp"].to_numpy()
    writes = known["op"].equals("write")
    scans = is_sequential(file, offset, size) | (size >= SCAN_BYTES)
    last_names = [Path(name).name for name in names]
    shared = {name for name, count in Counter(last_names).items() if count > 1}
    labels = [
        path if last in shared else last for path, last in zip(names, last_names, strict=True)
    ]
    object_, objects = _with_temp(file, labels, temp)
    io = {
        "time_s": known["start_ns"].to_numpy() // SECOND_NS,
        "file": file,
        "offset": offset,
        "bytes": size,
        "object": object_,
        "query": np.zeros(len(file), dtype=np.int64),
        "class": _classes(temp, writes, scans),
    }
    return FileAccesses(Table(io), objects, notes)


def of_traces(paths: Sequence[Path], block_bytes: int, *, lenient: bool = False) -> FileAccesses:
    """The I/O of traces with file and block. InputError without any."""
    paths, repeated = distinct(paths)
    names = [*_TRACE_COLUMNS, "blocks", "p2"]
    waits = waits_of(paths, names, lambda waits: waits["op"].is_valid(), lenient=lenient)
    known, notes = _known(waits, name_blocks(waits), paths[0], "waits with file# and block#")
    known = known.sort_by("start_ns")
    temp = known["temp"].to_numpy()
    scans = known["event"].isin(SCAN_EVENTS)
    file, numbers = coded(known["file"])
    objects_of = [
        f"file {numbers[at]}" if number is None or number <= 0 else str(number)
        for at, number in zip(file, known["object"].to_pylist(), strict=True)
    ]
    object_, objects = _with_temp(*coded(ColumnValues.of(objects_of, TEXT)), temp)
    io = {
        "time_s": known["start_ns"].to_numpy() // SECOND_NS,
        "file": file,
        "offset": known["p2"].to_numpy() * block_bytes,
        "bytes": known["blocks"].to_numpy() * block_bytes,
        "object": object_,
        # In a trace, a query is a statement of a session.
        "query": known.group_by("session", "sql_id").number,
        "class": _classes(temp, known["op"].equals("write"), scans),
    }
    return FileAccesses(Table(io), objects, [*notes, *repeated_notes(repeated)])


def _classes(temp: Flags, writes: Flags, scans: Flags) -> Integers:
    others = np.where(writes, WRITE, np.where(scans, SCAN, READ))
    return np.where(temp, np.where(writes, TEMP_WRITE, TEMP_READ), others).astype(np.int64)


def _with_temp(object_: Integers, names: Sequence[str], temp: Flags) -> tuple[Integers, list[str]]:
    """The numbers and names of the objects that occur, with all temp data as one object."""
    numbers = np.where(temp, len(names), object_)
    used, numbers = np.unique(numbers, return_inverse=True)
    all_names = [*names, TEMP_OBJECT]
    return numbers.reshape(-1).astype(np.int64), [all_names[at] for at in used]


def _known(waits: Table, has_offset: Flags, where: Path, needed: str) -> tuple[Table, list[str]]:
    """The rows with an offset, and a note on those without. InputError if none has."""
    known = waits.filter(has_offset)
    if not waits.num_rows:
        raise EvidenceIncomplete("holds no reads and no writes", f"a cache needs {needed}", where)
    if not known.num_rows:
        raise EvidenceUnsuited(
            f"{format_count(waits.num_rows, 'operation')}, none with an offset",
            f"file and offset identify repeated reads: give {needed}",
            where,
        )
    skipped = waits.num_rows - known.num_rows
    note = f"{format_count(skipped, 'operation')} without file and offset skipped"
    return known, [note] if skipped else []


_NEEDED = ("object", "offset", "bytes")
#: Aliases of column names, in lower case.
_NAMES = {
    **dict.fromkeys(("file", "filename", "device", "object_id"), "object"),
    **dict.fromkeys(("offset_bytes", "position"), "offset"),
    **dict.fromkeys(("size", "size_bytes", "length"), "bytes"),
}
_TYPES = {
    "object": TEXT, "offset": "int64", "bytes": "int64",
    "time_s": "float64", "class": TEXT, "query": TEXT,
}  # fmt: skip
#: Number of rows of a CSV file that are split at a time.
_CSV_ROWS = 1 << 16
_CSV_HINT = "columns: object, offset, bytes; optional: time_s, class, query"


def is_csv(path: Path) -> bool:
    """Whether a file is read as CSV."""
    return path.suffix.lower() == ".csv"


def read_csv(paths: Sequence[Path]) -> FileAccesses:
    """Read CSV files one after the other. InputError names the wrong column or value."""
    for path in paths:
        if not is_csv(path):
            raise EvidenceMixed(
                f"{path} is not a CSV file, but others are", "give one kind at a time"
            )
    tables = [_read(path) for path in paths]
    table = Table.concat(tables)
    if table.num_rows == 0:
        raise EvidenceIncomplete("holds no rows", _CSV_HINT, paths[0])
    object_, objects = coded(table["object"])
    query, _ = coded(table["query"])
    classes, of_row = _core.CacheRequests.classes(), table["class"]
    class_numbers = np.array([classes.index(name) for name in of_row.names], dtype=np.int64)
    io = {
        "time_s": np.floor(table["time_s"].values).astype(np.int64),
        "file": object_,
        "offset": table["offset"],
        "bytes": table["bytes"],
        "object": object_,
        "query": query,
        "class": class_numbers[of_row.values],
    }
    return FileAccesses(Table(io), objects)


def _read(path: Path) -> Table:
    if not path.exists():
        raise PathMissing("there is no such file", where=path)
    with reading(path, _CSV_HINT):
        cells = _cells(path)
        count = len(cells["object"])
        defaults = {"time_s": ["0"] * count, "class": ["read"] * count, "query": [""] * count}
        texts, classes = defaults | cells, _core.CacheRequests.classes()
        if unknown := set(texts["class"]) - set(classes):
            hint = f"the classes are {', '.join(classes)}"
            raise EvidenceDamaged(f"there is no class {min(unknown)!r}", hint)
        return Table({name: _column(name, type, texts[name]) for name, type in _TYPES.items()})


def _check_names(names: Sequence[str]) -> None:
    if twice := [name for name in _TYPES if names.count(name) > 1]:
        raise EvidenceDamaged(f"there are several columns {twice[0]}")
    if missing := [name for name in _NEEDED if name not in names]:
        raise EvidenceIncomplete(
            f"there is no column {' and no '.join(missing)}, so repeated reads are not known"
        )


def _cells(path: Path) -> dict[str, list[str]]:
    """The texts of the used columns, by standard name."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        heading_line = 1
        # Exports may begin with blank lines.
        while (heading := file.readline()).isspace():
            heading_line += 1
        delimiter = max(",;\t|", key=heading.count)
        titles = next(csv.reader([heading.strip("\r\n")], delimiter=delimiter), [])
        exact = [title.strip().lower() for title in titles]
        aliases = [_NAMES.get(name, name) for name in exact]
        # An alias counts only if no column has the standard name.
        names = [n if alias in exact else alias for n, alias in zip(exact, aliases, strict=True)]
        _check_names(names)
        cells: dict[str, list[str]] = {name: [] for name in names if name in _TYPES}
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        rows, first = filter(None, reader), heading_line + 1
        while batch := [*islice(rows, _CSV_ROWS)]:
            # Rows above may span several lines or be blank.
            short = (at for at, row in enumerate(batch, first) if len(row) != len(names))
            if (line := next(short, None)) is not None:
                raise ValueError(f"from line {line} on, a row does not have {len(names)} fields")
            for name, texts in zip(names, zip(*batch, strict=True), strict=True):
                if name in cells:
                    cells[name].extend(map(sys.intern, texts))
            first = heading_line + 1 + reader.line_num
    return cells


def _column(name: str, type: str, texts: Sequence[str]) -> ColumnValues:
    """A column of texts converted to its type. InputError for invalid and impossible numbers."""
    if type == TEXT:
        return ColumnValues.of(texts, TEXT)
    if "" in texts:
        raise EvidenceDamaged(f"{name} is empty in some row")
    column = ColumnValues.of([*map(int if type == "int64" else float, texts)], type)
    if not len(column):
        return column
    least, most = column.min(), column.max()
    if not (least >= 0 and most <= COUNT_MAX):
        wrong = least if least < 0 else most
        raise EvidenceDamaged(f"{name} is {wrong:,} in some row")
    return column


MIB = 1 << 20
#: The largest scan to simulate, in lines of 1 MiB: 16 TiB.
_LINES_MAX = 1 << 24
_HEAD_BYTES = 1 << 16
_MARKS = b"cell flash cache read hits", b"cachedSize:", b"FC_IO_"
_COUNTS_HINT = (
    "it holds v$mystat before and after a scan (physical read total bytes, cell flash cache read "
    "hits) and Elapsed, two listings of flashcachecontent detail, or a metric history of FC_IO_RQ_R"
)
_STAT = re.compile(r"^(physical read total bytes|cell flash cache read hits)\s+([\d,]+)\s*$")
_ELAPSED = re.compile(r"^Elapsed: (\d+):(\d+):([\d.]+)")
_COUNTED = {"objectNumber", "hitCount", "missCount"}
#: Object numbers are unique only within a database and tablespace.
_IDENTITY = ("objectNumber", "dbID", "tableSpaceNumber")
_ATTRIBUTE = re.compile(rf"^(?:([\w.-]+): )?\s*({'|'.join({*_COUNTED, *_IDENTITY})}):\s+([\d,]+)")
_METRIC = re.compile(
    r"^(?:(?P<cell>[\w.-]+): )?\s*(?P<name>FC_IO_\w+)\s+\S+\s+(?P<value>[\d,.]+)\s\D++"
    r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]+(?:[+-]\d\d:\d\d)?)\s*$"
)


@dataclass(frozen=True)
class Scan:
    """Counts of one scan or interval; ``elapsed_s`` is None if not timed."""

    object: str
    bytes: int
    flash_bytes: int
    elapsed_s: float | None = None

    @property
    def from_flash(self) -> float:
        """Share of the bytes that flash served."""
        return self.flash_bytes / self.bytes

    @property
    def text(self) -> str:
        """The measured share, and the options of a simulation that follow from it."""
        text = f"measured: {format_bytes(self.bytes)} of {self.object}, {self.from_flash:.2%} flash"
        if not self.elapsed_s:
            return text
        text += f", in {format_duration(self.elapsed_s)}"
        # Disk and flash serve reads in parallel.
        parts = {"--flash": self.flash_bytes, "--disk": self.bytes - self.flash_bytes}
        rates = [
            f"{option} {moved / self.elapsed_s / (1 << 30):.2f}G/s"
            for option, moved in parts.items()
            if moved > 0.01 * self.bytes
        ]
        return f"{text}: at least {' and '.join(rates)}, --from-flash {self.from_flash:.4f}"


def is_observed(path: Path) -> bool:
    """Whether a file contains counts of scans, judging by its first bytes."""
    if not path.is_file() or path.suffix.lower() in (".csv", ".trc", ".zst", ".gz"):
        return False
    with reading(path), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return any(mark in head for mark in _MARKS)


def read_observed(paths: Sequence[Path]) -> FileAccesses:
    """The largest scan of each object as sequential reads, and notes with all measured shares."""
    scans: list[Scan] = []
    for path in paths:
        with reading(path, _COUNTS_HINT):
            lines = text_of(path).splitlines()
            scans += [*_of_session(lines), *_of_contents(lines), *_of_metrics(lines)]
    scans = [scan for scan in scans if scan.bytes > 0]
    if not scans:
        raise EvidenceIncomplete("no counts of a scan, before and after", _COUNTS_HINT, paths[0])
    largest: dict[str, int] = {}
    for scan in scans:
        largest[scan.object] = max(largest.get(scan.object, 0), scan.bytes)
    if sum(largest.values()) > _LINES_MAX * MIB:
        raise FileTooLarge(f"more than {format_bytes(_LINES_MAX * MIB)} were read", where=paths[0])
    notes = [scan.text for scan in scans]
    notes.append("which blocks were read is unknown: each object is assumed to be read in order")
    return _rows(largest, notes)


def _rows(sizes: dict[str, int], notes: Sequence[str]) -> FileAccesses:
    counts = [-(-size // MIB) for size in sizes.values()]
    number = np.repeat(np.arange(len(counts)), counts)
    offset = np.concatenate([np.arange(count) * MIB for count in counts])
    left = np.array(list(sizes.values()))[number] - offset
    none = np.zeros(len(number), dtype=np.int64)
    io = {
        "time_s": none,
        "file": number,
        "offset": offset,
        "bytes": np.minimum(left, MIB),
        "object": number,
        "query": none,
        "class": np.full(len(number), SCAN),
    }
    return FileAccesses(Table(io), list(sizes), notes)


def _of_session(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of v$mystat between snapshots; counts that shrink mark a new session."""
    before, elapsed_s = (0, 0), None
    counters: dict[str, int] = {}
    for line in lines:
        if match := _ELAPSED.match(line.strip()):
            hours, minutes, seconds = (float(part) for part in match.groups())
            elapsed_s = max(elapsed_s or 0.0, 3600 * hours + 60 * minutes + seconds)
        if not (match := _STAT.match(line.strip())):
            continue
        counters[match[1]] = _count(match[2])
        if len(counters) < 2:
            continue
        read, hits = counters["physical read total bytes"], counters["cell flash cache read hits"]
        if read < before[0] or hits < before[1]:
            before = (0, 0)
        moved = read - before[0]
        if moved:
            # Hits of smart scans are 1 MiB each.
            yield Scan("scan", moved, min((hits - before[1]) * MIB, moved), elapsed_s)
        before, counters, elapsed_s = (read, hits), {}, None


def _of_contents(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of an object's hits and misses between listings, summed over cells."""
    entries: dict[str, list[dict[str, int]]] = {}
    for line in lines:
        if match := _ATTRIBUTE.match(line):
            of_cell = entries.setdefault(match[1] or "", [{}])
            if match[2] in of_cell[-1]:
                of_cell.append({})
            of_cell[-1][match[2]] = _count(match[3])
    listed: dict[tuple[str | int | None, ...], list[dict[str, int]]] = {}
    for cell, of_cell in entries.items():
        for entry in of_cell:
            if entry.keys() >= _COUNTED:
                listed.setdefault((cell, *map(entry.get, _IDENTITY)), []).append(entry)
    hits, misses = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for of_object in listed.values():
        for at, (before, now) in enumerate(pairwise(of_object)):
            grown = [now[name] - before[name] for name in ("hitCount", "missCount")]
            if min(grown) >= 0:
                hits[at, now["objectNumber"]] += grown[0]
                misses[at, now["objectNumber"]] += grown[1]
    for key in sorted(hits):
        yield Scan(str(key[1]), (hits[key] + misses[key]) * MIB, hits[key] * MIB)


def _of_metrics(lines: Sequence[str]) -> Iterator[Scan]:
    """Growth of a cell's counts over the history: in megabytes if known, otherwise in requests."""
    seen: dict[tuple[str, str], list[tuple[datetime, float]]] = {}
    for line in lines:
        if match := _METRIC.match(line):
            at = datetime.fromisoformat(match["time"])
            at = at.replace(tzinfo=at.tzinfo or UTC)
            value = float(match["value"].replace(",", ""))
            seen.setdefault((match["cell"] or "cell", match["name"]), []).append((at, value))

    def grown(kind: str) -> float:
        histories = [sorted(of_cell) for (_, name), of_cell in seen.items() if name == kind]
        steps = [step for history in histories for step in pairwise(history)]
        # A count that falls restarted at 0, as its cell did.
        return sum(now if now < before else now - before for (_, before), (_, now) in steps)

    for hit, miss in (("FC_IO_BY_R", "FC_IO_BY_R_MISS"), ("FC_IO_RQ_R", "FC_IO_RQ_R_MISS")):
        hits, misses = grown(hit), grown(miss)
        if hits + misses > 0:
            yield Scan("flash cache", round((hits + misses) * MIB), round(hits * MIB))
            return


def _count(text: str) -> int:
    value = int(text.replace(",", ""))
    if value > COUNT_MAX:
        raise ValueError(f"{text} is not a count")
    return value
