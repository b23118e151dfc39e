"""``spillcast sweep io-size``: a spill with I/Os of each size, on a directory or a model."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Budget, Csv, Json, Markdown

#: The spill that is made up where none is given.
DATA, MEMORY = "1G", "32M"


def add_to(sweep: typer.Typer) -> None:
    """Register the command."""
    sweep.command("io-size")(io_size)


def io_size(
    storage: Annotated[
        str, typer.Argument(help="Directory to measure, a storage.json, or catalogue:NAME.")
    ],
    like: Annotated[
        Path | None, typer.Option(help="Recording whose temp I/O is replayed in each size.")
    ] = None,
    least: Annotated[
        str,
        typer.Option("--min", help="Minimum I/O sizes: a range, in powers of two, or 48K,240K."),
    ] = "48K..1M",
    most: Annotated[
        str,
        typer.Option("--max", help="Maximum I/O sizes: a range, in powers of two, or 48K,240K."),
    ] = "48K..4M",
    block: Annotated[
        str, typer.Option(help="Block size, of which all sizes are multiples.")
    ] = "8K",
    data: Annotated[
        str | None,
        typer.Option(help=f"Data of a synthetic sort, without --like (default: {DATA})."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help=f"Work memory: with --like the query's, without it {MEMORY}."),
    ] = None,
    budget: Budget = "60s",
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """Issue a spill with I/Os of each size and find the best.

    On a directory it measures the sizes in turn and leaves nothing behind; on a storage.json it
    computes them, with merge levels and a write cache that fills up. Without --like the spill is an
    external sort.

    Example: spillcast sweep io-size /mnt/nvme --like run.spill

    Example: spillcast sweep io-size disk.json --data 100G --memory 500M --min 48K,512K,1M
    --max 240K,1M
    """
    from spillcast.cli.output import show
    from spillcast.cli.progress import progress_bar
    from spillcast.lab.io_size.sweep import sweep
    from spillcast.recording import Recording
    from spillcast.report.sweep import io_size_page

    with progress_bar(f"sweeping {storage}") as done:
        result = sweep(
            storage,
            None if like is None else Recording.open(like),
            least=least,
            most=most,
            block=block,
            data=data,
            memory=memory,
            budget=budget,
            on_progress=done,
        )
    show(result.to_json, lambda: io_size_page(result), json=json, csv=csv, markdown=markdown)
