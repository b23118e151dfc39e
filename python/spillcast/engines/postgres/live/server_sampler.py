"""Sampling all sessions of a server at once: their queries, processes and waits."""

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spillcast.engines.postgres.connection import Connection
from spillcast.engines.postgres.live.backend import ACTIVE
from spillcast.engines.postgres.live.look import ALL, Backend, Look, Statement
from spillcast.engines.postgres.live.query import QueryLife
from spillcast.engines.postgres.live.sampler import LIST_S, Sampled, failure_text, samples
from spillcast.engines.postgres.processes import (
    children,
    cpu_s,
    run_queue_delay_s,
    served_by,
    started_ns,
    title,
)
from spillcast.recording.memory import PeakMemory
from spillcast.recording.schema import SAMPLES_SCHEMA

RATE_HZ = 20
INTERVAL_S = 1 / RATE_HZ
#: As of the sampler of one session.
GAP_S = 5 * INTERVAL_S
#: A session is still shown so long after it did anything: longer than any gap that matters.
SHOWN_S = 10.0
#: How often the server's new children are looked at: some workers live no longer.
CHILDREN_S = 0.02
#: How many looks apart it is asked how long a query that has not spilled was runnable.
DELAY_TICKS = 5
#: To within which the start of a process is known, twice.
TICKS_NS = 20_000_000
#: How long a child may take to say what it is, and the session it serves to be seen at work.
UNPLACED_S = 2.0


