"""Sessions of a server: their states for the sampler, the choice of one to record, settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillcast.engines import Notify, SessionSelector
from spillcast.engines.activity import ACTIVE, ActiveStatement, ProcessTempFiles, SessionState
from spillcast.engines.live import only_session, session_line, wait_for_session
from spillcast.engines.postgres import (
    SAMPLER,
    Connection,
    check_text,
    local_process,
    refused,
    row,
    shown_name,
    text_of_server,
)
from spillcast.errors import (
    InputError,
    OptionInvalid,
    PermissionDenied,
    ProcessMissing,
    StatementFailed,
    StatementRejected,
)
from spillcast.evidence.postgres import MARK
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.observed import Server
from spillcast.redaction import masked_text

#: Selects one session and its parallel workers; the parameter is the session's process ID.
SESSION = b"a.pid = $1 or a.leader_pid = $1"
#: How long a session is still sampled after it became idle: longer than any gap that matters.
SHOWN_S = 10.0
#: Selects all sessions and workers that are active, or became idle at most as many seconds ago as
#: the parameter says.
ALL = b"""a.pid <> pg_backend_pid()
      and (a.state in ('active', 'fastpath function call') or a.leader_pid is not null
           or a.state_change > clock_timestamp() - make_interval(secs => $1::float8))"""

# The function behind pg_stat_activity, without the view's joins; date_part gives a float8.
_SESSIONS = b"""
select a.pid, a.leader_pid, a.wait_event, a.state, coalesce(date_part('epoch', a.query_start), 0),
       date_part('epoch', a.xact_start), coalesce(date_part('epoch', a.state_change), 0),
       date_part('epoch', clock_timestamp()), coalesce(hashtext(a.query), 0), %s
  from pg_stat_get_activity(null) a
 where %s
"""
_QUERIES = b"""
select a.pid, coalesce(hashtext(a.query), 0), coalesce(a.query, ''),
       coalesce(a.application_name, ''), coalesce(pg_get_userbyid(a.usesysid), ''),
       coalesce(d.datname, ''), coalesce(a.usesysid, 0), coalesce(a.datid, 0)
  from pg_stat_get_activity(null) a left join pg_database d on d.oid = a.datid
 where a.pid = any ($1::int[])
"""
#: Number and bytes of temp files by process and tablespace. Their names consist of pgsql_tmp, the
#: ID of the process that created them, and more.
TEMP_FILES = """
select substring(f.name from '^pgsql_tmp([0-9]+)')::int, t.spcname, count(*), sum(f.size)::bigint
  from pg_tablespace t, pg_ls_tmpdir(t.oid) f
 where t.spcname <> 'pg_global' and f.name ~ '^pgsql_tmp[0-9]'
 group by 1, 2
"""


class ActivityQueries:
    """The ``Activity`` of a PostgreSQL server, by prepared statements on a connection.

    ``condition`` with its ``parameter`` selects the sessions to sample.
    """

    def __init__(self, connection: Connection, condition: bytes, parameter: int | float) -> None:
        self.process = local_process(connection)[0]
        self._connection, self._parameter = connection, str(parameter).encode()
        query_id = b"a.query_id" if connection.info.server_version >= 140_000 else b"null"
        self._prepare(b"sessions", _SESSIONS % (query_id, condition))
        self._prepare(b"queries", _QUERIES)
        self._lists_temp = may_list_temp(connection)
        if self._lists_temp:
            self._prepare(b"temp", TEMP_FILES.encode())

    def sessions(self) -> list[SessionState]:
        """The sessions and workers that ``condition`` selects."""
        return [_state(row) for row in self._ask(b"sessions", self._parameter)]

    def statements(self, pids: Iterable[int]) -> list[ActiveStatement]:
        """The current or last statement of each process."""
        rows = self._ask(b"queries", b"{%s}" % ",".join(map(str, pids)).encode())
        return [
            ActiveStatement(
                pid=int(pid),
                text_hash=int(text_hash),
                text=text,
                application=application,
                user=user,
                database=database,
                user_id=int(user_id),
                database_id=int(database_id),
            )
            for pid, text_hash, text, application, user, database, user_id, database_id in rows
        ]

    def temp_files(self) -> list[ProcessTempFiles]:
        """The temp files of all processes; empty if our role may not list them."""
        if not self._lists_temp:
            return []
        return [
            ProcessTempFiles(int(pid), tablespace, int(files), int(size))
            for pid, tablespace, files, size in self._ask(b"temp")
        ]

    def _prepare(self, name: bytes, query: bytes) -> None:
        self._checked(self._connection.pgconn.prepare(name, query + MARK.encode()))

    def _ask(self, name: bytes, *parameters: bytes) -> list[list[Any]]:
        """The rows as text or None, by libpq: a cursor of psycopg takes ten times the CPU time."""
        result = self._checked(self._connection.pgconn.exec_prepared(name, parameters))
        columns = range(result.nfields)
        cells = ((result.get_value(row, at) for at in columns) for row in range(result.ntuples))
        return [[None if cell is None else text_of_server(cell) for cell in row] for row in cells]

    def _checked(self, result: Any) -> Any:
        from psycopg.pq import ExecStatus

        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            lines = result.error_message.decode(errors="replace").strip().splitlines()
            raise StatementFailed(f"sampling failed: {lines[0] if lines else 'no reason given'}")
        return result


def _state(row: list[Any]) -> SessionState:
    pid, leader, event, state, query_start, xact_start, state_change, now, text, query_id = row
    return SessionState(
        pid=int(pid),
        leader=None if leader is None else int(leader),
        wait_event=event,
        query_id=query_id,
        now_s=float(now),
        state=state,
        query_start_s=float(query_start),
        xact_start_s=None if xact_start is None else float(xact_start),
        state_change_s=float(state_change),
        text_hash=int(text),
    )


LOOK_S = 0.05
HIDDEN = "<insufficient privilege>"

_LIST = """
select a.pid, coalesce(a.usename, ''), coalesce(a.datname, ''), a.state, coalesce(a.query, ''),
       date_part('epoch', clock_timestamp() - a.query_start),
       a.leader_pid, coalesce(a.wait_event, ''), %(pattern)s::text is null or a.query ~* %(pattern)s
  from pg_stat_activity a
 where a.pid <> pg_backend_pid() and coalesce(a.application_name, '') <> %(sampler)s
