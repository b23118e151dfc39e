"""What has to hold before PostgreSQL's temp files are moved; each lack is named with its remedy."""

import os
from pathlib import Path

from spillcast.engines.postgres.connection import Connection, row, server_message
from spillcast.engines.postgres.move.plan import Directory, Wish, chown_empty, user_id
from spillcast.engines.postgres.move.situation import Situation
from spillcast.engines.postgres.move.tablespace import Scope
from spillcast.engines.postgres.quoting import shown_name
from spillcast.errors import (
    OptionInvalid,
    OutputExists,
    PathMissing,
    PermissionDenied,
    ServerUnsuited,
)
from spillcast.visible import shell_word


def check_server(facts: Situation) -> None:
    """InputError where this server, at this end, cannot be changed by us."""
    if facts.elsewhere is not None:
        raise OptionInvalid(
            f"{facts.elsewhere}, and the directory has to be where it runs",
            "run this there, or print the commands without --apply",
        )
    if facts.standby:
        hint = "give the DSN of its primary; the directory has to be on both"
        raise ServerUnsuited("the server is a standby and cannot be changed", hint)
    if not facts.superuser:
        by = facts.superusers[0] if facts.superusers else ""
        grant = (
            f"let a superuser run: GRANT {shown_name(by)} TO {shown_name(facts.user)}, and add "
            f"options='-c role={by}' to the DSN; "
            if by
            else ""
        )
        raise PermissionDenied(
            f"role {facts.user} lacks SUPERUSER, which is needed to make or drop a tablespace",
            f"connect as {by or 'a superuser'}, or "
            f"{grant}or let one run what is printed without --apply",
        )


def check_move(connection: Connection, facts: Situation, wish: Wish) -> None:
    """InputError where a move could not be done, or would do harm."""
    check_server(facts)
    if facts.standbys and not wish.standbys_prepared:
        names = ", ".join(facts.standbys)
        raise ServerUnsuited(
            f"a standby creates the tablespace too, and stops if the directory is missing: {names}",
            f"create {wish.to} on each of them, owned by the server's user, then give "
            "--standbys-prepared",
        )
    if wish.scope == Scope() and facts.source == "command line":
        raise ServerUnsuited(
            "temp_tablespaces is on the server's command line, which nothing else overrides",
            "remove it from there, or move roles or databases",
        )
    _check_directory(connection, facts, wish)


def _check_directory(connection: Connection, facts: Situation, wish: Wish) -> None:
    """The directory is usable: as it is, or once it is made."""
    path = wish.to
    if facts.data_directory is not None:
        data = os.path.realpath(facts.data_directory)
        if os.path.commonpath([data, os.path.realpath(path)]) == data:
            raise OptionInvalid(f"--to {path} is inside the data directory {data}")
    parent = path.parent
    if not parent.is_dir():
        raise PathMissing(
            f"--to {path}: there is no directory {parent}", f"mkdir -p {shell_word(parent)}"
        )
    for seen in (parent, path):
        _check_seen(connection, seen, f"--to {path}")
    if facts.at(path) is not None:
        return
    directory = Directory.look(path)
    owner, word = facts.owner or "", shell_word(path)
    root = os.geteuid() == 0
    mine = user_id(owner) == os.geteuid()
    if not directory.exists and not (root or (mine and os.access(parent, os.W_OK))):
        hint = f"as root: mkdir -m 700 {word} && {chown_empty(owner, path)}"
        raise PermissionDenied(f"--to {path}: cannot be created without being root", hint)
    if not directory.exists:
        return
    if directory.uid != user_id(owner) and not (directory.made and root):
        hint = f"{chown_empty(owner, path)}, or name a directory in it that does not exist yet"
        raise PermissionDenied(f"--to {path} is not the server's own; it runs as {owner}", hint)
    entries = _entries(connection, path, by_server=directory.uid == user_id(owner))
    if entries:
        hint = f"name a directory in it, such as {path}/pg_temp"
        raise OutputExists(f"--to {path} is not empty: {', '.join(entries[:3])}", hint)


def _entries(connection: Connection, path: Path, *, by_server: bool) -> list[str]:
    if not by_server:
        return os.listdir(path)
    query = "select coalesce(array_agg(name), '{}') from pg_ls_dir(%s) name"
    return list(row(connection, query, str(path))[0])


def _check_seen(connection: Connection, path: Path, role: str) -> None:
    """The server can reach a path, and finds there what we find."""
    import psycopg

    # Where nothing is there the server says so only if it may pass through the directory above.
    query = "select floor(extract(epoch from modification))::bigint from pg_stat_file(%s, true)"
    before_s = _modified_s(path)
    try:
        (modified_s,) = row(connection, query, str(path))
    except psycopg.Error as error:
        reason = server_message(error)
        hint = "it needs execute permission on every directory above"
        raise PermissionDenied(f"{role}: the server cannot reach {path}: {reason}", hint) from None
    if not before_s <= (modified_s or 0) <= _modified_s(path):
        hint = "it may have a private /tmp, as with PrivateTmp of systemd"
        raise ServerUnsuited(f"{role}: the server sees another {path} than spillcast", hint)


def _modified_s(path: Path) -> int:
    return int(path.stat().st_mtime) if path.exists() else 0
