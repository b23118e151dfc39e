"""Rows of pg_stat_statements, exported as CSV or JSON: one query's mean -> counts."""

import re
from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import InputError, NoTempIo, Refusal, SelectionEmpty, TimesContradictory
from spillcast.evidence.choice import LISTED, TEXT_MAX, ambiguous
from spillcast.evidence.counts import Bounds, Counts, feasible_processes
from spillcast.evidence.postgres.nodes import BLOCK_BYTES, TempIO, counts_of_blocks
from spillcast.evidence.postgres.statement_rows import MAINTENANCE, PER_GATHER, Row, read_rows
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.server_meta import Statement
from spillcast.text import one_line
from spillcast.units import format_bytes, format_count, format_duration

_FROM = "or name the storage with --from"
_NOT_TIMED = "its times are 0 or missing, so it took from the speed of memory to the whole call"
#: Of a server that could have timed it.
_UNTIMED = (
    "set track_io_timing = on, call pg_stat_statements_reset(), and export it again after some "
    f"calls; {_FROM}"
)
#: Of one that could not.
_NO_TIMES = f"PostgreSQL 15 or newer times temp I/O, as temp_blk_read_time; {_FROM}"
#: What mends more I/O than the processes could do.
_MORE_PROCESSES = (
    f"export the setting as a column, current_setting('{PER_GATHER}') as {PER_GATHER}, or forecast "
    "a plan of EXPLAIN (ANALYZE, BUFFERS)"
)
#: Workers of a query, or of making an index, where nobody has set another number.
DEFAULT_WORKERS = 2
#: A statement seen so often without a worker has one for less than a seventh of its time, 95 %
#: sure.
LOOKS_MIN = 20
#: Statements whose processes are those of a plan: others may make indexes, too.
_QUERY = re.compile(
    r"(?:\s|/\*(?:(?!\*/).)*\*/|--[^\n]*\n|\()*(?:select|with|insert|update|delete|merge)\b",
    re.IGNORECASE | re.DOTALL,
)
#: A table is read, and not a function alone: of queries within that the counts are added to those
#: of the statement that calls it, and their workers are not.
_OF_TABLES = re.compile(r"\bfrom\s+(?:only\s+)?[\w\".]+(?![\w\".]|\s*\()", re.IGNORECASE)


def read_statements(
    path: str | Path,
    *,
    queryid: str | None = None,
    elapsed_s: float | None = None,
    timed: bool = True,
) -> Counts:
    """The counts of one query: the mean of its calls.

    ``queryid`` names it where several spill. ``elapsed_s`` is the time of one call where it is
    known better. Times that were not taken have bounds, if ``timed``. InputError for a file that
    is cut or lacks columns, where no query spills, and where several do; Refusal where I/O cannot
    have been done by any number of processes that there may have been.
    """
    path = Path(path)
    row = chosen(path, read_rows(path), queryid)
    return counts_of_row(path, row, elapsed_s=elapsed_s, timed=timed)


def counts_of_row(
    path: Path, row: Row, *, elapsed_s: float | None = None, timed: bool = True
) -> Counts:
    """The same of one row, which spills; ``path`` is what an error names."""
    temp = _temp_of_a_call(row)
    elapsed_s = elapsed_s or row.elapsed_s / row.calls
    other_s = row.other_s / row.calls
    try:
        shared = feasible_processes(processes_of(row), elapsed_s, temp.total_s, other_s)
    except Refusal as refusal:
        raise TimesContradictory(f"{path}: {refusal}", _MORE_PROCESSES) from refusal
    return counts_of_blocks(
        path,
        elapsed_s,
        temp,
        ObservedEngine("postgresql", query=row.query),
        shared,
        (_NOT_TIMED, _NO_TIMES if row.read_s is None else _UNTIMED) if timed else None,
        other_s=other_s / shared.upper,
        statement=Statement(row.queryid, row.query, row.calls, 1, row.spread),
    )


def _temp_of_a_call(row: Row) -> TempIO:
    read, written = (round(blocks / row.calls) for blocks in (row.read_blocks, row.written_blocks))
    read_s, write_s = (None if s is None else s / row.calls for s in (row.read_s, row.write_s))
    return TempIO(read, written, read_s, write_s)