"""


@dataclass(frozen=True)
class Session:
    """A session of the server as in pg_stat_activity."""

    pid: int
    user: str
    database: str
    #: None if our role may not see it.
    state: str | None
    query: str
    running_s: float | None
    leader: int | None
    wait_event: str
    matches: bool

    @property
    def active(self) -> bool:
        """Whether the session runs a query now."""
        return self.state in ACTIVE

    @property
    def hidden(self) -> bool:
        """Whether our role may not see the query of the session."""
        return self.query == HIDDEN and self.database != ""

    def describe(self) -> str:
        """One line for a list of sessions."""
        user = f"{self.user}@{self.database}"
        return session_line(self.pid, user, self.running_s or 0.0, self.query)


def find_session(
    connection: Connection, wanted: SessionSelector, notify: Notify, within_s: float | None = None
) -> Session:
    """Waits for the session ``wanted``. A session that is selected by its process ID may be idle.

    InputError if there is no such session, if several match, and if the role may not see it;
    TimedOut if none matches within ``within_s``.
    """
    check_text("--query", wanted.query or "")
    if wanted.query is not None:
        hint = "it is a regular expression of PostgreSQL; write \\( for a parenthesis"
        with refused(StatementRejected, f"--query '{wanted.query}'", hint):
            row(connection, "select '' ~* %s", wanted.query)
    may_list, remark = may_list_temp(connection), None
    if wanted.spilling and not may_list:
        remark = "only pg_monitor may call pg_ls_tmpdir: spills show only by their waits"

    def choose() -> Session | None:
        parameters = {"pattern": wanted.query, "sampler": SAMPLER}
        with refused(StatementRejected, "the server's sessions cannot be listed"):
            records = connection.execute(_LIST, parameters, prepare=True).fetchall()
        sessions = [Session(*record) for record in records]
        spilling = {files.pid for files in temp_files(connection)} if may_list else set()
        return _choose(sessions, wanted, spilling, connection)

    return wait_for_session(choose, wanted, notify, within_s=within_s, look_s=LOOK_S, remark=remark)


def _session_of(sessions: list[Session], pid: int, connection: Connection) -> Session:
    """The session with a process ID. InputError if there is none, or the role may not see it."""
    session = next((session for session in sessions if session.pid == pid), None)
    if session is None:
        raise ProcessMissing(
            f"--backend {pid}: the server has no such session",
            "its sessions: select pid, state, query from pg_stat_activity",
        )
    if session.hidden:
        raise permission_error(connection, f"session {pid} of {session.user}")
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
    sessions: list[Session], wanted: SessionSelector, spilling: set[int], connection: Connection
) -> Session | None:
    """The only session that is ``wanted``; ``spilling`` processes currently have temp files."""
    if wanted.backend is not None:
        session = _session_of(sessions, wanted.backend, connection)
        if not wanted.spilling and wanted.query is None:
            return session
    spilling_leaders = {
        session.leader or session.pid
        for session in sessions
        if session.wait_event.lower().startswith("buffile") or session.pid in spilling
    }
    matching = [
        session
        for session in sessions
        if session.active
        and session.matches
        and session.leader is None
        and wanted.backend in (None, session.pid)
        and (not wanted.spilling or session.pid in spilling_leaders)
    ]
    if not matching and wanted.backend is None and any(session.hidden for session in sessions):
        raise permission_error(connection, "sessions of other roles")
    return only_session(matching, Session.describe, "name one with --backend PID")


def temp_files(connection: Connection) -> list[ProcessTempFiles]:
    """The temp files of all processes of the server. psycopg.Error without ``may_list_temp``."""
    return [ProcessTempFiles(*record) for record in connection.execute(TEMP_FILES, prepare=True)]


def may_list_temp(connection: Connection) -> bool:
    """Whether our role may list temp files."""
    query = "select has_function_privilege('pg_ls_tmpdir(oid)', 'execute')"
    return bool(row(connection, query)[0])


def permission_error(connection: Connection, hidden: str) -> InputError:
    """The error if our role may not see ``hidden``; its hint has the necessary grant."""
    user = connection.info.user
    return PermissionDenied(
        f"role {user} may not see {hidden}",
        f"as a superuser: grant pg_monitor to {shown_name(user)} (or pg_read_all_stats)",
    )


#: Settings in meta.json, without those that a server's version does not have.
SETTING_NAMES = (
    "work_mem",
    "hash_mem_multiplier",
    "max_parallel_workers_per_gather",
    "temp_tablespaces",
    "track_io_timing",
    "io_method",
)
#: Values in meta.json for another client's session.
_OTHER_CLIENT = {
    "settings_of": "server, database and role; settings of the session itself are not visible",
    "plan": None,
}

# The server's own values, whether our session uses them, and built-in values. If a setting of our
# role or database hides the server's value, it is read from the file, if the role may do that.
_SERVER = """
select s.name, s.source in ('default', 'configuration file', 'command line',
                            'environment variable', 'override'),
       current_setting(s.name), s.boot_val || coalesce(s.unit, '')
  from pg_settings s where s.name = any (%s)
