"""Verbs with a command for each engine that offers it: ``move`` and ``collect``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperOption

from spillcast.cli.usage import Grouped, command_group
from spillcast.engines.move import Move
from spillcast.engines.registry import engines, feature_of


class EngineCommand(Grouped):
    """A command whose function an engine offers; ``print_result`` prints its result.

    The function's parameters are options of the engine, ``shared`` those of all engines.
    """

    shared: tuple[TyperOption, ...] = ()

    def __init__(self, *arguments: Any, params: Any, **attributes: Any) -> None:
        json = TyperOption(param_decls=["--json"], is_flag=True, help="Print one JSON document.")
        self._shared = (*self.shared, json)
        super().__init__(*arguments, params=[*params, *self._shared], **attributes)

    def invoke(self, context: Any) -> None:
        """Run the function and print its result."""
        options = dict(context.params)
        self.check(options)
        for option in self._shared:
            del context.params[option.name]
        self.print_result(super().invoke(context), options)

    def check(self, options: Mapping[str, Any]) -> None:
        """InputError for options with which the function should not run."""

    def print_result(self, result: Any, options: Mapping[str, Any]) -> None:
        """Print the result of the function."""
        raise NotImplementedError


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


class _Collect(EngineCommand):
    """Prints the script that an engine returns, or writes it to a file."""

    shared = (
        TyperOption(
            param_decls=["--output", "-o"],
            metavar="<path>",
            help="File to write, such as collect.sql.",
        ),
    )

    def check(self, options: Mapping[str, Any]) -> None:
        """InputError for a file that cannot be written."""
        from spillcast.workspace import check_output_file

        if options["output"] is not None:
            check_output_file(Path(options["output"]))

    def print_result(self, script: str, options: Mapping[str, Any]) -> None:
        """Print the script, or write it to ``output``."""
        from spillcast.cli.output import emit
        from spillcast.workspace import whole_file

        output = options["output"]
        if output is not None:
            with whole_file(Path(output)) as partial:
                partial.write_text(script)
        if options["json"]:
            emit({"schema": "spillcast.collect/1", "script": script})
        elif output is None:
            print(script, end="")


collect = command_group("Print a script that collects the evidence.")
for _engine in engines("collect"):
    collect.command(_engine.name, cls=_Collect)(feature_of(_engine, "collect"))
