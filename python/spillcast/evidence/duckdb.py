"""Reads a profile of DuckDB in JSON: the elapsed time of a query and the size of its temp files."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillcast.document import key
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
#: An upper bound of the bytes written over the peak size of the files: 1.0 to 2.3 in recorded
#: sorts, joins, aggregates and windows. Each block is read once, because reading removes it.
WRITTEN_MAX = 3.0
#: The same over the larger of ``total_bytes_spilled`` and the peak: 1.0 to 1.4 was observed.
SPILLED_MAX = 2.0
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
    #: A lower bound of the bytes written to them.
    total_bytes_spilled: int | None = key("", unit="bytes", optional=True)


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a profile, between the least and the most temp I/O.

    InputError if it is damaged, lacks the size of temp files, or if there were none.
    """
    profile = _metrics(text_of(path, bytes_max=JSON_LENGTH_MAX))
    of_query, of_database = profile.peak_temp_dir_size, profile.system_peak_temp_dir_size
    lower = of_query or min(SMALLEST_BYTES, of_database or 0)
    upper = WRITTEN_MAX * (of_query or of_database or 0)
    if profile.total_bytes_spilled is not None:
        lower = max(of_query or 0, profile.total_bytes_spilled)
        upper = SPILLED_MAX * lower
    if not upper:
        raise NoTempIo("this query does not spill: its temp files held nothing")
    query = None if profile.query_name is None else masked_text(profile.query_name)
    sizes = f"{format_bytes(SMALLEST_BYTES)} to {format_bytes(LARGEST_BYTES)}"
    words = (
        f"a profile of DuckDB contains no reads and writes: it wrote {format_bytes(lower)} to "
        f"{format_bytes(upper)} to temp files, in blocks of {sizes}, by 1 to {THREADS_MAX} threads"
    )
    elapsed_s = selection.elapsed_s or profile.latency
    fewest = dict.fromkeys(OPS, (lower / LARGEST_BYTES, lower))
    most = dict.fromkeys(OPS, (upper / SMALLEST_BYTES, upper))
    times = times_up_to(elapsed_s, 1, 1, "a profile has no times of it", _HINT)
    return counts_of_figures(
        selection,
        times.bounded(fewest, most, words, _HINT),
        elapsed_s=elapsed_s,
        source=PROFILE,
        engine=ObservedEngine("duckdb"),
        buffered=True,
        processes_bounds=Bounds(
            1.0, THREADS_MAX, "a profile does not contain the number of threads", _HINT
        ),
        statement=CountedStatement(None, query, 1, 1),
        notes=[
            "the size of temp files is that of all queries in the database meanwhile, and before "
            "DuckDB 2 of all since it was opened"
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
    if not _NEWER.search(text) and _SORTS.search(text):
        raise EvidenceIncomplete(
            "a sort, in a profile without total_bytes_written: before DuckDB 1.4, which "
            "adds that metric, it writes its temp files several times, which no metric counts",
            f"with DuckDB 1.4 or newer turn that metric on, or leave out "
            f"custom_profiling_settings; {_HINT}",
        )
    return profile


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
    query, system = document.get("query"), document.get("system", {})
    if not isinstance(query, dict) or not isinstance(system, dict):
        raise damaged("it has no latency, and no groups query and system")
    pairs = {
        "latency": query.get("total_time"),
        "cpu_time": query.get("cpu_time"),
        "query_name": query.get("sql"),
        "peak_temp_dir_size": system.get("peak_temp_dir_size"),
        "total_bytes_spilled": system.get("total_bytes_spilled"),
    }
    return {name: value for name, value in pairs.items() if value is not None}
