"""``spillcast storage list``: the storages that are looked up, not measured."""

from typing import Annotated

import typer

from spillcast.cli.options import Json


def add_to(application: typer.Typer) -> None:
    """Register the command."""
    application.command("list")(list_storages)


def list_storages(
    pattern: Annotated[
        str | None, typer.Argument(help="Part of a name or description, such as gp3 or 'aws-i4*'.")
    ] = None,
    json: Json = False,
) -> None:
    """List the storages of the catalogue.

    Example: spillcast storage list aws
    """
    from spillcast.cli.output import emit
    from spillcast.report.catalogue import catalogue_document, catalogue_text
    from spillcast.storage.catalogue import matching, rows

    found = rows() if pattern is None else matching(pattern)
    if json:
        emit(catalogue_document(found))
    else:
        print(catalogue_text(found))
