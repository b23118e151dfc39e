"""Reads reports of SQL Monitor as text, XML or pages, and exported rows of its views."""

import base64
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import (
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnknown,
    NoTempIo,
    SelectionEmpty,
)
from spillcast.evidence.counts import Counts, OpCounts
from spillcast.evidence.exported_rows import broken_xml
from spillcast.evidence.numbers import Number, number_of, seconds_of, value_of
from spillcast.evidence.oracle.report_tables import (
    ReportTable,
    bar_tables,
    check_all_read,
    report_text,
)
from spillcast.evidence.oracle.spooled import SpooledRow, exported_rows, parse_integer
from spillcast.evidence.oracle.sql_monitor import (
    Line,
    MonitoredExecution,
    counts_of_execution,
    counts_of_selected,
    io_of,
    total_io,
)
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import COUNT_MAX, TEXT_BYTES_MAX, damaged, reading, xml_of
from spillcast.recording import OPS
from spillcast.redaction import masked_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

HINT_TEXT = "make it with: dbms_sqltune.report_sql_monitor(sql_id => '...', report_level => 'ALL')"
_FACT = re.compile(
    r"\W*(Status|SQL ID|SQL Execution ID|Duration)\s*:\s*(\S(?:.*\S)?)\s*", re.IGNORECASE
)
_SAMPLES = re.compile(r"(.*?\S)\s*+\(\s*([\d,.]+[KMG]?)\s*\)")
_BEGIN = re.compile(r"\W*(SQL Monitoring Report|Global Information)\b.*", re.IGNORECASE)
#: Column names of a two-line heading that has lost one line.
_HALF_NAMES = {"elapsed", "time(s)", "activitydetail", "(#samples)"}
_SERVERS = re.compile(r"Parallel Execution Details\s*\(DOP=\d+\s*,\s*Servers Allocated=(\d+)")
_PLAN_HASH = re.compile(r"Plan Hash Value\s*=\s*(\d+)")
_PAGE = re.compile(r"<(?:html|body|table)\b", re.IGNORECASE)


@reading(hint=HINT_TEXT)
def read_text(path: Path, selection: Selection) -> Counts:
    """The counts of one execution. InputError if its report is cut or has no lines."""
    text = report_text(path)
    if _PAGE.search(text):
        raise EvidenceUnknown(
            "SQL Monitor's report of type HTML is not read",
            "make it with type => 'TEXT', 'XML' or 'ACTIVE'",
        )
    lines = text.splitlines()
    reports = [
        (lines[first:end], list(bar_tables(lines[first:end], first)))
        for first, end in pairwise([*_report_starts(lines), len(lines)])
    ]
    rows = {at for _, tables in reports for table in tables for at in table.at}
    check_all_read(lines, rows)
    executions = [_of_text(part, tables) for part, tables in reports if tables]
    return counts_of_selected(executions, selection)


def _report_starts(lines: Sequence[str]) -> Iterator[int]:
    """The first line of each report: its title or, if that is missing, its second heading."""
    yield 0
    begun = titled = False
    for at, line in enumerate(lines):
        if match := _BEGIN.fullmatch(line):
            is_title = match[1].lower().startswith("sql")
            if begun and (is_title or not titled):
                yield at
            begun, titled = True, is_title


