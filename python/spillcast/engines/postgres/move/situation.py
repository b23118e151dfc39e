"""What is so on a PostgreSQL server before its temp files are moved, or moved back."""

import os
import pwd
from dataclasses import dataclass, field, replace
from pathlib import Path

from spillcast.engines.move import Step
from spillcast.engines.postgres.connection import Connection, row, shown_dsn
from spillcast.engines.postgres.move.tablespace import (
    Scope,
    Tablespace,
    settings,
    tablespaces,
)
from spillcast.engines.postgres.processes import local_process
from spillcast.errors import MoveBlocked
from spillcast.visible import shell_word

_FACTS = """
select current_user, current_setting('is_superuser')::bool, pg_is_in_recovery(),
       array(select rolname::text from pg_roles where rolsuper order by 1),
       array(select rolname::text from pg_roles where rolname !~ '^pg_' order by 1),
       array(select datname::text from pg_database where datallowconn order by 1)
"""
#: Standbys: those that are connected, and those that have a slot to come back to.
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
class Situation:
    """Holds facts of a server; the defaults are those without a connection."""

    client: str = "psql"
    user: str = "postgres"
    superuser: bool = True
    superusers: list[str] = field(default_factory=list)
    #: The existing tablespaces; None without a connection.
    roles: list[str] | None = None
    databases: list[str] | None = None
    standby: bool = False
    #: Servers that replay what this one does, and would stop where they lack the directory.
    standbys: list[str] = field(default_factory=list)
    #: Name of the user whose processes the server's are; None where it runs elsewhere.
    owner: str | None = "postgres"
    #: Why it is taken to run elsewhere.
    elsewhere: str | None = None
    data_directory: Path | None = None
    tablespaces: list[Tablespace] = field(default_factory=list)
    settings: dict[Scope, list[str]] = field(default_factory=dict)
    #: Settings of default_tablespace, which keep a tablespace in use too.
    defaults: dict[Scope, list[str]] = field(default_factory=dict)
    #: Where the server's own value comes from, such as ``command line``.
    source: str = "default"

    @property
    def local(self) -> bool:
        """Whether the server runs on this machine."""
        return self.owner is not None

    def at(self, directory: Path) -> Tablespace | None:
        """The tablespace in a directory."""
        real = os.path.realpath(directory)
        tablespaces = [
            tablespace
            for tablespace in self.tablespaces
            if os.path.realpath(tablespace.location) == real
        ]
        return tablespaces[0] if tablespaces else None

    def step(self, why: str, *sql: str) -> Step:
        """Statements for a client of this server; several are one transaction."""
        return Step(why, sql=sql, client=self.client)

    def named(self, name: str) -> Tablespace | None:
        """The tablespace of a name."""
        return next(
            (tablespace for tablespace in self.tablespaces if tablespace.name == name), None
        )


def situation(connection: Connection, dsn: str) -> Situation:
    """Ask a server; what only a superuser may see stays at its default for others."""
    user, superuser, standby, superusers, roles, databases = row(connection, _FACTS)
    pid, elsewhere = local_process(connection)
    common = Situation(
        client=f"psql -X -v ON_ERROR_STOP=1 {shell_word(shown_dsn(dsn))}",
        user=user,
        superuser=superuser,
        superusers=superusers,
        roles=roles,
        databases=databases,
        standby=standby,
        owner=None if pid is None else _owner(pid),
        elsewhere=elsewhere,
        tablespaces=tablespaces(connection),
        settings=settings(connection, server=superuser),
    )
    if not superuser:
        return common
    data_directory, source, standbys = row(connection, _FOR_SUPERUSERS)
    return replace(
        common,
        data_directory=Path(data_directory),
        standbys=standbys,
        defaults=settings(connection, "default_tablespace", server=True),
        source=source,
    )


def roles_that_lack(connection: Connection, scope: Scope | None, tablespace: str) -> list[str]:
    """Roles of a scope that may not put temp files into a tablespace; superusers always may.

    Of a database or the server these are all roles that can log in there.
    """
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
    given = (scope.role or "", scope.database, scope.database, tablespace, tablespace)
    return [name for (name,) in connection.execute(query.encode(), given)]


def check_exists(facts: Situation, scope: Scope | None) -> None:
    """InputError where there is no such role or database."""
    for kind, name, names in (
        ("role", scope and scope.role, facts.roles),
        ("database", scope and scope.database, facts.databases),
    ):
        if name and names is not None and name not in names:
            hint = f"there are {', '.join(names[:20])}"
            raise MoveBlocked(f"--for {kind}:{name}: the server has no such {kind}", hint)


def open_sessions(connection: Connection, scope: Scope) -> int:
    """Sessions that have begun already and keep the setting that they have."""
    (count,) = row(
        connection,
        "select count(*) from pg_stat_activity where backend_type = 'client backend' "
        "and pid <> pg_backend_pid() and (%s::text is null or usename = %s) "
        "and (%s::text is null or datname = %s)",
        scope.role, scope.role, scope.database, scope.database,
    )  # fmt: skip
    return int(count)


def _owner(pid: int) -> str:
    uid = Path(f"/proc/{pid}").stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
