"""``spillcast sweep io-size``: a spill with I/Os of each size, on a directory or a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.options import Budget, Csv, Json, Markdown

if TYPE_CHECKING:
    from spillcast.lab.io_size.spill import Spill
    from spillcast.storage import Storage

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
    """Issue a spill with I/Os of each size and find the best: counts, means and total time.

    On a directory it measures, by turns, and leaves nothing; on a storage.json it computes, with
    merge levels and a write cache that fills up. Without --like the spill is an external sort.

    Example: spillcast sweep io-size /mnt/nvme --like run.spill

    Example: spillcast sweep io-size disk.json --data 100G --memory 500M --min 48K,512K,1M
    --max 240K,1M
    """
    from spillcast.cli.output import show
    from spillcast.cli.progress import progress_bar
    from spillcast.lab.io_size.settings import parse_block, parse_sizes, settings_of
    from spillcast.lab.io_size.sweep import sweep_io_size
    from spillcast.report.io_size import sweep_page
    from spillcast.storage.budget import parse_budget

    block_bytes = parse_block(block)
    settings = settings_of(
        parse_sizes("--min", least, block_bytes), parse_sizes("--max", most, block_bytes)
    )
    parsed = parse_budget(budget)
    where = _where(storage)
    spill = _spill(like, data, memory, block_bytes)
    with progress_bar(f"sweeping {storage}") as done:
        found = sweep_io_size(where, spill, settings, budget=parsed, on_progress=done)
    show(found.to_json, lambda: sweep_page(found), json=json, csv=csv, markdown=markdown)


def _where(text: str) -> "Storage | Path":
    """The directory that is measured, or the storage that is known."""
    from spillcast.storage.target import is_place, resolve_storage

    path = Path(text)
    return path if is_place(path) else resolve_storage(text)


def _spill(like: Path | None, data: str | None, memory: str | None, block_bytes: int) -> "Spill":
    from spillcast.errors import InputError
    from spillcast.lab.io_size.made_up import Sort
    from spillcast.lab.io_size.spill import MadeUp, Recorded
    from spillcast.recording import Recording
    from spillcast.units import parse_bytes

    if like is None:
        return MadeUp(
            Sort(parse_bytes(data or DATA, "--data"), parse_bytes(memory or MEMORY, "--memory")),
            block_bytes,
        )
    if data is not None:
        raise InputError(
            "--data is for a synthetic sort: with --like the recording says what was spilled"
        )
    return Recorded(
        Recording.open(like), None if memory is None else parse_bytes(memory, "--memory")
    )
