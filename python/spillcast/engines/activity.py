"""The states of a server's sessions in a sample, and a query's life across many samples."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

#: The states of a working session, as in pg_stat_activity.
ACTIVE = ("active", "fastpath function call")


@dataclass(frozen=True)
class SessionState:
    """A session or a parallel worker at one instant; times are seconds since the epoch."""

    #: The ID of its process, or the server's session number if it has no process.
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
class ActiveStatement:
    """A session's query, truncated by the server if long; fields are empty or 0 if unknown."""

    pid: int = 0
    text_hash: int = 0
    text: str = ""
    application: str = ""
    user: str = ""
    database: str = ""
    user_id: int = 0
    database_id: int = 0


@dataclass(frozen=True)
class ProcessTempFiles:
    """The temp files of a process in a tablespace in one sample."""

    pid: int
    tablespace: str
    files: int
    bytes: int


class Activity(Protocol):
    """Queries a server over one connection. SpillcastError if the connection is lost."""

    #: The server's process or thread for the connection; None if it is not on this machine.
    process: int | None

    def sessions(self) -> list[SessionState]:
        """Returns the sessions and parallel workers to sample."""

    def statements(self, pids: Iterable[int]) -> list[ActiveStatement]:
        """Returns the current or last statement of some sessions."""

    def temp_files(self) -> list[ProcessTempFiles]:
        """Returns the temp files of all processes; empty if they cannot be listed."""


#: The longest pause between two fetches from a cursor that belong to one query.
FETCH_S = 1.0
#: Shorter statements than this are skipped while a query is awaited: BEGIN, SET and the like.
SKIPPED_S = 0.1

#: Whether the last statement of a transaction completed, by the session's state afterwards.
_COMPLETED = {"idle in transaction": True, "idle in transaction (aborted)": False}

Phase = Literal["waiting", "running", "ended"]


class ServerClock:
    """The offset of a server's clock from ``time.monotonic``, bounded by its answers.

    The server's clock may be set at any time: bounds hold until an answer contradicts them.
    """

    def __init__(self) -> None:
        #: The times of the last request and of its answer, by the local clock.
        self.requested_s = self.answered_s = 0.0
        #: How often the server's clock was set.
        self.times_set = 0
        # Bounds of the time by which the local clock is ahead of the server's.
        self._least_s, self._most_s = -math.inf, math.inf

    def look(self, activity: Activity) -> list[SessionState]:
        """Requests the sessions, and narrows the bounds by the time in the answer."""
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
        """Converts a server time to a local time between ``after_s`` and the last answer."""
        return max(after_s, min(server_s + self._most_s, self.answered_s))


class QueryLife:
    """Follows one query of a session: that of the first sample, or the next that takes long.

    A client may fetch rows in portions; for each portion, the server runs the query for a while.
    Portions with the same text and transaction belong to one query.
    """

    def __init__(self, clock: ServerClock) -> None:
        self.phase: Phase = "waiting"
        #: The start of the query by the server's clock.
        self.started_s: float | None = None
        #: The start and the end by the local clock.
        self.began_s: float | None = None
        self.ended_s: float | None = None
        #: Whether the last sample was the first that showed the query.
        self.new = False
        #: Whether the query completed, by the state of its transaction; None if unknown.
        self.completed: bool | None = None
        #: The session in the last sample in which it ran the query.
        self.last: SessionState | None = None
        self._clock = clock
        self._waited = False
        # By the local clock: the last sample with the query running, and its last change of state.
        self._seen_s = self._changed_s = 0.0
        # The last sample of the session, and the last one before the query.
        self._requested_s = self._before_s = -math.inf
        # How often the server's clock had been set when the query began.
        self._times_set = 0

    @property
    def elapsed_s(self) -> float | None:
        """The time from the start to the end, or to the last sample; None before the start."""
        if self.began_s is None:
            return None
        return (self._seen_s if self.ended_s is None else self.ended_s) - self.began_s

    @property
    def unseen_s(self) -> float:
        """The time from the last sample in which it ran to its end."""
        return 0.0 if self.ended_s is None else max(0.0, self.ended_s - self._seen_s)

    @property
    def active(self) -> bool:
        """Whether the server executed it in the last sample, rather than await a fetch."""
        return self.last is not None and self.last.state in ACTIVE

    def see(self, session: SessionState | None) -> Phase:
        """Processes the last sample; ``session`` is None if the session has ended."""
        self.new = False
        if self.phase == "running":
            self._running(session)
        # The sample that ends a previous statement may also be the first to show the query.
        if self.phase == "waiting":
            if session is None:
                self.phase = "ended"
            elif session.state in ACTIVE:
                self.phase, self.started_s = "running", session.query_start_s
                self._before_s = self._requested_s
                self._times_set, self.new = self._clock.times_set, True
                self._changed_s = self._clock.local_s(session.state_change_s)
                self._continue(session)
            else:
                self._waited = True
        self._requested_s = self._clock.requested_s
        return self.phase

    def _continue(self, session: SessionState) -> None:
        """The query still runs in this sample; the first samples narrow the bounds of its start."""
        assert self.started_s is not None
        self.last, self._seen_s = session, self._clock.local_s(session.now_s)
        if self._clock.times_set == self._times_set:
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
        # A query may appear before its transaction's start. A procedure commits transactions.
        same_transaction = len({session.xact_start_s, last.xact_start_s} - {None}) == 1
        if session.text_hash == last.text_hash and (same_transaction or same_start):
            fetching = session.state == "idle in transaction"
            soon = self._clock.answered_s < self._changed_s + FETCH_S
            if session.state in ACTIVE or (fetching and soon):
                self._continue(session)
            else:
                self.completed = _COMPLETED.get(session.state or "")
                self._end(self._changed_s)
        elif same_start:
            self._end(self._changed_s)
        else:
            # Another query has started since the last sample.
            began_s = self._clock.local_s(session.query_start_s, self._requested_s)
            self._end(began_s if session.state in ACTIVE else self._seen_s)

    def _end(self, end_s: float) -> None:
        assert self.began_s is not None
        if self._waited and end_s - self.began_s < SKIPPED_S:
            self.phase, self.started_s, self.began_s = "waiting", None, None
        else:
            self.phase, self.ended_s = "ended", max(end_s, self.began_s)