def chosen(path: Path, rows: Sequence[Row], queryid: str | None) -> Row:
    """The row of ``queryid``, or the only one that spills.

    InputError where there is none; where there are several it ranks them.
    """
    spilling = _ranked([row for row in rows if row.spills])
    if queryid is not None:
        named_row = named(path, rows, queryid)
        if not named_row.spills:
            raise NoTempIo(f"{path}: this query does not spill: there are no temp blocks")
        return named_row
    if not spilling:
        raise NoTempIo(f"{path}: its queries do not spill: there are no temp blocks")
    if len(spilling) > 1:
        summary = f"{len(spilling):,} statements spill, the most temp I/O first:"
        raise ambiguous_rows(path, spilling, summary)
    return spilling[0]


def named(path: Path, rows: Sequence[Row], queryid: str | None) -> Row:
    """The row of ``queryid``, whether it spills or not; without one as ``chosen``.

    InputError where there is none.
    """
    if queryid is None:
        return rows[0] if len(rows) == 1 else chosen(path, rows, None)
    match = next((row for row in rows if row.queryid == queryid.strip()), None)
    if match is None:
        spilling = _ranked([row for row in rows if row.spills])
        known = [row.queryid for row in (*spilling, *rows) if row.queryid is not None]
        examples = ", ".join(list(dict.fromkeys(known))[:5])
        raise SelectionEmpty(f"{path}: no row has queryid {queryid}", f"there are: {examples}")
    return match


def ambiguous_rows(path: Path, rows: Sequence[Row], summary: str) -> InputError:
    """That one of them is to be named, with a list of the first."""
    heading = ("queryid", "calls", "mean time", "temp I/O", "statement")
    timed = _timed(rows)
    hint = "name one with --queryid"
    if any(row.queryid is None for row in rows):
        hint += "; a role with pg_read_all_stats can export those without a queryid"
    listed = [_cells(row, timed=timed) for row in rows[:LISTED]]
    return ambiguous(f"{path}: {summary}", heading, listed, len(rows), hint)


def _cells(row: Row, *, timed: bool) -> tuple[str, ...]:
    return (
        row.queryid or "-",
        f"{row.calls:,}",
        format_duration(row.elapsed_s / row.calls),
        format_duration(row.temp_s) if timed else format_bytes(row.blocks * BLOCK_BYTES),
        one_line(row.query or "?", TEXT_MAX),
    )


def _timed(rows: Sequence[Row]) -> bool:
    return all(row.temp_s > 0 for row in rows)


def _ranked(spilling: Sequence[Row]) -> list[Row]:
    """By the time of temp I/O in all calls; by its size unless all of it was timed."""
    if _timed(spilling):
        return sorted(spilling, key=lambda row: row.temp_s, reverse=True)
    return sorted(spilling, key=lambda row: row.blocks, reverse=True)


def processes_of(row: Row) -> Bounds[float]:
    """From one process to all that its server's settings allow for."""
    query = row.query or ""
    is_query = _QUERY.match(query) is not None
    if row.workers == 0 and is_query and _OF_TABLES.search(query):
        return Bounds(1.0, 1.0, "its calls launched no parallel workers")
    if row.workers is None and row.looks >= LOOKS_MIN:
        seen = "no parallel worker"
        if row.workers_seen:
            seen = f"at most {format_count(row.workers_seen, 'parallel worker')}"
        because = f"{row.looks:,} looks at its sessions saw {seen}"
        return Bounds(1.0, 1.0 + row.workers_seen, because)
    settings = {PER_GATHER: row.per_gather, MAINTENANCE: row.maintenance}
    if is_query:
        del settings[MAINTENANCE]
    workers = {
        name: DEFAULT_WORKERS if value is None else value for name, value in settings.items()
    }
    name = max(workers, key=workers.__getitem__)
    max_workers, because = workers[name], f"{name} is {workers[name]}, as exported"
    if settings[name] is None:
        because = f"{name} is not in the file and assumed to be {max_workers}, PostgreSQL's default"
    launched = -(-(row.workers or 0) // row.calls)
    if launched > max_workers:
        max_workers, because = launched, f"a call launched about {format_count(launched, 'worker')}"
    return Bounds(1.0, 1.0 + max_workers, because)
