"""DuckDB's profile of a query in JSON: its elapsed time, and how large its temp files grew."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spillcast.document import key
from spillcast.document import read as read_document
from spillcast.errors import EvidenceAmbiguous, EvidenceIncomplete, InputError, NoTempIo
from spillcast.evidence.figures.choice import Choice
from spillcast.evidence.figures.figures import PROFILE, Figures, Moved
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import JSON_LENGTH_MAX, damaged, json_values
from spillcast.recording.ends import Unknown
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Statement
from spillcast.recording.shared_by import SharedBy
from spillcast.redaction import struck_text
from spillcast.units import format_bytes, parse_duration_s

#: Blocks of temp files: compressed ones are smaller, by steps as large as the smallest.
SMALLEST_BYTES, LARGEST_BYTES = 32 << 10, 256 << 10
#: What was written over the most that the files held: 1.0 to 2.3 in sorts, joins, aggregates and
#: windows that were recorded; each block is read once, for then it leaves the file.
WRITTEN_LEAST, WRITTEN_MOST = 1.0, 3.0
#: Threads that may have shared it.
THREADS_MOST = 64
HOW = (
    "make it with: PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = 'profile.json'; "
    "then the query"
)
_HINT = "a recording of the query shows it: spillcast record -o run.spill -- COMMAND"
_MEMBER = r'"[\w-]+"\s*:'
#: The end of EXPLAIN ANALYZE's box.
_BOX = re.compile(r"[│|┃]\s*Total Time:\s*([\d.]+\s*[mun]?s)\b")
#: Before it there is no size of temp files in a profile.
_SIZED = "DuckDB 1.2 and newer report it, unless the metric is turned off"


@dataclass(frozen=True)
class OldestProfile:
    """The top of a profile of DuckDB 0.10 and older."""

    timing: float = key("", unit="s")
    total_bytes_spilled: int | None = key("", unit="bytes", optional=True)


@dataclass(frozen=True)
class OldProfile:
    """The top of a profile of DuckDB 1."""

    latency: float = key("", unit="s")
    query_name: str | None = key("", optional=True)
    system_peak_temp_dir_size: int | None = key("", unit="bytes", optional=True)


@dataclass(frozen=True)
class Query:
    """Of DuckDB 2, the group of this name."""

    total_time: float = key("", unit="s")
    sql: str | None = key("", optional=True)


@dataclass(frozen=True)
class System:
    """Of DuckDB 2, the group of this name."""

    peak_temp_dir_size: int | None = key("", unit="bytes", optional=True)


@dataclass(frozen=True)
class NewProfile:
    """The groups of a profile of DuckDB 2."""

    query: Query = key("")
    system: System | None = key("", optional=True)


def read(paths: Sequence[Path], _choice: Choice) -> Figures:
    """The figures of a profile, between those of the least and of the most temp I/O.

    InputError where it is damaged, lacks the size of temp files, or where there were none.
    """
    [path] = paths
    text = text_of(path, HOW, bytes_max=JSON_LENGTH_MAX)
    if (box := _BOX.search(text)) is not None:
        raise _unsized(path, parse_duration_s(box[1]))
    documents = list(json_values(unwrapped(text), path, HOW, _MEMBER))
    if len(documents) > 1:
        raise EvidenceAmbiguous(
            f"{path}: {len(documents)} profiles", "give one, in a file of its own"
        )
    if not documents or not isinstance(documents[0], dict):
        raise damaged(path, "it is not an object", HOW)
    elapsed_s, query, peak_bytes = _facts_of(documents[0], path)
    if peak_bytes is None:
        raise _unsized(path, elapsed_s)
    if not peak_bytes:
        raise NoTempIo(f"{path}: this query does not spill: its temp files held nothing")
    middle = (WRITTEN_LEAST * WRITTEN_MOST) ** 0.5, (SMALLEST_BYTES * LARGEST_BYTES) ** 0.5
    figures = Figures(
        path=path,
        elapsed_s=elapsed_s,
        reads=Moved(),
        writes=Moved(),
        engine=ObservedEngine("duckdb"),
        capture=PROFILE,
        shared_by=SharedBy(1, THREADS_MOST, "a profile does not contain the number of threads"),
        statement=Statement(None, None if query is None else struck_text(query), 1, 1),
        untold=[
            "the size of temp files is that of all queries that ran in the database meanwhile",
        ],
    )
    least, most = (
        _with(figures, peak_bytes * factor, size)
        for factor, size in ((WRITTEN_LEAST, LARGEST_BYTES), (WRITTEN_MOST, SMALLEST_BYTES))
    )
    times = f"{WRITTEN_LEAST:.0f} to {WRITTEN_MOST:.0f} times"
    sizes = f"{format_bytes(SMALLEST_BYTES)} to {format_bytes(LARGEST_BYTES)}"
    words = (
        f"a profile of DuckDB contains no reads and writes, only that its temp files held "
        f"{format_bytes(peak_bytes)} at most: it may have written {times} as much, in blocks of "
        f"{sizes}, by 1 to {THREADS_MOST} threads"
    )
    between = _with(figures, peak_bytes * middle[0], middle[1])
    return replace(between, ends=(least, most), unknown=Unknown(words, _HINT))


def _unsized(path: Path, elapsed_s: float) -> InputError:
    """A profile that tells nothing of temp files: what else does."""
    return EvidenceIncomplete(
        f"{path}: the profile has no size of temp files",
        f"{_SIZED}: {HOW}; or, if you know what spilled: "
        f"figures:elapsed={elapsed_s:.6g}s,spilled=12G,size=256K",
    )


def _facts_of(document: dict[str, Any], path: Path) -> tuple[float, str | None, int | None]:
    """Elapsed time (s), the statement and the most that temp files held (bytes)."""
    if "latency" not in document and "timing" in document:
        oldest = read_document(OldestProfile, document, str(path), HOW)
        return oldest.timing, None, oldest.total_bytes_spilled
    if "latency" in document:
        old = read_document(OldProfile, document, str(path), HOW)
        return old.latency, old.query_name, old.system_peak_temp_dir_size
    new = read_document(NewProfile, document, str(path), HOW)
    peak_bytes = None if new.system is None else new.system.peak_temp_dir_size
    return new.query.total_time, new.query.sql, peak_bytes


def _with(figures: Figures, moved_bytes: float, size_bytes: float) -> Figures:
    """Where so much was written and read again, in blocks of this size."""
    moved = Moved(max(1, round(moved_bytes / size_bytes)), round(moved_bytes))
    return replace(figures, reads=moved, writes=moved)
