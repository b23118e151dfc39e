"""``spillcast storage list``: the storages that are looked up, not measured."""

from typing import Annotated

import typer

from spillcast.cli.options import Csv, Json, Markdown


def add_to(application: typer.Typer) -> None:
    """Register the command."""
    application.command("list")(list_storages)


def list_storages(
    pattern: Annotated[
        str | None, typer.Argument(help="Part of a name or description, such as gp3 or 'aws-i4*'.")
    ] = None,
    json: Json = False,
    csv: Csv = False,
    markdown: Markdown = False,
) -> None:
    """List the storages of the catalogue.

    Example: spillcast storage list aws
    """
    from spillcast.cli.output import show
    from spillcast.report.storages import catalogue_document, catalogue_page
    from spillcast.storage.catalogue import matching, rows

    listed = rows() if pattern is None else matching(pattern)
    show(
        lambda: catalogue_document(listed),
        lambda: catalogue_page(listed),
        json=json,
        csv=csv,
        markdown=markdown,
    )
