"""Records queries of running servers: captures their processes and samples their sessions.

For each engine, a class derived from ``SessionRecorder`` knows its processes and settings.
"""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from spillcast import _core
from spillcast.engines import Notify, OnStatus, SessionSelector
from spillcast.engines.activity import Activity
from spillcast.engines.sampler import Sampler, SessionQuery
from spillcast.errors import InputError, QueryEnded, SessionAmbiguous, TimedOut
from spillcast.interruptible import interrupts_reported
from spillcast.recording import Recording
from spillcast.recording.capture import AUTO
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.observed import RecordedQuery, Sampling, TablespaceUsage, Worker
from spillcast.recording.record import KnownRun, Recorder
from spillcast.redaction import masked_text
from spillcast.units import format_duration

#: The interval of writes and of the status; sampling has its own rate.
TICK_S = 0.25
#: If a session that was selected by its query is idle for this long at first, the query has ended.
ENDED_S = 1.0
#: The maximum number of sessions in an error, and the maximum length of a session's line.
LISTED_MAX, LINE_MAX = 8, 76

Result = TypeVar("Result")
#: A session as a server lists it.
Listed = TypeVar("Listed")


def session_line(number: int, user: str, running_s: float, query: str) -> str:
    """A session as one line of a list."""
    text = " ".join(masked_text(query).split())
    return f"{number}  {user}  {format_duration(running_s)}  {text}"[:LINE_MAX]


def only_session(
    matching: Sequence[Listed], describe: Callable[[Listed], str], hint: str
) -> Listed | None:
    """The only session that matches; None if there is none. SessionAmbiguous lists several."""
    if len(matching) > 1:
        lines = [f"{len(matching)} sessions match:", *map(describe, matching[:LISTED_MAX])]
        if len(matching) > LISTED_MAX:
            lines.append(f"and {len(matching) - LISTED_MAX} more")
        raise SessionAmbiguous("\n    ".join(lines), hint)
    return matching[0] if matching else None


def wait_for_session(
    choose: Callable[[], Listed | None],
    wanted: SessionSelector,
    notify: Notify,
    *,
    within_s: float | None,
    look_s: float,
    remark: str | None = None,
) -> Listed:
    """Calls ``choose`` every ``look_s`` until it returns a session. TimedOut after ``within_s``."""
    awaited = "a session" if wanted.backend is None else f"session {wanted.backend}"
    if wanted.query is not None:
        awaited += f" with a query like '{wanted.query}'"
    if wanted.spilling:
        awaited += " to spill"
    announced, began_s = False, time.monotonic()
    while (session := choose()) is None:
        if not announced:
            announced = True
            notify(f"waiting for {awaited}; Ctrl-C ends it")
            if remark is not None:
                notify(remark)
        if within_s is not None and time.monotonic() - began_s >= within_s:
            raise no_query_error(awaited, within_s)
        time.sleep(look_s)
    return session


def no_query_error(awaited: str, within_s: float) -> TimedOut:
    """The error for a query that did not start in time."""
    hint = "a longer --duration waits longer, and without one it waits until Ctrl-C"
    return TimedOut(f"waited {format_duration(within_s)} for {awaited}: none appeared", hint)


def prepare(
    recorder: Recorder,
    pid: int | None,
    absent_because: str | None,
    notify: Notify,
    calls: Sequence[str] | None = None,
) -> str | None:
    """Prepares the capture of ``pid``, the server's process or thread on this machine.

    Returns None, or why there is no capture: ``absent_because`` if it is given.
    """
    hint = "leave it out: perf events are used"
    _core.check_attaches(recorder.options.capture, "a server", hint)
    if absent_because is None:
        return _refusal(
            recorder, lambda: recorder.prepare(pid, "the server's processes", calls), notify
        )
    notify(f"only waits are recorded, not the I/O of its processes: {absent_because}")
    return absent_because


def _refusal(recorder: Recorder, attempt: Callable[[], object], notify: Notify) -> str | None:
    """Why an attempt to capture failed, or None. Raises if the user named the capture source."""
    try:
        attempt()
    except InputError as error:
        if recorder.options.capture != AUTO:
            raise
        notify(f"only waits are recorded, not the I/O of its processes: {error.message}")
        if error.hint:
            notify(f"  {error.hint}")
        return error.message
    return None


