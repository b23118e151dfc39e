"""Rows of pg_stat_statements, exported as CSV or JSON: one query's mean -> counts."""

from pathlib import Path

from spillcast.errors import Refusal, TimesContradictory
from spillcast.evidence.counts import Bounds, Counts, feasible_processes, middle_processes
from spillcast.evidence.postgres.counted import counts_of_blocks
from spillcast.evidence.postgres.nodes import MEMORY_BLOCK_S, TempIO
from spillcast.evidence.postgres.statement_choice import chosen
from spillcast.evidence.postgres.statement_processes import processes_of
from spillcast.evidence.postgres.statement_rows import PER_GATHER, Row, read_rows
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import Statement

_FROM = "or name the storage with --from"
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
    if temp.total_s == 0:
        temp = TempIO(temp.read, temp.written, None, None)
    elapsed_s = elapsed_s or row.elapsed_s / row.calls
    try:
        other_s = row.other_s / row.calls
        shared = feasible_processes(processes_of(row), elapsed_s, temp.total_s, other_s)
    except Refusal as refusal:
        raise TimesContradictory(f"{path}: {refusal}", _MORE_PROCESSES) from refusal
    return counts_of_blocks(
        path,
        elapsed_s,
        temp,
        ObservedEngine("postgresql", query=row.query),
        processes=middle_processes(shared),
        processes_bounds=None if shared.lower == shared.upper else shared,
        time_bounds=_time_bounds(row, temp, elapsed_s, shared)
        if timed and not temp.total_s
        else None,
        statement=Statement(row.queryid, row.query, row.calls, 1, row.spread),
    )


def _time_bounds(
    row: Row, temp: TempIO, elapsed_s: float, processes: Bounds[float]
) -> Bounds[float]:
    """From memory's speed to all of a call but other I/O, in all processes."""
    upper_s = max(elapsed_s - row.other_s / row.calls / processes.upper, 0.1 * elapsed_s)
    upper_s *= middle_processes(processes)
    lower_s = min(temp.blocks * MEMORY_BLOCK_S, upper_s)
    why = "its times are 0 or missing, so it took from the speed of memory to the whole call"
    return Bounds(lower_s, upper_s, why, _NO_TIMES if row.read_s is None else _UNTIMED)


def _temp_of_a_call(row: Row) -> TempIO:
    read, written = (round(blocks / row.calls) for blocks in (row.read_blocks, row.written_blocks))
    read_s, write_s = (None if s is None else s / row.calls for s in (row.read_s, row.write_s))
    return TempIO(read, written, read_s, write_s)
