"""Rows of pg_stat_statements, exported as CSV or JSON: one query's mean -> a recording."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spillcast.errors import InputError, Refusal
from spillcast.recording.explain.counted import Counted, recording_of
from spillcast.recording.explain.nodes import TempIO
from spillcast.recording.explain.plan import TIMED
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.recording import Recording

_NEEDED = ("calls", "total_exec_time", "temp_blks_read", "temp_blks_written")
HOW = "export it with: \\copy (select * from pg_stat_statements) to 'statements.csv' csv header"


def read_statements(
    path: str | Path,
    *,
    queryid: str | None = None,
    elapsed_s: float | None = None,
    timed: bool = True,
) -> Recording:
    """The recording of one query: the mean of its calls.

    Without ``queryid`` it is the query with the most temp blocks. ``elapsed_s`` is the time of one
    call where it is known better. InputError for a file that is cut or lacks columns, and where no
    query spills; Refusal, if ``timed``, where I/O was not timed.
    """
    path = Path(path)
    row = _chosen(path, _rows(path), queryid)
    calls = float(row["calls"])
    times = [row.get(f"temp_blk_{name}_time") for name in ("read", "write")]
    read_s, write_s = (None if ms is None else float(ms) / 1e3 / calls for ms in times)
    read, written = (round(float(row[f"temp_blks_{name}"]) / calls) for name in ("read", "written"))
    temp = TempIO(read, written, read_s, write_s)
    if temp.total_s == 0:
        temp = TempIO(temp.read, temp.written, None, None)
        if timed:
            raise Refusal(f"{path}: temp I/O was not timed: {TIMED}")
    workers = float(row.get("parallel_workers_launched") or 0) / calls
    which = {"queryid": str(row.get("queryid", "")), "calls": int(calls)}
    engine = ObservedEngine("postgresql", settings=which)
    mean_s = float(row["total_exec_time"]) / 1e3 / calls
    return recording_of(
        Counted(path, elapsed_s or mean_s, temp, 1 + workers, None, 1, engine),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace").strip()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    try:
        rows = _of_json(text) if text.startswith(("[", "{")) else _of_csv(text)
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: cut or damaged: {error}", HOW) from error
    for name in _NEEDED:
        if any(name not in row for row in rows) or not rows:
            raise InputError(f"{path}: pg_stat_statements without {name}", HOW)
    return rows


def _of_json(text: str) -> list[dict[str, Any]]:
    """A list of rows, or one row after the other."""
    try:
        found = json.loads(text)
    except ValueError:
        found = [json.loads(line) for line in text.splitlines()]
    rows = [found] if isinstance(found, dict) else found
    return [dict(row.items()) for row in rows]


def _of_csv(text: str) -> list[dict[str, Any]]:
    separator = max(",;|\t", key=text.splitlines()[0].count)
    rows = csv.DictReader(text.splitlines(True), delimiter=separator, strict=True)
    return [
        {str(key).strip(): (value or "").strip() or None for key, value in row.items()}
        for row in _whole(rows)
    ]


def _whole(rows: Iterable[dict[Any, Any]]) -> Iterable[Mapping[str, str]]:
    for row in rows:
        if None in row or None in row.values():
            raise ValueError("a row has not as many values as the heading")
        yield row


def _chosen(path: Path, rows: list[dict[str, Any]], queryid: str | None) -> dict[str, Any]:
    if queryid is not None:
        found = [row for row in rows if str(row.get("queryid")) == queryid]
        if not found:
            there = ", ".join(str(row.get("queryid")) for row in rows[:5])
            raise InputError(f"{path}: no row has queryid {queryid}", f"there are: {there}")
        rows = found
    try:
        row = max(rows, key=_blocks)
        if _blocks(row) == 0 or float(row["calls"]) < 1:
            which = "this query does" if queryid is not None else "its queries do"
            raise InputError(f"{path}: {which} not spill: there are no temp blocks")
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: cut or damaged: {error}", HOW) from error
    return row


def _blocks(row: Mapping[str, Any]) -> float:
    return float(row["temp_blks_read"] or 0) + float(row["temp_blks_written"] or 0)
