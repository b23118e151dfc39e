"""Queries a server's sessions many times a second, and interprets the rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spillcast.engines.postgres.connection import Connection, text_of_server
from spillcast.errors import StatementFailed
from spillcast.evidence.postgres.logs import MARK

#: Of one session and its parallel workers; the parameter is its process id.
SESSION = b"a.pid = $1 or a.leader_pid = $1"
#: Of all that work now or did a moment ago; the parameter is that moment's length in seconds.
ALL = b"""a.pid <> pg_backend_pid()
      and (a.state in ('active', 'fastpath function call') or a.leader_pid is not null
           or a.state_change > clock_timestamp() - make_interval(secs => $1::float8))"""

#: The state of a working session in pg_stat_activity.
ACTIVE = ("active", "fastpath function call")

# The function behind pg_stat_activity, without the view's joins; date_part gives a float8.
_SESSIONS = b"""
select a.pid, a.leader_pid, a.wait_event, a.state, date_part('epoch', a.query_start),
       date_part('epoch', a.xact_start), date_part('epoch', a.state_change),
       date_part('epoch', clock_timestamp()), hashtext(a.query), %s
  from pg_stat_get_activity(null) a
 where %s
"""
_QUERIES = b"""
select a.pid, hashtext(a.query), a.query, a.application_name, pg_get_userbyid(a.usesysid),
       d.datname, a.usesysid, a.datid
  from pg_stat_get_activity(null) a left join pg_database d on d.oid = a.datid
 where a.pid = any ($1::int[])
"""
_TEMP = b"""
select substring(f.name from '^pgsql_tmp([0-9]+)')::int, t.spcname, count(*), sum(f.size)
  from pg_tablespace t, pg_ls_tmpdir(t.oid) f
 where t.spcname <> 'pg_global'
   and substring(f.name from '^pgsql_tmp([0-9]+)')::int = any ($1::int[])
 group by 1, 2
"""


@dataclass(frozen=True)
class Seen:
    """A session at one instant; times are seconds since the epoch by the server's clock."""

    now_s: float
    state: str | None
    query_start_s: float
    xact_start_s: float | None
    state_change_s: float
    #: A hash of the query's text.
    text: int


@dataclass(frozen=True)
class Backend:
    """A process of the server at one instant."""

    pid: int
    #: The session that a parallel worker serves.
    leader: int | None
    wait_event: str | None
    query_id: str | None
    seen: Seen


@dataclass(frozen=True)
class Statement:
    """Whose query it is, and its text, cut where the server cuts it (track_activity_query_size)."""

    pid: int
    #: As of ``Seen``.
    text_hash: int
    text: str
    application: str
    user: str
    database: str
    user_id: int
    database_id: int


@dataclass(frozen=True)
class TempHeld:
    """The temp files of a process in a tablespace."""

    pid: int
    tablespace: str
    files: int
    bytes: int


class Look:
    """The statements of a sampler, prepared on its connection. SpillcastError where it is lost."""

    def __init__(self, connection: Connection, which: bytes, *, list_temp: bool) -> None:
        self._connection = connection
        query_id = b"a.query_id" if connection.info.server_version >= 140_000 else b"null"
        self._prepare(b"sessions", _SESSIONS % (query_id, which))
        self._prepare(b"queries", _QUERIES)
        if list_temp:
            self._prepare(b"temp", _TEMP)

    def sessions(self, parameter: int | float) -> list[Backend]:
        """The processes that ``which`` asks for."""
        rows = self._ask(b"sessions", str(parameter).encode())
        return [_backend(row) for row in rows]

    def statements(self, pids: Iterable[int]) -> list[Statement]:
        """What some processes run, or ran last."""
        rows = self._ask(b"queries", _array(pids))
        return [
            Statement(
                pid=int(row[0] or 0),
                text_hash=int(row[1] or 0),
                text=row[2] or "",
                application=row[3] or "",
                user=row[4] or "",
                database=row[5] or "",
                user_id=int(row[6] or 0),
                database_id=int(row[7] or 0),
            )
            for row in rows
        ]

    def temp_held(self, pids: Iterable[int]) -> list[TempHeld]:
        """The temp files of some processes; only where they may be listed."""
        return [
            TempHeld(int(pid or 0), str(tablespace), int(files or 0), int(size or 0))
            for pid, tablespace, files, size in self._ask(b"temp", _array(pids))
        ]

    def _prepare(self, name: bytes, query: bytes) -> None:
        self._checked(self._connection.pgconn.prepare(name, query + MARK.encode()))

    def _ask(self, name: bytes, parameter: bytes) -> list[list[str | None]]:
        """Rows as text, by the bare protocol: a cursor would take ten times the CPU."""
        result = self._connection.pgconn.exec_prepared(name, [parameter])
        self._checked(result)
        columns = range(result.nfields)
        cells = ((result.get_value(row, at) for at in columns) for row in range(result.ntuples))
        return [[None if cell is None else text_of_server(cell) for cell in row] for row in cells]

    def _checked(self, result: Any) -> None:
        from psycopg.pq import ExecStatus

        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            lines = result.error_message.decode(errors="replace").strip().splitlines()
            raise StatementFailed(f"sampling failed: {lines[0] if lines else 'no reason given'}")


def _array(pids: Iterable[int]) -> bytes:
    return b"{%s}" % ",".join(map(str, pids)).encode()


def _backend(row: list[str | None]) -> Backend:
    pid, leader, event, state, query_start, xact_start, state_change, now, text, query_id = row
    return Backend(
        pid=int(pid or 0),
        leader=None if leader is None else int(leader),
        wait_event=event,
        query_id=query_id,
        seen=Seen(
            now_s=float(now or 0),
            state=state,
            query_start_s=float(query_start or 0),
            xact_start_s=None if xact_start is None else float(xact_start),
            state_change_s=float(state_change or 0),
            text=int(text or 0),
        ),
    )
