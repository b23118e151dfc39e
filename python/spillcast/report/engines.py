"""Engines: the table of features, and the steps that move temp files."""

import tomllib
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any

from spillcast.engines import Engine
from spillcast.engines.move import Move, Step
from spillcast.engines.registry import engines
from spillcast.report import Page, Prose
from spillcast.tabular import Column, PrintedTable, paragraph
from spillcast.units import format_bytes, format_count

#: Median errors of verified forecasts, which docs/generate_engines.py writes.
MEASURED = Path(__file__).parents[1] / "engines" / "measured.toml"
#: The width of comments in a script, in characters.
WIDTH = 78
ERRORS = (
    "median error: of forecasts for storage on which the query was not recorded, against measured "
    "runs there; in brackets the number of threads or processes"
)

COLUMNS = (
    Column("engine", "label", "words"),
    Column("temp files by name", "temp_names", "words"),
    Column("live", "live", "words"),
    Column("files and views", "evidence", "words"),
    Column("parallel", "parallel", "words"),
    Column("fix", "fix", "words"),
    Column("move", "move", "words"),
    Column("verified by", "verified", "words"),
    Column("median error", "median_errors", "words"),
    Column("since", "since", "words"),
)


def engines_page() -> Page:
    """The table, for a terminal or as Markdown."""
    rows = []
    for engine in engines_document()["engines"]:
        errors = [f"{error:.1%} ({threads})" for threads, error in engine["median_errors"].items()]
        texts = {"temp_names": ", ".join(engine["temp_names"]), "median_errors": ", ".join(errors)}
        rows.append([(engine | texts)[column.key] or "-" for column in COLUMNS])
    table = PrintedTable(COLUMNS, rows)
    return Page([table, Prose([ERRORS])], table)


def engines_document() -> dict[str, Any]:
    """All engines in the order of the registry; errors are relative, by number of threads."""
    measured = tomllib.loads(MEASURED.read_text())
    records = [_record(engine, measured.get(engine.name, {})) for engine in engines()]
    return {"schema": "spillcast.engines/1", "engines": records}


def _record(engine: Engine, measured: Mapping[str, Any]) -> dict[str, Any]:
    coverage = engine.coverage
    return {
        "name": engine.name,
        "label": engine.label,
        "temp_names": list(engine.temp_names.values()),
        **vars(coverage),
        "fix": coverage.fix or (engine.memory.name if engine.memory else ""),
        "move": f"move {engine.name}" if engine.move else "",
        "verified": f"verify --engine {engine.name}" if engine.lab else coverage.verified,
        "median_errors": measured.get("median_errors", {}),
        "cases": measured.get("cases", 0),
    }


def plan_text(move: Move) -> str:
    """A shell script if a step is a command or calls a client, otherwise an SQL script.

    The reverse steps are comments at its end.
    """
    shell = any(step.command or step.client for step in move.steps)
    mark = "#" if shell else "--"
    parts = [_comment(f"{move.whom}: temp files to {move.to}.", mark)]
    parts += [_comment(f"Note: {warning}.", mark) for warning in move.warnings]
    if not move.steps:
        parts.append(_comment("Nothing to do: everything is set up already.", mark))
    parts += _script(move.steps, mark)
    if move.revert:
        back = "\n\n".join(_script(move.revert, mark)).split("\n")
        commented = "\n".join(f"{mark} {line}".rstrip() for line in back)
        parts += [_comment("To go back:", mark), commented]
    return "\n\n".join(parts)


def done_text(move: Move) -> str:
    """The steps that were taken, their verification, and warnings."""
    lines = [f"  {_outline(step)}" for step in move.steps if step.done]
    result = f"temp files go to {move.to} from now on"
    if any(not step.done for step in move.steps):
        result = f"{move.to} is ready, and no session uses it yet"
    if move.reverted:
        before = f"restored to the state before the move to {move.to}"
        result = before if lines else f"nothing to restore at {move.to}"
    lines.insert(0, f"{move.whom}: {result}.")
    if move.verified is not None:
        files = format_count(move.verified["files"], "temp file")
        size = format_bytes(move.verified["bytes"])
        lines.append(f"  verified: {files}, {size}, of a sort with 64 kB of work_mem")
    for step in move.steps:
        if not step.done and not move.reverted:
            lines += [f"  {step.why}", *(f"    {line}" for line in step.script)]
    lines += [paragraph(f"  {warning}", "    ") for warning in move.warnings]
    return "\n".join(lines)


def _script(steps: list[Step], mark: str) -> list[str]:
    """The steps as text; consecutive statements for one client are combined."""
    parts = []
    for client, group in groupby(steps, lambda step: step.client):
        client_steps = list(group)
        if client:
            text, delimiter = "\n\n".join(map(_statements, client_steps)), "SQL"
            while delimiter in text.split("\n"):
                delimiter += "_"
            parts.append(f"{client} <<'{delimiter}'\n{text}\n{delimiter}")
        elif mark == "#":
            for step in client_steps:
                # Statements are for a session that is open elsewhere, not for this shell.
                lines = [step.command] if step.command else [f"#   {line}" for line in step.script]
                parts.append("\n".join([_comment(step.why, "#"), *lines]))
        else:
            parts += map(_statements, client_steps)
    return parts


def _statements(step: Step) -> str:
    return "\n".join([_comment(step.why, "--"), *step.script])


def _outline(step: Step) -> str:
    """A step in brief: its command or statements, without the texts of COMMENT statements."""
    if step.command is not None:
        return step.command
    return "\n  ".join(
        f"{line.partition(' IS ')[0]} IS '...';" if line.startswith("COMMENT") else line
        for line in step.script
    )


def _comment(text: str, mark: str) -> str:
    return "\n".join(f"{mark} {line}" for line in wrap(text, WIDTH - len(mark)))