class LiveRecorder(ABC, Generic[Result]):
    """Captures a server's processes and samples its sessions, from the same start to the same end.

    For one session, it is also the recorder's ``Target``, and ``pid`` is the session's process.
    """

    pid: int
    exit_status: int | None = None
    #: The name, in messages, of what has not started while ``began_s`` is None.
    awaited = ""

    sampler: Sampler

    def __init__(self, recorder: Recorder, activity: Activity) -> None:
        self.recorder, self._activity = recorder, activity
        #: CLOCK_MONOTONIC when the capture was attached.
        self.attached_ns = 0

    @property
    def began_s(self) -> float | None:
        """``time.monotonic`` when the recorded run started; None before."""
        return self.attached_ns / 1e9

    @abstractmethod
    def ended(self, timeout_s: float) -> EndedBy | None:
        """Waits up to ``timeout_s`` for the run's end. Returns how it ended, None if it goes on."""

    @abstractmethod
    def look(self) -> dict[str, Any]:
        """Notes what has changed since the last call; returns the sessions for the status line."""

    @abstractmethod
    def finish(self, ended_by: EndedBy) -> Result:
        """Ends capture and sampling, and keeps what was recorded."""

    def sample(self, **sampled: Any) -> None:
        """Creates the sampler; from now on, only its thread uses the connection."""
        self.attached_ns = time.monotonic_ns()
        self.sampler = Sampler(self._activity, self.recorder.origin_ns, **sampled)

    def start(self) -> None:
        """Starts sampling, and the run that is recorded."""
        self.sampler.start()

    def wait(self, timeout_s: float) -> bool:
        """Waits up to ``timeout_s``; True if the run has ended."""
        return self.ended(timeout_s) is not None

    def collect(self) -> None:
        """Writes the rows and samples since the last call."""
        self.recorder.collect()
        self.recorder.add_samples(self.sampler.take_samples())

    def before_recording_s(self, query: SessionQuery) -> float:
        """How long a query had run when the capture was attached."""
        return max(0, self.attached_ns - (query.started_ns or self.attached_ns)) / 1e9

    def query_meta(
        self, query: SessionQuery, ended_by: EndedBy, workers: Sequence[Worker]
    ) -> RecordedQuery:
        """A query for meta.json; its start is by the server's clock."""
        began_s = query.life.started_s
        began = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
        return RecordedQuery(
            backend=query.pid,
            query_started_at=None if began is None else began.isoformat(timespec="milliseconds"),
            query_elapsed_s=query.life.elapsed_s,
            before_recording_s=self.before_recording_s(query),
            ended_by="query" if ended_by == "end" else ended_by,
            failure=query.failure,
            workers=workers,
            workers_not_attached=0,
            temp_files=[
                TablespaceUsage(name, size, files)
                for name, (size, files) in sorted(query.temp_peak.items())
            ],
        )

    def sampling_meta(self, query: SessionQuery) -> Sampling:
        """The samples of a query for meta.json, with its share of the cost of sampling."""
        sampler = self.sampler
        share = query.samples / sampler.samples if sampler.samples else 1.0
        server_s = sampler.server_cpu_s
        return Sampling(
            rate_hz=sampler.rate_hz,
            samples=query.samples,
            ticks=query.ticks,
            discarded=query.discarded,
            gap_s=query.gap_s,
            gap_from_s=sampler.gap_s,
            client_cpu_s=share * sampler.client_cpu_s,
            server_cpu_s=None if server_s is None else share * server_s,
        )

    def until_the_end(self, on_status: OnStatus) -> Result:
        """Records to the end, for the duration, or until Ctrl-C, and keeps the recording."""
        try:
            with interrupts_reported() as interrupted:
                self.start()
                return self.finish(self._follow(interrupted, on_status))
        except BaseException:
            self.sampler.stop()
            self.recorder.abandon()
            raise

    def _follow(self, interrupted: list[int], on_status: OnStatus) -> EndedBy:
        limit_s, since_s = self.recorder.options.duration_s, time.monotonic()
        while True:
            # Shows the status at least once, even for a query that ends immediately.
            self.collect()
            counts = self.look()
            try:
                on_status(self.recorder, {**self.recorder.status(), **counts})
            except KeyboardInterrupt:
                # The user pressed q in the live view.
                interrupted.append(signal.SIGINT)
            if (ended_by := self.ended(TICK_S)) is not None:
                return ended_by
            if interrupted:
                if self.began_s is None:
                    raise KeyboardInterrupt
                return "interrupt"
            if limit_s is not None and time.monotonic() - (self.began_s or since_s) >= limit_s:
                if self.began_s is None:
                    raise no_query_error(self.awaited, limit_s)
                return "duration"


