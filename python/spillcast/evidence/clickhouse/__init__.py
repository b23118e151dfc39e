"""Counts the temp I/O of a finished query in rows of ClickHouse's system.query_log, in any format.

ClickHouse counts the bytes of temp files, but its counts of I/O include all files. The query's own
threads write and read temp files, with write and pread. A thread pool, which is counted separately,
reads tables, unless the setting local_filesystem_read_method says otherwise. The I/O that remains
without the pool is therefore that of temp files if its bytes equal the bytes of temp files. If they
differ, there are bounds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from spillcast.errors import EvidenceIncomplete, NoTempIo, SelectionEmpty
from spillcast.evidence.counts import (
    PROFILE,
    Bounds,
    Counts,
    TempTimes,
    counts_of_figures,
    feasible_processes,
)
from spillcast.evidence.numbers import unix_time_s, whole
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.evidence.table_rows import cells_of, rows_of
from spillcast.evidence.tables import with_tables_as_csv
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import damaged, reading
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.tabular import records
from spillcast.units import format_bytes

HINT = (
    "export it with: SELECT * FROM system.query_log WHERE type != 'QueryStart' "
    "INTO OUTFILE 'log.jsonl' FORMAT JSONEachRow"
)
#: Columns from the duration to the text of the query, in the order of all versions since 18.
_AFTER_TIMES = (
    *("query_duration_ms", "read_rows", "read_bytes", "written_rows", "written_bytes"),
    *("result_rows", "result_bytes", "memory_usage", "current_database", "query"),
)
#: The value of ``type`` as a name, or as the number that some clients print.
_FINISHED, _FINISHED_NUMBER = "QueryFinish", "2"
_TYPES = ("QueryStart", _FINISHED, "ExceptionBeforeStart", "ExceptionWhileProcessing")
_HEADINGLESS = re.compile(
    r"\b(?:QueryStart|QueryFinish|Exception\w++)[\"\t,]+\"?\d{4}-\d\d-\d\d[\"\t,].*\{'\w+':\d"
)
_COLUMN = re.compile(r"(?:^|[\s\"',;|│┃─━{])query_duration_ms(?:[\s\"',;:|│┃─━]|$)")
#: A statement that precedes its rows; a blank line ends the rows.
_ECHOED = re.compile(r"^(?:\S* :\) )?select\b", re.IGNORECASE | re.MULTILINE)
#: Column names for a single event.
_EVENT_COLUMN = re.compile(
    r"(?:ProfileEvents(?:\['|[._]|, ')|ProfileEvent_)(\w+)(?:'[\])])?|arrayElement\(.*'(\w+)'\)"
)
_EVENT_NAME = re.compile(
    r"External(?:Sort|Aggregation|Join|Distinct|Processing)\w+|(?:Write|Read)BufferFrom\w+"
    r"|Disk(?:Read|Write)Elapsed\w+|ThreadPoolReader\w+|OS[A-Z]\w+|(?:User|System|Real)Time\w+"
)
_MAP_PAIR = re.compile(r"\s*'((?:[^'\\\s]|\\.)*)'\s*:\s*(-?\d+|'(?:[^'\\]|\\.)*')\s*(?:,|$)")
#: One column per line, as in a letter: ``query_duration_ms = 458,063 (7 min)``.
_EQUATION = re.compile(r"^[^\w\n]*+(\w+) *+= *+([^\s(]++)([^\n(]*)", re.MULTILINE)
_PRINTED_BY_PYTHON = re.compile(r"\s*[\[{(]+'")
_PYTHON_DATE = re.compile(r"\bdatetime\.\w+\(([\d, ]+)\)")
_WORDS = re.compile(r"(?<!\\)'((?:[^'\\]|\\.)*)'")
_PASTED_LENGTH = 1 << 20
_MAPS_CUT = (
    "output_format_pretty_max_value_width cuts long values: set it to 0, or export FORMAT "
    "JSONEachRow"
)
QueryLogRow = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class LoggedQuery:
    """A finished query, with the events that its server counted for it."""

    query_id: str | None
    #: Equal for queries that differ only in constants.
    normalized_hash: str | None
    #: Its text, without secrets.
    query: str | None
    elapsed_s: float
    #: Unix time of its start by the server's clock; None if the export lacks it.
    started_s: float | None
    peak_memory_bytes: int | None
    events: Mapping[str, int]
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Maximum number of simultaneous threads, including those that only wait.
    threads: int | None = None
    version: str | None = None
    host: str | None = None
    #: Whether it came from a client, not from another server.
    is_initial: bool = True

    def event(self, *names: str) -> int:
        """The sum of these events; events that the server did not count are 0."""
        return sum(self.events.get(name, 0) for name in names)

    @property
    def spilling(self) -> list[str]:
        """The kinds of operators that spilled, as keys of SPILLS."""
        return [kind for kind in SPILLS if self.event(f"External{kind}WritePart")]


def is_query_log(text: str) -> bool:
    """Whether the start of a text contains rows of system.query_log."""
    return _COLUMN.search(text) is not None or _HEADINGLESS.search(text) is not None


def is_parquet_log(path: Path) -> bool:
    """Whether the schema at the end of a Parquet file has the columns of system.query_log."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 18)))
        return b"query_duration_ms" in file.read()


