"""``spillcast sql``: questions to the evidence in SQL."""

from typing import Annotated

import typer

from spillcast.cli.options import Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("sql")(sql)


def sql(
    query: Annotated[str, typer.Argument(help="A query for DuckDB.")],
    evidence: Annotated[list[str], typer.Argument(help="Traces, ASH exports, or a recording.")],
    lenient: Annotated[bool, typer.Option(help="Find WAIT lines in running text too.")] = False,
    json: Json = False,
) -> None:
    """Ask the evidence in SQL.

    Traces are the tables waits, calls and statements; ASH exports are samples; a recording is
    waits, seconds and samples. docs/schema.md describes the columns.

    Example: spillcast sql "select event, count(*) from waits group by all" *.trc
    """
    from spillcast.cli.output import emit, reading_bar
    from spillcast.profile.sql import run_sql
    from spillcast.report.table import table_text

    with reading_bar(evidence) as show:
        columns, rows = run_sql(query, evidence, lenient=lenient, on_progress=show)
    if json:
        emit({"schema": "spillcast.sql/1", "columns": columns, "rows": rows})
    else:
        cells = [["" if value is None else str(value) for value in row] for row in rows]
        text = [i for i, _ in enumerate(columns) if any(isinstance(row[i], str) for row in rows)]
        print(table_text(columns, cells, left=text))
