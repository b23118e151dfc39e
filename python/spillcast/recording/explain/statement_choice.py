"""Which statement of an export is meant: the one that is named, or the only one that spills."""

from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import InputError
from spillcast.recording.explain.nodes import BLOCK_BYTES
from spillcast.recording.explain.statement_rows import Row
from spillcast.tabular import aligned
from spillcast.units import format_bytes, format_duration

LISTED = 8
#: Columns of a statement's text in the list.
TEXT_MAX = 48


def chosen(path: Path, rows: Sequence[Row], queryid: str | None) -> Row:
    """The row of ``queryid``, or the only one that spills.

    InputError where there is none; where there are several it ranks them.
    """
    spilling = _ranked([row for row in rows if row.spills])
    if queryid is not None:
        found = next((row for row in rows if row.queryid == queryid.strip()), None)
        if found is None:
            named = [row.queryid for row in (*spilling, *rows) if row.queryid is not None]
            there = ", ".join(list(dict.fromkeys(named))[:5])
            raise InputError(f"{path}: no row has queryid {queryid}", f"there are: {there}")
        if not found.spills:
            raise InputError(f"{path}: this query does not spill: there are no temp blocks")
        return found
    if not spilling:
        raise InputError(f"{path}: its queries do not spill: there are no temp blocks")
    if len(spilling) > 1:
        raise _several(path, spilling)
    return spilling[0]


def _several(path: Path, spilling: Sequence[Row]) -> InputError:
    """Those that spill, most temp I/O first."""
    heading = ("queryid", "calls", "mean time", "temp I/O", "statement")
    timed = _timed(spilling)
    lines = aligned([heading, *(_cells(row, timed=timed) for row in spilling[:LISTED])], right=True)
    lines += [f"and {len(spilling) - LISTED:,} more"] * (len(spilling) > LISTED)
    said = f"{path}: {len(spilling):,} statements spill, the most temp I/O first:"
    hint = "name one with --queryid"
    if any(row.queryid is None for row in spilling):
        hint += "; who has the role pg_read_all_stats may export those without a queryid"
    return InputError("\n    ".join([said, *lines]), hint)


def _cells(row: Row, *, timed: bool) -> tuple[str, ...]:
    text = " ".join((row.query or "?").split())
    return (
        row.queryid or "-",
        f"{row.calls:,}",
        format_duration(row.elapsed_s / row.calls),
        format_duration(row.temp_s) if timed else format_bytes(row.blocks * BLOCK_BYTES),
        text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}...",
    )


def _timed(rows: Sequence[Row]) -> bool:
    return all(row.temp_s > 0 for row in rows)


def _ranked(spilling: Sequence[Row]) -> list[Row]:
    """By the time of temp I/O in all calls; by its size unless all of it was timed."""
    if _timed(spilling):
        return sorted(spilling, key=lambda row: row.temp_s, reverse=True)
    return sorted(spilling, key=lambda row: row.blocks, reverse=True)