"""
_FILE = "select name, setting from pg_file_settings where applied"
_MAY_READ_FILE = "select has_function_privilege('pg_show_all_file_settings()', 'execute')"
# From the widest to the narrowest scope: later rows take precedence.
_SCOPED = """
select s.setdatabase, s.setrole, s.setconfig from pg_db_role_setting s
 order by s.setrole <> 0, s.setdatabase <> 0
"""


def engine_meta(
    connection: Connection,
    pid: int,
    settings: Mapping[str, Any],
    query: str = "",
    queryid: str | None = None,
) -> ObservedEngine:
    """Server, session, settings and query, and the summary of its plan."""
    info = connection.info
    return ObservedEngine(
        name="postgres",
        version=info.parameter_status("server_version"),
        server=Server(info.host or info.hostaddr, info.port, info.dbname, info.user),
        pid=pid,
        query=masked_text(query),
        queryid=queryid,
        settings={**_OTHER_CLIENT, **settings},
    )


@dataclass(frozen=True)
class ServerSettings:
    """Initial settings of sessions: the server's own, and those of databases and roles."""

    servers: Mapping[str, str]
    #: Database, role (0 for any) and NAME=VALUE pairs, from the widest scope to the narrowest.
    scoped: Sequence[tuple[int, int, Sequence[str]]]

    @classmethod
    def of(cls, connection: Connection) -> "ServerSettings":
        """The current settings of a server."""
        rows = connection.execute(_SERVER, [list(SETTING_NAMES)]).fetchall()
        file: dict[str, str] = {}
        if row(connection, _MAY_READ_FILE)[0]:
            file = dict(connection.execute(_FILE).fetchall())
        servers = {
            str(name): str(current if is_servers else file.get(name, built_in))
            for name, is_servers, current, built_in in rows
        }
        return cls(servers, connection.execute(_SCOPED).fetchall())

    def for_session(self, database_id: int, user_id: int) -> dict[str, str]:
        """The initial settings of a session; changes by the session itself are not visible."""
        settings = dict(self.servers)
        for database, role, pairs in self.scoped:
            if database in (0, database_id) and role in (0, user_id):
                for name, _, value in (pair.partition("=") for pair in pairs):
                    if name in SETTING_NAMES:
                        settings[name] = value
        return settings