def _of_text(lines: Sequence[str], tables: Sequence[ReportTable]) -> MonitoredExecution:
    if any(_HALF_NAMES.intersection(table.names) for table in tables):
        raise EvidenceDamaged("the heading of a table lacks a line")
    stats = next((table for table in tables if "elapsedtime(s)" in table.names), None)
    plan = next((table for table in tables if "operation" in table.names), None)
    plan_lines = [] if plan is None else _text_lines(plan)
    if not plan_lines or (stats is None and not any(line.samples for line in plan_lines)):
        part = "Global Stats" if plan_lines else "SQL Plan Monitoring Details"
        raise EvidenceIncomplete(f"it lacks {part}")
    facts, sql = _facts_and_sql(lines)
    text = "\n".join(lines)
    totals = {} if stats is None else next(stats.rows)
    seconds = {name: _seconds(cell) for name, cell in totals.items() if name.endswith("(s)")}
    parts = [s for name, s in seconds.items() if name == "cputime(s)" or "waits(s)" in name]
    execution = MonitoredExecution(
        sql_id=facts.get("sql id"),
        exec_id=facts.get("sql execution id"),
        plan=next(reversed(_PLAN_HASH.findall(text)), None),
        sql_text=masked_text("\n".join(sql)) if sql else None,
        elapsed_s=_seconds(facts.get("duration", "")),
        database_s=seconds.get("elapsedtime(s)", 0.0),
        parts_s=sum(parts),
        cpu_s=seconds.get("cputime(s)", 0.0 if stats else None),
        io_s=seconds.get("iowaits(s)", 0.0),
        io=io_of(_rounded_in(totals), *_TEXT_COLUMNS),
        lines=plan_lines,
        servers=int(next(reversed(_SERVERS.findall(text)), 0)),
        status=facts.get("status", ""),
        rounded=True,
    )
    # Each session is sampled once a second, so samples are seconds.
    return execution if stats else replace(execution, database_s=execution.all_samples)


