"""The table of engines: what each offers, and how far its forecasts were measured to be off."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillcast.engines.engine import Engine
from spillcast.engines.registry import engines
from spillcast.report.page import Page, Words
from spillcast.report.table import Column, Table

#: Median errors of verified forecasts, which docs/generate_engines.py writes.
MEASURED = Path(__file__).parents[1] / "engines" / "measured.toml"
NONE = "-"
ERRORS = (
    "median error: of forecasts for storage on which the query was not recorded, against measured "
    "runs there; in brackets the number of threads or processes"
)


@dataclass(frozen=True)
class EngineRow:
    """An engine in the table. Errors are relative to the measured time, by number of threads."""

    name: str
    label: str
    temp_names: Sequence[str]
    live: str
    evidence: str
    parallel: str
    cure: str
    move: str
    verified: str
    median_errors: Mapping[str, float]
    cases: int
    since: str


def engine_rows() -> list[EngineRow]:
    """All engines in the order of the registry."""
    measured = tomllib.loads(MEASURED.read_text())
    return [_row(engine, measured.get(engine.name, {})) for engine in engines()]


def _row(engine: Engine, measured: Mapping[str, Any]) -> EngineRow:
    known = engine.coverage
    return EngineRow(
        name=engine.name,
        label=engine.label,
        temp_names=list(engine.temp_names.values()),
        live=known.live,
        evidence=known.evidence,
        parallel=known.parallel,
        cure=known.cure or (engine.memory.name if engine.memory else ""),
        move=f"move {engine.name}" if engine.move else "",
        verified=f"verify --engine {engine.name}" if engine.lab else known.verified,
        median_errors=measured.get("median_errors", {}),
        cases=measured.get("cases", 0),
        since=known.since,
    )


COLUMNS = (
    Column("engine", "label", "words"),
    Column("temp files by name", "temp_names", "words"),
    Column("live", "live", "words"),
    Column("files and views", "evidence", "words"),
    Column("parallel", "parallel", "words"),
    Column("other fix", "cure", "words"),
    Column("move", "move", "words"),
    Column("verified by", "verified", "words"),
    Column("median error", "median_errors", "words"),
    Column("since", "since", "words"),
)


def engines_page() -> Page:
    """The table, for a terminal or as Markdown."""
    rows = []
    for row in engine_rows():
        errors = [f"{error:.1%} ({threads})" for threads, error in row.median_errors.items()]
        rows.append(
            [
                row.label,
                ", ".join(row.temp_names) or NONE,
                *(getattr(row, column.key or "") or NONE for column in COLUMNS[2:8]),
                ", ".join(errors) or NONE,
                row.since,
            ]
        )
    table = Table(COLUMNS, rows)
    return Page([table, Words([ERRORS])], table)


def engines_document() -> dict[str, Any]:
    """The same as JSON."""
    return {"schema": "spillcast.engines/1", "engines": [asdict(row) for row in engine_rows()]}
