"""A query of system.query_log as counts: temp files by the events of its reads and writes.

ClickHouse counts the bytes of temp files, and I/O of all files together. Temp files are written
and read by the query's own threads with write and pread. Tables are read by a pool of threads,
which is counted apart, unless the setting local_filesystem_read_method says otherwise. So what
is left of all I/O is that of temp files, and the bytes tell whether it is. Where they differ,
bounds remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import NoTempIo, SelectionEmpty
from spillcast.evidence.choice import Selection, ambiguous_items, item_of
from spillcast.evidence.clickhouse.rows import LoggedQuery, read_rows
from spillcast.evidence.counts import Bounds, Counts, OpCounts, feasible_processes
from spillcast.evidence.figures.figures import PROFILE, counts_of_figures, with_io_bounds
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.server_meta import Statement
from spillcast.units import format_bytes

#: What spills, by the part of the events' names, with the settings that limit its memory. Where a
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
#: The pool of threads that reads tables, by what it found in the page cache.
_POOL = ("ThreadPoolReaderPageCacheHit", "ThreadPoolReaderPageCacheMiss")
#: Every event that is read here.
SPILL_EVENTS = (
    *(f"External{kind}{unit}" for kind in SPILLS for unit in ("WritePart", "CompressedBytes")),
    *("ExternalProcessingCompressedBytesTotal", "ExternalProcessingUncompressedBytesTotal"),
    *("ExternalProcessingFilesTotal", "OSCPUVirtualTimeMicroseconds", "UserTimeMicroseconds"),
    *("SystemTimeMicroseconds", "DiskReadElapsedMicroseconds", "DiskWriteElapsedMicroseconds"),
    *("ReadBufferFromFileDescriptorRead", "ReadBufferFromFileDescriptorReadBytes"),
    *("WriteBufferFromFileDescriptorWrite", "WriteBufferFromFileDescriptorWriteBytes"),
    *(f"{pool}{unit}" for pool in _POOL for unit in ("", "Bytes", "ElapsedMicroseconds")),
)
_TOTAL = "ExternalProcessingCompressedBytesTotal"
_UNCOMPRESSED = "ExternalProcessingUncompressedBytesTotal"
#: The buffer of a temp file, and the smallest mean size of its operations: small files and ends.
_BUFFER_BYTES, _SMALL_BYTES = 1 << 20, 32 << 10
#: Bytes of headers by which counts of the same I/O differ.
_SAME = 0.02
#: Threads where nothing bounds them.
_THREADS_MAX = 64
_PART = "another server sent this query, as a part of a distributed one"
_REMEDY = "a recording of the query shows it: spillcast record --pid PID"


@dataclass(frozen=True)
class _Side:
    """Bounds of the reads, or the writes, of temp files."""

    bytes: tuple[float, float]
    count: tuple[float, float]
    time_s: tuple[float, float]
    #: What the log leaves open, in words; empty where nothing is.
    open_because: str = ""

    @property
    def ends(self) -> tuple[OpCounts, OpCounts]:
        """The fewest and the most operations, of the time in the middle."""
        lower, upper = (
            OpCounts.timed(round(self.count[at]), round(self.bytes[at]), sum(self.time_s) / 2)
            for at in (0, 1)
        )
        return lower, upper

    @property
    def middle(self) -> OpCounts:
        """Between both ends, by the geometric mean."""
        count, size_bytes = (
            (ends[0] * ends[1]) ** 0.5 if ends[0] else ends[1] / 2
            for ends in (self.count, self.bytes)
        )
        return OpCounts.timed(max(1, round(count)), round(size_bytes), sum(self.time_s) / 2)


def read(paths: Sequence[Path], selection: Selection) -> Counts:
    """The counts of the selected query, or of the only one that spills."""
    [path] = paths
    return counts_of_query(path, _selected(path, read_rows(path), selection), selection)


def spilled_bytes(query: LoggedQuery) -> int:
    """Bytes that its temp files held, compressed."""
    kinds = query.event(*(f"External{kind}CompressedBytes" for kind in SPILLS))
    return query.event(_TOTAL) or kinds or (_all_written(query) if _spills(query) else 0)


def no_spill_bytes(query: LoggedQuery) -> tuple[int, int] | None:
    """Bounds of the memory in which it would not have spilled; None if the log has no peak.

    Memory in place of temp files took 1.05 to 3.7 times the uncompressed bytes in measured
    joins, aggregations and DISTINCT: hash tables are partly empty, and double as they grow.
    """
    uncompressed = query.event(_UNCOMPRESSED)
    if query.peak_memory_bytes is None or not uncompressed:
        return None
    return query.peak_memory_bytes, query.peak_memory_bytes + 4 * uncompressed


def settings_that_spill(query: LoggedQuery) -> list[str]:
    """The settings beyond which it spilled, by what spilled."""
    limits = [names for kind, names in SPILLS.items() if query.event(f"External{kind}WritePart")]
    usual = -1 if query.settings else 0
    return [
        next((name for name in names if query.settings.get(name, "0") != "0"), names[usual])
        for names in limits
    ]


def counts_of_query(path: Path, query: LoggedQuery, selection: Selection) -> Counts:
    """The counts of one query. NoTempIo where it does not spill."""
    written = spilled_bytes(query)
    if not written:
        raise NoTempIo(f"{path}: this query does not spill: no event of temp files was counted")
    writes, reads = _writes(query, written), _reads(query, written)
    sides = reads, writes
    time_s = [sum(side.time_s[at] for side in sides) for at in (0, 1)]
    elapsed_s = selection.elapsed_s or query.elapsed_s
    threads = feasible_processes(_threads(query), elapsed_s, sum(time_s) / 2)
    reasons = [side.open_because for side in sides if side.open_because]
    time_bounds = None
    if time_s[0] < time_s[1]:
        reason = reasons[0] if reasons else "other I/O was timed with it"
        time_bounds = Bounds(time_s[0], time_s[1], reason, _REMEDY)
    cpu_us = query.event("OSCPUVirtualTimeMicroseconds") or query.event(
        "UserTimeMicroseconds", "SystemTimeMicroseconds"
    )
    counts = counts_of_figures(
        path,
        selection,
        elapsed_s=query.elapsed_s,
        threads=threads.upper,
        reads=reads.middle if reads.count[1] else OpCounts(),
        writes=writes.middle,
        source=PROFILE,
        engine=ObservedEngine("clickhouse", query.version, settings=dict(query.settings)),
        processes_bounds=threads if threads.upper > 1 else None,
        time_bounds=time_bounds,
        cpu_s=cpu_us / 1e6 or None,
        statement=Statement(query.normalized_hash, query.query, 1, 1),
        files=max(1, query.event("ExternalProcessingFilesTotal")),
        notes=[] if query.is_initial else [_PART],
    )
    if not reasons:
        return counts
    lower, upper = ((reads.ends[at], writes.ends[at]) for at in (0, 1))
    words = f"the query log leaves temp I/O open: {'; '.join(dict.fromkeys(reasons))}"
    return with_io_bounds(counts, lower, upper, words, _REMEDY)


def _spills(query: LoggedQuery) -> bool:
    return query.event(*(f"External{kind}WritePart" for kind in SPILLS)) > 0


def _all_written(query: LoggedQuery) -> int:
    return query.event("WriteBufferFromFileDescriptorWriteBytes")


def _threads(query: LoggedQuery) -> Bounds[float]:
    """Bounds of the threads that shared the temp I/O."""
    limit = query.settings.get("max_threads", "")
    number = int(limit) if limit.isdecimal() and int(limit) else query.threads or _THREADS_MAX
    reason = "the query log does not contain how many of its threads spilled"
    return Bounds(1.0, float(number), reason, _REMEDY)


def _writes(query: LoggedQuery, temp_bytes: int) -> _Side:
    count = query.event("WriteBufferFromFileDescriptorWrite")
    elapsed_us = query.event("DiskWriteElapsedMicroseconds")
    return _side(query, "writes", (temp_bytes, temp_bytes), count, _all_written(query), elapsed_us)


def _reads(query: LoggedQuery, temp_bytes: int) -> _Side:
    """What the query's own threads read: all of it is of temp files if a pool reads tables."""
    total = query.event("ReadBufferFromFileDescriptorReadBytes")
    total -= query.event(*(f"{name}Bytes" for name in _POOL))
    elapsed_us = query.event("DiskReadElapsedMicroseconds")
    elapsed_us -= query.event(*(f"{name}ElapsedMicroseconds" for name in _POOL))
    count = query.event("ReadBufferFromFileDescriptorRead")
    # A join may read temp files several times; all else reads them once, or less with LIMIT.
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
    """Temp I/O of these bytes among ``count`` operations of all files, which took so long."""
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


def _selected(path: Path, queries: Sequence[LoggedQuery], selection: Selection) -> LoggedQuery:
    """The query with this item, identifier or hash, or the only one that spills."""
    if selection.queryid is not None:
        names = (selection.queryid,)
        queries = [query for query in queries if {query.query_id, query.normalized_hash} & {*names}]
        if not queries:
            text = f"{path}: no query has query_id or normalized_query_hash {selection.queryid}"
            raise SelectionEmpty(text, "the export has both columns")
    if selection.item is not None:
        return item_of(path, queries, selection.item)
    spilling = [query for query in queries if spilled_bytes(query)] or queries[:1]
    if len(spilling) == 1:
        return spilling[0]
    raise ambiguous_items(
        f"{path}: {len(spilling):,} queries spill; those with the largest temp files:",
        [(query.elapsed_s, spilled_bytes(query), query.query or "") for query in queries],
        ("temp files", "query"),
        "name one with --item or --queryid, or rank them: spillcast clickhouse FILE",
    )
