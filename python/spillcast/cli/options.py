"""The options that verbs share, each defined once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
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
