"""Records queries of running servers: a capture of their processes beside looks at their sessions.

``LiveRecorder`` runs both until the query or the server ends. A server whose list of sessions is
enough to follow a query implements ``ListedSessions`` for ``record_listed``: it lists sessions with
their threads, and declares whether the list shows when a statement ended. An engine with a sampler
of its own, such as PostgreSQL, derives from ``LiveRecorder``.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, Generic, Protocol, TypeVar

from spillcast import _core
from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.errors import (
    InputError,
    OptionInvalid,
    ProcessMissing,
    QueryEnded,
    SessionAmbiguous,
    SpillcastError,
    TimedOut,
)
from spillcast.interruptible import interrupts_reported
from spillcast.recording import Recording
from spillcast.recording.capture import AUTO
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.record import Recorder, RunSoFar
from spillcast.recording.schema import SAMPLES
from spillcast.recording.server_meta import RecordedQuery, Sampling
from spillcast.redaction import struck_text
from spillcast.tables import Table
from spillcast.units import format_duration

#: The interval of writes and of the status; looks at sessions have a rate of their own.
TICK_S = 0.25
#: After a gap of so many intervals the looks were delayed, most likely by what they look at: what
#: they show then is not what happened meanwhile, and is not counted.
GAP = 5
LISTED, LINE_MAX = 8, 76

Result = TypeVar("Result")


class Described(Protocol):
    """A session as a line of a list."""

    def describe(self) -> str:
        """Return one line."""


Listed = TypeVar("Listed", bound=Described)


def session_line(number: int, user: str, running_s: float, query: str) -> str:
    """A session as one line of a list."""
    text = " ".join(struck_text(query).split())
    return f"{number}  {user}  {format_duration(running_s)}  {text}"[:LINE_MAX]


def only_session(matching: Sequence[Listed], hint: str) -> Listed | None:
    """The session that matches; None if there is none. SessionAmbiguous lists several."""
    if len(matching) > 1:
        lines = [f"{len(matching)} sessions match:", *(s.describe() for s in matching[:LISTED])]
        lines += [f"and {len(matching) - LISTED} more"] * (len(matching) > LISTED)
        raise SessionAmbiguous("\n    ".join(lines), hint)
    return matching[0] if matching else None


def wait_for_session(
    choose: Callable[[], Listed | None],
    wanted: SessionSelector,
    say: Say,
    *,
    within_s: float | None,
    look_s: float,
    remark: str | None = None,
) -> Listed:
    """Call ``choose`` every ``look_s`` until it returns a session. TimedOut after ``within_s``.

    ``remark`` is said with the announcement that a session is waited for.
    """
    who = "a session" if wanted.backend is None else f"session {wanted.backend}"
    pattern = "" if wanted.query is None else f" with a query like '{wanted.query}'"
    awaited = f"{who}{pattern}{' to spill' if wanted.spilling else ''}"
    announced, began_s = False, time.monotonic()
    while (session := choose()) is None:
        if not announced:
            announced = True
            say(f"waiting for {awaited}; Ctrl-C ends it")
            if remark is not None:
                say(remark)
        if within_s is not None and time.monotonic() - began_s >= within_s:
            raise no_query_error(awaited, within_s)
        time.sleep(look_s)
    return session


def no_query_error(awaited: str, within_s: float) -> TimedOut:
    """The error for a query that did not begin in time."""
    hint = "a longer --duration waits longer, and without one it waits until Ctrl-C"
    return TimedOut(f"waited {format_duration(within_s)} for {awaited}: none came", hint)


def prepare(
    recorder: Recorder,
    process: tuple[int, None] | tuple[None, str],
    say: Say,
    calls: Sequence[str] | None = None,
) -> str | None:
    """Prepare the capture, which may take a moment; return why there can be none, or None.

    ``process`` is the server's process or thread on this machine, or why there is none.
    """
    hint = "leave it out: perf events are used"
    _core.check_attaches(recorder.options.capture, "a server", hint)
    pid, absent_because = process
    if absent_because is None:
        return _refusal(
            recorder, lambda: recorder.prepare(pid, "the server's processes", calls), say
        )
    say(f"only waits are recorded, not the I/O of its processes: {absent_because}")
    return absent_because


def _refusal(recorder: Recorder, attempt: Callable[[], object], say: Say) -> str | None:
    """The reason against a capture that was not requested by name; None if there is none."""
    try:
        attempt()
    except InputError as error:
        if recorder.options.capture != AUTO:
            raise
        say(f"only waits are recorded, not the I/O of its processes: {error.message}")
        if error.hint:
            say(f"  {error.hint}")
        return error.message
    return None


class LiveRecorder(ABC, Generic[Result]):
    """A capture of a server's processes and looks at its sessions, begun and ended together.

    Where one session is recorded, this is the target of the recorder, and ``pid`` its process.
    """

    pid: int
    exit_status: int | None = None
    #: When what is recorded began (of ``time.monotonic``); None while it is waited for.
    began_s: float | None = None
    #: What is waited for until then.
    awaited = ""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    @abstractmethod
    def ended(self, timeout_s: float) -> EndedBy | None:
        """Sleep until it has ended or the time is over; how it ended, None if it continues."""

    @abstractmethod
    def look(self) -> dict[str, Any]:
        """Note what has changed since the last call; return the sessions for the status line."""

    @abstractmethod
    def finish(self, ended_by: EndedBy) -> Result:
        """End capture and looks, and keep what was recorded."""

    def start(self) -> None:
        """Let what is recorded begin."""

    def stop(self) -> None:
        """End the looks at sessions."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""
        return self.ended(timeout_s) is not None

    def collect(self) -> None:
        """Write what was captured since the last call."""
        self.recorder.collect()

    def attach(self, observe: Callable[[], None], absent_because: str | None, say: Say) -> bool:
        """Capture by ``observe``, or record only samples; return whether there is a capture."""
        if absent_because is None:
            absent_because = _refusal(self.recorder, observe, say)
        if absent_because is not None:
            self.recorder.observe_from_afar(self, absent_because)
        for notice in self.recorder.new_notices():
            say(notice)
        return absent_because is None

    def until_the_end(self, on_status: OnStatus) -> Result:
        """Record to the end, for the duration, or until Ctrl-C; keep what there is."""
        try:
            with interrupts_reported() as interrupted:
                self.start()
                return self.finish(self._follow(interrupted, on_status))
        except BaseException:
            self.stop()
            self.recorder.abandon()
            raise

    def _follow(self, interrupted: Event, on_status: OnStatus) -> EndedBy:
        limit_s, since_s = self.recorder.options.duration_s, time.monotonic()
        # A query that ends at once is shown, too.
        while (ended_by := self._shown_until(on_status, interrupted)) is None:
            if interrupted.is_set():
                if self.began_s is None:
                    raise KeyboardInterrupt
                return "interrupt"
            if limit_s is not None and time.monotonic() - (self.began_s or since_s) >= limit_s:
                if self.began_s is None:
                    raise no_query_error(self.awaited, limit_s)
                return "duration"
        return ended_by

    def _shown_until(self, on_status: OnStatus, interrupted: Event) -> EndedBy | None:
        """Show what there is, then wait a moment; how it ended, None if it continues."""
        self.collect()
        counts = self.look()
        try:
            on_status(self.recorder, {**self.recorder.status(), **counts})
        except KeyboardInterrupt:
            # A key of the live view.
            interrupted.set()
        return self.ended(TICK_S)


