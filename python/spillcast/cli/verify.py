"""``spillcast verify``: forecasts against measured runs on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Json, Work


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("verify")(verify)


def verify(
    repeat: Annotated[int, typer.Option(min=1, help="Measured runs of each; medians count.")] = 3,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write the table as a Markdown page.")
    ] = None,
    work: Work = None,
    json: Json = False,
) -> None:
    """Forecast DuckDB queries from each storage to each other, then measure them there.

    Three queries, one thread, three emulated storages and tmpfs; about nine minutes.
    """
    from spillcast.cli.output import emit
    from spillcast.cli.stage import TerminalStage
    from spillcast.errors import InputError
    from spillcast.lab.case import document
    from spillcast.lab.verify import verify as run_verify
    from spillcast.report.verify import verify_markdown, verify_text

    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise InputError(f"--markdown {markdown}: there is no such directory")
    with TerminalStage() as stage:
        cases = run_verify(stage, work, repeat=repeat)
    if markdown is not None:
        markdown.write_text(verify_markdown(cases, repeat))
    if json:
        emit(document(cases))
    else:
        print(verify_text(cases))
