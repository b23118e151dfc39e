"""Reads a profile of DuckDB in JSON: the elapsed time of a query and the size of its temp files."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.document import internal, key
from spillcast.document import read as read_document
from spillcast.errors import EvidenceAmbiguous, EvidenceIncomplete, InputError, NoTempIo
from spillcast.evidence.counts import PROFILE, Bounds, Counts, counts_of_figures, times_up_to
from spillcast.evidence.numbers import quantity_of
from spillcast.evidence.selection import Selection
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import JSON_LENGTH_MAX, damaged, json_values, reading
from spillcast.recording import OPS
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.units import format_bytes, parse_duration_s

#: Sizes of blocks of temp files: compressed blocks are multiples of the smallest.
SMALLEST_BYTES, LARGEST_BYTES = 32 << 10, 256 << 10
#: An upper bound of the bytes written over the largest metric of them: 1.0 to 3.0 in recorded
#: joins, aggregates and, since DuckDB 2, sorts and windows. It is observed, as the next two are:
#: any block that is not in use may be evicted, and again after it was read, which removes it
#: (src/storage/standard_buffer_manager.cpp).
WRITTEN_MAX = 3.0
#: The same for sorts and windows of DuckDB 1.4 and 1.5, whose only metric is the peak: 1.0 to 6.8
#: was recorded. No metric bounds it: in little memory, blocks return to disk after each use.
SORTED_MAX = 10.0
#: The same with ``total_bytes_spilled``: 1.0 to 1.7 was recorded.
SPILLED_MAX = 2.0
_SORTED = (
    "in little memory, sorts and windows write their temp files several times, which DuckDB 1 does "
    f"not count: the upper bound, {SORTED_MAX:.0f} times the peak size, may be too low"
)
#: The maximum number of threads that may have shared temp I/O.
THREADS_MAX = 64
HINT = (
    "make it with: PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = 'profile.json'; "
    "then the query"
)
_HINT = "a recording of the query shows it: spillcast record -o run.spill -- COMMAND"
#: The end of the box of EXPLAIN ANALYZE.
_BOX = re.compile(r"[│|┃]\s*Total Time:\s*([\d.]+\s*[mun]?s)\b")
#: Older versions have no size of temp files in a profile.
_SIZED = "DuckDB 1.3 and newer report it, unless the metric is turned off"
#: A key of profiles since DuckDB 1.4; within a statement, quotes would be escaped.
_NEWER = re.compile(r'"total_bytes_\w+"\s*:')
#: Operators that sort. Up to 1.3, sorts wrote 6 to 9 times the peak size, or reported a peak of 0.
_SORTS = re.compile(
    r'"operator_type":\s*"(?:ORDER_BY|WINDOW|IE_JOIN|ASOF_JOIN|PIECEWISE_MERGE_JOIN)"'
)
#: Operators that sort within a call. Their temp files may come and go between two samples.
_UNSAMPLED = re.compile(
    r'"(?:operator_)?type":\s*"(?:WINDOW|IE_JOIN|ASOF_JOIN|PIECEWISE_MERGE_JOIN)"'
)


@dataclass(frozen=True)
class DuckDBMetrics:
    """The metrics of a profile that concern temp files, by the names of DuckDB 1 or 2."""

    latency: float = key("", unit="s")
    #: The sum of all operators: 0 if they were not summed.
    cpu_time: float | None = key("", unit="s", optional=True)
    query_name: str | None = key("", optional=True)
    #: The peak size of temp files: since the database was opened, and during the query.
    system_peak_temp_dir_size: int | None = key("", unit="bytes", optional=True)
    peak_temp_dir_size: int | None = key("", unit="bytes", optional=True)
    #: A lower bound of the bytes written to them: some threads do not count theirs.
    total_bytes_spilled: int | None = key("", unit="bytes", optional=True)
    #: Bytes read and written since DuckDB 2, of temp files and of tables.
    read_bytes: int = key("", unit="bytes", default=0, optional=True)
    written_bytes: int = key("", unit="bytes", default=0, optional=True)
    #: Whether it sorts, in DuckDB 1.
    sorts: bool = internal(False)
    unsampled: bool = internal(False)


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a profile, between the least and the most temp I/O.

    InputError if it is damaged, lacks the size of temp files, or if there were none.
    """
    profile = _metrics(text_of(path, bytes_max=JSON_LENGTH_MAX))
    peak = profile.peak_temp_dir_size or profile.system_peak_temp_dir_size or 0
    spilled, written = profile.total_bytes_spilled, profile.written_bytes
    if not (peak or (written if spilled is None else spilled)):
        doubt, remedy = "", _HINT
        if spilled is None and profile.unsampled:
            doubt = "; a window or another sort may have spilled meanwhile"
            remedy = f"DuckDB 2.0.1 and newer count it in total_bytes_spilled; {_HINT}"
        raise NoTempIo(
            "this query does not spill, as far as its profile shows: whenever an operator "
            f"returned, the temp files were empty{doubt}",
            remedy,
        )
    # The peak includes tables in memory that earlier queries moved to disk.
    lower = max(SMALLEST_BYTES, min(written, peak) if spilled is None else spilled)
    most = SORTED_MAX if profile.sorts else WRITTEN_MAX if spilled is None else SPILLED_MAX
    upper = most * max(lower, peak, written, profile.read_bytes)
    query = None if profile.query_name is None else masked_text(profile.query_name)
    sizes = f"{format_bytes(SMALLEST_BYTES)} to {format_bytes(LARGEST_BYTES)}"
    words = (
        f"a profile of DuckDB contains no reads and writes: it wrote {format_bytes(lower)} to "
        f"{format_bytes(upper)} to temp files, in blocks of {sizes}, by 1 to {THREADS_MAX} threads"
    )
    elapsed_s = selection.elapsed_s or profile.latency
    # A query with a LIMIT leaves blocks unread.
    fewest = {"read": (0, 0), "write": (lower / LARGEST_BYTES, lower)}
    largest = dict.fromkeys(OPS, (upper / SMALLEST_BYTES, upper))
    times = times_up_to(elapsed_s, 1, 1, "a profile has no times of it", _HINT)
    return counts_of_figures(
        selection,
        times.bounded(fewest, largest, words, _HINT),
        elapsed_s=elapsed_s,
        source=PROFILE,
        engine=ObservedEngine("duckdb"),
        buffered=True,
        threads=Bounds(1.0, THREADS_MAX, "a profile does not contain the number of threads", _HINT),
        statement=CountedStatement(None, query, 1, 1),
        notes=[
            "the size of temp files is that of all queries in the database meanwhile, and before "
            "DuckDB 2 of all since it was opened",
            *([_SORTED] if profile.sorts else []),
        ],
    )