@dataclass
class SessionQuery:
    """A query of a session as far as it was seen; all times are of CLOCK_MONOTONIC."""

    pid: int
    life: QueryLife
    sampled: Sampled
    started_ns: int
    #: Whose it is and its text; None where the session went on before they could be read.
    statement: Statement | None = None
    #: When its rows end, and until when it was sure to run: of a session that is gone, the look
    #: before; None while it runs.
    ended_ns: int | None = None
    sure_until_ns: int | None = None
    #: The memory of its processes; None before it spilled.
    memory: PeakMemory | None = None
    #: Of each parallel worker, its start; None where that is not known.
    workers: dict[int, int | None] = field(default_factory=dict)
    _delay_s: dict[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def run_queue_delay_s(self) -> float:
        """How long its processes were runnable but not scheduled while they were looked at."""
        return sum(last_s - first_s for first_s, last_s in self._delay_s.values())

    def join(self, worker: int) -> None:
        """Take a parallel worker in, unless it is of an earlier query."""
        if worker in self.workers:
            return
        began_ns = started_ns(worker)
        if began_ns is None or began_ns > self.started_ns - TICKS_NS:
            self.workers[worker] = began_ns
            self.sampled.pids |= {worker}

    def look_at_memory(self) -> None:
        """Look what its processes hold."""
        self.memory = self.memory or PeakMemory(self.pid)
        self.memory.add(*self.sampled.pids)
        self.memory.look()

    def look_at_delay(self) -> None:
        """Look how long its processes have been runnable but not scheduled."""
        for pid in self.sampled.pids:
            delay_s = run_queue_delay_s(pid)
            if delay_s is not None:
                first_s, _ = self._delay_s.get(pid, (delay_s, delay_s))
                self._delay_s[pid] = first_s, delay_s


class ServerSampler(threading.Thread):
    """Looks at all sessions of a server 20 times a second until it is stopped or the server ends.

    Times of samples count from ``origin_ns`` (CLOCK_MONOTONIC). ``done`` is set when it has ended.
    """

    def __init__(
        self, connection: Connection, postmaster: int, origin_ns: int, *, list_temp: bool
    ) -> None:
        super().__init__(name="spillcast-sample", daemon=True)
        self.failure: str | None = None
        #: What sampling has cost so far here and in the server, and the samples that it gave.
        self.client_cpu_s, self.samples = 0.0, 0
        self.server_cpu_s: float | None = None
        #: When it looked last.
        self.last_ns = time.monotonic_ns()
        self.done = threading.Event()
        self._halt = threading.Event()
        self._server = connection.info.backend_pid
        self._postmaster = postmaster
        self._origin_ns = origin_ns
        self._list_temp = list_temp
        self._listed_s = 0.0
        self._look = Look(connection, ALL, list_temp=list_temp)
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._running: dict[int, SessionQuery] = {}
        self._ended: list[SessionQuery] = []
        self._children = children(postmaster)
        #: Children that have not been placed yet, and since when.
        self._unplaced: dict[int, float] = dict.fromkeys(self._children, time.monotonic())

    def take_samples(self) -> pa.RecordBatch:
        """The samples since the last time, in the columns of SAMPLES."""
        with self._lock:
            rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, SAMPLES_SCHEMA)

    def take_ended(self) -> list[SessionQuery]:
        """The queries that have ended since the last time."""
        with self._lock:
            ended, self._ended = self._ended, []
        return ended

    def running(self) -> list[SessionQuery]:
        """The queries that run."""
        with self._lock:
            return list(self._running.values())

    def stop(self) -> None:
        """End sampling."""
        self._halt.set()
        if self.ident is not None:
            self.join()

    def run(self) -> None:
        """Sample; the thread's work."""
        began_s = cpu_s(self._server)
        # Not in step with anything that happens as often.
        jitter = random.Random(self._postmaster)
        due_s = 0.0
        try:
            while not self._halt.wait(CHILDREN_S):
                self._look_at_children()
                if time.monotonic() >= due_s:
                    self._tick()
                    self._count_cost(began_s)
                    due_s = time.monotonic() + INTERVAL_S * jitter.uniform(0.7, 1.3)
        except Exception as error:
            self.failure = failure_text(error)
        finally:
            self.done.set()

    def _tick(self) -> None:
        backends = self._look.sessions(SHOWN_S)
        now_ns = time.monotonic_ns()
        gap_ns = now_ns - self.last_ns
        with self._lock:
            self._see(
                {backend.pid: backend for backend in backends if backend.leader is None}, now_ns
            )
        self._read_statements()
        self._sample(backends, now_ns, gap_ns)
        if self._list_temp and time.monotonic() - self._listed_s > LIST_S:
            self._list()
        self.last_ns = now_ns

    def _count_cost(self, began_s: float | None) -> None:
        self.client_cpu_s, now_s = time.thread_time(), cpu_s(self._server)
        if began_s is not None and now_s is not None:
            self.server_cpu_s = now_s - began_s

    def _see(self, sessions: dict[int, Backend], now_ns: int) -> None:
        """End the queries that have ended, begin those that have begun."""
        ended = dict[int, SessionQuery]()
        for pid, query in list(self._running.items()):
            session = sessions.get(pid)
            if query.life.see(None if session is None else session.seen) == "ended":
                ended[pid] = self._end(query, session, now_ns)
        for pid, session in sessions.items():
            if pid not in self._running and session.seen.state in ACTIVE:
                query = self._begin(session, now_ns)
                # A worker may have been seen before the query that it is of.
                for worker in ended[pid].workers if pid in ended else ():
                    query.join(worker)

    def _begin(self, session: Backend, now_ns: int) -> SessionQuery:
        life, pid, seen = QueryLife(), session.pid, session.seen
        life.see(seen)
        began_ns = now_ns - round((seen.now_s - seen.query_start_s) * 1e9)
        sampled = Sampled(pids=frozenset({pid}), started_ns=began_ns)
        query = SessionQuery(pid, life, sampled, began_ns)
        self._running[pid] = query
        return query

    def _end(self, query: SessionQuery, session: Backend | None, now_ns: int) -> SessionQuery:
        ended_s = query.life.ended_s
        # What a session did that is gone now, it did before it went.
        query.ended_ns, query.sure_until_ns = now_ns, self.last_ns
        if session is not None and ended_s is not None:
            seen = session.seen
            query.sure_until_ns = now_ns - round((seen.now_s - ended_s) * 1e9)
            # Where it runs, or has run, another query by now, that is the end at the latest.
            next_s = max(seen.query_start_s, ended_s)
            query.ended_ns = now_ns - round((seen.now_s - next_s) * 1e9)
        if query.life.unseen_s > GAP_S:
            query.sampled.gap_s += query.life.unseen_s
        self._ended.append(query)
        return self._running.pop(query.pid)

    def _read_statements(self) -> None:
        new = {query.pid: query for query in self._running.values() if query.life.new}
        if not new:
            return
        for statement in self._look.statements(new):
            query = new[statement.pid]
            if statement.text_hash == query.life.text:
                query.statement, query.sampled.query = statement, statement.text

    def _sample(self, backends: list[Backend], now_ns: int, gap_ns: int) -> None:
        working = list[Backend]()
        for backend in backends:
            query = self._running.get(backend.leader or backend.pid)
            if query is None:
                continue
            if backend.leader is not None:
                query.join(backend.pid)
            elif query.sampled.queryid is None:
                query.sampled.queryid = backend.query_id
            if gap_ns > GAP_S * 1e9:
                query.sampled.discarded += 1
            else:
                query.sampled.samples += 1
                working.append(backend)
        for query in self._running.values():
            query.sampled.ticks += 1
            if query.memory is not None or query.sampled.ticks % DELAY_TICKS == 1:
                query.look_at_delay()
            if gap_ns > GAP_S * 1e9:
                query.sampled.gap_s += gap_ns / 1e9
        self.samples += len(working)
        rows = samples(working, now_ns - self._origin_ns, round(gap_ns / 1e3))
        with self._lock:
            self._rows += rows

    def _list(self) -> None:
        pids = [pid for query in self._running.values() for pid in query.sampled.pids]
        held = self._look.temp_held(pids)
        for query in self._running.values():
            query.sampled.hold(held)
        self._listed_s = time.monotonic()

    def _look_at_children(self) -> None:
        """Place parallel workers that no sample may ever show."""
        now, now_s = children(self._postmaster), time.monotonic()
        if now is self._children and not self._unplaced:
            return
        self._unplaced |= dict.fromkeys(now - self._children, now_s)
        self._children = now
        for pid, since_s in list(self._unplaced.items()):
            child_title = title(pid)
            leader = served_by(child_title)
            query = None if leader is None else self._running.get(leader)
            if query is not None:
                query.join(pid)
            elif now_s - since_s < UNPLACED_S and (
                leader is not None or (not child_title and pid in now)
            ):
                continue
            del self._unplaced[pid]
