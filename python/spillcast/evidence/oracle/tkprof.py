"""Reads reports of tkprof: calls of statements, waits for temp files, and blocks of row sources."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from math import log
from pathlib import Path
from typing import NamedTuple

from spillcast.errors import EvidenceIncomplete, NoTempIo
from spillcast.evidence.counts import (
    OPERATION_BLOCKS,
    Counts,
    TempTimes,
    counts_of_figures,
    printed_times,
    times_up_to,
    with_unlisted,
)
from spillcast.evidence.numbers import ZERO, FigureCheck, Number, check_all, number_of
from spillcast.evidence.oracle import ORACLE
from spillcast.evidence.oracle.report_tables import check_all_read, report_text
from spillcast.evidence.oracle.row_sources import (
    PlanLine,
    TempBlocks,
    is_flat,
    lacks_servers,
    temp_blocks_of,
)
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.gate import reading
from spillcast.recording import OPS, TEMP_EVENTS, is_like
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text
from spillcast.units import format_duration

HINT = "make it with: tkprof run.trc run.txt waits=yes, of a trace with waits (level 8)"
_N = r"\s+([\d.,]+)"
_RULE = re.compile(r"[^\w*]*+\*{20,}+\s*+")
#: The heading of calls in tkprof, and in Orange.
_CALLS = r"call\s+count\s+cpu(?:\s+time)?\s+elapsed(?:\s+time)?\s+disk\b"
_HEADING = re.compile(rf"\s*{_CALLS}.*", re.IGNORECASE)
_CALL = re.compile(rf"\s*(Parse|Execute|Fetch|[Tt]otal){_N}{_N}{_N}{_N}(?:{_N}){{3}}\s*")
#: The row count of a row source and its indentation; the start of its figures.
_ROWS = re.compile(r"(?>\s*+\d[\d,]*+){,3}+(\s*+)(?=[A-Z])")
_SOURCE = re.compile(r"(?:cr|p?r|p?w)=\d[^()]*+\)\s*+")
_OBJECT = re.compile(r"(?:\(object id \d+\)|(?<=\))OF \S+ \((?:NON-?)?UNIQUE\))\s*$")
#: A row source that is broken into several lines.
_BROKEN = re.compile(
    r"^[^\S\n]*+\d[\d ]*+[A-Z][^=\n]*\((?:cr|p?r|p?w)=[^()\n]*+(?:\n[^()\n]*+){1,3}\)", re.MULTILINE
)
#: A row of a Markdown table.
_BARRED = re.compile(r"^[^\S\n]*\|([^\n]*)\|[^\S\n]*$", re.MULTILINE)
_FIGURE = re.compile(r"\b(p?r|p?w|time)=(\d[\d,]*)")
#: Marks of releases up to 9.2: the heading of a report, and the figures of a row source.
_BEFORE_10G = re.compile(r"TKPROF: Release [789]\.|\(cr=\d+ r=\d+ w=\d+", re.IGNORECASE)
#: Events up to release 9.2 for both temp files and other direct I/O.
_DIRECT = ("direct path read", "direct path write")
#: Waits that read at least one block each.
_READS = re.compile(r"db file \w+ read|direct path read")
_CAPTURED = re.compile(r"\s*Number of plan statistics captured:\s*(\d+)\s*")
_SQL_ID = re.compile(r"SQL ID\s*:\s*(\w{13})(?:.*Plan Hash:\s*(\d+))?")
_STATEMENT = re.compile(
    r"[\s({]*+(?:<<|/\*|(?:select|with|insert|update|delete|merge|create|alter|drop|truncate"
    r"|declare|begin|call|explain|lock|analyze)\b)",
    re.IGNORECASE,
)
_SESSIONS = re.compile(r"\s*(\d+)\s+sessions? in tracefile")
#: Lines of a section without figures of temp I/O.
_SKIPPED = re.compile(
    r"\s*+(-{3,}[\s-]*|Misses in library|Optimizer (mode|goal)|Parsing user|Rows\b.*"
    r"(Row Source|Execution Plan)|Elapsed times include|Event waited on).*",
    re.IGNORECASE,
)
#: Headings of a section's parts.
_PART = re.compile(r"(Event) waited on\b|(Rows)\b.*Row Source Operation")
#: The event in which a coordinator waits for its parallel servers.
_COORDINATOR_WAITS = "PX Deq: Execute Reply"
#: The minimum share of a call in which a coordinator waits for its servers.
_WAIT_SHARE_MIN = 0.9


class Calls(NamedTuple):
    """Calls of one kind: their number, their times (s), and the blocks that they read."""

    number: int
    cpu: Number
    elapsed: Number
    disk: int


_NO_CALLS = Calls(0, ZERO, ZERO, 0)


class TkprofWaits(NamedTuple):
    """Waits for one event: their number, the longest and the total time (s)."""

    number: int
    longest: Number
    total: Number


@dataclass
class TkprofStatement:
    """One statement: its calls by kind, its waits by event, and its row sources."""

    head: list[str]
    calls: dict[str, Calls] = field(default_factory=dict)
    waits: dict[str, TkprofWaits] = field(default_factory=dict)
    lines: list[PlanLine] = field(default_factory=list)
    captured: int | None = None
    has_waits: bool = False
    sums_executions: bool = True
    #: Whether waits for temp files have the same names as other direct I/O.
    before_10g: bool = False
    spilled: TempBlocks = field(default_factory=TempBlocks)
    sql_id: str | None = None
    plan: str | None = None

    @property
    def temp(self) -> dict[str, TkprofWaits]:
        """Waits for temp files by op."""
        temp = {
            event: wait
            for event, wait in self.waits.items()
            if is_like(event, TEMP_EVENTS) or (self.before_10g and event in _DIRECT)
        }
        return {op: wait for event, wait in temp.items() if (op := event.split()[2]) in OPS}

    @property
    def lacks_servers(self) -> bool:
        """Whether this is a coordinator whose parallel servers are in other traces."""
        if not self.lines:
            return _COORDINATOR_WAITS in self.waits
        return lacks_servers(self.lines)

    @property
    def runs(self) -> int:
        """The factor from figures of row sources to sums over all executions.

        The figures are sums or means, depending on the release; the column disk shows which.
        """
        executions = max(1, self.captured or self.executions)
        disk = self.total.disk
        blocks = max((line.reads for line in self.lines), default=0)
        if disk and blocks:
            return min((1, executions), key=lambda times: abs(log(times * blocks / disk)))
        return 1 if self.sums_executions else executions

    @property
    def has_total(self) -> bool:
        """Whether the line with the totals of its calls is there."""
        return "total" in self.calls

    @property
    def total(self) -> Calls:
        """The totals of its calls; 0 if that line is missing."""
        return self.calls.get("total", _NO_CALLS)

    @property
    def temp_blocks_max(self) -> int:
        """An upper bound of temp blocks read: any other read takes at least one block."""
        others = set(self.waits) - (set(_DIRECT) if self.before_10g else set())
        blocks = sum(self.waits[event].number for event in others if _READS.fullmatch(event))
        reads = self.temp["read"].number if "read" in self.temp else 0
        return max(self.total.disk - blocks, reads)

    @property
    def executions(self) -> int:
        """How often the statement ran."""
        return max(1, self.calls["execute"].number if "execute" in self.calls else 1)


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of one statement. InputError if none spilled, or if several did."""
    plain = _BARRED.sub(lambda row: row[1].replace("|", "  "), report_text(path))
    whole = _BROKEN.sub(lambda row: " ".join(map(str.strip, row[0].split("\n"))), plain)
    lines = whole.splitlines()
    sections = list(_sections(lines))
    before_10g = any(map(_BEFORE_10G.search, lines))
    for section in sections:
        section.before_10g = before_10g
        if not (section.temp and is_flat(section.lines)):
            section.spilled = temp_blocks_of(section.lines)
        if name := _SQL_ID.search("\n".join(section.head)):
            section.sql_id, section.plan = name.groups()
    spilling = [part for part in sections if part.temp or part.spilled.written_blocks]
    if not spilling:
        if not any(section.has_waits or section.lines for section in sections):
            raise EvidenceIncomplete("no statement in it has waits or row sources")
        if any(section.lacks_servers for section in sections):
            raise EvidenceIncomplete(
                "it is of a coordinator, whose parallel servers have traces of their own",
                "merge the traces with trcsess, or give a report of SQL Monitor",
            )
        raise NoTempIo("no statement waited for temp files: it does not spill", HINT)
    items = [
        SelectableRun(part, part.total.elapsed.value, part.sql_id, plan=part.plan)
        for part in spilling
    ]
    section = select(items, selection)
    _check(section)
    matches = (_SESSIONS.match(line) for line in reversed(lines[-20:]))
    sessions = next((int(match[1]) for match in matches if match), None)
    return _figures(section, sessions, selection)


