"""``spillcast move``: temp files to other storage, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from spillcast.cli.engine_options import EngineCommand
from spillcast.cli.usage import command_group
from spillcast.engines.move import Move
from spillcast.engines.registry import engines, feature_of


def tmpfs(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Mount point.")],
    size: Annotated[str, typer.Option(metavar="SIZE", help="Largest size, such as 8G.")],
    owner: Annotated[
        str | None, typer.Option(metavar="USER", help="User it is for (default: everybody).")
    ] = None,
) -> Move:
    """tmpfs: a mount in memory for temp files, on this machine. Only prints the steps.

    Example: spillcast move tmpfs --to /mnt/temp --size 8G --owner postgres
    """
    from spillcast.engines.move import tmpfs_move

    return tmpfs_move(to, size, owner)


class _Move(EngineCommand):
    """Prints the steps that a move has taken or would take."""

    def check(self, options: Mapping[str, Any]) -> None:
        """InputError for a place that no statement and no command could name in every program."""
        from spillcast.errors import OptionInvalid
        from spillcast.text import has_control

        to = str(options.get("to") or "")
        if has_control(to):
            raise OptionInvalid(
                f"--to {to}: has control characters in its name", "give the directory another name"
            )

    def print_result(self, move: Move, options: Mapping[str, Any]) -> None:
        """Print the steps. SpillcastError if the tablespace is still in use."""
        from spillcast.cli.output import emit
        from spillcast.errors import MoveFailed
        from spillcast.report.engines import done_text, plan_text

        if options["json"]:
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


move = command_group("Move temp files to other storage, and back. Prints the steps, or runs them.")
for _engine in engines("move"):
    move.command(_engine.name, cls=_Move)(feature_of(_engine, "move"))
move.command("tmpfs", cls=_Move)(tmpfs)
