"""``spillcast verify``: forecasts against measured runs on this machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from spillcast.cli.options import Json, Work


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("verify")(verify)


def verify(
    engine: Annotated[
        Literal["duckdb", "postgres", "all"], typer.Option(help="Which engine's queries.")
    ] = "duckdb",
    repeat: Annotated[int, typer.Option(min=1, help="Measured runs of each; medians count.")] = 3,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the table as a Markdown page.")
    ] = None,
    work: Work = None,
    json: Json = False,
) -> None:
    """Forecast queries from one storage to another, then measure them there.

    DuckDB: three queries, one thread, from each of three emulated storages and tmpfs to each other;
    about nine minutes. PostgreSQL: six queries, one of them in three processes, from a disk to six
    emulated storages; about twenty-five minutes.
    """
    from spillcast.cli.output import emit
    from spillcast.cli.stage import TerminalStage
    from spillcast.errors import InputError
    from spillcast.lab.case import document
    from spillcast.lab.matrix import MATRICES
    from spillcast.lab.verify import verify as run_verify
    from spillcast.report.verify import verify_markdown, verify_text

    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise InputError(f"--markdown {markdown}: there is no such directory")
    with TerminalStage() as stage:
        asked = [matrix for name, matrix in MATRICES.items() if engine in (name, "all")]
        cases = [case for one in asked for case in run_verify(stage, one, work, repeat=repeat)]
    if markdown is not None:
        markdown.write_text(verify_markdown(cases, repeat))
    if json:
        emit(document(cases))
    else:
        print(verify_text(cases))