@dataclass(frozen=True)
class Session:
    """A session as the list of a server shows it."""

    id: int
    user: str
    database: str | None
    #: Whether it runs a statement.
    runs: bool
    #: Since its statement began; of an idle session since that ended, if ``tells_end``.
    seconds: float
    #: What it does or waits for.
    state: str | None
    query: str | None
    #: Differs between two executions.
    query_id: int | None
    #: As the kernel numbers it; None if the server does not tell.
    thread: int | None

    def continues(self, earlier: "Session") -> bool:
        """Whether it still runs the statement that it ran at an earlier look."""
        same = self.query, self.query_id
        return same == (earlier.query, earlier.query_id) and self.seconds >= earlier.seconds

    def describe(self) -> str:
        """Return one line for a list of sessions."""
        return session_line(self.id, self.user, self.seconds, self.query or "")


class TableCalls(Protocol):
    """A server's count of calls on the temporary tables of a session, by any thread."""

    def look(self) -> object:
        """Note what is seen of the session only while it lasts. SpillcastError as of ``total``."""

    def total(self) -> int:
        """Return the reads and writes since the count began. SpillcastError if it is lost."""


class ListedSessions(Protocol):
    """A server whose list of sessions is enough to record a query."""

    #: Looks a second.
    rate_hz: int
    #: Whether ``Session.seconds`` of an idle session count from the end of its statement.
    tells_end: bool
    #: How the user lists sessions, and the right to see those of others.
    hint: str

    def sessions(self) -> list[Session]:
        """Return the sessions that this user may see. SpillcastError if the connection is lost."""

    def process(self) -> tuple[int, None] | tuple[None, str]:
        """Return a thread of the server on this machine, or why there is none."""

    def temp_places(self) -> Sequence[Path]:
        """Return the directories and files that hold temp data, as this machine sees them."""

    def describe(self, session: Session) -> ObservedEngine:
        """Return engine, version, address and settings of a session."""

    def table_calls(self, session: Session) -> TableCalls | None:
        """Begin to count the calls on its temporary tables; None if the server does not."""