def read_rows(path: Path) -> list[LoggedQuery]:
    """The finished queries of an export. InputError if it is damaged or lacks columns."""
    with reading(path, HINT):
        # A repeated query, as in a log that was pasted twice, counts once.
        by_text = {
            (0, hash(repr(row))) if row.get("query_id") else (1, at): row
            for at, row in enumerate(_rows_of(path))
        }
        rows = list(by_text.values())
        queries = [
            logged_query(row, item)
            for item, row in enumerate(rows, 1)
            if str(row.get("type", _FINISHED)) in (_FINISHED, _FINISHED_NUMBER)
        ]
    if not rows:
        raise damaged("it has no rows")
    if not queries:
        hint = "export rows with type = 'QueryFinish'"
        raise SelectionEmpty(f"no query finished in its {len(rows):,} rows", hint)
    return queries


def logged_query(row: QueryLogRow, item: int) -> LoggedQuery:
    """A row as a query. EvidenceIncomplete if it has no duration or no events."""
    if row.get("query_duration_ms") in (None, ""):
        raise EvidenceIncomplete(f"row {item} has no query_duration_ms")
    settings = _mapping(row, "Settings", item)
    threads = row.get("peak_threads_usage") or len(re.findall(r"\d+", str(row.get("thread_ids"))))
    query = row.get("query")
    started = row.get("query_start_time_microseconds") or row.get("query_start_time")
    return LoggedQuery(
        query_id=_text(row.get("query_id")),
        normalized_hash=_text(row.get("normalized_query_hash")),
        query=None if query is None else masked_text(str(query)),
        elapsed_s=whole(row["query_duration_ms"], f"row {item}: query_duration_ms") / 1e3,
        started_s=unix_time_s(started),
        peak_memory_bytes=whole(row.get("memory_usage") or 0, f"row {item}: memory_usage") or None,
        events=_events(row, item),
        settings={name: str(value) for name, value in (settings or {}).items()},
        threads=int(threads) or None,
        version=_text(row.get("clickhouse_version") or row.get("version()")),
        host=_text(row.get("hostname") or row.get("hostName()")),
        is_initial=str(row.get("is_initial_query", 1)).lower() in ("1", "true"),
    )


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _events(row: QueryLogRow, item: int) -> dict[str, int]:
    """The events in a map, in a pair of arrays (before version 21.9), or in columns."""
    values: Mapping[str, Any] | None = _mapping(row, "ProfileEvents", item)
    names = row.get("ProfileEvents.Names")
    if values is None and names is not None:
        counts = row.get("ProfileEvents.Values", [])
        words = names if isinstance(names, list) else _WORDS.findall(names)
        numbers = counts if isinstance(counts, list) else re.findall(r"\d+", counts)
        if len(words) != len(numbers):
            text = f"row {item}: {len(words)} names of events and {len(numbers)} values"
            raise damaged(text)
        values = dict(zip(words, numbers, strict=True))
    columns = {name: value for column, value in row.items() if (name := _event_of(column))}
    if values is None and not columns:
        raise EvidenceIncomplete("it has no ProfileEvents, which count temp files and their I/O")
    counted = {**(values or {}), **columns}
    return {name: whole(value, f"row {item}: {name}", inf) for name, value in counted.items()}


def _event_of(column: str) -> str | None:
    """The event that a column counts; None for other columns."""
    if column in ("ProfileEvents.Names", "ProfileEvents.Values"):
        return None
    if match := _EVENT_COLUMN.fullmatch(column):
        return match[1] or match[2]
    return column if _EVENT_NAME.fullmatch(column) else None


