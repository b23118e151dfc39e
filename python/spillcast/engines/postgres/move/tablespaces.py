"""The tablespaces, roles and settings of a server whose temp files are moved."""

import json
import os
import pwd
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spillcast.engines.move import Step
from spillcast.engines.postgres import Connection, local_process, row, shown_dsn
from spillcast.errors import EvidenceDamaged, MoveBlocked, OptionInvalid
from spillcast.text import shell_word
from spillcast.units import format_bytes

SETTING = "temp_tablespaces"
#: A tablespace's comment that begins with this is spillcast's note of the previous state.
MARK = "spillcast move: "
#: Names of a tablespace until the note is written; the second if spillcast made the directory.
UNFINISHED = "spillcast_unfinished"
UNFINISHED_WITH_DIRECTORY = "spillcast_unfinished_dir"


@dataclass(frozen=True)
class Scope:
    """The scope of a setting: a role, a database, a role in a database, or (neither) the server."""

    role: str | None = None
    database: str | None = None

    def __str__(self) -> str:
        names = (("role", self.role), ("database", self.database))
        return " in ".join(f"{kind}:{name}" for kind, name in names if name) or "server"

    def outranks(self, other: "Scope") -> bool:
        """Whether this scope's setting takes precedence in some session to which both apply."""
        pairs = ((self.role, other.role), (self.database, other.database))
        are_disjoint = any(None not in pair and pair[0] != pair[1] for pair in pairs)
        return not are_disjoint and self._rank > other._rank

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
class TablespaceNote:
    """The state before a move, stored in the tablespace's comment; keys are scopes as text."""

    made_directory: bool
    made_tablespace: bool = True
    #: The previous comment of a tablespace that spillcast did not create.
    comment: str | None = None
    #: The previous settings by scope; None if there was none.
    before: dict[str, list[str] | None] = field(default_factory=dict)
    #: Roles to which CREATE was granted, for any of the scopes.
    granted: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return MARK + json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Tablespace:
    """A tablespace, and spillcast's note if it has one."""

    oid: int
    name: str
    location: str
    comment: str | None

    @property
    def note(self) -> TablespaceNote | None:
        """The note, or its equivalent if the move ended before it. InputError if damaged."""
        if self.name in (UNFINISHED, UNFINISHED_WITH_DIRECTORY):
            return TablespaceNote(made_directory=self.name == UNFINISHED_WITH_DIRECTORY)
        if self.comment is None or not self.comment.startswith(MARK):
            return None
        try:
            return TablespaceNote(**json.loads(self.comment.removeprefix(MARK)))
        except (ValueError, TypeError):
            raise EvidenceDamaged(
                f"the note in the comment of tablespace {self.name} cannot be read: somebody "
                "changed it",
                "see it with \\db+ in psql, and correct it with COMMENT ON TABLESPACE",
            ) from None


def settings(
    connection: Connection, name: str = SETTING, *, server: bool
) -> dict[Scope, list[str]]:
    """The tablespaces that ``name`` lists, by scope; with ``server``, also by ALTER SYSTEM."""
    by_scope = {}
    query = (
        "select rolname, datname, substr(entry, length(%s::text) + 2) from pg_db_role_setting "
        "cross join unnest(setconfig) entry left join pg_roles r on r.oid = setrole "
        "left join pg_database d on d.oid = setdatabase where entry like %s::text || '=%%'"
    )
    for role, database, value in connection.execute(query, (name, name)):
        by_scope[Scope(role, database)] = parse_names(value)
    if not server:
        return by_scope
    # The file's last entry takes effect.
    query = (
        "select setting from pg_file_settings where name = %s "
        "and sourcefile like '%%/postgresql.auto.conf' order by seqno"
    )
    for (value,) in connection.execute(query, (name,)):
        by_scope[Scope()] = parse_names(value)
    return by_scope


def parse_names(value: str) -> list[str]:
    """The identifiers in a list such as ``fast, "Odd name"``."""
    parts = re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', value)
    return [plain.lower() if plain else quoted.replace('""', '"') for quoted, plain in parts]


def users_of(connection: Connection, tablespace: Tablespace) -> list[str]:
    """The contents of a tablespace, as text: objects, and temp files of running queries."""
    users = []
    query = (
        "select coalesce(datname, oid::text) from pg_tablespace_databases(%s) oid "
        "left join pg_database d using (oid) order by 1"
    )
    databases = [name for (name,) in connection.execute(query, (tablespace.oid,))]
    query = "select relname from pg_class where reltablespace = %s order by relname limit 5"
    names = [name for (name,) in connection.execute(query, (tablespace.oid,))]
    if databases or names:
        examples = ", such as " + ", ".join(names) if names else ""
        owners = ", ".join(databases) or connection.info.dbname
        users.append(f"tables or indexes of database {owners}{examples}")
    # ``pg_ls_tmpdir`` does not show the directories of parallel queries.
    query = (
        "select count(*), coalesce(sum(size), 0), (select count(*) from "
        "pg_ls_dir(%s::text, true, false) version cross join lateral "
        "pg_ls_dir(%s::text || '/' || version || '/pgsql_tmp', true, false) entry "
        "where version like 'PG\\_%%' and entry like '%%fileset') from pg_ls_tmpdir(%s)"
    )
    path = f"pg_tblspc/{tablespace.oid}"
    count, size, shared = row(connection, query, path, path, tablespace.oid)
    if count or shared:
        users.append(f"temp files of running queries: {count + shared} ({format_bytes(int(size))})")
    return users


