"""SQL Monitor's text report: global figures, and the lines of the plan."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from spillcast.errors import InputError
from spillcast.evidence.figures.choice import Choice
from spillcast.evidence.figures.figures import Figures
from spillcast.evidence.figures.monitored import Line, Monitored, figures_of
from spillcast.gate import COUNT_MAX, text_of
from spillcast.recording.event_names import OPS

HOW = "make it with: dbms_sqltune.report_sql_monitor(sql_id => '...', report_level => 'ALL')"
_FACT = re.compile(r"^\s(\w(?:[\w /]*?[\w/])??)\s*+:\s++(\S(?:.*\S)?)\s*$")
_AMOUNT = re.compile(r"([\d.,]+)\s*([KMGTPE]?)(B?)")
_SAMPLES = re.compile(r"(.*?\S)\s*+\((\d+)\)")
_RULE = re.compile(r"(?:(?<!\s)\s++)?={10,}\s*")
_UNITS = "KMGTPE"


def read(paths: Sequence[Path], _choice: Choice) -> Figures:
    """The figures of a report. InputError where it is cut or has no lines."""
    (path,) = paths
    lines = text_of(path, HOW).splitlines()
    facts = _facts(lines)
    tables = list(_tables(lines))
    stats = next((table for table in tables if "elapsed time(s)" in table[0]), None)
    plan = next((table for table in tables if "operation" in table[0]), None)
    if stats is None or plan is None:
        raise InputError(f"{path}: it lacks Global Stats or Plan Monitoring Details", HOW)
    totals = dict(zip(stats[0], stats[1][0], strict=True))
    database_s = _seconds(totals.get("elapsed time(s)", ""))
    plan_lines = _lines(plan)
    return figures_of(
        Monitored(
            path=path,
            sql_id=facts.get("SQL ID"),
            elapsed_s=_seconds(facts.get("Duration", "").rstrip("s")) or database_s,
            database_s=database_s,
            cpu_s=_seconds(totals.get("cpu time(s)", "")),
            io_s=_seconds(totals.get("io waits(s)", "")),
            requests=sum(amount(totals.get(f"{op} reqs", ""), 1000) for op in OPS),
            lines=plan_lines,
            running=facts.get("Status", "").startswith("EXECUTING"),
            rounded=True,
        )
    )


def _facts(lines: Sequence[str]) -> dict[str, str]:
    """Global Information, which stands before the tables."""
    facts: dict[str, str] = {}
    for line in lines:
        if match := _FACT.match(line):
            facts.setdefault(match[1], match[2])
    return facts


def _tables(lines: Sequence[str]) -> "list[tuple[list[str], list[list[str]]]]":
    """Each table between rules: the names of its columns in lower case, and its rows."""
    tables, block, blocks = [], list[list[str]](), list[list[list[str]]]()
    for line in lines:
        if _RULE.fullmatch(line):
            if block:
                blocks.append(block)
            block = []
        elif line.lstrip().startswith("|"):
            block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        else:
            block, blocks = [], []
        if len(blocks) == 2:
            heading, rows = blocks
            if len({len(cells) for cells in heading}) > 1:
                raise ValueError("the lines of a table's heading have not as many columns")
            names = [
                " ".join(" ".join(parts).lower().split()) for parts in zip(*heading, strict=True)
            ]
            tables.append((names, [row for row in rows if len(row) == len(names)]))
            blocks = []
    return tables


def _lines(plan: tuple[list[str], list[list[str]]]) -> list[Line]:
    names, rows = plan
    temp = next((column for column in ("temp (max)", "temp") if column in names), None)
    monitored_lines: list[Line] = []
    for row in rows:
        cells = dict(zip(names, row, strict=True))
        detail = _SAMPLES.fullmatch(cells.get("activity detail (# samples)", ""))
        if cells.get("id", "").strip("-> *"):
            monitored_lines.append(
                Line(
                    operation=cells["operation"],
                    reads=amount(cells.get("read reqs", ""), 1000),
                    read_bytes=amount(cells.get("read bytes", ""), 1024),
                    writes=amount(cells.get("write reqs", ""), 1000),
                    write_bytes=amount(cells.get("write bytes", ""), 1024),
                    temp_bytes=amount(cells[temp], 1024) if temp else None,
                )
            )
        if detail and monitored_lines:
            samples = {**monitored_lines[-1].samples, detail[1].strip(): int(detail[2])}
            monitored_lines[-1] = replace(monitored_lines[-1], samples=samples)
    return monitored_lines


def amount(text: str, step: int) -> int:
    """A count (steps of 1,000) or bytes (of 1,024) such as ``48511``, ``28M`` or ``47GB``."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or match[1] == ".":
        return 0
    power = _UNITS.index(match[2]) + 1 if match[2] else 0
    value = float(match[1].replace(",", "")) * float(step**power)
    if value > COUNT_MAX:
        raise ValueError(f"{text} is neither a count nor a size")
    return round(value)


def _seconds(text: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    return 0.0 if match is None or match[1] == "." else float(match[1].replace(",", ""))