def _mapping(row: QueryLogRow, name: str, item: int) -> Mapping[str, Any] | None:
    """A column of type Map: an object, or the text of one. InputError if it is cut."""
    value = row.get(name)
    if value is None or isinstance(value, Mapping):
        return value
    text = str(value).strip()
    inner, at, pairs = text[1:-1], 0, dict[str, Any]()
    while at < len(inner) and (match := _MAP_PAIR.match(inner, at)) is not None:
        pairs[match[1]] = match[2].strip("'")
        at = match.end()
    if text[:1] != "{" or text[-1:] != "}" or at < len(inner):
        raise damaged(f"row {item}: the map {name} is cut", _MAPS_CUT)
    return pairs


def _rows_of(path: Path) -> Iterable[QueryLogRow]:
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return _parquet(path)
    text = text_of(path)
    if _PRINTED_BY_PYTHON.match(text):
        text = unwrapped(_PYTHON_DATE.sub(r"'\1'", text))
    elif text.lstrip()[:1] not in ("{", "["):
        # A pasted text is short, and may have wrappings.
        text = unwrapped(text) if len(text) < _PASTED_LENGTH else with_tables_as_csv(text)
    return rows_of(text) if text.lstrip()[:1] in ("{", "[") else _table(text)


def _parquet(path: Path) -> Iterator[QueryLogRow]:
    import duckdb

    yield from records(duckdb.connect().sql("from read_parquet(?)", params=[str(path)]))


def _table(text: str) -> Iterator[QueryLogRow]:
    """Rows of a table, or of TSV or CSV without a heading."""
    pairs = _EQUATION.findall(text)
    columns = {name: value.replace(",", "") for name, value, _ in pairs}
    if "query_duration_ms" in columns:
        if len(columns) < len(pairs):
            raise damaged("a column has two values: give one query at a time")
        if line := next((line for line in pairs if line[1][0].isdigit() and line[2].strip()), None):
            problem = f"{line[0]} is {''.join(line[1:]).strip()[:40]}, and not a number alone"
            raise damaged(problem)
        yield columns
        return
    if (heading := _COLUMN.search(text)) is not None:
        if (echoed := _ECHOED.search(text, 0, heading.start())) is not None:
            heading = _COLUMN.search(text, text.find("\n\n", echoed.start())) or heading
        yield from rows_of(text[text.rfind("\n", 0, heading.start() + 1) + 1 :])
        return
    width = 0
    # A statement may have more commas than its row of TSV has tabs.
    separator = "\t" if f"\t{_FINISHED}\t" in text else ""
    for number, row in enumerate(filter(None, cells_of(text, separator)), 1):
        width = width or len(row)
        if len(row) != width:
            problem = f"row {number} has {len(row)} values and not {width}: it is cut"
            raise damaged(problem)
        yield _row_by_position(row, number)


def _row_by_position(cells: Sequence[str], number: int) -> QueryLogRow:
    """A row of a table without a heading, by the order of columns that all versions share."""
    type_at = next((at for at, cell in enumerate(cells) if cell in _TYPES), len(cells))
    at = type_at + 1
    while at < len(cells) and re.fullmatch(r"\d{4}-\d\d-\d\d.*", cells[at]):
        at += 1
    maps = [cell for cell in cells if cell.startswith("{'")]
    if at + len(_AFTER_TIMES) > len(cells) or not maps:
        text = f"row {number} is cut, or its columns are not those of SELECT * and have no names"
        raise damaged(text, "export FORMAT TSVWithNames or CSVWithNames")
    row = dict(zip(_AFTER_TIMES, cells[at:], strict=False))
    hashes = (cell for cell in cells[at + len(_AFTER_TIMES) :] if re.fullmatch(r"\d{12,20}", cell))
    settings = {"Settings": maps[1]} if len(maps) > 1 else {}
    return {
        **row,
        **settings,
        "type": cells[type_at],
        "query_start_time": cells[at - 1],
        "ProfileEvents": maps[0],
        "normalized_query_hash": next(hashes, None),
    }


