"""``spillcast sql``: questions to the evidence in SQL."""

import math
import sys
from typing import Annotated, Any

import typer

from spillcast.cli.options import Csv, Json, Lenient, Markdown


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("sql")(sql)


def sql(
    query: Annotated[str, typer.Argument(help="A query for DuckDB.")],
    evidence: Annotated[list[str], typer.Argument(help="Traces, ASH exports, or a recording.")],
    lenient: Lenient = False,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Query the evidence with SQL.

    Traces are the tables waits, calls and statements; ASH exports are samples; a recording is
    waits, seconds and samples. docs/schema.md describes the columns. The query sees only these
    tables: it can neither open nor write files.

    Example: spillcast sql "select event, count(*) from waits group by all" *.trc
    """
    from spillcast.cli.output import show
    from spillcast.cli.progress import reading_bar
    from spillcast.profile.sql import run_sql
    from spillcast.report.profile import sql_page

    with reading_bar(evidence) as read:
        columns, rows = run_sql(
            query,
            evidence,
            lenient=lenient,
            on_progress=read,
            say=lambda words: print(f"spillcast: {words}", file=sys.stderr),
        )
    show(
        lambda: {"schema": "spillcast.sql/1", "columns": columns, "rows": _finite(rows)},
        lambda: sql_page(columns, rows),
        json=json,
        csv=csv,
        markdown=markdown,
    )


def _finite(rows: list[list[Any]]) -> list[list[Any]]:
    """JSON has no word for what is no number, or endless: null, as elsewhere."""
    for row in rows:
        for at, value in enumerate(row):
            if isinstance(value, float) and not math.isfinite(value):
                row[at] = None
    return rows
