"""``spillcast sweep io-size``: a spill with I/Os of each size."""

import typer

from spillcast.cli.options import Json


def add_to(sweep: typer.Typer) -> None:
    """Register the command."""
    sweep.command("io-size")(io_size)


def io_size(json: Json = False) -> None:
    """Issue a spill with I/Os of each size and find the best."""
