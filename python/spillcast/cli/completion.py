"""``spillcast completion``: scripts that let a shell complete verbs, options and files."""

from typing import Annotated, Literal

import typer

from spillcast.cli.options import Json


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("completion")(completion)


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Which shell.")],
    json: Json = False,
) -> None:
    """Print a script that completes verbs, options and files.

    All words are in the script, so that a key press starts no program. Print it again after an
    update.

    Example: spillcast completion bash > ~/.local/share/bash-completion/completions/spillcast

    Example: spillcast completion fish > ~/.config/fish/completions/spillcast.fish
    """
    from spillcast.cli import shells
    from spillcast.cli.output import emit
    from spillcast.cli.tree import tree

    script: str = getattr(shells, f"{shell}_script")(tree())
    if json:
        emit({"schema": "spillcast.completion/1", "shell": shell, "script": script})
    else:
        print(script, end="")