class SessionRecorder(LiveRecorder[Recording]):
    """The recording of one session's query; ``pid`` is its process or thread."""

    #: The option that selects a session by its number.
    option: ClassVar[str]
    notify: Notify
    #: Samples per second with a capture, and without one.
    rate_hz: int
    rate_alone_hz: int
    #: Calls of all threads on the query's temporary tables; None before its end, or if uncounted.
    table_calls: int | None = None

    def __init__(
        self, recorder: Recorder, activity: Activity, session: int, pid: int, *, runs: bool = False
    ) -> None:
        """``runs`` if the session was selected because it ran the wanted query."""
        super().__init__(recorder, activity)
        self._session, self._runs = session, runs
        self.pid, self.awaited = pid, f"a query of session {session}"
        self._unattached, self._announced = 0, False
        #: The state of the query when recording ended.
        self._ended: KnownRun | None = None
        recorder.known_run = self.known_run

    @abstractmethod
    def observe(self) -> None:
        """Starts the capture of the session's process and of the processes that work for it."""

    @abstractmethod
    def describe_engine(self) -> ObservedEngine:
        """Returns server, session, settings and query for meta.json."""

    def watch(self) -> None:
        """Stores what the server shows only while the query runs."""

    def completed(self) -> bool:
        """Returns whether the query completed, as far as the server shows."""
        return True

    def elapsed_s(self) -> float:
        """Returns the wall time that was recorded. QueryEnded if there was no query."""
        query_s = self.query.life.elapsed_s
        if query_s is None:
            reason = f"session {self.query.pid} has ended without a query"
            raise QueryEnded(self.query.failure or reason)
        return query_s - self.before_recording_s(self.query)

    @property
    def started_ns(self) -> int | None:
        """CLOCK_MONOTONIC at the start of the query; None before."""
        return self.query.started_ns

    @property
    def began_s(self) -> float | None:
        """``time.monotonic`` at the later of the query's start and the attach; None before."""
        began_ns = self.started_ns
        return None if began_ns is None else max(began_ns, self.attached_ns) / 1e9

    @property
    def documents(self) -> Mapping[str, object]:
        """JSON documents that help to forecast the rest of an unfinished query, by file."""
        return {}

    def begin(self, absent_because: str | None, notify: Notify) -> None:
        """Captures the session and its workers, if possible, and prepares the sampler."""
        self.notify = notify
        if absent_because is None:
            absent_because = _refusal(self.recorder, self.observe, notify)
        if absent_because is not None:
            self.recorder.sample_only(self, absent_because)
        for notice in self.recorder.new_notices():
            notify(notice)
        rate_hz = self.rate_hz if absent_because is None else self.rate_alone_hz
        self.sample(rate_hz=rate_hz, session=self._session, on_worker=self._attach)
        [self.query] = self.sampler.queries()

    def _attach(self, worker: int) -> None:
        try:
            self.recorder.attach(worker)
        except ProcessLookupError:
            pass
        except OSError:
            self._unattached += 1

    def ended(self, timeout_s: float) -> EndedBy | None:
        """Waits up to ``timeout_s`` for the end of the query, or of its sampling."""
        if not self.sampler.done.wait(timeout_s):
            return None
        return "failure" if self.sampler.failure else "end"

    def look(self) -> dict[str, Any]:
        """Watches a running query; returns counts for the status line."""
        query = self.query
        waiting = query.life.phase == "waiting"
        late = time.monotonic() - self.attached_ns / 1e9 > ENDED_S
        if waiting and late and self.began_s is None:
            if self._runs:
                next_query = f"{self.option} {query.pid} waits for its next query"
                raise QueryEnded(
                    f"the query of session {query.pid} ended before it could be recorded",
                    f"record again while it runs; {next_query}",
                )
            if not self._announced:
                self._announced = True
                self.notify(f"waiting for {self.awaited}; Ctrl-C ends it")
        if query.life.phase == "running":
            self.watch()
        return {"samples": query.samples, "processes": len(query.pids), "waiting": waiting}

    def finish(self, ended_by: EndedBy) -> Recording:
        """Keeps the recording. InputError if the query ended before anything was recorded."""
        recorder, query = self.recorder, self.query
        self.sampler.stop()
        recorder.add_samples(self.sampler.take_samples())
        if ended_by == "end" and not self.completed():
            ended_by = "error"
        elapsed_s = self.elapsed_s()
        if elapsed_s <= 0:
            raise QueryEnded("the query ended before anything was recorded")
        documents = {} if ended_by == "end" else self.documents
        fields = {"elapsed_s": elapsed_s, "sampling": self.sampling_meta(query)}
        self._ended = KnownRun(self.started_ns, fields | self._meta_fields(ended_by), documents)
        return recorder.finish(self._ended)

    def known_run(self) -> KnownRun:
        """The current state of the query, with its documents."""
        if self._ended is not None:
            return self._ended
        return KnownRun(self.started_ns, self._meta_fields("duration"), self.documents)

    def _meta_fields(self, ended_by: EndedBy) -> dict[str, Any]:
        workers = self.recorder.joined(self.started_ns)
        query = replace(
            self.query_meta(self.query, ended_by, workers),
            workers_not_attached=self._unattached,
            table_calls=self.table_calls,
        )
        return {"ended_by": ended_by, "engine": self.describe_engine(), "server": query}
