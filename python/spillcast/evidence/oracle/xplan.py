"""Reads executed plans of DBMS_XPLAN with ALLSTATS: blocks and times of each line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.errors import (
    EvidenceContradictory,
    EvidenceDamaged,
    EvidenceIncomplete,
    EvidenceUnknown,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
    Refusal,
)
from spillcast.evidence.counts import OPERATION_BLOCKS, Counts, counts_of_figures, times_up_to
from spillcast.evidence.numbers import number_of, seconds_of, value_of
from spillcast.evidence.oracle import ORACLE
from spillcast.evidence.oracle.report_tables import bar_tables, report_text
from spillcast.evidence.oracle.row_sources import (
    NO_LEAF,
    PlanLine,
    lacks_servers,
    temp_blocks_of,
    writer_elsewhere,
)
from spillcast.evidence.selection import SelectableRun, Selection, select
from spillcast.gate import reading
from spillcast.recording import OPS
from spillcast.recording.observed import CountedStatement
from spillcast.redaction import masked_text

HINT = (
    "run the statement with the hint gather_plan_statistics, then: select * from "
    "table(dbms_xplan.display_cursor(format => 'ALLSTATS LAST'))"
)
_CURSOR = re.compile(r"\W*+SQL_ID:?\s+(\w{13}),?(?:\s+child number\s+(\d+))?.*", re.IGNORECASE)
_HASH = re.compile(r"\W*+Plan hash value\s*:\s*(\d+).*", re.IGNORECASE)
#: The start of a statement, possibly after a comment.
_STATEMENT = re.compile(
    r"(SQL>)?\s*+(/\*[^*]*+\*/)?\W*+((select|insert|update|delete|merge)\b"
    r"|(create|alter)\s.*\b(table|view|index)\b"
    r"|with\s++[\w\"]++\s*+(\([\w\", ]++\)\s*+)?as\s*(\(|$))",
    re.IGNORECASE,
)
_ROW_ID = re.compile(r"[*\s-]*(\d+)\s*")
#: A number of passes through temp files, or of executions with one or several passes.
_PASSES = re.compile(r"\([1-9]\d*\)|/0*[1-9]")
_MEASURED = {"a-time", "a-rows", "reads", "writes", "used-mem", "used-tmp", "max-tmp", "o/1/m"}


@dataclass
class CursorPlan:
    """A plan, with the statement and the identifiers above it."""

    names: Sequence[str]
    sql_id: str | None = None
    hash_value: str | None = None
    text: list[str] = field(default_factory=list)
    lines: list[PlanLine] = field(default_factory=list)
    starts: int = 1
    #: The ID of the first row: 0, or 1 if the row of the statement is missing.
    first_id: int = 0
    #: The first operation that used temp space.
    used_temp: str = ""


@reading(hint=HINT)
def read(path: Path, selection: Selection) -> Counts:
    """The counts of a plan. InputError if it was only estimated, or does not spill."""
    plans = list(_plans(report_text(path).splitlines()))
    if not plans:
        raise EvidenceUnknown("holds no whole plan of DBMS_XPLAN")
    items = [
        SelectableRun(plan, plan.lines[0].elapsed_s or 0.0, plan.sql_id, plan=plan.hash_value)
        for plan in plans
    ]
    return _figures(select(items, selection), selection)


def _figures(plan: CursorPlan, selection: Selection) -> Counts:
    if _MEASURED.isdisjoint(plan.names):
        raise EvidenceUnsuited("its plan was estimated, not executed: it has no A-Time", HINT)
    if missing := [name.title() for name in ("reads", "writes") if name not in plan.names]:
        if plan.used_temp:
            columns = " and ".join(missing)
            message = f"{plan.used_temp} used temp space, and the plan lacks {columns}"
            raise EvidenceIncomplete(message)
        raise _no_temp(plan, "no line of its plan wrote or used temp space")
    blocks, elsewhere = temp_blocks_of(plan.lines), writer_elsewhere(plan.lines)
    if not blocks.written_blocks:
        if plan.used_temp:
            text = f"{plan.used_temp} used temp space, and no line wrote blocks of it"
            raise EvidenceContradictory(text)
        if elsewhere:
            raise EvidenceIncomplete(
                f"{elsewhere} wrote blocks, and the plan does not show whether in temp files",
                "give an SQL trace of the run with waits (level 8)",
            )
        raise _no_temp(plan, "no line with a work area wrote blocks")
    temp_blocks = {"read": blocks.read_blocks, "write": blocks.written_blocks}
    counts = {op: -(-count // OPERATION_BLOCKS) for op, count in temp_blocks.items()}
    elapsed_s = plan.lines[0].elapsed_s or 0.0
    busy_s = elapsed_s
    if any(line.operation.startswith("PX ") for line in plan.lines):
        busy_s = max(line.elapsed_s or 0.0 for line in plan.lines)
    max_s = elapsed_s if blocks.elapsed_s is None else min(blocks.elapsed_s, busy_s)
    because = "the plan has the time of each line, its I/O and its CPU time together"
    times = times_up_to(max_s, counts["read"], counts["write"], because)
    temp = times.moved({op: (counts[op], temp_blocks[op] * selection.block_bytes) for op in OPS})
    notes = [
        "DBMS_XPLAN has blocks and times of each line and no waits: nothing about latency or "
        "I/O that overlapped other work",
        f"the plan has blocks, not operations: each I/O is assumed to move {OPERATION_BLOCKS}",
    ]
    if _lacks_servers(plan):
        notes.append("the I/O of parallel servers is not in the plan")
    if elsewhere:
        notes.append(f"blocks that {elsewhere} wrote, in temp files or others, do not count here")
    return counts_of_figures(
        selection,
        temp if max_s else replace(temp, time_bounds=None),
        engine=ORACLE,
        elapsed_s=elapsed_s,
        elapsed_unknown="the plan has no A-Time",
        busy_s=busy_s,
        statement=CountedStatement(plan.sql_id, masked_text("\n".join(plan.text)) or None, 1, 1),
        subject=f"all {plan.starts:,} executions" if plan.starts > 1 else None,
        notes=notes,
    )


def _lacks_servers(plan: CursorPlan) -> bool:
    """Whether the statistics are those of the coordinator's last execution alone."""
    return bool(plan.lines[0].elapsed_s) and lacks_servers(plan.lines)


