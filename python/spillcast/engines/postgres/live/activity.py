"""Sessions in pg_stat_activity, many times a second, and the life of a query."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from spillcast.engines.postgres.connection import Connection, text_of_server
from spillcast.errors import StatementFailed
from spillcast.evidence.postgres import MARK

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


class ActivityQueries:
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


#: A cursor's query continues when the next rows are fetched; no client waits longer than this.
FETCH_S = 1.0
#: Before the query that is waited for, shorter statements are passed over: BEGIN, SET and the like.
PASSED_OVER_S = 0.1

#: Whether the last statement of a transaction that is open ran to its end.
_COMPLETED = {"idle in transaction": True, "idle in transaction (aborted)": False}

Phase = Literal["waiting", "running", "ended"]


class QueryLife:
    """The life of one query: ``see`` the session tick by tick, then ask when it was.

    The query is the one that runs at the first look, or else the next that is no mere moment. A
    client may fetch its rows in portions, for each of which the server runs it for a while: as long
    as text and transaction stay the same, that is one query.
    """

    def __init__(self) -> None:
        self.phase: Phase = "waiting"
        self.started_s: float | None = None
        self.ended_s: float | None = None
        #: Whether the query began to be seen with the last look.
        self.new = False
        #: Whether it ran to its end, by the state of its transaction afterwards; None: not known.
        self.completed: bool | None = None
        self._waited = False
        self._last: Seen | None = None

    @property
    def seen_until_s(self) -> float | None:
        """When it ended, or else was last seen; None before it began."""
        if self.ended_s is not None:
            return self.ended_s
        return None if self._last is None else self._last.now_s

    @property
    def elapsed_s(self) -> float | None:
        """How long it has run, as far as was seen; None before it began."""
        until_s = self.seen_until_s
        return None if self.started_s is None or until_s is None else until_s - self.started_s

    @property
    def unseen_s(self) -> float:
        """How long it went on after the last look at it, until it ended."""
        if self.ended_s is None or self._last is None:
            return 0.0
        return max(0.0, self.ended_s - self._last.now_s)

    @property
    def active(self) -> bool:
        """Whether it was running at the last look, not waiting for its client to fetch rows."""
        return self._last is not None and self._last.state in ACTIVE

    @property
    def text(self) -> int | None:
        """The hash of its text; None before it began."""
        return None if self._last is None else self._last.text

    def see(self, session: Seen | None) -> Phase:
        """Take the next look; None when the session is gone."""
        self.new = False
        if self.phase == "running":
            self._running(session)
        elif self.phase == "waiting":
            self._waiting(session)
        return self.phase

    def _waiting(self, session: Seen | None) -> None:
        if session is None:
            self.phase = "ended"
        elif session.state in ACTIVE:
            self.phase, self.started_s, self._last = "running", session.query_start_s, session
            self.new = True
        else:
            self._waited = True

    def _running(self, session: Seen | None) -> None:
        last = self._last
        assert last is not None
        if session is None:
            self._end(last.now_s)
        elif session.text == last.text and _same_transaction(session, last):
            fetching = session.state == "idle in transaction"
            soon = session.now_s < session.state_change_s + FETCH_S
            if session.state in ACTIVE or (fetching and soon):
                self._last = session
            else:
                self.completed = _COMPLETED.get(session.state or "")
                self._end(session.state_change_s)
        elif session.query_start_s == last.query_start_s:
            self._end(session.state_change_s)
        else:
            # Another query has begun since the last look.
            self._end(session.query_start_s if session.state in ACTIVE else last.now_s)

    def _end(self, end_s: float) -> None:
        assert self.started_s is not None
        if self._waited and end_s - self.started_s < PASSED_OVER_S:
            self.phase, self.started_s = "waiting", None
        else:
            self.phase, self.ended_s = "ended", max(end_s, self.started_s)


def _same_transaction(session: Seen, last: Seen) -> bool:
    """A query is shown a moment before its transaction has a start."""
    begun = {session.xact_start_s, last.xact_start_s} - {None}
    return len(begun) == 1
