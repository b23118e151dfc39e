"""``spillcast move oracle``: what its options ask for."""

from typing import Annotated

import typer

from spillcast.engines.move import Move
from spillcast.errors import OptionConflict


def move(
    to: Annotated[str, typer.Option(help="Directory or disk group, such as +FLASH.")],
    user: Annotated[
        str | None, typer.Option(help="User to move (default: all with the database's default).")
    ] = None,
    size: Annotated[str, typer.Option(help="Size of the temp file.")] = "32G",
    exadata_flash: Annotated[
        bool,
        typer.Option("--exadata-flash", help="Make the disk group from Exadata's flash disks."),
    ] = False,
    cells: Annotated[
        int | None, typer.Option(help="With --exadata-flash: number of cells.")
    ] = None,
    cell_flash: Annotated[
        str | None, typer.Option(help="With --exadata-flash: flash size of a cell.")
    ] = None,
    cell_cache: Annotated[
        str, typer.Option(help="With --exadata-flash: flash cache that a cell keeps.")
    ] = "2T",
) -> Move:
    """Oracle: a temporary tablespace on other storage, and its users. Only prints the steps.

    With --exadata-flash also the steps that take flash disks from the flash cache, and the price.

    Example: spillcast move oracle --to +FLASH --user etl --size 200G
    """
    from spillcast.engines.oracle.exadata_flash import exadata_flash_move, parse_flash
    from spillcast.engines.oracle.temp_tablespace import oracle_move

    flash = parse_flash(cells, cell_flash, cell_cache)
    if exadata_flash:
        return exadata_flash_move(to, user, size, cell_cache, flash)
    if flash is not None:
        raise OptionConflict("--cells and --cell-flash belong to --exadata-flash")
    return oracle_move(to, user, size)