def record_listed(
    server: ListedSessions,
    recorder: Recorder,
    wanted: SessionSelector,
    say: Say,
    on_status: OnStatus,
) -> Recording:
    """Record the query of a session to its end, for ``options.duration_s``, or until Ctrl-C.

    InputError for a session or a right that is missing, and where the query ended before anything
    was seen of it.
    """
    absent_because = prepare(recorder, server.process(), say)
    session = wait_for_session(
        lambda: _chosen(server, wanted),
        wanted,
        say,
        within_s=recorder.options.duration_s,
        look_s=1 / server.rate_hz,
    )
    query = _ListedQuery(server, session, recorder)
    query.begin(absent_because, say)
    return query.until_the_end(on_status)


def _chosen(server: ListedSessions, wanted: SessionSelector) -> Session | None:
    """The session that is wanted; one that its number selects may be idle."""
    try:
        pattern = re.compile(wanted.query or "", re.IGNORECASE)
    except re.error as error:
        raise OptionInvalid(f"--query '{wanted.query}': {error}", "write \\( for a (") from None
    listed = server.sessions()
    if wanted.backend is not None:
        listed = [session for session in listed if session.id == wanted.backend]
        if not listed:
            raise ProcessMissing(
                f"--session {wanted.backend}: the server shows no such session", server.hint
            )
    idle_too = wanted.backend is not None and wanted.query is None
    matching = [s for s in listed if idle_too or (s.runs and pattern.search(s.query or ""))]
    return only_session(matching, "name one with --session ID")


