"""``spillcast move``: temp files to other storage, and back."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.engines import result_shown
from spillcast.cli.options import Json
from spillcast.cli.usage import Verbs
from spillcast.engines.registry import engines

if TYPE_CHECKING:
    from spillcast.engines.move import Move


def add_to(application: typer.Typer) -> None:
    """Register the verb, with a command for each engine whose temp files can be moved."""
    group = typer.Typer(
        cls=Verbs,
        help="Move temp files to other storage, and back. Prints the steps, or runs them.",
        no_args_is_help=True,
    )
    group.callback()(lambda: None)
    for engine in engines("move"):
        assert engine.move is not None
        group.command(engine.name)(result_shown(engine.move(), _show, json=(Json, False)))
    group.command("tmpfs")(result_shown(tmpfs, _show, json=(Json, False)))
    application.add_typer(group, name="move")


def tmpfs(
    to: Annotated[Path, typer.Option(help="Mount point.")],
    size: Annotated[str, typer.Option(help="Largest size, such as 8G.")],
    owner: Annotated[str | None, typer.Option(help="User it is for (default: everybody).")] = None,
) -> "Move":
    """tmpfs: a mount in memory for temp files, on this machine. Only prints the steps.

    Example: spillcast move tmpfs --to /mnt/temp --size 8G --owner postgres
    """
    from spillcast.engines.tmpfs import tmpfs_move

    return tmpfs_move(to, size, owner)


def _check_printable(to: str) -> None:
    """InputError for a place that no statement and no command could name in every program."""
    from spillcast.errors import OptionInvalid
    from spillcast.visible import has_control

    if has_control(to):
        raise OptionInvalid(
            f"--to {to}: has control characters in its name", "give the directory another name"
        )


def _show(run: "partial[Move]", *, json: bool) -> None:
    """Print what a move has done, or would do."""
    from spillcast.cli.output import emit
    from spillcast.errors import MoveFailed
    from spillcast.report.postgres import done_text, plan_text

    _check_printable(str(run.keywords.get("to") or ""))
    move = run()
    if json:
        emit(move.to_json())
    elif move.applied or move.reverted:
        print(done_text(move))
    else:
        print(plan_text(move))
    if move.left:
        raise MoveFailed(
            f"tablespace {move.tablespace} is in use and stays: {'; '.join(move.left)}",
            "run --revert again when nothing uses it any more",
        )
