"""``spillcast collect``: a script that a DBA runs to collect the evidence."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    group = typer.Typer(help="Print a script that collects the evidence.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command("oracle")(oracle)
    application.add_typer(group, name="collect")


def oracle(
    sql_id: Annotated[str | None, typer.Option(help="Statement that ASH is exported for.")] = None,
    sid: Annotated[
        str | None,
        typer.Option(metavar="SID,SERIAL", help="Session to trace and take statistics of."),
    ] = None,
    minutes: Annotated[int, typer.Option(help="How far ASH goes back.")] = 60,
    interval: Annotated[int, typer.Option(help="Seconds between samples of statistics.")] = 3,
    history: Annotated[
        bool | None,
        typer.Option(
            "--history/--memory",
            help="ASH from DBA_HIST or from memory (default: memory up to 60 minutes).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, such as collect.sql.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a SQL*Plus script: ASH, work areas, temp space, statistics and a session's trace.

    It reads views and changes nothing but the trace of the session, on and off. ASH needs the
    Diagnostics Pack licence.

    Example: spillcast collect oracle --sql-id 09bmj7j9q8a5z --sid 33,4711 -o collect.sql
    """
    from spillcast.cli.output import emit
    from spillcast.engines.oracle import collect_script, parse_session
    from spillcast.errors import InputError

    if output is not None and not output.absolute().parent.is_dir():
        raise InputError(f"{output}: there is no directory {output.absolute().parent}")
    script = collect_script(
        sql_id=sql_id,
        session=None if sid is None else parse_session(sid),
        minutes=minutes,
        interval_s=interval,
        history=history,
    )
    if output is not None:
        output.write_text(script)
    if json:
        emit({"schema": "spillcast.collect/1", "script": script})
    elif output is None:
        print(script, end="")
