"""``spillcast collect``: a script that a DBA runs to collect the evidence."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.engines import result_shown
from spillcast.cli.options import Json
from spillcast.cli.usage import Verbs
from spillcast.engines.registry import engines

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write, such as collect.sql.")
]


def add_to(application: typer.Typer) -> None:
    """Register the verb, with a command for each engine that has such a script."""
    group = typer.Typer(
        cls=Verbs, help="Print a script that collects the evidence.", no_args_is_help=True
    )
    group.callback()(lambda: None)
    for engine in engines("collect"):
        assert engine.collect is not None
        options = {"output": (Output, None), "json": (Json, False)}
        group.command(engine.name)(result_shown(engine.collect(), _write, **options))
    application.add_typer(group, name="collect")


def _write(collect: Callable[[], str], *, output: Path | None, json: bool) -> None:
    """Print the script, or write it to a file."""
    from spillcast.cli.output import emit
    from spillcast.workspace import check_output_file, whole_file

    if output is not None:
        check_output_file(output)
    script = collect()
    if output is not None:
        with whole_file(output) as partial:
            partial.write_text(script)
    if json:
        emit({"schema": "spillcast.collect/1", "script": script})
    elif output is None:
        print(script, end="")
