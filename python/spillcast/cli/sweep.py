"""``spillcast sweep``: what a knob does to a spill, over all of its settings."""

from importlib import import_module

import typer

from spillcast.cli.usage import Verbs

#: Modules of the knobs, one a command.
KNOBS = ("sweep_io_size", "sweep_memory")


def add_to(application: typer.Typer) -> None:
    """Register the verb with its commands."""
    sweep = typer.Typer(
        cls=Verbs,
        help="Find the best I/O size or work memory.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    sweep.callback()(lambda: None)
    for knob in KNOBS:
        import_module(f"spillcast.cli.{knob}").add_to(sweep)
    application.add_typer(sweep, name="sweep")