def _figures(section: TkprofStatement, sessions: int | None, selection: Selection) -> Counts:
    notes = [
        "tkprof counts waits, not requests: I/O that overlapped other work is not among them",
        "the client's time between calls is not a part of the elapsed time here",
    ]
    if section.lacks_servers and section.lines:
        notes.append("the I/O of parallel servers is in traces of their own")
    if section.before_10g and section.temp:
        notes.append("up to release 9.2 waits for temp files are among all direct path I/O")
    total = section.total
    blocks = {"read": section.spilled.read_blocks, "write": section.spilled.written_blocks}
    moved = {op: count * section.runs for op, count in blocks.items()}
    counts = {
        op: section.temp[op].number if op in section.temp else -(-moved[op] // OPERATION_BLOCKS)
        for op in OPS
    }
    size_blocks: float = OPERATION_BLOCKS
    if not any(moved.values()):
        # The column disk limits the number of blocks that the calls read.
        if total.disk and counts["read"]:
            size_blocks = min(size_blocks, section.temp_blocks_max / counts["read"])
        is_lost = is_flat(section.lines)
        why = "row sources lost their indentation" if is_lost else "no row source has temp blocks"
        notes.append(f"{why}: each I/O is assumed to move {size_blocks:.3g}")
    blocks_of = {op: moved[op] or counts[op] * size_blocks for op in OPS}
    totals = {op: (counts[op], blocks_of[op] * selection.block_bytes) for op in OPS}
    elapsed_s, busy_s, unknown, subject = total.elapsed.value, None, "", None
    if not section.has_total:
        unknown = "the line with the totals of its calls is missing"
    elif _several_sessions(section, sessions):
        elapsed_s, busy_s = _of_coordinator(section)
        sessions_text = f"{sessions} sessions" if sessions else "several sessions"
        unknown = f"its {format_duration(total.elapsed.value)} are the sum over {sessions_text}"
        notes.append("the elapsed time is that of the coordinator of several sessions")
    elif section.executions > 1:
        subject = f"all {section.executions:,} executions"
    return counts_of_figures(
        selection,
        _times(section, counts).moved(totals),
        engine=ORACLE,
        elapsed_s=elapsed_s,
        elapsed_unknown=unknown,
        cpu_s=total.cpu.value if section.has_total else None,
        busy_s=busy_s,
        statement=CountedStatement(section.sql_id, masked_text(_statement(section.head)), 1, 1),
        subject=subject,
        notes=notes,
    )


def _times(section: TkprofStatement, counts: dict[str, int]) -> TempTimes:
    """The times of waits. Blocks without waits took at most the remaining time of the calls."""
    listed = {op: waits.total for op, waits in section.temp.items()}
    times, calls = printed_times(listed.get("read"), listed.get("write")), section.total
    if not section.has_total or all(op in listed or not counts[op] for op in OPS):
        return times
    others_s = sum(waits.total.value for waits in section.waits.values())
    rounding_s = calls.elapsed.high - calls.elapsed.value
    max_s = max(calls.elapsed.high - calls.cpu.low - others_s, rounding_s)
    because = "tkprof shows blocks of temp files and no waits for them"
    if listed:
        return with_unlisted(times, max_s, because)
    return times_up_to(max_s, counts["read"], counts["write"], because)


def _several_sessions(section: TkprofStatement, sessions: int | None) -> bool:
    """Whether times are sums over a coordinator and its servers, or over other sessions."""
    if sessions is not None:
        return sessions > 1
    if section.lacks_servers and section.lines:
        return False
    is_parallel = any(event.startswith("PX Deq") for event in section.waits)
    return _COORDINATOR_WAITS in section.waits or (is_parallel and section.executions > 1)


def _of_coordinator(section: TkprofStatement) -> tuple[float, float]:
    """Elapsed time (s) of a parallel statement, 0 if unknown, and the sum over its servers."""
    total_s, waits = section.total.elapsed.value, section.waits.get(_COORDINATOR_WAITS)
    waited_s = waits.total.value if waits else 0.0
    for call in ("fetch", "execute"):
        elapsed_s = section.calls[call].elapsed.value if call in section.calls else 0.0
        if waited_s and _WAIT_SHARE_MIN * elapsed_s <= waited_s <= elapsed_s:
            return elapsed_s, total_s - elapsed_s
    return 0.0, total_s


def _check(section: TkprofStatement) -> None:
    """InputError for figures that contradict each other."""
    checks = []
    if section.has_total:
        disk = section.total.disk
        read = section.spilled.read_blocks * section.runs
        words = f"{read:,} temp blocks read by row sources"
        disk_words = f"{disk:,} blocks in the column disk"
        checks.append(FigureCheck("sources-of-disk", read, words, disk, disk_words))
    for op, (count, longest, total) in section.temp.items():
        name = f"direct path {op} temp"
        words = f"{format_duration(total.value)} of {name} in all"
        times = f"{count:,} times {format_duration(longest.value)} at the longest"
        checks.append(FigureCheck("part-of-whole", total, words, longest * count, times))
    check_all(checks)


def _sections(lines: list[str]) -> Iterator[TkprofStatement]:
    """The statements, without the totals of all statements at the end."""
    head, section, read_lines, sections = list[str](), None, set[int](), list[TkprofStatement]()
    for at, line in enumerate(lines):
        if _RULE.fullmatch(line):
            head, section = [], None
        elif _HEADING.fullmatch(line):
            section, head = TkprofStatement(head), []
            if not any("OVERALL TOTALS" in text for text in section.head):
                sections.append(section)
        else:
            begins = _PART.match(line.lstrip())
            if (section is None and (begins or _CALL.fullmatch(line) or _source(line))) or (
                section is not None and section.has_waits and begins and begins[1] == "Event"
            ):
                # The heading of the calls, or all lines of calls, are missing.
                section, head = TkprofStatement(head), []
                sections.append(section)
            if section is not None and _part(section, line):
                read_lines.add(at)
                head = []
            elif line.strip():
                head.append(line)
    check_all_read(lines, read_lines)
    yield from sections


def _part(section: TkprofStatement, line: str) -> bool:
    """Adds the figures of a line to a section; returns whether the line belongs to it."""
    if match := _CALL.fullmatch(line):
        count, cpu, elapsed, disk = map(number_of, match.groups()[1:5])
        if count and cpu and elapsed and disk:
            calls = Calls(round(count.value), cpu, elapsed, round(disk.value))
            section.calls[match[1].lower()] = calls
            return True
    elif source := _source(line):
        section.lines.append(source)
        return True
    elif match := _CAPTURED.fullmatch(line):
        section.captured = int(match[1])
        return True
    elif _SKIPPED.fullmatch(line):
        section.has_waits |= "Event waited on" in line
        section.sums_executions &= "(1st)" not in line
        return True
    elif (section.calls or section.has_waits) and (event := _event(line)):
        section.waits[event[0]] = event[1]
        section.has_waits = True
        return True
    return not line.strip()


def _source(line: str) -> PlanLine | None:
    """A row source: rows, indented operation, and figures in the last parentheses but an ID's."""
    head, _, tail = _OBJECT.sub("", line).rpartition("(")
    rows = _ROWS.match(head)
    if rows is None or _SOURCE.fullmatch(tail) is None:
        return None
    figures = {name[-1]: int(value.replace(",", "")) for name, value in _FIGURE.findall(tail)}
    operation = head[rows.end() :].rstrip()
    elapsed_s = figures["e"] * 1e-6 if "e" in figures else None
    return PlanLine(len(rows[1]), operation, figures.get("r", 0), figures.get("w", 0), elapsed_s)


def _event(line: str) -> tuple[str, TkprofWaits] | None:
    """The name of an event, and the waits for it."""
    name, *figures = line.rsplit(None, 3) or [""]
    times, longest, total = map(number_of, figures if len(figures) == 3 else ("", "", ""))
    if not (times and times.is_count and longest and total and re.search(r"[A-Za-z]", name)):
        return None
    return name.strip(), TkprofWaits(round(times.value), longest, total)


def _statement(head: list[str]) -> str:
    """The text above a section from the start of its statement."""
    left_out = ("SQL ID", "TKPROF", "error", "Trace file", "Sort options", "--")
    lines = [line for line in head if line.strip() and not line.startswith(left_out)]
    return "\n".join(dropwhile(lambda line: not _STATEMENT.match(line), lines))
