"""Rows of V$SQL_MONITOR and V$SQL_PLAN_MONITOR, exported as a table: one execution's figures."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from spillcast.errors import (
    EvidenceIncomplete,
    NoTempIo,
    SelectionEmpty,
)
from spillcast.evidence.choice import Item, Selection, pick
from spillcast.evidence.counts import Counts
from spillcast.evidence.oracle.ash.values import parse_integer
from spillcast.evidence.oracle.monitored import Line, Monitored, counts_of_monitored
from spillcast.evidence.oracle.report_tables import table_lines
from spillcast.evidence.oracle.spooled import Row, rows_of
from spillcast.recording.event_names import OPS

_NAMES = (
    *("sql_id", "sql_exec_id", "sql_exec_start", "last_refresh_time", "status", "elapsed_time"),
    *("cpu_time", "user_io_wait_time", "plan_line_id", "plan_operation", "physical_read_requests"),
    *("physical_read_bytes", "physical_write_requests", "physical_write_bytes"),
    *("workarea_max_tempseg", "workarea_tempseg"),
)
_PLAN, _RUN = "plan_line_id", "user_io_wait_time"
HOW = (
    "export both: select * from v$sql_monitor and select * from v$sql_plan_monitor where "
    "sql_id = '...', with set markup csv on"
)


def read(paths: Sequence[Path], selection: Selection) -> Counts:
    """The figures of one execution, out of both views. InputError where one of them lacks."""
    runs, plans = list[Row](), list[Row]()
    for path in paths:
        rows = _rows(path)
        if rows and _PLAN in rows[0]:
            plans += rows
        else:
            runs += rows
    if not plans or not runs:
        lacks = "V$SQL_PLAN_MONITOR" if not plans else "V$SQL_MONITOR"
        raise EvidenceIncomplete(f"{paths[0]}: the rows of {lacks} are missing", HOW)
    items = [
        Item((lines, sessions := _of(runs, sql_id, exec_id)), _elapsed_s(sessions), sql_id, exec_id)
        for sql_id, of_statement in _by(plans, "sql_id").items()
        for exec_id, lines in _by(of_statement, "sql_exec_id").items()
        if any(_line(row).spills for row in lines)
    ]
    if not items:
        raise NoTempIo(f"{paths[0]}: no statement spills: no line of a plan used temp space", HOW)
    lines, sessions = pick(paths[0], items, selection)
    return counts_of_monitored(
        _monitored(paths[0], str(lines[0].get("sql_id")), sessions, lines), selection
    )


def _rows(path: Path) -> list[Row]:
    names, needed = {name: name for name in _NAMES}, ("sql_id", "sql_exec_id")
    rows = rows_of(path, table_lines(path, HOW), names, needed, HOW)
    if rows and not {_PLAN, _RUN} & rows[0].keys():
        raise EvidenceIncomplete(f"{path}: it lacks the column {_RUN}", HOW)
    return rows


def _by(rows: Sequence[Row], name: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.get(name) or "", []).append(row)
    return groups


def _of(runs: Sequence[Row], sql_id: str, exec_id: str) -> list[Row]:
    return [r for r in runs if r.get("sql_id") == sql_id and r.get("sql_exec_id") == exec_id]


def _monitored(path: Path, sql_id: str, runs: Sequence[Row], lines: Sequence[Row]) -> Monitored:
    """One execution; each of its parallel servers has rows of its own."""
    if not runs:
        raise SelectionEmpty(f"{path}: V$SQL_MONITOR has no row of this execution of {sql_id}", HOW)
    by_line = _by(lines, _PLAN).values()
    database_s = _sum(runs, "elapsed_time") / 1e6
    return Monitored(
        path=path,
        sql_id=sql_id,
        elapsed_s=_elapsed_s(runs),
        database_s=database_s,
        cpu_s=_sum(runs, "cpu_time") / 1e6,
        io_s=_sum(runs, _RUN) / 1e6,
        requests={op: _sum(runs, f"physical_{op}_requests") for op in OPS},
        lines=[_merged([_line(row) for row in rows]) for rows in by_line],
        running=any((row.get("status") or "") == "EXECUTING" for row in runs),
    )


def _elapsed_s(runs: Sequence[Row]) -> float:
    """By the clock: of the session that took longest, or, where that is told, of them all."""
    longest_s = max((_number(row.get("elapsed_time")) / 1e6 for row in runs), default=0.0)
    for row in runs:
        try:
            begin, end = (
                datetime.fromisoformat(row.get(name) or "")
                for name in ("sql_exec_start", "last_refresh_time")
            )
            longest_s = max(longest_s, (end - begin).total_seconds())
        except (ValueError, TypeError):
            continue
    return longest_s


def _line(row: Row) -> Line:
    names = ("workarea_max_tempseg", "workarea_tempseg")
    temp = [_number(row.get(name)) for name in names if name in row]
    return Line(
        operation=row.get("plan_operation") or "",
        reads=_number(row.get("physical_read_requests")),
        read_bytes=_number(row.get("physical_read_bytes")),
        writes=_number(row.get("physical_write_requests")),
        write_bytes=_number(row.get("physical_write_bytes")),
        temp_bytes=max(temp) if temp else None,
    )


def _merged(rows: Sequence[Line]) -> Line:
    """One line of the plan in all of its processes: it spills where it does in any."""
    spills = any(row.spills for row in rows)
    return Line(
        rows[0].operation,
        sum(row.reads for row in rows),
        sum(row.read_bytes for row in rows),
        sum(row.writes for row in rows),
        sum(row.write_bytes for row in rows),
        1 if spills else 0,
    )


def _sum(rows: Sequence[Row], name: str) -> int:
    return sum(_number(row.get(name)) for row in rows)


def _number(text: str | None) -> int:
    value = 0 if text is None else parse_integer(text)
    if value is None or value < 0:
        raise ValueError(f"{text} is not a count")
    return value