def _facts_and_sql(lines: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The facts of a report by name in lower case, and the lines of the statement."""
    facts, sql, part = dict[str, str](), list[str](), ""
    for line in lines:
        heading = re.sub(r"^\W+|\W+$", "", line).lower()
        if heading in ("sql text", "global information", "global stats"):
            part = heading
            if part == "global information":
                # Text above the report may contain similar facts.
                facts.clear()
        elif part != "sql text" and (match := _FACT.fullmatch(line)):
            facts.setdefault(match[1].lower(), match[2])
        elif part == "sql text" and re.search(r"\w", line):
            sql.append(line.strip())
    return facts, sql


def _text_lines(plan: ReportTable) -> list[Line]:
    """The lines of the plan; each event sampled in a line has its own row in the report."""
    temp = next((column for column in ("temp(max)", "temp") if column in plan.names), None)
    lines: list[Line] = []
    for at, cells in zip(plan.at, plan.rows, strict=True):
        if cells.get("id", "").strip("-> *"):
            temp_bytes = _rounded(cells[temp], 1024) if temp else None
            activity = value_of(number_of(cells.get("activity(%)", "")))
            io = io_of(_rounded_in(cells), *_TEXT_COLUMNS)
            lines.append(Line(cells["operation"], io, temp_bytes, {}, activity))
        detail = cells.get("activitydetail(#samples)", "")
        match = _SAMPLES.fullmatch(detail)
        if detail and (match is None or not lines):
            raise EvidenceDamaged(f"line {at + 1:,} is not understood: {detail}")
        if match is not None:
            lines[-1].samples[match[1].strip()] = _rounded(match[2], 1000)
    return lines


_TEXT_COLUMNS = "{}reqs", "{}bytes"


def _rounded_in(cells: Mapping[str, str]) -> Callable[[str], int]:
    return lambda name: _rounded(cells.get(name, ""), 1024 if name.endswith("bytes") else 1000)


def _rounded(text: str, step: int) -> int:
    """A count (steps of 1,000) or bytes (of 1,024) such as ``48511``, ``28M`` or ``47GB``."""
    number = number_of(text, step=step)
    return round(_understood(number if number is None or number.is_count else None, text))


def _seconds(text: str) -> float:
    return _understood(seconds_of(text), text)


def _understood(number: Number | None, text: str) -> float:
    if number is None and text.strip(" ."):
        raise ValueError(f"{text} is neither a count nor a time")
    return value_of(number) or 0.0


HINT_XML = (
    "make it with: dbms_sqltune.report_sql_monitor(sql_id => '...', type => 'XML', "
    "report_level => 'ALL'), or type => 'ACTIVE'"
)
_PACKED = re.compile(
    r"<report\b[^<>]{,2000}\bencode=\"base64\"[^<>]{,2000}\bcompress=\"zlib\"[^<>]{,2000}>"
)
_XML_COLUMNS = "{}_reqs", "{}_bytes"
_XML_BEGIN, _XML_END = "<sql_monitor_report", "</sql_monitor_report>"


@reading(hint=HINT_XML)
def read_xml(path: Path, selection: Selection) -> Counts:
    """The counts of one execution. InputError if the report is cut or damaged."""
    text = text_of(path)
    if packed := _PACKED.search(text):
        text = _unpacked(text[packed.end() :].partition("</report>")[0])
    elif _XML_BEGIN not in text:
        text = unwrapped(text)
    elif whole := broken_xml(text.splitlines()):
        text = "\n".join(whole)
    *parts, rest = text.split(_XML_END)
    reports = [part[part.find(_XML_BEGIN) :] + _XML_END for part in parts if _XML_BEGIN in part]
    if not reports or _XML_BEGIN in rest:
        raise EvidenceUnknown("holds no whole sql_monitor_report")
    executions = [_of_xml(xml_of(report)) for report in reports]
    return counts_of_selected(executions, selection)


def _unpacked(content: str) -> str:
    """The report that follows its name, decoded from base64 and decompressed by zlib."""
    packed = re.sub(r"<report_id>(?>[^<]|<(?!/?report_id))*+</report_id>|\s+", "", content)
    try:
        inner = zlib.decompressobj()
        unpacked = inner.decompress(base64.b64decode(packed, validate=True), TEXT_BYTES_MAX)
    except (ValueError, zlib.error) as error:
        raise damaged(f"the embedded report cannot be unpacked: {error}") from error
    if not inner.eof:
        raise damaged("the embedded report is cut, or too long to be read")
    return unpacked.decode(errors="replace")


def _of_xml(report: "Element") -> MonitoredExecution:
    target, stats = report.find("target"), report.find("stats")
    if target is None or stats is None:
        raise EvidenceIncomplete("it lacks its target or its stats")
    totals = _xml_stats(stats)
    text = target.findtext("sql_fulltext")
    return MonitoredExecution(
        sql_id=target.get("sql_id"),
        exec_id=target.get("sql_exec_id"),
        plan=target.get("sql_plan_hash") or target.findtext("plan_hash"),
        sql_text=None if text is None else masked_text(text),
        elapsed_s=max(float(target.findtext("duration") or "0"), 0.0),
        database_s=totals.get("elapsed_time", 0) / 1e6,
        cpu_s=totals.get("cpu_time", 0) / 1e6,
        io_s=totals.get("user_io_wait_time", 0) / 1e6,
        io=io_of(lambda name: totals.get(name, 0), *_XML_COLUMNS),
        lines=[_xml_line(element) for element in report.iterfind("plan_monitor/operation")],
        status=target.findtext("status") or "",
    )


def _xml_line(operation: "Element") -> Line:
    stats = operation.find("stats")
    counts = {} if stats is None else _xml_stats(stats)
    samples: dict[str, int] = {}
    for activity in operation.iterfind("activity_sampled/activity"):
        event = activity.get("event") or activity.get("class") or "Cpu"
        samples[event] = samples.get(event, 0) + _integer(activity.text)
    name = f"{operation.get('name', '')} {operation.get('options', '')}".strip()
    temp_bytes = max(counts.get("temp", 0), counts.get("max_temp", 0))
    io = io_of(lambda name: counts.get(name, 0), *_XML_COLUMNS)
    return Line(name, io, temp_bytes, samples)


def _xml_stats(stats: "Element") -> dict[str, int]:
    """The numeric statistics; others are timestamps."""
    texts = {stat.get("name", ""): (stat.text or "").strip() for stat in stats.iterfind("stat")}
    return {name: _integer(text) for name, text in texts.items() if re.fullmatch(r"\d+", text)}


def _integer(text: str | None) -> int:
    value = parse_integer(text or "0")
    if value is None or not 0 <= value <= COUNT_MAX:
        raise ValueError(f"{text} is not a count")
    return value


_LINE_ID, _IO_TIME = "plan_line_id", "user_io_wait_time"
_COLUMNS = (
    *("sql_id", "sql_exec_id", "sql_exec_start", "last_refresh_time", "status", "elapsed_time"),
    *("cpu_time", _IO_TIME, _LINE_ID, "plan_operation", "physical_read_requests"),
    *("physical_read_bytes", "physical_write_requests", "physical_write_bytes"),
    *("workarea_max_tempseg", "workarea_tempseg"),
)
HINT_VIEWS = (
    "export both: select * from v$sql_monitor and select * from v$sql_plan_monitor where "
    "sql_id = '...', with set markup csv on"
)


@reading(hint=HINT_VIEWS)
def read_views(paths: Sequence[Path], selection: Selection) -> Counts:
    """The counts of one execution, from both views. InputError if one of them is missing."""
    session_rows, plan_rows = list[SpooledRow](), list[SpooledRow]()
    for file in paths:
        rows = exported_rows(file, _COLUMNS, ("sql_id", "sql_exec_id"))
        if rows and not {_LINE_ID, _IO_TIME} & rows[0].keys():
            raise EvidenceIncomplete(f"it lacks the column {_IO_TIME}", where=file)
        if rows and _LINE_ID in rows[0]:
            plan_rows += rows
        else:
            session_rows += rows
    if not plan_rows or not session_rows:
        view = "V$SQL_PLAN_MONITOR" if not plan_rows else "V$SQL_MONITOR"
        raise EvidenceIncomplete(f"the rows of {view} are missing")
    sessions = _grouped(session_rows, "sql_id", "sql_exec_id")
    items = [
        SelectableRun((key, lines), _elapsed_s(sessions.get(key, [])), *key)
        for key, lines in _grouped(plan_rows, "sql_id", "sql_exec_id").items()
        if any(_view_line(row).spills for row in lines)
    ]
    if not items:
        raise NoTempIo("no statement spills: no line of a plan used temp space", HINT_VIEWS)
    key, lines = select(items, selection)
    if key not in sessions:
        raise SelectionEmpty(f"V$SQL_MONITOR has no row of this execution of {key[0]}", HINT_VIEWS)
    return counts_of_execution(_of_views(key[0], sessions[key], lines), selection)


def _grouped(rows: Sequence[SpooledRow], *names: str) -> dict[tuple[str, ...], list[SpooledRow]]:
    groups: dict[tuple[str, ...], list[SpooledRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) or "" for name in names), []).append(row)
    return groups


def _of_views(
    sql_id: str, runs: Sequence[SpooledRow], lines: Sequence[SpooledRow]
) -> MonitoredExecution:
    """One execution; each of its parallel servers has its own rows in both views."""
    by_line = ([_view_line(row) for row in rows] for rows in _grouped(lines, _LINE_ID).values())
    return MonitoredExecution(
        sql_id=sql_id,
        elapsed_s=_elapsed_s(runs),
        database_s=_total(runs, "elapsed_time") / 1e6,
        cpu_s=_total(runs, "cpu_time") / 1e6,
        io_s=_total(runs, _IO_TIME) / 1e6,
        io={op: OpCounts(_total(runs, f"physical_{op}_requests")) for op in OPS},
        # A line spills if it spills in any process.
        lines=[
            Line(each[0].operation, total_io(each), int(any(line.spills for line in each)))
            for each in by_line
        ],
        status=next((s for row in runs if (s := row.get("status") or "DONE") != "DONE"), ""),
    )


def _elapsed_s(runs: Sequence[SpooledRow]) -> float:
    """The longest elapsed time of a session, or its time from start to last refresh."""
    longest_s = max((_integer(row.get("elapsed_time")) / 1e6 for row in runs), default=0.0)
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


def _view_line(row: SpooledRow) -> Line:
    columns = "physical_{}_requests", "physical_{}_bytes"
    io = io_of(lambda name: _integer(row.get(name)), *columns)
    names = ("workarea_max_tempseg", "workarea_tempseg")
    temp = [_integer(row.get(name)) for name in names if name in row]
    return Line(row.get("plan_operation") or "", io, max(temp, default=None))


def _total(rows: Sequence[SpooledRow], name: str) -> int:
    return sum(_integer(row.get(name)) for row in rows)
