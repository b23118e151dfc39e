"""``spillcast probe``: how a directory would serve a recorded spill."""

from pathlib import Path
from typing import Annotated

import typer

from spillcast.cli.options import Budget, Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("probe")(probe)


def probe(
    directory: Annotated[Path, typer.Argument(help="Directory on the storage to measure.")],
    like: Annotated[Path, typer.Option(help="Recording or plan whose temp I/O is replayed.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, such as storage.json.")
    ] = None,
    budget: Budget = "60s",
    json: Json = False,
) -> None:
    """Replay a recording's temp I/O on a directory and time it.

    The files have no names and are gone when the probe ends, however it ends.

    Example: spillcast probe /mnt/nvme --like run.spill -o nvme.json
    """
    from spillcast.cli.output import emit, progress_bar
    from spillcast.errors import InputError
    from spillcast.recording import Recording
    from spillcast.recording.evidence import is_plan
    from spillcast.recording.explain import read_plan
    from spillcast.report.storage import storage_text
    from spillcast.storage.probe import probe as run_probe
    from spillcast.units import parse_duration_s

    if output is not None and not output.absolute().parent.is_dir():
        raise InputError(f"{output}: there is no directory {output.absolute().parent}")
    counts = like.is_file() and is_plan(like)
    recording = read_plan(like, timed=False) if counts else Recording.open(like)
    recording.need_io()
    with progress_bar(f"probing {directory}") as show:
        storage = run_probe(
            directory, recording, budget_s=parse_duration_s(budget), on_progress=show
        )
    if output is not None:
        storage.save(output)
    if json:
        emit(storage.to_json())
    else:
        print(storage_text(storage))
