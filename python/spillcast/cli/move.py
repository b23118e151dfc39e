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
        Path | None, typer.Option(help="Directory of the server's machine, empty or not there yet.")
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", help="role:NAME, database:NAME, server or session (default)."),
    ] = None,
    tablespace: Annotated[
        str | None, typer.Option(help="Name of the tablespace (default: spillcast_temp).")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do it, and see it work.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Put all back, or what --for says.")] = False,
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
    if to is None:
        raise InputError("--to is missing: the directory of the temp files")
    if (apply or revert) and dsn is None:
        raise InputError("--apply and --revert want a server", "name it by a DSN, such as dbname=dw")
    to = Path(os.path.abspath(to))
    scope = parse_scope(for_ or "session")
    if revert:
        move = moved_back(dsn or "", to, scope, whole=for_ is None)
    else:
        wish = Wish(to, scope, tablespace, standbys_prepared)
        move = moved(dsn or "", wish) if apply else planned(dsn, wish)
    _show(move, json=json)
    if move.left:
        raise SpillcastError(
            f"tablespace {move.tablespace} is in use and stays: {'; '.join(move.left)}",
            "run --revert again when nothing uses it any more",
        )
