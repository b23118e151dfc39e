"""Samples a server's sessions, all of them or one, through one connection."""

import random
import threading
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast._core import PeakMemory, age_s
from spillcast.engines.activity import (
    ACTIVE,
    ActiveStatement,
    Activity,
    ProcessTempFiles,
    QueryLife,
    ServerClock,
    SessionState,
)
from spillcast.engines.queries import Scheduled, task_times
from spillcast.errors import SpillcastError
from spillcast.recording.schema import SAMPLES
from spillcast.tables import Table

#: A sample after a gap of this many intervals does not count: most likely, the sampled work itself
#: delayed it, so it is not representative.
GAP_INTERVALS = 5
#: The interval at which temp files are listed.
LIST_S = 0.5
#: The interval of searches for new children of the server: some workers live only this long.
CHILDREN_S = 0.02
#: The run-queue delay of a query that has not spilled is read in every fifth sample.
DELAY_TICKS = 5
UNKNOWN_STATEMENT = ActiveStatement()
#: Twice the resolution of the start times of processes.
START_TOLERANCE_NS = 20_000_000


@dataclass
class SessionQuery:
    """A session's query as seen by sampling; all times are by CLOCK_MONOTONIC."""

    #: The process of the session.
    pid: int
    life: QueryLife
    #: Its user and text; unknown if the session ran another query before they could be read.
    statement: ActiveStatement = UNKNOWN_STATEMENT
    #: The query's identifier; None if the server computes none.
    queryid: str | None = None
    #: The latest and the earliest time at which the query may have ended; rows up to the latest
    #: belong to it. None while it runs.
    ended_ns: int | None = None
    complete_until_ns: int | None = None
    ticks: int = 0
    samples: int = 0
    #: Samples taken after a gap, and the time of all gaps, which no sample represents. The time
    #: from the last sample to the query's end may be a gap.
    discarded: int = 0
    gap_s: float = 0.0
    #: Why sampling ended before the query; None if it did not.
    failure: str | None = None
    #: The leader and all workers so far. Replaced, never changed, because other threads iterate
    #: over it.
    pids: frozenset[int] = frozenset()
    #: The start of each parallel worker; None if unknown.
    workers: dict[int, int | None] = field(default_factory=dict)
    #: By tablespace, the bytes and the number of temp files in the sample with the most bytes.
    temp_peak: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The memory of its processes; None before it spilled.
    memory: PeakMemory | None = None
    #: Rows of SAMPLES since it was last active; they count if its client fetches more rows.
    pending_samples: list[dict[str, Any]] = field(default_factory=list)
    _delay_s: dict[int, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pids |= {self.pid}

    @property
    def text(self) -> str:
        """Its text, truncated by the server if long; empty if unknown."""
        return self.statement.text

    @property
    def started_ns(self) -> int | None:
        """The query's start, accurate to a round trip; None before a sample shows it."""
        return None if self.life.began_s is None else round(self.life.began_s * 1e9)

    @property
    def began_ns(self) -> int:
        """The start of a query that a sample has shown."""
        started_ns = self.started_ns
        assert started_ns is not None
        return started_ns

    @property
    def run_queue_delay_s(self) -> float:
        """How long its processes were runnable but not scheduled, from first to last sample."""
        return sum(last_s - first_s for first_s, last_s in self._delay_s.values())

    def join(self, worker: int, began_ns: int | None) -> bool:
        """Adds a new parallel worker unless it belongs to an earlier query; True if added."""
        if worker in self.workers:
            return False
        if began_ns is not None and began_ns <= (self.started_ns or 0) - START_TOLERANCE_NS:
            return False
        self.workers[worker] = began_ns
        self.pids |= {worker}
        return True

    def look_at_memory(self) -> None:
        """Reads the memory that its processes hold."""
        self.memory = self.memory or PeakMemory(self.pid)
        self.memory.add(*self.pids)
        self.memory.look()

    def look_at_delay(self) -> None:
        """Reads how long its processes have been runnable but not scheduled."""
        for pid in self.pids:
            if (times := task_times(Path(f"/proc/{pid}"))) is not None:
                delay_s = times.run_queue_delay_s
                first_s, _ = self._delay_s.get(pid, (delay_s, delay_s))
                self._delay_s[pid] = first_s, delay_s

    def look_at_temp_files(self, temp_files: list[ProcessTempFiles]) -> None:
        """Keeps the peak by tablespace; ``temp_files`` are those of all processes of the server."""
        sums: dict[str, tuple[int, int]] = {}
        for of_process in temp_files:
            if of_process.pid in self.pids:
                size, count = sums.get(of_process.tablespace, (0, 0))
                sums[of_process.tablespace] = size + of_process.bytes, count + of_process.files
        for tablespace, now in sums.items():
            self.temp_peak[tablespace] = max(self.temp_peak.get(tablespace, (0, 0)), now)


class Sampler(threading.Thread):
    """Samples a server's sessions ``rate_hz`` times a second until it is stopped.

    With a ``session`` it samples only that one, until its query has ended. Otherwise it samples
    all; ``new_workers`` takes the sessions with a query and returns pairs of leader and new worker
    on this machine. ``on_worker`` is called when a worker is first seen. Times of samples count
    from ``origin_ns`` (CLOCK_MONOTONIC). ``done`` is set when sampling has ended.
    """

    def __init__(
        self,
        activity: Activity,
        origin_ns: int,
        *,
        rate_hz: int,
        session: int | None = None,
        new_workers: Callable[[Container[int]], Iterable[tuple[int, int]]] | None = None,
        on_worker: Callable[[int], None] = lambda _pid: None,
    ) -> None:
        super().__init__(name="spillcast-sample", daemon=True)
        self.rate_hz, self.gap_s = rate_hz, GAP_INTERVALS / rate_hz
        self.failure: str | None = None
        #: The CPU time of sampling so far, in this process and in the server.
        self.client_cpu_s = 0.0
        self.server_cpu_s: float | None = None
        #: The number of samples of all queries.
        self.samples = 0
        self._clock = ServerClock()
        #: The time of the last sample.
        self.last_ns = time.monotonic_ns()
        self.done = threading.Event()
        self._halt = threading.Event()
        self._session, self._new_workers = session, new_workers
        self._on_worker = on_worker
        self._origin_ns = origin_ns
        self._activity, self._listed_s = activity, 0.0
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._queries: dict[int, SessionQuery] = {}
        if session is not None:
            self._queries[session] = SessionQuery(session, QueryLife(self._clock))
        self._ended: list[SessionQuery] = []

    def take_samples(self) -> Table:
        """The samples since the last call, in the columns of SAMPLES."""
        with self._lock:
            rows, self._rows = self._rows, []
        return Table.from_rows(rows, SAMPLES)

    def take_ended(self) -> list[SessionQuery]:
        """The queries that have ended since the last call."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def queries(self) -> list[SessionQuery]:
        """The running queries; with one session, its query even before it starts."""
        with self._lock:
            return list(self._queries.values())

    def stop(self) -> None:
        """Ends sampling."""
        self._halt.set()
        if self.ident is not None:
            self.join()

    def run(self) -> None:
        """Samples until the end, in this thread."""
        began, due_s = self._server_times(), 0.0
        self.last_ns = time.monotonic_ns()
        # Jitter prevents samples from running in step with periodic work of the same rate.
        jitter = random.Random(self._session)
        try:
            while not self._halt.is_set() and (self._session is None or self._queries):
                pause_s = due_s - time.monotonic()
                if self._new_workers is not None:
                    for leader, worker in self._new_workers(self._queries):
                        self._join(self._queries[leader], worker)
                    pause_s = min(pause_s, CHILDREN_S)
                if pause_s > 0:
                    self._halt.wait(pause_s)
                    continue
                self._tick()
                self._count_cost(began)
                due_s = time.monotonic() + jitter.uniform(0.7, 1.3) / self.rate_hz
        except Exception as error:
            # An error ends only the sampling: the query still runs and its capture continues.
            self.failure = f"sampling failed: {type(error).__name__}: {error}"
            if isinstance(error, SpillcastError):
                self.failure = error.message
            for query in self.queries():
                query.failure = self.failure
        finally:
            self._count_cost(began)
            self.done.set()

    def _tick(self) -> None:
        backends = self._clock.look(self._activity)
        now_ns = time.monotonic_ns()
        sessions = {backend.pid: backend for backend in backends if backend.leader is None}
        with self._lock:
            self._update(sessions, now_ns)
        if new := {pid: query for pid, query in self._queries.items() if query.life.new}:
            for statement in self._activity.statements(new):
                if statement.text_hash == sessions[statement.pid].text_hash:
                    new[statement.pid].statement = statement
        self._sample(backends, now_ns, now_ns - self.last_ns)
        if time.monotonic() - self._listed_s > LIST_S:
            temp_files = self._activity.temp_files()
            for query in self.queries():
                query.look_at_temp_files(temp_files)
            self._listed_s = time.monotonic()
        self.last_ns = now_ns

    def _count_cost(self, began: Scheduled | None) -> None:
        self.client_cpu_s, now = time.thread_time(), self._server_times()
        if began is not None and now is not None:
            self.server_cpu_s = now.cpu_s - began.cpu_s

    def _server_times(self) -> Scheduled | None:
        process = self._activity.process
        return None if process is None else task_times(Path(f"/proc/{process}"))

    def _update(self, sessions: dict[int, SessionState], now_ns: int) -> None:
        """Ends queries that are over, and adds those of sessions that became active."""
        ended = dict[int, SessionQuery]()
        for pid, query in list(self._queries.items()):
            if query.life.see(sessions.get(pid)) == "ended":
                ended[pid] = self._end(query, sessions.get(pid), now_ns)
        if self._session is not None:
            return
        for pid, session in sessions.items():
            if pid not in self._queries and session.state in ACTIVE:
                query = self._queries[pid] = SessionQuery(pid, QueryLife(self._clock))
                query.life.see(session)
                # A worker may appear before its query: then it was added to the previous query.
                for worker in ended[pid].workers if pid in ended else ():
                    query.join(worker, _started_ns(worker))

    def _end(self, query: SessionQuery, session: SessionState | None, now_ns: int) -> SessionQuery:
        ended_s = query.life.ended_s
        # A session that is gone ended after the last sample.
        query.ended_ns, query.complete_until_ns = now_ns, self.last_ns
        if session is not None and ended_s is not None:
            query.complete_until_ns = round(ended_s * 1e9)
            query.ended_ns = query.complete_until_ns
            if query.life.last and session.query_start_s != query.life.last.query_start_s:
                # The session's next query has started, so this one ended before that.
                query.ended_ns = round(self._clock.local_s(session.query_start_s, ended_s) * 1e9)
        if query.life.unseen_s > self.gap_s:
            query.gap_s += query.life.unseen_s
        self._ended.append(query)
        return self._queries.pop(query.pid)

    def _sample(self, backends: list[SessionState], now_ns: int, gap_ns: int) -> None:
        running = {
            pid: query for pid, query in self._queries.items() if query.life.phase == "running"
        }
        after_gap = gap_ns > self.gap_s * 1e9
        for backend in backends:
            query = running.get(backend.leader or backend.pid)
            if query is None:
                continue
            if backend.leader is not None:
                self._join(query, backend.pid)
            elif query.queryid is None or query.life.new:
                # The server may still show the identifier of the previous statement, or none.
                query.queryid = backend.query_id
            if after_gap:
                query.discarded += 1
            else:
                query.pending_samples.append(
                    {
                        "time_ns": now_ns - self._origin_ns,
                        "session": backend.pid,
                        "event": backend.wait_event,
                        "weight_us": round(gap_ns / 1e3),
                        "sql_id": backend.query_id,
                        "coordinator": backend.leader,
                    }
                )
        for query in running.values():
            query.ticks += 1
            spills = query.memory is not None
            if self._new_workers is not None and (spills or query.ticks % DELAY_TICKS == 1):
                query.look_at_delay()
            if after_gap:
                query.gap_s += gap_ns / 1e9
            elif query.life.active:
                # The client fetches rows again: samples since its last fetch count, too.
                query.samples += len(query.pending_samples)
                self.samples += len(query.pending_samples)
                with self._lock:
                    self._rows += query.pending_samples
                query.pending_samples = []

    def _join(self, query: SessionQuery, worker: int) -> None:
        """Adds a worker; its start is known only for processes on this machine."""
        if query.join(worker, None if self._new_workers is None else _started_ns(worker)):
            self._on_worker(worker)


def _started_ns(pid: int) -> int | None:
    """CLOCK_MONOTONIC at the start of a process, accurate to 10 ms; None if it has ended."""
    ago_s = age_s(pid)
    return None if ago_s is None else time.monotonic_ns() - round(ago_s * 1e9)