def _metrics(text: str) -> DuckDBMetrics:
    """The metrics of the only profile of a text. InputError without those of temp files."""
    if (box := _BOX.search(text)) is not None:
        raise _unsized(quantity_of(parse_duration_s, box[1], "Total Time"))
    text = unwrapped(text)
    values = json_values(text)
    lists = (value if isinstance(value, list) else [value] for value in values)
    documents = [document for documents in lists for document in documents]
    if len(documents) > 1:
        raise EvidenceAmbiguous(f"{len(documents)} profiles", "give one, in a file of its own")
    if not documents or not isinstance(documents[0], dict):
        raise damaged("no line begins its JSON: the first is missing or begins with other text")
    profile = read_document(DuckDBMetrics, _renamed(documents[0]))
    if profile.cpu_time == 0:
        raise EvidenceIncomplete(
            "the profile has no sums of its operators: the query failed, or EXPLAIN of DuckDB 1.1 "
            "to 1.4 printed it, which leaves out latency and temp files",
            f"{HINT}; {_HINT}",
        )
    sizes = profile.peak_temp_dir_size, profile.system_peak_temp_dir_size
    if sizes == (None, None) and profile.total_bytes_spilled is None:
        raise _unsized(profile.latency)
    sorts = _SORTS.search(text) is not None
    if sorts and not _NEWER.search(text):
        raise EvidenceIncomplete(
            "a sort, in a profile without total_bytes_written: before DuckDB 1.4, which "
            "adds that metric, it writes its temp files several times, which no metric counts",
            f"with DuckDB 1.4 or newer turn that metric on, or leave out "
            f"custom_profiling_settings; {_HINT}",
        )
    return replace(profile, sorts=sorts, unsampled=_UNSAMPLED.search(text) is not None)


def _unsized(elapsed_s: float) -> InputError:
    """The error for a profile without figures of temp files, with other sources for them."""
    return EvidenceIncomplete(
        "the profile has no size of temp files",
        f"{_SIZED}: {HINT}; or, if you know what spilled: "
        f"figures:elapsed={elapsed_s:.6g}s,spilled=12G,size=256K",
    )


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    """The metrics by the names of DuckDB 1: 0.10 has only a time, and 2 has groups."""
    # A profile may be nested in another document.
    parts = (document, *document.values())
    if inner := next((p for p in parts if isinstance(p, dict) and "latency" in p), None):
        return inner
    if "timing" in document:
        return {"latency": document["timing"]}
    groups = [document.get("query"), document.get("system", {}), document.get("io", {})]
    if not all(isinstance(group, dict) for group in groups):
        raise damaged("it has no latency, and no groups query, system and io")
    query, system, files = groups
    pairs = {
        "latency": query.get("total_time"),
        "cpu_time": query.get("cpu_time"),
        "query_name": query.get("sql"),
        "peak_temp_dir_size": system.get("peak_temp_dir_size"),
        "total_bytes_spilled": system.get("total_bytes_spilled"),
        "read_bytes": files.get("total_bytes_read"),
        "written_bytes": files.get("total_bytes_written"),
    }
    return {name: value for name, value in pairs.items() if value is not None}