#: The kinds of operators in names of events, and the settings that limit the memory of each. If a
#: query sets none of them, the default of the last one applies.
SPILLS = {
    "Sort": ("max_bytes_before_external_sort", "max_bytes_ratio_before_external_sort"),
    "Aggregation": (
        "max_bytes_before_external_group_by",
        "max_bytes_ratio_before_external_group_by",
    ),
    "Join": ("max_bytes_before_external_join", "max_bytes_in_join"),
    "Distinct": ("max_bytes_before_external_distinct", "max_bytes_ratio_before_external_distinct"),
}
#: Counters of the thread pool that reads tables, for page cache hits and misses.
_POOL = ("ThreadPoolReaderPageCacheHit", "ThreadPoolReaderPageCacheMiss")
_TOTAL = "ExternalProcessingCompressedBytesTotal"
_ALL_WRITTEN = "WriteBufferFromFileDescriptorWriteBytes"
_UNCOMPRESSED = "ExternalProcessingUncompressedBytesTotal"
#: All events that this module uses.
SPILL_EVENTS = (
    *(f"External{kind}{unit}" for kind in SPILLS for unit in ("WritePart", "CompressedBytes")),
    *(_TOTAL, _UNCOMPRESSED, "ExternalProcessingFilesTotal"),
    *("OSCPUVirtualTimeMicroseconds", "UserTimeMicroseconds"),
    *("SystemTimeMicroseconds", "DiskReadElapsedMicroseconds", "DiskWriteElapsedMicroseconds"),
    *("ReadBufferFromFileDescriptorRead", "ReadBufferFromFileDescriptorReadBytes"),
    *("WriteBufferFromFileDescriptorWrite", _ALL_WRITTEN),
    *(f"{pool}{unit}" for pool in _POOL for unit in ("", "Bytes", "ElapsedMicroseconds")),
)
#: The buffer of a temp file, and the smallest mean operation, given small files and ends of files.
_BUFFER_BYTES, _SMALL_BYTES = 1 << 20, 32 << 10
#: The share of bytes, from headers, by which counts of the same I/O may differ.
_SAME = 0.02
#: The maximum number of threads if nothing limits it.
_THREADS_MAX = 64
_PART = "another server sent this query, as a part of a distributed one"
_REMEDY = "a recording of the query shows it: spillcast record --pid PID"


@dataclass(frozen=True)
class _Side:
    """Bounds of the reads, or the writes, of temp files."""

    bytes: tuple[float, float]
    count: tuple[float, float]
    time_s: tuple[float, float]
    #: Why the log gives only bounds; empty if they are equal.
    reason: str = ""


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of the selected query, or of the only one that spills."""
    return counts_of_query(_selected(read_rows(path), selection), selection)


def spilled_bytes(query: LoggedQuery) -> int:
    """Compressed bytes in its temp files."""
    by_kind = query.event(*(f"External{kind}CompressedBytes" for kind in SPILLS))
    return query.event(_TOTAL) or by_kind or (query.event(_ALL_WRITTEN) if query.spilling else 0)


def no_spill_bytes(query: LoggedQuery) -> tuple[int, int] | None:
    """Bounds of the memory with which it would not have spilled; None if the log has no peak.

    In place of temp files, memory took 1.05 to 3.7 times the uncompressed bytes in measured
    joins, aggregations and DISTINCT: hash tables are partly empty, and double as they grow.
    """
    uncompressed = query.event(_UNCOMPRESSED)
    if query.peak_memory_bytes is None or not uncompressed:
        return None
    return query.peak_memory_bytes, query.peak_memory_bytes + 4 * uncompressed


def settings_that_spill(query: LoggedQuery) -> list[str]:
    """The settings that limited the memory of each kind of operator that spilled."""
    default = -1 if query.settings else 0
    return [
        next((name for name in names if query.settings.get(name, "0") != "0"), names[default])
        for names in map(SPILLS.__getitem__, query.spilling)
    ]


def counts_of_query(query: LoggedQuery, selection: Selection) -> Counts:
    """The counts of one query. NoTempIo if it does not spill."""
    written = spilled_bytes(query)
    # A grace hash join may open temp files and write nothing. All events, in versions that count
    # files, then prove it; the columns of some do not.
    counted = query.events.keys() >= {"Query", "ExternalProcessingFilesTotal"}
    if not written and query.spilling and not counted:
        raise EvidenceIncomplete("this query spilled, and no event counts the bytes")
    if not written:
        raise NoTempIo("this query does not spill: no bytes of temp files were counted")
    count = query.event("WriteBufferFromFileDescriptorWrite")
    took_us = query.event("DiskWriteElapsedMicroseconds")
    total = query.event(_ALL_WRITTEN)
    writes = _side(query, "writes", (written, written), count, total, took_us)
    reads = _reads(query, written)
    sides = reads, writes
    time_s = [sum(side.time_s[at] for side in sides) for at in (0, 1)]
    elapsed_s = selection.elapsed_s or query.elapsed_s
    threads = feasible_processes(_threads(query), elapsed_s, sum(time_s) / 2)
    reasons = [side.reason for side in sides if side.reason]
    time_bounds = None
    if time_s[0] < time_s[1]:
        reason = reasons[0] if reasons else "other I/O was timed with it"
        time_bounds = Bounds(time_s[0], time_s[1], reason, _REMEDY)
    cpu_us = query.event("OSCPUVirtualTimeMicroseconds") or query.event(
        "UserTimeMicroseconds", "SystemTimeMicroseconds"
    )
    times = TempTimes(sum(reads.time_s) / 2, sum(writes.time_s) / 2, time_bounds)
    fewest, most = (
        {op: (side.count[at], side.bytes[at]) for op, side in zip(OPS, sides, strict=True)}
        for at in (0, 1)
    )
    words = f"the query log has only bounds of temp I/O: {'; '.join(dict.fromkeys(reasons))}"
    temp = times.bounded(fewest, most, words, _REMEDY)
    return counts_of_figures(
        selection,
        temp if reasons else replace(temp, io_bounds=None),
        elapsed_s=query.elapsed_s,
        threads=threads,
        source=PROFILE,
        engine=ObservedEngine("clickhouse", query.version, settings=dict(query.settings)),
        buffered=True,
        cpu_s=cpu_us / 1e6 or None,
        statement=CountedStatement(query.normalized_hash, query.query, 1, 1),
        files=max(1, query.event("ExternalProcessingFilesTotal")),
        notes=[] if query.is_initial else [_PART],
    )


def _threads(query: LoggedQuery) -> Bounds[float]:
    """Bounds of the number of threads that shared the temp I/O."""
    limit = query.settings.get("max_threads", "")
    number = int(limit) if limit.isdecimal() and int(limit) else query.threads or _THREADS_MAX
    reason = "the query log does not contain how many of its threads spilled"
    return Bounds(1.0, float(number), reason, _REMEDY)


def _reads(query: LoggedQuery, temp_bytes: int) -> _Side:
    """Reads by the query's own threads: all are of temp files if a pool reads tables."""
    total = query.event("ReadBufferFromFileDescriptorReadBytes")
    total -= query.event(*(f"{name}Bytes" for name in _POOL))
    elapsed_us = query.event("DiskReadElapsedMicroseconds")
    elapsed_us -= query.event(*(f"{name}ElapsedMicroseconds" for name in _POOL))
    count = query.event("ReadBufferFromFileDescriptorRead")
    # A join may read temp files several times; other operators once, or less with LIMIT.
    is_all_temp = total <= (1 + _SAME) * temp_bytes or (
        query.event(*_POOL) > 0 and query.event("ExternalJoinWritePart") > 0
    )
    bounds: tuple[float, float] = (total, total) if is_all_temp else (temp_bytes, total)
    if not query.event("ReadBufferFromFileDescriptorReadBytes"):
        bounds = 0, temp_bytes
    return _side(query, "reads", bounds, count, total, elapsed_us)


