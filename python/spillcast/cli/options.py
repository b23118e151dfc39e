"""The options that verbs share, each defined once."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def _one_form(context: typer.Context, parameter: typer.CallbackParam, given: bool) -> bool:
    """Refuse a second form before any work is done."""
    from spillcast.errors import InputError

    before = next((name for name in ("json", "csv", "markdown") if context.params.get(name)), None)
    if given and before is not None:
        raise InputError(f"--{before} and --{parameter.name}: stdout takes one form, give one")
    return given


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", callback=_one_form)]
Csv = Annotated[
    bool, typer.Option("--csv", help="Print raw numbers under one header.", callback=_one_form)
]
Markdown = Annotated[
    bool, typer.Option("--markdown", help="Print it as Markdown.", callback=_one_form)
]
Confidence = Annotated[
    float, typer.Option(min=0.5, max=0.999, help="Level of the interval, 0.5 to 0.999.")
]
Budget = Annotated[
    str,
    typer.Option(
        help="Time and bytes a probe may take: 60s, 4G or 60s,4G; bytes by default 10 % of what "
        "is free."
    ),
]
Work = Annotated[
    Path | None, typer.Option(help="Directory for data and slow storage (default: TMPDIR).")
]
EngineOption = Literal["duckdb", "postgres"]
