"""Recording a server while it runs: its processes are captured, its sessions sampled, to an end."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any, Generic, TypeVar

from spillcast.engines.engine import OnStatus
from spillcast.engines.postgres.connection import (
    SAMPLER,
    Connection,
    open_session,
    row,
    while_it_answers,
)
from spillcast.engines.postgres.live.backend import no_query_error
from spillcast.engines.postgres.live.sampler import Sampler
from spillcast.interruptible import interrupts_reported
from spillcast.recording.meta import EndedBy
from spillcast.recording.recorder import Recorder

#: The interval of writes; the sampler has a clock of its own.
TICK_S = 0.25

Result = TypeVar("Result")


@contextmanager
def sampler_connection(dsn: str) -> Iterator[Connection]:
    """A session of ours on the server, for the sampler. SpillcastError where it is ended."""
    with closing(open_session(dsn, SAMPLER)) as connection, while_it_answers():
        yield connection


class LiveRecorder(Generic[Result]):
    """A recorder of a server's processes and a sampler of its sessions, begun and ended together.

    A subclass says what is recorded of which session.
    """

    sampler: Sampler
    #: When what is recorded began (of ``time.monotonic``); None while it is waited for.
    began_s: float | None = None
    #: What is waited for until then.
    awaited = ""

    def __init__(self, recorder: Recorder, connection: Connection) -> None:
        self.recorder, self.connection = recorder, connection
        #: When the capture was attached, by the server's clock.
        self.attached_s = 0.0

    def start(self) -> None:
        """Let what is recorded begin."""
        self.sampler.start()

    def ended(self, timeout_s: float) -> EndedBy | None:
        """Sleep until it has ended or the time is over; how it ended, None where it goes on."""
        raise NotImplementedError

    def look(self) -> dict[str, Any]:
        """Take the rows since the last call; returns the sessions for the status line."""
        raise NotImplementedError

    def finish(self, ended_by: EndedBy) -> Result:
        """End sampler and capture, and keep what was recorded."""
        raise NotImplementedError

    def sample(self, **sampled: Any) -> None:
        """Sample beside the capture, which is attached; ``sampled`` is for the ``Sampler``.

        It has the connection to itself from its start on.
        """
        try:
            query = "select date_part('epoch', clock_timestamp())"
            (self.attached_s,) = row(self.connection, query)
            self.sampler = Sampler(self.connection, self.recorder.origin_ns, **sampled)
        except BaseException:
            self.recorder.abandon()
            raise

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

    def collect(self) -> None:
        """Pass the samples since the last call to the recorder."""
        self.recorder.collect()
        self.recorder.add_samples(self.sampler.take_samples())

    def _follow(self, interrupted: Event, on_status: OnStatus) -> EndedBy:
        limit_s, since_s = self.recorder.options.duration_s, time.monotonic()
        while (ended_by := self.ended(TICK_S)) is None:
            self.collect()
            counts = self.look()
            try:
                on_status(self.recorder, {**self.recorder.status(), **counts})
            except KeyboardInterrupt:
                # A key of the live view.
                interrupted.set()
            if interrupted.is_set():
                if self.began_s is None:
                    raise KeyboardInterrupt
                return "interrupt"
            if limit_s is not None and time.monotonic() - (self.began_s or since_s) >= limit_s:
                if self.began_s is None:
                    raise no_query_error(self.awaited, limit_s)
                return "duration"
        return ended_by
