"""Verbs with a command for each engine that supports it: ``move`` and ``collect``."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from spillcast.cli.options import Json, option, with_parameters
from spillcast.cli.output import emit, notify
from spillcast.cli.usage import Grouped, command_group
from spillcast.engines.move import Move, move_tmpfs
from spillcast.engines.registry import engines, feature_of
from spillcast.errors import MoveFailed, OptionInvalid
from spillcast.text import has_control
from spillcast.workspace import check_output_file, whole_file


def _command(function: Callable[..., Any], run: Callable[..., None]) -> Callable[..., Any]:
    """A command with the options of an engine's function, and the keyword options of ``run``."""
    options, shared = (inspect.signature(each).parameters.values() for each in (function, run))
    named = [each for each in shared if each.kind is inspect.Parameter.KEYWORD_ONLY]
    return with_parameters(run, function, [*options, *named])


def _move(function: Callable[..., Move]) -> Callable[..., Any]:
    """A command that prints the steps that a move has taken or would take."""

    def run(*, json: Json = False, **options: Any) -> None:
        from spillcast.report.engines import done_text, plan_text

        to = str(options.get("to") or "")
        if has_control(to):
            problem = f"--to {to}: has control characters in its name"
            raise OptionInvalid(problem, "give the directory another name")
        move = function(**options)
        done = move.applied or move.reverted
        if not (done or json):
            how = "; --apply takes them" if "apply" in options else ""
            notify(f"nothing has changed: these are the steps{how}")
        if not json:
            print(done_text(move) if done else plan_text(move))
        if move.left:
            error = MoveFailed(
                f"tablespace {move.tablespace} is in use and stays: {'; '.join(move.left)}",
                "run --revert again when nothing uses it any more",
            )
            error.document = move.to_json()
            raise error
        if json:
            emit(move.to_json())

    return _command(function, run)


move = command_group("Move temp files to other storage, and back. Prints the steps, or runs them.")
for _engine in engines("move"):
    move.command(_engine.name, cls=Grouped)(_move(feature_of(_engine, "move")))
move.command("tmpfs", cls=Grouped)(_move(move_tmpfs))


def _collect(function: Callable[..., str]) -> Callable[..., Any]:
    """A command that prints the script that an engine returns, or writes it to a file."""

    def run(
        *,
        output: Annotated[
            Path | None, option("--output, -o FILE", "File to write, such as collect.sql.")
        ] = None,
        json: Json = False,
        **options: Any,
    ) -> None:
        check_output_file(output)
        script = function(**options)
        if output is not None:
            with whole_file(output) as partial:
                partial.write_text(script, "utf-8")
        if json:
            emit({"schema": "spillcast.collect/1", "script": script})
        elif output is None:
            print(script, end="")

    return _command(function, run)


collect = command_group("Print a script that collects the evidence.")
for _engine in engines("collect"):
    collect.command(_engine.name, cls=Grouped)(_collect(feature_of(_engine, "collect")))
