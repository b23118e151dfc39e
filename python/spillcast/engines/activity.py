"""What the sessions of a server do, look by look, as a sampler asks; the life of one query."""

import math
import time
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
#: Looks that place the start of a query: a busy machine delays most answers.
PLACING = 20

#: Whether the last statement of a transaction that is open ran to its end.
_COMPLETED = {"idle in transaction": True, "idle in transaction (aborted)": False}

Phase = Literal["waiting", "running", "ended"]


class ServerClock:
    """A server's clock beside ours, ``time.monotonic``, as its answers show.

    Anyone may set it at any time: the offset holds until an answer contradicts it.
    """

    def __init__(self) -> None:
        #: When it was asked last and answered, by our clock.
        self.requested_s = self.answered_s = 0.0
        #: How often it was set.
        self.times_set = 0
        # Our clock is ahead of the server's by so much.
        self._least_s, self._most_s = -math.inf, math.inf

    def look(self, activity: Activity) -> list[SessionState]:
        """Ask for the sessions, and take in what the answer shows of the clock."""
        self.requested_s = time.monotonic()
        sessions = activity.sessions()
        self.answered_s = time.monotonic()
        if sessions:
            server_s = sessions[0].now_s
            least_s, most_s = self.requested_s - server_s, self.answered_s - server_s
            if least_s > self._most_s or most_s < self._least_s:
                self.times_set += 1
            else:
                least_s, most_s = max(least_s, self._least_s), min(most_s, self._most_s)
            self._least_s, self._most_s = least_s, most_s
        return sessions

    def local_s(self, server_s: float, after_s: float = -math.inf) -> float:
        """A time of the server by our clock, between ``after_s`` and the last answer."""
        return max(after_s, min(server_s + self._most_s, self.answered_s))


class QueryLife:
    """The life of the query that runs at the first look, or of the next that is no mere moment.

    A client may fetch its rows in portions, for each of which the server runs it for a while: as
    long as text and transaction stay the same, that is one query.
    """

    def __init__(self, clock: ServerClock) -> None:
        self.phase: Phase = "waiting"
        #: When it began, by the server's clock.
        self.started_s: float | None = None
        #: When it began and ended, by ours.
        self.began_s: float | None = None
        self.ended_s: float | None = None
        #: Whether the query began to be seen with the last look.
        self.new = False
        #: Whether it ran to its end, by the state of its transaction afterwards; None: not known.
        self.completed: bool | None = None
        #: The session as it ran the query at the last look at it.
        self.last: SessionState | None = None
        self._clock = clock
        self._waited = False
        #: By our clock: when it was last seen to run, and the last change of its state.
        self._seen_s = self._changed_s = 0.0
        #: When the session was looked at last, and last before the query.
        self._requested_s = self._before_s = -math.inf
        #: Looks that have placed its start, and how often the clock was set before the first.
        self._placed = self._times_set = 0

    @property
    def elapsed_s(self) -> float | None:
        """How long it has run, as far as was seen; None before it began."""
        if self.began_s is None:
            return None
        return (self._seen_s if self.ended_s is None else self.ended_s) - self.began_s

    @property
    def unseen_s(self) -> float:
        """How long it went on after the last look at it, until it ended."""
        return 0.0 if self.ended_s is None else max(0.0, self.ended_s - self._seen_s)

    @property
    def active(self) -> bool:
        """Whether it was running at the last look, not waiting for its client to fetch rows."""
        return self.last is not None and self.last.state in ACTIVE

    def see(self, session: SessionState | None) -> Phase:
        """Take the next look, the last of its clock; None when the session is gone."""
        self.new = False
        if self.phase == "running":
            self._running(session)
        elif self.phase == "waiting":
            if session is None:
                self.phase = "ended"
            elif session.state in ACTIVE:
                self.phase, self.started_s = "running", session.query_start_s
                self._before_s, self._placed = self._requested_s, 0
                self._times_set, self.new = self._clock.times_set, True
                self._changed_s = self._clock.local_s(session.state_change_s)
                self._go_on(session)
            else:
                self._waited = True
        self._requested_s = self._clock.requested_s
        return self.phase

    def _go_on(self, session: SessionState) -> None:
        """It still runs."""
        assert self.started_s is not None
        self.last, self._seen_s = session, self._clock.local_s(session.now_s)
        if self._placed < PLACING and self._clock.times_set == self._times_set:
            self._placed += 1
            self.began_s = min(self._clock.local_s(self.started_s, self._before_s), self._seen_s)

    def _running(self, session: SessionState | None) -> None:
        last = self.last
        assert last is not None
        if session is None:
            self._end(self._seen_s)
            return
        if session.state_change_s != last.state_change_s:
            self._changed_s = self._clock.local_s(session.state_change_s, self._requested_s)
        same_start = session.query_start_s == last.query_start_s
        # A query is shown a moment before its transaction has a start. A procedure commits.
        same_transaction = len({session.xact_start_s, last.xact_start_s} - {None}) == 1
        if session.text_hash == last.text_hash and (same_transaction or same_start):
            fetching = session.state == "idle in transaction"
            soon = self._clock.answered_s < self._changed_s + FETCH_S
            if session.state in ACTIVE or (fetching and soon):
                self._go_on(session)
            else:
                self.completed = _COMPLETED.get(session.state or "")
                self._end(self._changed_s)
        elif same_start:
            self._end(self._changed_s)
        else:
            # Another query has begun since the last look.
            began_s = self._clock.local_s(session.query_start_s, self._requested_s)
            self._end(began_s if session.state in ACTIVE else self._seen_s)

    def _end(self, end_s: float) -> None:
        assert self.began_s is not None
        if self._waited and end_s - self.began_s < PASSED_OVER_S:
            self.phase, self.started_s, self.began_s = "waiting", None, None
        else:
            self.phase, self.ended_s = "ended", max(end_s, self.began_s)
