"""Sampling what a session and its parallel workers wait for, through one connection of ours."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spillcast.engines.postgres.connection import Connection
from spillcast.engines.postgres.live.backend import ACTIVE
from spillcast.engines.postgres.live.look import ONE, Backend, Look, TempHeld
from spillcast.engines.postgres.live.query import QueryLife
from spillcast.engines.postgres.processes import cpu_s
from spillcast.errors import SpillcastError
from spillcast.recording.schema import SAMPLES_SCHEMA

#: Looks a second where samples are all there is.
RATE_ALONE_HZ = 50
#: Beside a capture, which tells the times: each look takes the server a millisecond.
RATE_HZ = 10
#: After a gap of so many intervals the sampler was kept from running, most likely by what it
#: samples: what it sees then is not what was there meanwhile, and is not counted.
GAP = 5
#: How often temp files are listed.
LIST_S = 0.5


@dataclass
class Sampled:
    """What sampling gave and what it cost, so far."""

    ticks: int = 0
    samples: int = 0
    #: Samples taken after a gap, and the time of gaps, the one before the query's end included: no
    #: sample stands for it.
    discarded: int = 0
    gap_s: float = 0.0
    client_cpu_s: float = 0.0
    server_cpu_s: float | None = None
    #: All processes seen: the leader and its workers. Never changed but replaced, for other threads
    #: go through it meanwhile.
    pids: frozenset[int] = frozenset()
    #: Most bytes and files of temp files at one look, by tablespace.
    temp_peak: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The text of the query, cut where the server cuts it (track_activity_query_size).
    query: str = ""
    #: The query's identifier; None where the server computes none.
    queryid: str | None = None
    #: Why sampling ended before the query did; None where it did not.
    failure: str | None = None
    #: When the query began (CLOCK_MONOTONIC), to within a round trip; None before it was seen.
    started_ns: int | None = None

    def hold(self, held: Sequence[TempHeld]) -> None:
        """Take a look at temp files, of which some may be of others."""
        sums: dict[str, tuple[int, int]] = {}
        for temp_held in held:
            if temp_held.pid in self.pids:
                size, files = sums.get(temp_held.tablespace, (0, 0))
                sums[temp_held.tablespace] = size + temp_held.bytes, files + temp_held.files
        for tablespace, now in sums.items():
            self.temp_peak[tablespace] = max(self.temp_peak.get(tablespace, (0, 0)), now)


class Sampler(threading.Thread):
    """Looks at a session ``rate_hz`` times a second until its query has ended, or it is stopped.

    ``on_worker`` is called with each parallel worker's process id when it is first seen. Times of
    samples count from ``origin_ns`` (CLOCK_MONOTONIC).
    """

    def __init__(
        self,
        connection: Connection,
        pid: int,
        origin_ns: int,
        on_worker: Callable[[int], None],
        *,
        list_temp: bool,
        rate_hz: int,
    ) -> None:
        super().__init__(name="spillcast-sample", daemon=True)
        self.rate_hz, self.gap_s = rate_hz, GAP / rate_hz
        self.life = QueryLife()
        self.sampled = Sampled(pids=frozenset({pid}))
        self.done = threading.Event()
        self._halt = threading.Event()
        self._connection = connection
        self._pid = pid
        self._origin_ns = origin_ns
        self._on_worker = on_worker
        self._list_temp = list_temp
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        #: Samples since it was last active: of it only if its client fetches more of its rows.
        self._held: list[dict[str, Any]] = []
        self._look = Look(connection, ONE, list_temp=list_temp)

    def take(self) -> pa.RecordBatch:
        """The samples since the last time, in the columns of SAMPLES."""
        with self._lock:
            rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, SAMPLES_SCHEMA)

    def stop(self) -> Sampled:
        """End sampling; what it gave."""
        self._halt.set()
        if self.ident is not None:
            self.join()
        return self.sampled

    def run(self) -> None:
        """Sample; the thread's work."""
        server = self._connection.info.backend_pid
        began_s, listed = cpu_s(server), 0.0
        # Not in step with anything that happens as often.
        jitter = random.Random(self._pid)
        last_ns = time.monotonic_ns()
        try:
            while self.life.phase != "ended" and not self._halt.is_set():
                last_ns = self._tick(last_ns)
                if self._list_temp and time.monotonic() - listed > LIST_S:
                    self.sampled.hold(self._look.temp_held(self.sampled.pids))
                    listed = time.monotonic()
                self._halt.wait(jitter.uniform(0.7, 1.3) / self.rate_hz)
        except Exception as error:
            self.sampled.failure = failure_text(error)
        finally:
            self.sampled.client_cpu_s = time.thread_time()
            ended_s = cpu_s(server)
            if began_s is not None and ended_s is not None:
                self.sampled.server_cpu_s = ended_s - began_s
            self.done.set()

    def _tick(self, last_ns: int) -> int:
        backends = self._look.sessions(self._pid)
        now_ns = time.monotonic_ns()
        gap_s = (now_ns - last_ns) / 1e9
        mine = next((backend for backend in backends if backend.pid == self._pid), None)
        seen = None if mine is None else mine.seen
        phase = self.life.see(seen)
        if phase != "running":
            if self.life.unseen_s > self.gap_s:
                self.sampled.gap_s += self.life.unseen_s
            return now_ns
        if self.life.new and seen is not None and self.life.started_s is not None:
            self.sampled.started_ns = now_ns - round((seen.now_s - self.life.started_s) * 1e9)
            self.sampled.query = "".join(
                backend.text for backend in self._look.statements([self._pid])
            )
        if mine is not None:
            # It shows a moment after the query.
            self.sampled.queryid = self.sampled.queryid or mine.query_id
        self.sampled.ticks += 1
        for worker in {backend.pid for backend in backends} - self.sampled.pids:
            self.sampled.pids |= {worker}
            self._on_worker(worker)
        if gap_s > self.gap_s:
            self.sampled.discarded += len(backends)
            self.sampled.gap_s += gap_s
        else:
            self._held += samples(backends, now_ns - self._origin_ns, round(gap_s * 1e6))
            if seen is not None and seen.state in ACTIVE:
                self._give_held()
        return now_ns

    def _give_held(self) -> None:
        """The query goes on: what was sampled while its client might have left it is of it too."""
        self.sampled.samples += len(self._held)
        with self._lock:
            self._rows += self._held
        self._held = []


def failure_text(error: Exception) -> str:
    """Why sampling ended early, of an error of any kind: the query has not ended with it."""
    if isinstance(error, SpillcastError):
        return error.message
    return f"sampling failed: {type(error).__name__}: {error}"


def samples(backends: Sequence[Backend], time_ns: int, weight_us: int) -> list[dict[str, Any]]:
    """What processes did at an instant, as rows of SAMPLES."""
    return [
        {
            "time_ns": time_ns,
            "session": backend.pid,
            "event": backend.wait_event,
            "weight_us": weight_us,
            "sql_id": backend.query_id,
            "coordinator": backend.leader,
        }
        for backend in backends
    ]
