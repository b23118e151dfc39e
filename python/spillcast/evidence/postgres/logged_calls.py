"""Calls of which a log tells the temp files and the duration: bounds of what their I/O took."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import EvidenceIncomplete
from spillcast.evidence.counts import Bounds, Counts
from spillcast.evidence.figures.choice import LISTED, TEXT_MAX, ambiguous, item_of
from spillcast.evidence.postgres.counted import counts_of_blocks
from spillcast.evidence.postgres.logs import Logs, TempFile
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, MEMORY_BLOCK_S, TempIO
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Statement
from spillcast.text import one_line
from spillcast.units import format_bytes, format_duration

_TIMES = "set auto_explain.log_analyze and track_io_timing for plans with times"


def counts_of_files(
    path: Path,
    logs: Logs,
    *,
    elapsed_s: float | None = None,
    timed: bool = True,
    item: int | None = None,
) -> Counts:
    """The counts of one call, each file written once and read once.

    InputError where there are several calls, and where no duration is known.
    """
    if not logs.temp:
        limit = logs.exceeded[0].limit
        raise EvidenceIncomplete(
            f"{path}: no temp file and no plan, but a call that spilled more than {limit} allows",
            "forecast a plan or a recording of it; spillcast postgres lists all such calls",
        )
    by_call: dict[tuple[str, int], list[TempFile]] = {}
    for at, file in enumerate(logs.temp):
        key = ("call", file.call) if file.call else ("file", at)
        by_call.setdefault(key, []).append(file)
    calls = list(by_call.values())
    files = _picked(path, calls, item)
    took_s = elapsed_s or files[0].elapsed_s
    if took_s is None:
        raise EvidenceIncomplete(
            f"{path}: the log has the size of temp files, and not how long the call took",
            "give it with --elapsed, or set log_min_duration_statement = 0",
        )
    blocks = max(1, round(sum(file.bytes for file in files) / BLOCK_BYTES))
    time_bounds = Bounds(
        min(2 * blocks * MEMORY_BLOCK_S, took_s),
        took_s,
        "the log tells only how long the call took",
        _TIMES,
    )
    query = files[0].query
    return counts_of_blocks(
        path,
        took_s,
        TempIO(blocks, blocks, None, None),
        ObservedEngine("postgresql", query=query),
        files=len(files),
        statement=Statement(files[0].queryid, query, 1, len(calls)),
        time_bounds=time_bounds if timed else None,
        notes=["each temp file is assumed to be written once and read once"],
    )


def _picked(
    path: Path, calls: Sequence[Sequence[TempFile]], item: int | None
) -> Sequence[TempFile]:
    if item is not None:
        return item_of(path, calls, item)
    if len(calls) == 1:
        return calls[0]
    sizes = [sum(file.bytes for file in files) for files in calls]
    largest = sorted(range(len(calls)), key=lambda at: -sizes[at])[:LISTED]
    rows = [
        (
            f"{at + 1}",
            "-" if (took_s := calls[at][0].elapsed_s) is None else format_duration(took_s),
            format_bytes(sizes[at]),
            one_line(calls[at][0].query or "?", TEXT_MAX),
        )
        for at in largest
    ]
    summary = f"{path}: {len(calls):,} calls with temp files, the largest first:"
    hint = "name one with --item; spillcast postgres ranks all statements of a log"
    names = ("item", "elapsed", "temp files", "statement")
    raise ambiguous(summary, names, rows, len(calls), hint)
