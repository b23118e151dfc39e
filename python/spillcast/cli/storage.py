"""``spillcast storage``: storages that are known, looked at and compared."""

import typer

from spillcast.cli import storage_list


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    storage = typer.Typer(
        help="List, show and compare storages.", no_args_is_help=True, rich_markup_mode=None
    )
    storage.callback()(lambda: None)
    storage_list.add_to(storage)
    application.add_typer(storage, name="storage")
