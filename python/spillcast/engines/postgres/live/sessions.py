"""Selects the session to record: by its process id, its query, or its spill."""

import time
from dataclasses import dataclass

from spillcast.engines.engine import Say, SessionSelector
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
    SessionAmbiguous,
    SpillcastError,
    StatementRejected,
    TimedOut,
)
from spillcast.redaction import struck_text
from spillcast.units import format_duration

LOOK_S = 0.05
LISTED = 8
LINE_MAX = 76
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
        since = format_duration(self.running_s or 0.0)
        query = " ".join(struck_text(self.query).split())
        return f"{self.pid}  {self.user}@{self.database}  {since}  {query}"[:LINE_MAX]


def find(
    connection: Connection, wanted: SessionSelector, say: Say, within_s: float | None = None
) -> Session:
    """The session that is wanted, waiting for it where it has to come first.

    A session named by its process id may be idle: its next query is what will be recorded.
    InputError where there is none, where several match, and where the role may not see it;
    SpillcastError where none has come after ``within_s``.
    """
    check_text("--query", wanted.query or "")
    may_list = may_list_temp(connection)
    announced, began = False, time.monotonic()
    while True:
        sessions = _sessions(connection, wanted)
        session = _choose(sessions, wanted, _owners(connection) if may_list else set(), connection)
        if session is not None:
            return session
        if not announced:
            announced = True
            say(f"waiting for {words_of(wanted)}; Ctrl-C ends it")
            if wanted.spilling and not may_list:
                say("pg_ls_tmpdir is for pg_monitor: a spill shows only by its waits")
        if within_s is not None and time.monotonic() - began >= within_s:
            raise no_query_error(words_of(wanted), within_s)
        time.sleep(LOOK_S)


def no_query_error(wanted: str, within_s: float) -> SpillcastError:
    """The error for a query that did not begin in time."""
    waited = format_duration(within_s)
    hint = "a longer --duration waits longer, and without one it waits until Ctrl-C"
    return TimedOut(f"waited {waited} for {wanted}: none came", hint)


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
    if len(matching) > 1:
        lines = [f"{len(matching)} sessions match:", *(s.describe() for s in matching[:LISTED])]
        lines += [f"and {len(matching) - LISTED} more"] * (len(matching) > LISTED)
        raise SessionAmbiguous("\n    ".join(lines), "name one with --backend PID")
    return matching[0] if matching else None


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


def words_of(wanted: SessionSelector) -> str:
    """What is waited for."""
    who = "a session" if wanted.backend is None else f"session {wanted.backend}"
    pattern = "" if wanted.query is None else f" with a query like '{wanted.query}'"
    return f"{who}{pattern}{' to spill' if wanted.spilling else ''}"
