"""The tablespaces of a PostgreSQL server, and which roles put temp files where."""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from spillcast.engines.postgres.connection import Connection, row
from spillcast.errors import EvidenceDamaged, OptionInvalid
from spillcast.units import format_bytes

SETTING = "temp_tablespaces"
#: A comment of a tablespace that begins so is spillcast's note of how all was before.
MARK = "spillcast move: "
#: Names until the note is written, which tell who made the directory.
UNFINISHED = "spillcast_unfinished"
UNFINISHED_WITH_DIRECTORY = "spillcast_unfinished_dir"


@dataclass(frozen=True)
class Scope:
    """For whom a setting holds: a role, a database, a role in a database, or the server."""

    role: str | None = None
    database: str | None = None

    def __str__(self) -> str:
        if self.role and self.database:
            return f"role:{self.role} in database:{self.database}"
        if self.role or self.database:
            return f"role:{self.role}" if self.role else f"database:{self.database}"
        return "server"

    def outranks(self, other: "Scope") -> bool:
        """Whether this scope's setting wins over another's in some session of both."""
        apart = any(
            mine and theirs and mine != theirs
            for mine, theirs in ((self.role, other.role), (self.database, other.database))
        )
        return not apart and self._rank > other._rank

    @property
    def _rank(self) -> int:
        return 2 * (self.role is not None) + (self.database is not None)


def parse_scope(text: str) -> Scope | None:
    """``role:etl``, ``database:dw`` or ``server``; None for ``session``."""
    kind, _, name = text.partition(":")
    if text in ("server", "session"):
        return Scope() if text == "server" else None
    if kind not in ("role", "database") or not name:
        hint = "write role:NAME, database:NAME, server or session"
        raise OptionInvalid(f"--for '{text}' is not a role, a database, server or session", hint)
    return Scope(role=name) if kind == "role" else Scope(database=name)


@dataclass(frozen=True)
class Note:
    """How all was before, kept as the tablespace's comment; keys are scopes as text."""

    made_directory: bool
    made_tablespace: bool = True
    #: The comment of a tablespace that was there before.
    comment: str | None = None
    #: Tablespaces that were set before; None for unset.
    before: dict[str, list[str] | None] = field(default_factory=dict)
    #: Roles that were granted CREATE, for any of the scopes.
    granted: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return MARK + json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Tablespace:
    """A tablespace, and spillcast's note of it where it has one."""

    oid: int
    name: str
    location: str
    comment: str | None

    @property
    def note(self) -> Note | None:
        """The note, also of a move that ended before it was written. InputError if damaged."""
        if self.name in (UNFINISHED, UNFINISHED_WITH_DIRECTORY):
            return Note(made_directory=self.name == UNFINISHED_WITH_DIRECTORY)
        if self.comment is None or not self.comment.startswith(MARK):
            return None
        try:
            return Note(**json.loads(self.comment.removeprefix(MARK)))
        except (ValueError, TypeError):
            raise EvidenceDamaged(
                f"the note in the comment of tablespace {self.name} cannot be read: somebody "
                "changed it",
                "see it with \\db+ in psql, and correct it with COMMENT ON TABLESPACE",
            ) from None


def tablespaces(connection: Connection) -> list[Tablespace]:
    """All tablespaces with a location of their own."""
    query = (
        "select oid, spcname, pg_tablespace_location(oid), shobj_description(oid, 'pg_tablespace')"
        " from pg_tablespace where pg_tablespace_location(oid) <> '' order by spcname"
    )
    return [Tablespace(*record) for record in connection.execute(query)]


def settings(
    connection: Connection, name: str = SETTING, *, server: bool
) -> dict[Scope, list[str]]:
    """Who has a setting of tablespaces, and its names.

    With ``server``, which only a superuser may see, also what ALTER SYSTEM has set.
    """
    settings = {}
    query = (
        "select rolname, datname, substr(entry, length(%s::text) + 2) from pg_db_role_setting "
        "cross join unnest(setconfig) entry left join pg_roles r on r.oid = setrole "
        "left join pg_database d on d.oid = setdatabase where entry like %s::text || '=%%'"
    )
    for role, database, value in connection.execute(query, (name, name)):
        settings[Scope(role, database)] = parse_names(value)
    if not server:
        return settings
    # The file's last entry holds.
    query = (
        "select setting from pg_file_settings where name = %s "
        "and sourcefile like '%%/postgresql.auto.conf' order by seqno"
    )
    for (value,) in connection.execute(query, (name,)):
        settings[Scope()] = parse_names(value)
    return settings


def parse_names(value: str) -> list[str]:
    """The identifiers of a list such as ``fast, "Odd name"``."""
    parts = re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', value)
    return [plain.lower() if plain else quoted.replace('""', '"') for quoted, plain in parts]


def users_of(connection: Connection, tablespace: Tablespace) -> list[str]:
    """What lies in a tablespace, in words: objects, and temp files of queries that run."""
    users = []
    query = (
        "select coalesce(datname, oid::text) from pg_tablespace_databases(%s) oid "
        "left join pg_database d using (oid) order by 1"
    )
    databases = [name for (name,) in connection.execute(query, (tablespace.oid,))]
    query = "select relname from pg_class where reltablespace = %s order by relname limit 5"
    names = [name for (name,) in connection.execute(query, (tablespace.oid,))]
    if databases or names:
        such = ", such as " + ", ".join(names) if names else ""
        where = ", ".join(databases) or connection.info.dbname
        users.append(f"tables or indexes of database {where}{such}")
    # ``pg_ls_tmpdir`` does not show the directories of parallel queries.
    query = (
        "select count(*), coalesce(sum(size), 0), (select count(*) from "
        "pg_ls_dir(%s::text, true, false) version cross join lateral "
        "pg_ls_dir(%s::text || '/' || version || '/pgsql_tmp', true, false) entry "
        "where version like 'PG\\_%%' and entry like '%%fileset') from pg_ls_tmpdir(%s)"
    )
    where = f"pg_tblspc/{tablespace.oid}"
    count, size, shared = row(connection, query, where, where, tablespace.oid)
    if count or shared:
        users.append(f"temp files of running queries: {count + shared} ({format_bytes(int(size))})")
    return users


def spilled_by(connection: Connection, pid: int) -> dict[str, tuple[int, int]]:
    """Temp files of a server process: by tablespace their number and bytes."""
    query = (
        "select spcname, count(*), sum(size)::bigint from pg_tablespace t "
        "cross join lateral pg_ls_tmpdir(t.oid) f "
        "where spcname <> 'pg_global' and f.name like 'pgsql\\_tmp' || %s::text || '.%%' group by 1"
    )
    records: list[tuple[Any, ...]] = connection.execute(query, (str(pid),)).fetchall()
    return {name: (count, size) for name, count, size in records}