def _side(
    query: LoggedQuery,
    ops: str,
    temp_bytes: tuple[float, float],
    count: int,
    total_bytes: int,
    elapsed_us: int,
) -> _Side:
    """Temp I/O of ``temp_bytes``, a part of the counted operations and times of all files."""
    lower, upper = temp_bytes
    is_counted = count > 0 and total_bytes > 0
    if not is_counted or upper > (1 + _SAME) * total_bytes:
        counts = lower / _BUFFER_BYTES, max(1.0, upper / _SMALL_BYTES)
        because = "temp files are not on a local disk" if is_counted else f"it counts no {ops}"
        return _Side(temp_bytes, counts, (0.0, query.elapsed_s / 2), because)
    elapsed_s = max(elapsed_us, 0) / 1e6
    if lower >= (1 - _SAME) * total_bytes:
        return _Side((upper, upper), (count, count), (elapsed_s, elapsed_s))
    fewest = min(count, max(1.0, lower / _BUFFER_BYTES))
    all_size, temp_size = format_bytes(total_bytes), format_bytes(lower)
    because = f"it {ops} {all_size} of all files, of which {temp_size} or more are temp files"
    return _Side(temp_bytes, (fewest, count), (0.0, elapsed_s), because)


def _selected(queries: Sequence[LoggedQuery], selection: Selection) -> LoggedQuery:
    """The query with this item, identifier or hash, or the only one that spills."""
    if selection.queryid is not None:
        name = selection.queryid
        queries = [query for query in queries if name in (query.query_id, query.normalized_hash)]
        if not queries:
            text = f"no query has query_id or normalized_query_hash {name}"
            raise SelectionEmpty(text, "the export has both columns")
    spilling = [query for query in queries if spilled_bytes(query)] or queries[:1]
    if selection.item is None and len(spilling) == 1:
        return spilling[0]
    items = [
        SelectableRun(
            query, query.elapsed_s, size_bytes=spilled_bytes(query), text=query.query or ""
        )
        for query in queries
    ]
    return select(items, selection, " or --queryid, or rank them: spillcast clickhouse FILE")