class _ListedQuery(LiveRecorder[Recording]):
    """The query of a session while it is recorded."""

    def __init__(self, server: ListedSessions, session: Session, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.server, self.session, self.pid = server, session, session.thread or 0
        self.awaited = f"a query of session {session.id}"
        self._looked_ns = time.monotonic_ns()
        self._engine = server.describe(session)
        #: How long it had run when it was attached; None while the session is idle.
        self._before_s: float | None = session.seconds if session.runs else None
        self._query = session.query if session.runs else None
        self._failure: str | None = None
        self._counted: TableCalls | None = None
        self._table_calls: int | None = None
        self._began_ns = 0
        self._ended_ns: int | None = None
        self._samples = self._ticks = self._discarded = 0
        self._gap_s = 0.0
        recorder.run_so_far = lambda: RunSoFar(self._began_ns or None, self._known("duration"))

    def begin(self, absent_because: str | None, say: Say) -> None:
        """Capture the calls of the session's thread, or only samples where that is refused."""
        if absent_because is None and self.session.thread is None:
            absent_because = "the server does not tell the session's thread"
        self._counted = self.server.table_calls(self.session)
        self.attach(self._observe, absent_because, say)
        attached_ns = time.monotonic_ns()
        if self._before_s is not None:
            self._before_s += (attached_ns - self._looked_ns) / 1e9
            self._begin(attached_ns)
        self._looked_ns = attached_ns
        self._cpu_s = time.thread_time()

    def _observe(self) -> None:
        self.recorder.observe(
            self, temp_dirs=self.server.temp_places(), only_calls=True, watch_memory=False
        )

    def _begin(self, began_ns: int) -> None:
        self._began_ns, self.began_s = began_ns, began_ns / 1e9

    def ended(self, timeout_s: float) -> EndedBy | None:
        """Look at the session until its query has ended or the time is over."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            time.sleep(1 / self.server.rate_hz)
            if (ended_by := self._look()) is not None:
                return ended_by
        return None

    def look(self) -> dict[str, Any]:
        """Return the samples so far."""
        if self._counted is not None:
            with suppress(SpillcastError):
                self._counted.look()
        return {"samples": self._samples, "processes": 1, "waiting": self.began_s is None}

    def _look(self) -> EndedBy | None:
        try:
            listed = self.server.sessions()
        except SpillcastError as error:
            self._failure = f"the connection to the server was lost: {error.message}"
            return "failure"
        now_ns, before_ns = time.monotonic_ns(), self._looked_ns
        self._looked_ns = now_ns
        session = next((s for s in listed if s.id == self.session.id), None)
        if self.began_s is None:
            self._await(session, before_ns, now_ns)
            return None
        if session is None or not session.continues(self.session):
            # What is told of the session's next state began when this statement ended.
            if session is not None and self.server.tells_end:
                self._ended_ns = max(before_ns, now_ns - round(session.seconds * 1e9))
            return "end"
        self.session = session
        self._sample(session, (now_ns - before_ns) / 1e9, now_ns)
        return None

    def _await(self, session: Session | None, before_ns: int, now_ns: int) -> None:
        """Note the beginning of the query. QueryEnded if it was not seen or cannot come."""
        if session is None:
            raise QueryEnded(f"session {self.session.id} has ended without a query")
        if session.runs:
            self._begin(max(before_ns, now_ns - round(session.seconds * 1e9)))
            self._before_s, self._query, self.session = 0.0, session.query, session
        elif session.query_id != self.session.query_id:
            apart = format_duration(1 / self.server.rate_hz)
            raise QueryEnded(
                f"session {session.id} ran a query between two looks, which are {apart} apart: it "
                "is too short to record"
            )

    def _sample(self, session: Session, since_s: float, now_ns: int) -> None:
        self._ticks += 1
        if since_s >= GAP / self.server.rate_hz:
            self._discarded, self._gap_s = self._discarded + 1, self._gap_s + since_s
            return
        self._samples += 1
        sample = {
            "time_ns": now_ns - self.recorder.origin_ns,
            "session": session.id,
            "event": session.state or None,
            "weight_us": round(since_s * 1e6),
        }
        self.recorder.add_samples(Table.from_rows([sample], SAMPLES))

    def finish(self, ended_by: EndedBy) -> Recording:
        """Keep the recording."""
        elapsed_s = self._elapsed_s
        if self._counted is not None:
            with suppress(SpillcastError):
                self._table_calls = self._counted.total()
        extra = self._known(ended_by)
        return self.recorder.finish(elapsed_s=elapsed_s, started_ns=self._began_ns, extra=extra)

    @property
    def _elapsed_s(self) -> float:
        return ((self._ended_ns or time.monotonic_ns()) - self._began_ns) / 1e9

    def _known(self, ended_by: EndedBy) -> dict[str, Any]:
        """The account of the query for meta.json."""
        before_s, rate_hz = self._before_s or 0.0, self.server.rate_hz
        elapsed_s = before_s + self._elapsed_s
        began = datetime.now(UTC) - timedelta(seconds=elapsed_s)
        return {
            "ended_by": ended_by,
            "engine": replace(self._engine, query=struck_text(self._query or "")),
            "server": RecordedQuery(
                backend=self.session.id,
                query_started_at=began.isoformat(timespec="milliseconds"),
                query_elapsed_s=elapsed_s,
                before_recording_s=before_s,
                ended_by="query" if ended_by == "end" else ended_by,
                failure=self._failure,
                workers=[],
                workers_not_attached=0,
                temp_files=[],
                table_calls=self._table_calls,
            ),
            "sampling": Sampling(
                rate_hz=rate_hz,
                samples=self._samples,
                ticks=self._ticks,
                discarded=self._discarded,
                gap_s=self._gap_s,
                gap_from_s=GAP / rate_hz,
                client_cpu_s=time.thread_time() - self._cpu_s,
                server_cpu_s=None,
            ),
        }
