"""Selects the session to record: by its process id, its query, or its spill."""

from dataclasses import dataclass

from spillcast.engines.engine import Say, SessionSelector
from spillcast.engines.live import only_session, session_line, wait_for_session
from spillcast.engines.postgres.connection import (
    SAMPLER,
    Connection,
    check_text,
    row,
    server_message,
    shown_name,
)
from spillcast.engines.postgres.live.activity import ACTIVE
from spillcast.errors import (
    InputError,
    OptionInvalid,
    PermissionDenied,
    ProcessMissing,
    StatementRejected,
)

LOOK_S = 0.05
HIDDEN = "<insufficient privilege>"

_SESSIONS = """
select a.pid, coalesce(a.usename, ''), coalesce(a.datname, ''), a.state, coalesce(a.query, ''),
       date_part('epoch', clock_timestamp() - a.query_start),
       a.leader_pid, coalesce(a.wait_event, ''), %(pattern)s::text is null or a.query ~* %(pattern)s
  from pg_stat_activity a
 where a.pid <> pg_backend_pid() and coalesce(a.application_name, '') <> %(sampler)s
"""
#: Owners of temp files: their names begin with pgsql_tmp and the process id of who made them.
_OWNERS = """
select distinct substring(f.name from '^pgsql_tmp([0-9]+)')::int
  from pg_tablespace t, pg_ls_tmpdir(t.oid) f
 where t.spcname <> 'pg_global' and f.name ~ '^pgsql_tmp[0-9]'
"""


@dataclass(frozen=True)
class Session:
    """A session of the server as pg_stat_activity shows it."""

    pid: int
    user: str
    database: str
    #: None where the asking role may not see it.
    state: str | None
    query: str
    running_s: float | None
    leader: int | None
    wait_event: str
    matches: bool

    @property
    def active(self) -> bool:
        """Whether it runs a query now."""
        return self.state in ACTIVE

    @property
    def hidden(self) -> bool:
        """Whether the asking role lacks the right to see what it does."""
        return self.query == HIDDEN and self.database != ""

    def describe(self) -> str:
        """One line for a list of sessions."""
        user = f"{self.user}@{self.database}"
        return session_line(self.pid, user, self.running_s or 0.0, self.query)


def find(
    connection: Connection, wanted: SessionSelector, say: Say, within_s: float | None = None
) -> Session:
    """The session that is wanted, waiting for it where it has to come first.

    A session named by its process id may be idle: its next query is what will be recorded.
    InputError where there is none, where several match, and where the role may not see it;
    SpillcastError where none has come after ``within_s``.
    """
    check_text("--query", wanted.query or "")
    may_list, remark = may_list_temp(connection), None
    if wanted.spilling and not may_list:
        remark = "pg_ls_tmpdir is for pg_monitor: a spill shows only by its waits"

    def choose() -> Session | None:
        sessions = _sessions(connection, wanted)
        return _choose(sessions, wanted, _owners(connection) if may_list else set(), connection)

    return wait_for_session(choose, wanted, say, within_s=within_s, look_s=LOOK_S, remark=remark)


def _named(sessions: list[Session], pid: int, connection: Connection) -> Session:
    """The session of a process id. InputError where there is none, or it may not be seen."""
    session = next((session for session in sessions if session.pid == pid), None)
    if session is None:
        raise ProcessMissing(
            f"--backend {pid}: the server has no such session",
            "its sessions: select pid, state, query from pg_stat_activity",
        )
    if session.hidden:
        raise no_right(connection, f"session {pid} of {session.user}")
    if session.leader is not None:
        raise OptionInvalid(
            f"--backend {pid}: this is a parallel worker of {session.leader}",
            f"record its leader and all its workers with: --backend {session.leader}",
        )
    if session.state is None or session.state == "disabled":
        reason = "track_activities is off for it" if session.state else "it is not a client session"
        raise PermissionDenied(f"--backend {pid}: its queries cannot be seen: {reason}")
    return session


def _choose(
    sessions: list[Session], wanted: SessionSelector, owners: set[int], connection: Connection
) -> Session | None:
    """The wanted session; None while there is none."""
    if wanted.backend is not None:
        session = _named(sessions, wanted.backend, connection)
        if not wanted.spilling and wanted.query is None:
            return session
    leaders = {
        session.leader or session.pid
        for session in sessions
        if session.wait_event.lower().startswith("buffile") or session.pid in owners
    }
    matching = [
        session
        for session in sessions
        if session.active
        and session.matches
        and session.leader is None
        and wanted.backend in (None, session.pid)
        and (not wanted.spilling or session.pid in leaders)
    ]
    if not matching and wanted.backend is None and any(session.hidden for session in sessions):
        raise no_right(connection, "sessions of other roles")
    return only_session(matching, "name one with --backend PID")


def _sessions(connection: Connection, wanted: SessionSelector) -> list[Session]:
    import psycopg

    given = {"pattern": wanted.query, "sampler": SAMPLER}
    try:
        rows = connection.execute(_SESSIONS, given, prepare=True).fetchall()
    except psycopg.errors.InvalidRegularExpression as error:
        raise StatementRejected(
            f"--query '{wanted.query}': {server_message(error)}",
            "it is a regular expression of PostgreSQL; write \\( for a parenthesis",
        ) from None
    except psycopg.Error as error:
        raise StatementRejected(
            f"the server's sessions cannot be listed: {server_message(error)}"
        ) from None
    return [Session(*row) for row in rows]


def may_list_temp(connection: Connection) -> bool:
    """Whether our role may list temp files."""
    query = "select has_function_privilege('pg_ls_tmpdir(oid)', 'execute')"
    return bool(row(connection, query)[0])


def _owners(connection: Connection) -> set[int]:
    """Processes that hold temp files now."""
    return {row[0] for row in connection.execute(_OWNERS, prepare=True).fetchall()}


def no_right(connection: Connection, wanted: str) -> InputError:
    """The error of a role that may not see something, with the grant that lets it."""
    user = connection.info.user
    return PermissionDenied(
        f"role {user} may not see {wanted}",
        f"as a superuser: grant pg_monitor to {shown_name(user)} (or pg_read_all_stats)",
    )
