"""The command ``move postgres``: temp files of a running server to another directory, and back."""

import os
from pathlib import Path
from typing import Annotated

import typer

from spillcast.engines.move import Move
from spillcast.errors import OptionConflict, OptionInvalid, OptionMissing


def move(
    dsn: Annotated[
        str | None, typer.Argument(help="Server, such as 'host=/run/postgresql dbname=dw'.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Directory on the server's machine, empty or not yet created; with --revert only "
            "if there were several."
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="SCOPE", help="role:NAME, database:NAME, server or session (default)."
        ),
    ] = None,
    tablespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its name (default: spillcast_temp)."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Run the steps and verify the result.")
    ] = False,
    revert: Annotated[
        bool, typer.Option("--revert", help="Restore everything, or what --for names.")
    ] = False,
    standbys_prepared: Annotated[
        bool, typer.Option("--standbys-prepared", help="Every standby has the directory.")
    ] = False,
) -> Move:
    """PostgreSQL: a tablespace in a directory, and temp_tablespaces of its users.

    Without --apply it prints the commands and changes nothing; without a DSN it contacts no server.
    --revert restores the previous state, even after an --apply that was interrupted. Give a
    password in PGPASSWORD or ~/.pgpass.

    Example: spillcast move postgres dbname=dw --to /mnt/nvme/pg_temp --for role:etl --apply
    """
    from spillcast.engines.postgres.move.plan import MoveRequest
    from spillcast.engines.postgres.move.run import apply_move, plan_move, revert_move
    from spillcast.engines.postgres.move.tablespaces import parse_scope

    if apply and revert:
        raise OptionConflict("give --apply or --revert, not both")
    if (apply or revert) and dsn is None:
        raise OptionConflict(
            "--apply and --revert need a server", "name it by a DSN, such as dbname=dw"
        )
    to = to and Path(os.path.abspath(to))
    scope = parse_scope(for_ or "session")
    if revert:
        return revert_move(dsn or "", to, scope, whole=for_ is None)
    if to is None:
        raise OptionMissing("--to is missing: the directory of the temp files")
    if "'" in str(to):
        hint = "give the directory another name"
        raise OptionInvalid(f"--to {to}: PostgreSQL allows no ' in a tablespace's path", hint)
    request = MoveRequest(to, scope, tablespace, standbys_prepared)
    return apply_move(dsn or "", request) if apply else plan_move(dsn, request)