_TABLESPACES = (
    "select oid, spcname, pg_tablespace_location(oid), shobj_description(oid, 'pg_tablespace')"
    " from pg_tablespace where pg_tablespace_location(oid) <> '' order by spcname"
)
_FACTS = """
select current_user, current_setting('is_superuser')::bool, pg_is_in_recovery(),
       array(select rolname::text from pg_roles where rolsuper order by 1),
       array(select rolname::text from pg_roles where rolname !~ '^pg_' order by 1),
       array(select datname::text from pg_database where datallowconn order by 1)
"""
#: Standbys include connected ones, and those for which a replication slot waits.
_FOR_SUPERUSERS = """
select current_setting('data_directory'),
       (select source from pg_settings where name = 'temp_tablespaces'),
       array(select application_name from pg_stat_replication r where not exists (
                 select from pg_replication_slots s
                 where s.active_pid = r.pid and s.slot_type = 'logical')
             union select slot_name from pg_replication_slots where slot_type = 'physical'
             order by 1)
"""


@dataclass(frozen=True)
class ServerFacts:
    """Facts about a server; the defaults are assumptions for use without a connection."""

    client: str = "psql"
    user: str = "postgres"
    superuser: bool = True
    superusers: list[str] = field(default_factory=list)
    #: None without a connection.
    roles: list[str] | None = None
    databases: list[str] | None = None
    standby: bool = False
    #: Servers that replay each step, and would stop if the directory is missing.
    standbys: list[str] = field(default_factory=list)
    #: The user of the server's processes; None if it runs on another machine.
    owner: str | None = "postgres"
    #: Why it is assumed to run on another machine.
    elsewhere: str | None = None
    data_directory: Path | None = None
    tablespaces: list[Tablespace] = field(default_factory=list)
    settings: dict[Scope, list[str]] = field(default_factory=dict)
    #: Settings of default_tablespace, which also keep a tablespace in use.
    defaults: dict[Scope, list[str]] = field(default_factory=dict)
    #: The source of the server's own value, such as ``command line``.
    source: str = "default"

    @property
    def local(self) -> bool:
        """Whether the server runs on this machine."""
        return self.owner is not None

    def at(self, directory: Path) -> Tablespace | None:
        """The tablespace in a directory."""
        path = os.path.realpath(directory)
        spaces = (space for space in self.tablespaces if os.path.realpath(space.location) == path)
        return next(spaces, None)

    def step(self, why: str, *sql: str) -> Step:
        """A step of statements for a client of this server; several are one transaction."""
        return Step(why, sql=sql, client=self.client)

    def named(self, name: str) -> Tablespace | None:
        """The tablespace with a name."""
        return next((space for space in self.tablespaces if space.name == name), None)


def server_facts(connection: Connection, dsn: str) -> ServerFacts:
    """Queries the facts. For a role that is not a superuser, some facts have their defaults."""
    user, superuser, standby, superusers, roles, databases = row(connection, _FACTS)
    pid, elsewhere = local_process(connection)
    data_directory, source, standbys = None, "default", list[str]()
    if superuser:
        data_directory, source, standbys = row(connection, _FOR_SUPERUSERS)
    return ServerFacts(
        client=f"psql -X -v ON_ERROR_STOP=1 {shell_word(shown_dsn(dsn))}",
        user=user,
        superuser=superuser,
        superusers=superusers,
        roles=roles,
        databases=databases,
        standby=standby,
        owner=None if pid is None else user_name(Path(f"/proc/{pid}").stat().st_uid),
        elsewhere=elsewhere,
        tablespaces=[Tablespace(*record) for record in connection.execute(_TABLESPACES)],
        settings=settings(connection, server=superuser),
        defaults=settings(connection, "default_tablespace", server=superuser),
        data_directory=data_directory and Path(data_directory),
        source=source,
        standbys=standbys,
    )


def roles_that_lack(connection: Connection, scope: Scope | None, tablespace: str) -> list[str]:
    """Roles that can log in within a scope, but may not put temp files into a tablespace."""
    if scope is None:
        return []
    condition = "rolname = %s" if scope.role else "rolcanlogin and rolname <> %s"
    query = (
        f"select rolname from pg_roles where {condition} and not rolsuper "
        "and (%s::text is null or has_database_privilege(oid, %s, 'connect')) "
        "and not (exists (select 1 from pg_tablespace where spcname = %s) and "
        "coalesce(has_tablespace_privilege(oid, (select oid from pg_tablespace "
        "where spcname = %s), 'create'), false)) order by 1"
    )
    values = (scope.role or "", scope.database, scope.database, tablespace, tablespace)
    return [name for (name,) in connection.execute(query.encode(), values)]


def check_exists(facts: ServerFacts, scope: Scope | None) -> None:
    """InputError if there is no such role or database."""
    for kind, name, names in (
        ("role", scope and scope.role, facts.roles),
        ("database", scope and scope.database, facts.databases),
    ):
        if name and names is not None and name not in names:
            hint = f"there are {', '.join(names[:20])}"
            raise MoveBlocked(f"--for {kind}:{name}: the server has no such {kind}", hint)


def open_sessions(connection: Connection, scope: Scope) -> int:
    """The number of open sessions of a scope, which keep their previous setting."""
    (count,) = row(
        connection,
        "select count(*) from pg_stat_activity where backend_type = 'client backend' "
        "and pid <> pg_backend_pid() and (%s::text is null or usename = %s) "
        "and (%s::text is null or datname = %s)",
        scope.role, scope.role, scope.database, scope.database,
    )  # fmt: skip
    return int(count)


def user_name(uid: int) -> str:
    """The name of a user on this machine, or the user ID if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