def _no_temp(plan: CursorPlan, reason: str) -> InputError | Refusal:
    if _lacks_servers(plan):
        return EvidenceIncomplete(
            "the work of its parallel servers is missing",
            "print the plan with the format ALLSTATS instead of ALLSTATS LAST",
        )
    return NoTempIo(f"it does not spill: {reason}")


def _plans(lines: Sequence[str]) -> Iterator[CursorPlan]:
    above = 0
    for table in bar_tables(lines):
        if not {"id", "operation"} <= set(table.names):
            continue
        plan = CursorPlan(table.names)
        for line in lines[above : table.first]:
            if match := _CURSOR.fullmatch(line):
                plan = CursorPlan(table.names, match[1])
            elif match := _HASH.fullmatch(line):
                plan.hash_value = match[1]
            elif plan.hash_value is None and (plan.sql_id or not above) and re.search(r"\w", line):
                begun = plan.sql_id or plan.text or _STATEMENT.match(line.strip())
                if begun and not line.lstrip().startswith(("```", "~~~", "#")):
                    plan.text.append(line.strip())
        above = table.last
        for at, cells in zip(table.at, table.cells, strict=True):
            _add_line(plan, at, cells)
        is_measured = not _MEASURED.isdisjoint(plan.names)
        if is_measured and plan.lines and NO_LEAF.match(last := plan.lines[-1].operation):
            raise EvidenceDamaged(f"it is cut: the lines below {last} are missing")
        if plan.lines:
            yield plan


def _add_line(plan: CursorPlan, at: int, cells: list[str]) -> None:
    """Adds the row ``at`` of a table to its plan, unless it continues the previous row."""
    named = dict(zip(plan.names, cells, strict=True))
    if (row_id := _ROW_ID.fullmatch(named["id"])) is None:
        return
    if not plan.lines:
        plan.first_id = int(row_id[1])
    if plan.first_id > 1 or int(row_id[1]) != plan.first_id + len(plan.lines):
        raise EvidenceDamaged(f"line {len(plan.lines)} of the plan is missing")
    numbers = {name: number_of(named.get(name, "")) for name in ("starts", "reads", "writes")}
    if any(named.get(n, "").strip() and not (v and v.is_count) for n, v in numbers.items()):
        raise EvidenceDamaged(f"line {at + 1:,} of the plan is not understood")
    reads, writes, starts = (
        round(value_of(numbers[name]) or 0.0) for name in ("reads", "writes", "starts")
    )
    operation = named["operation"]
    elapsed_s = value_of(seconds_of(named.get("a-time", "")))
    if numbers["starts"] is not None and not starts:
        # DBMS_XPLAN shows 0.01 s for a line that did not run.
        elapsed_s = 0.0
    # Even a size that cannot be parsed shows temp space.
    uses_temp = re.search(r"[1-9]", named.get("used-tmp") or named.get("max-tmp") or "")
    if uses_temp or any(_PASSES.search(named.get(name, "")) for name in ("used-mem", "o/1/m")):
        plan.used_temp = plan.used_temp or operation.strip()
    depth = len(operation) - len(operation.lstrip())
    # A temporary table of the statement itself.
    table = re.match(r"SYS_TEMP_\w*", named.get("name", "").strip())
    operation = f"{operation.strip()} {table[0]}" if table else operation.strip()
    if not plan.lines:
        plan.starts = max(1, starts)
    plan.lines.append(PlanLine(depth, operation, reads, writes, elapsed_s))
