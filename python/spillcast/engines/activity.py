"""What the sessions of a server do, look by look, as a sampler asks; the life of one query."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

#: The state of a working session, as in pg_stat_activity.
ACTIVE = ("active", "fastpath function call")


@dataclass(frozen=True)
class SessionState:
    """A session or a parallel worker at one instant; times are seconds since the epoch."""

    #: Its number; where each is a process of its own, that of the process.
    pid: int
    #: The session that a parallel worker serves.
    leader: int | None
    wait_event: str | None
    query_id: str | None
    now_s: float
    state: str | None
    query_start_s: float
    xact_start_s: float | None
    state_change_s: float
    text_hash: int


@dataclass(frozen=True)
class Statement:
    """Whose query it is, and its text, cut where the server cuts it; empty or 0 where unknown."""

    pid: int = 0
    text_hash: int = 0
    text: str = ""
    application: str = ""
    user: str = ""
    database: str = ""
    user_id: int = 0
    database_id: int = 0


@dataclass(frozen=True)
class TempHeld:
    """The temp files of a process in a tablespace."""

    pid: int
    tablespace: str
    files: int
    bytes: int


class Activity(Protocol):
    """Asks a server by one connection. SpillcastError where that is lost."""

    #: The server's process or thread of the connection; None if it is not on this machine.
    process: int | None

    def sessions(self) -> list[SessionState]:
        """Return the sessions and parallel workers that are sampled."""

    def statements(self, pids: Iterable[int]) -> list[Statement]:
        """Return what some sessions run, or ran last."""

    def temp_held(self) -> list[TempHeld]:
        """Return the temp files of all processes; none where they cannot be listed."""


#: A cursor's query continues when the next rows are fetched; no client waits longer than this.
FETCH_S = 1.0
#: Before the query that is waited for, shorter statements are passed over: BEGIN, SET and the like.
PASSED_OVER_S = 0.1

#: Whether the last statement of a transaction that is open ran to its end.
_COMPLETED = {"idle in transaction": True, "idle in transaction (aborted)": False}

Phase = Literal["waiting", "running", "ended"]


class QueryLife:
    """The life of the query that runs at the first look, or of the next that is no mere moment.

    A client may fetch its rows in portions, for each of which the server runs it for a while: as
    long as text and transaction stay the same, that is one query.
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
        self._last: SessionState | None = None

    @property
    def elapsed_s(self) -> float | None:
        """How long it has run, as far as was seen; None before it began."""
        if self.started_s is None or self._last is None:
            return None
        return (self._last.now_s if self.ended_s is None else self.ended_s) - self.started_s

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
    def text_hash(self) -> int | None:
        """The hash of its text; None before it began."""
        return None if self._last is None else self._last.text_hash

    def see(self, session: SessionState | None) -> Phase:
        """Take the next look; None when the session is gone."""
        self.new = False
        if self.phase == "running":
            self._running(session)
        elif self.phase == "waiting":
            if session is None:
                self.phase = "ended"
            elif session.state in ACTIVE:
                self.phase, self.started_s, self._last = "running", session.query_start_s, session
                self.new = True
            else:
                self._waited = True
        return self.phase

    def _running(self, session: SessionState | None) -> None:
        last = self._last
        assert last is not None
        if session is None:
            self._end(last.now_s)
            return
        # A query is shown a moment before its transaction has a start.
        same_transaction = len({session.xact_start_s, last.xact_start_s} - {None}) == 1
        if session.text_hash == last.text_hash and same_transaction:
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
