"""Records queries of running servers: a capture of their processes beside looks at sessions."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Generic, TypeVar

from spillcast import _core
from spillcast.engines.activity import Activity
from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.sampler import Sampler
from spillcast.errors import InputError, SessionAmbiguous, TimedOut
from spillcast.interruptible import interrupts_reported
from spillcast.recording.capture import AUTO
from spillcast.recording.meta import EndedBy
from spillcast.recording.record import Recorder
from spillcast.redaction import struck_text
from spillcast.units import format_duration

#: The interval of writes and of the status; looks at sessions have a rate of their own.
TICK_S = 0.25
LISTED, LINE_MAX = 8, 76

Result = TypeVar("Result")
#: A session as a server lists it.
Listed = TypeVar("Listed")


def session_line(number: int, user: str, running_s: float, query: str) -> str:
    """A session as one line of a list."""
    text = " ".join(struck_text(query).split())
    return f"{number}  {user}  {format_duration(running_s)}  {text}"[:LINE_MAX]


def only_session(
    matching: Sequence[Listed], describe: Callable[[Listed], str], hint: str
) -> Listed | None:
    """The session that matches; None if there is none. SessionAmbiguous lists several."""
    if len(matching) > 1:
        lines = [f"{len(matching)} sessions match:", *map(describe, matching[:LISTED])]
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
    """Call ``choose`` every ``look_s`` until it returns a session. TimedOut after ``within_s``."""
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
    pid: int | None,
    absent_because: str | None,
    say: Say,
    calls: Sequence[str] | None = None,
) -> str | None:
    """Prepare the capture of ``pid``, the server's process or thread on this machine.

    Return why there can be none, or None; without a ``pid``, ``absent_because`` says why.
    """
    hint = "leave it out: perf events are used"
    _core.check_attaches(recorder.options.capture, "a server", hint)
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
    #: What is waited for until then.
    awaited = ""

    sampler: Sampler

    def __init__(self, recorder: Recorder, activity: Activity) -> None:
        self.recorder, self._activity = recorder, activity
        #: When the capture was attached (CLOCK_MONOTONIC).
        self.attached_ns = 0

    @property
    def began_s(self) -> float | None:
        """When what is recorded began (of ``time.monotonic``); None while it is waited for."""
        return self.attached_ns / 1e9

    @abstractmethod
    def ended(self, timeout_s: float) -> EndedBy | None:
        """Sleep until it has ended or the time is over; how it ended, None if it continues."""

    @abstractmethod
    def look(self) -> dict[str, Any]:
        """Note what has changed since the last call; return the sessions for the status line."""

    @abstractmethod
    def finish(self, ended_by: EndedBy) -> Result:
        """End capture and looks, and keep what was recorded."""

    def sample(self, **sampled: Any) -> None:
        """Sample beside the capture; the ``Sampler`` has the connection to itself from now on."""
        self.attached_ns = time.monotonic_ns()
        self.sampler = Sampler(self._activity, self.recorder.origin_ns, **sampled)

    def start(self) -> None:
        """Let the looks begin, and what is recorded."""
        self.sampler.start()

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it has ended or the time is over; True when it has ended."""
        return self.ended(timeout_s) is not None

    def collect(self) -> None:
        """Write what was captured and sampled since the last call."""
        self.recorder.collect()
        self.recorder.add_samples(self.sampler.take_samples())

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
            self.sampler.stop()
            self.recorder.abandon()
            raise

    def _follow(self, interrupted: Event, on_status: OnStatus) -> EndedBy:
        limit_s, since_s = self.recorder.options.duration_s, time.monotonic()
        while True:
            # A query that ends at once is shown, too.
            self.collect()
            counts = self.look()
            try:
                on_status(self.recorder, {**self.recorder.status(), **counts})
            except KeyboardInterrupt:
                # A key of the live view.
                interrupted.set()
            if (ended_by := self.ended(TICK_S)) is not None:
                return ended_by
            if interrupted.is_set():
                if self.began_s is None:
                    raise KeyboardInterrupt
                return "interrupt"
            if limit_s is not None and time.monotonic() - (self.began_s or since_s) >= limit_s:
                if self.began_s is None:
                    raise no_query_error(self.awaited, limit_s)
                return "duration"
