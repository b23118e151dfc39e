"""Which statement of an export is meant: the one that is named, or the only one that spills."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import InputError, NoTempIo, SelectionEmpty
from spillcast.evidence.figures.choice import LISTED, TEXT_MAX, ambiguous
from spillcast.evidence.postgres.nodes import BLOCK_BYTES
from spillcast.evidence.postgres.statement_rows import Row
from spillcast.text import one_line
from spillcast.units import format_bytes, format_duration


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
        raise several(path, spilling, summary)
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


def several(path: Path, rows: Sequence[Row], summary: str) -> InputError:
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
