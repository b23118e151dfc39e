"""``spillcast move``: temp files to other storage, and back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.options import Json

if TYPE_CHECKING:
    from spillcast.engines.move import Move


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    group = typer.Typer(
        help="Move temp files to other storage, and back: print the steps, or do them.",
        no_args_is_help=True,
    )
    group.callback()(lambda: None)
    for command in (postgres, oracle, duckdb, tmpfs):
        group.command(command.__name__)(command)
    application.add_typer(group, name="move")


def postgres(
    dsn: Annotated[
        str | None, typer.Argument(help="Server, such as 'host=/run/postgresql dbname=dw'.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the server's machine, empty or not there yet; with --revert only "
            "where there were several."
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", help="role:NAME, database:NAME, server or session (default)."),
    ] = None,
    tablespace: Annotated[
        str | None, typer.Option(help="Name of the tablespace (default: spillcast_temp).")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it, and see it work.")] = False,
    revert: Annotated[
        bool, typer.Option("--revert", help="Put all back, or what --for says.")
    ] = False,
    standbys_prepared: Annotated[
        bool, typer.Option("--standbys-prepared", help="Every standby has the directory.")
    ] = False,
    json: Json = False,
) -> None:
    """PostgreSQL: a tablespace in a directory, and temp_tablespaces of those who are to use it.

    Without --apply it prints the commands and changes nothing; without a DSN it does not even ask
    a server. --revert puts back what was before, also after an --apply that was interrupted. A
    password is best given in PGPASSWORD or ~/.pgpass.

    Example: spillcast move postgres dbname=dw --to /mnt/nvme/pg_temp --for role:etl --apply
    """
    import os

    from spillcast.engines.postgres_move import Wish
    from spillcast.engines.postgres_move_run import moved, moved_back, planned
    from spillcast.engines.postgres_tablespace import parse_scope
    from spillcast.errors import InputError, SpillcastError

    if apply and revert:
        raise InputError("give --apply or --revert, not both")
    if (apply or revert) and dsn is None:
        raise InputError(
            "--apply and --revert want a server", "name it by a DSN, such as dbname=dw"
        )
    to = to and Path(os.path.abspath(to))
    scope = parse_scope(for_ or "session")
    if revert:
        move = moved_back(dsn or "", to, scope, whole=for_ is None)
    elif to is None:
        raise InputError("--to is missing: the directory of the temp files")
    else:
        wish = Wish(to, scope, tablespace, standbys_prepared)
        move = moved(dsn or "", wish) if apply else planned(dsn, wish)
    _show(move, json=json)
    if move.left:
        raise SpillcastError(
            f"tablespace {move.tablespace} is in use and stays: {'; '.join(move.left)}",
            "run --revert again when nothing uses it any more",
        )


def oracle(
    to: Annotated[str, typer.Option(help="Directory or disk group, such as +FLASH.")],
    user: Annotated[
        str | None, typer.Option(help="User to move (default: all with the database's default).")
    ] = None,
    size: Annotated[str, typer.Option(help="Size of the temp file.")] = "32G",
    exadata_flash: Annotated[
        bool, typer.Option("--exadata-flash", help="Make the disk group of Exadata's flash disks.")
    ] = False,
    cells: Annotated[int | None, typer.Option(help="With it: number of cells.")] = None,
    cell_flash: Annotated[str | None, typer.Option(help="With it: flash of a cell.")] = None,
    cell_cache: Annotated[
        str, typer.Option(help="With it: what a cell keeps as flash cache.")
    ] = "2T",
    json: Json = False,
) -> None:
    """Oracle: a temporary tablespace on other storage, and who is to use it. Only printed.

    With --exadata-flash also the steps that take flash disks from the flash cache, and the price.

    Example: spillcast move oracle --to +FLASH --user etl --size 200G
    """
    from spillcast.engines.exadata_flash import exadata_flash_move, parse_flash
    from spillcast.engines.oracle_move import oracle_move
    from spillcast.errors import InputError

    flash = parse_flash(cells, cell_flash, cell_cache)
    if exadata_flash:
        move = exadata_flash_move(to, user, size, cell_cache, flash)
    elif flash is not None:
        raise InputError("--cells and --cell-flash belong to --exadata-flash")
    else:
        move = oracle_move(to, user, size)
    _show(move, json=json)


def duckdb(
    to: Annotated[Path, typer.Option(help="Directory of the temp files.")],
    size: Annotated[str | None, typer.Option(help="Most that they may take, such as 100G.")] = None,
    json: Json = False,
) -> None:
    """DuckDB: the settings of a session, and where they are kept. Only printed.

    Example: spillcast move duckdb --to /mnt/nvme/duckdb --size 100G
    """
    import os

    from spillcast.engines.duckdb_move import duckdb_move

    _show(duckdb_move(Path(os.path.abspath(to)), size), json=json)


def tmpfs(
    to: Annotated[Path, typer.Option(help="Mount point.")],
    size: Annotated[str, typer.Option(help="Most that it may hold, such as 8G.")],
    owner: Annotated[str | None, typer.Option(help="User it is for (default: everybody).")] = None,
    json: Json = False,
) -> None:
    """A mount in memory for temp files, on this machine. Only printed.

    Example: spillcast move tmpfs --to /mnt/temp --size 8G --owner postgres
    """
    from spillcast.engines.tmpfs_move import tmpfs_move

    _show(tmpfs_move(to, size, owner), json=json)


def _show(move: "Move", *, json: bool) -> None:
    from spillcast.cli.output import emit
    from spillcast.report.move import done_text, plan_text

    if json:
        emit(move.to_json())
    elif move.applied or move.reverted:
        print(done_text(move))
    else:
        print(plan_text(move))
