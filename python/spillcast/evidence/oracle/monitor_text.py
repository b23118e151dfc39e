"""SQL Monitor's text report: global figures, and the lines of the plan."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.errors import EvidenceDamaged, EvidenceIncomplete, EvidenceUnknown
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Counts
from spillcast.evidence.figures.numbers import number_of, seconds_of, value_of
from spillcast.evidence.oracle.monitored import Line, Monitored, picked
from spillcast.evidence.oracle.report_tables import Table, bar_tables, check_all_read, report_text
from spillcast.recording.event_names import OPS
from spillcast.redaction import struck_text

HOW = "make it with: dbms_sqltune.report_sql_monitor(sql_id => '...', report_level => 'ALL')"
_FACT = re.compile(
    r"\W*(Status|SQL ID|SQL Execution ID|Duration)\s*:\s*(\S(?:.*\S)?)\s*", re.IGNORECASE
)
_SAMPLES = re.compile(r"(.*?\S)\s*+\(\s*([\d,.]+[KMG]?)\s*\)")
_BEGIN = re.compile(r"\W*(SQL Monitoring Report|Global Information)\b.*", re.IGNORECASE)
_SERVERS = re.compile(r"Parallel Execution Details\s*\(DOP=\d+\s*,\s*Servers Allocated=(\d+)")
_PLAN = re.compile(r"Plan Hash Value\s*=\s*(\d+)")
_PAGE = re.compile(r"<(?:html|body|table)\b", re.IGNORECASE)


@dataclass
class Report:
    """The lines of one report from ``first`` on: what they say of the statement, their tables."""

    first: int = 0
    lines: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    plan: str | None = None
    servers: int = 0


def read(paths: Sequence[Path], selection: Selection) -> Counts:
    """The figures of a report. InputError where it is cut or has no lines."""
    (path,) = paths
    text = report_text(path, HOW)
    if _PAGE.search(text):
        raise EvidenceUnknown(
            f"{path}: SQL Monitor's report of type HTML is not read",
            "make it with type => 'TEXT', 'XML' or 'ACTIVE'",
        )
    lines = text.splitlines()
    reports = _reports(path, lines)
    read_lines = {at for report in reports for table in report.tables for at in table.at}
    check_all_read(path, lines, read_lines, HOW)
    return picked(path, [_monitored(path, report) for report in reports], selection)


def _reports(path: Path, lines: Sequence[str]) -> list[Report]:
    """A report begins with its title or, where that was left out, with its second heading."""
    reports = [Report()]
    begun = titled = False
    for at, line in enumerate(lines):
        if match := _BEGIN.fullmatch(line):
            title = match[1].lower().startswith("sql")
            if begun and (title or not titled):
                reports.append(Report(at))
            begun, titled = True, title
        reports[-1].lines.append(line)
    for report in reports:
        _take(path, report)
    return [report for report in reports if report.tables]


def _take(path: Path, report: Report) -> None:
    part = ""
    for line in report.lines:
        heading = re.sub(r"^\W+", "", line).rstrip()
        if heading in ("SQL Text", "Global Information", "Global Stats"):
            part = heading
        elif part == "Global Information" and (match := _FACT.fullmatch(line)):
            report.facts.setdefault(match[1].lower(), match[2])
        elif part == "SQL Text" and re.search(r"\w", line):
            report.sql.append(line.strip())
        if match := _SERVERS.search(line):
            report.servers = int(match[1])
        if match := _PLAN.search(line):
            report.plan = match[1]
    report.tables = list(bar_tables(path, report.lines, HOW, report.first))


def _monitored(path: Path, report: Report) -> Monitored:
    facts = report.facts
    stats = next((table for table in report.tables if "elapsedtime(s)" in table.names), None)
    plan = next((table for table in report.tables if "operation" in table.names), None)
    if stats is None or plan is None:
        raise EvidenceIncomplete(f"{path}: it lacks Global Stats or Plan Monitoring Details", HOW)
    totals = next(stats.rows)
    seconds = {name: _seconds(text) for name, text in totals.items() if name.endswith("(s)")}
    parts = [s for name, s in seconds.items() if name == "cputime(s)" or "waits(s)" in name]
    return Monitored(
        path=path,
        sql_id=facts.get("sql id"),
        exec_id=facts.get("sql execution id"),
        plan=report.plan,
        sql_text=struck_text("\n".join(report.sql)) if report.sql else None,
        elapsed_s=_seconds(facts.get("duration", "")),
        database_s=seconds["elapsedtime(s)"],
        parts_s=sum(parts),
        cpu_s=seconds.get("cputime(s)", 0.0),
        io_s=seconds.get("iowaits(s)", 0.0),
        requests={op: _count(totals.get(f"{op}reqs", ""), 1000) for op in OPS},
        bytes={op: _count(totals.get(f"{op}bytes", ""), 1024) for op in OPS},
        lines=list(_lines(path, plan)),
        servers=report.servers,
        running=facts.get("status", "").startswith("EXECUTING"),
        rounded=True,
    )


def _lines(path: Path, plan: Table) -> Iterator[Line]:
    temp = next((column for column in ("temp(max)", "temp") if column in plan.names), None)
    current: Line | None = None
    for at, cells in zip(plan.at, plan.rows, strict=True):
        if cells.get("id", "").strip("-> *"):
            if current is not None:
                yield current
            current = Line(
                operation=cells["operation"],
                reads=_count(cells.get("readreqs", ""), 1000),
                read_bytes=_count(cells.get("readbytes", ""), 1024),
                writes=_count(cells.get("writereqs", ""), 1000),
                write_bytes=_count(cells.get("writebytes", ""), 1024),
                temp_bytes=_count(cells[temp], 1024) if temp else None,
                activity=value_of(number_of(cells.get("activity(%)", ""))),
            )
        detail = cells.get("activitydetail(#samples)", "")
        match = _SAMPLES.fullmatch(detail)
        if detail and (match is None or current is None):
            raise EvidenceDamaged(f"{path}: line {at + 1:,} is not understood: {detail}", HOW)
        if match is not None and current is not None:
            samples = {**current.samples, match[1].strip(): _count(match[2], 1000)}
            current = replace(current, samples=samples)
    if current is not None:
        yield current


def _count(text: str, step: int) -> int:
    """A count (steps of 1,000) or bytes (of 1,024) such as ``48511``, ``28M`` or ``47GB``."""
    return round(value_of(number_of(text, step=step)) or 0.0)


def _seconds(text: str) -> float:
    return value_of(seconds_of(text)) or 0.0
