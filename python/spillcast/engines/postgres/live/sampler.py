"""Sampling what a session and its parallel workers wait for, through one connection of ours."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spillcast.engines.postgres.connection import Connection
from spillcast.engines.postgres.live.query import QueryLife, Seen
from spillcast.engines.postgres.processes import cpu_s
from spillcast.errors import SpillcastError
from spillcast.recording.schema import SAMPLES_SCHEMA

RATE_HZ = 50
INTERVAL_S = 1 / RATE_HZ
#: After a longer gap the sampler was kept from running, most likely by what it samples: what it
#: sees then is not what was there meanwhile, and is not counted.
GAP_S = 5 * INTERVAL_S
#: How often temp files are listed.
LIST_S = 0.5

# The function behind pg_stat_activity, without the view's joins; date_part gives a float8.
_TICK = b"""
select a.pid, a.leader_pid, a.wait_event, a.state, date_part('epoch', a.query_start),
       date_part('epoch', a.xact_start), date_part('epoch', a.state_change),
       date_part('epoch', clock_timestamp()), hashtext(a.query), %s
  from pg_stat_get_activity(null) a
 where a.pid = $1 or a.leader_pid = $1
"""
_QUERY = b"select a.query from pg_stat_get_activity($1) a"
_LIST = b"""
select t.spcname, count(*), sum(f.size)
  from pg_tablespace t, pg_ls_tmpdir(t.oid) f
 where t.spcname <> 'pg_global'
   and substring(f.name from '^pgsql_tmp([0-9]+)')::int = any ($1::int[])
 group by 1
"""


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
    #: All processes seen: the leader and its workers.
    pids: set[int] = field(default_factory=set)
    #: Most bytes and files of temp files at one look, by tablespace.
    temp_peak: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The text of the query, cut where the server cuts it (track_activity_query_size).
    query: str = ""
    #: Why sampling ended before the query did; None where it did not.
    failure: str | None = None
    #: When the query began (CLOCK_MONOTONIC), to within a round trip; None before it was seen.
    started_ns: int | None = None


class Sampler(threading.Thread):
    """Looks at a session 50 times a second until its query has ended, or it is stopped.

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
    ) -> None:
        super().__init__(name="spillcast-sample", daemon=True)
        self.life = QueryLife()
        self.sampled = Sampled(pids={pid})
        self.done = threading.Event()
        self._halt = threading.Event()
        self._connection = connection
        self._pid = pid
        self._origin_ns = origin_ns
        self._on_worker = on_worker
        self._list_temp = list_temp
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        since = connection.info.server_version
        query_id = b"a.query_id" if since >= 140_000 else b"null"
        self._prepare(b"query", _QUERY)
        self._prepare(b"tick", _TICK % query_id)
        if list_temp:
            self._prepare(b"list", _LIST)

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
        # Not in step with anything that happens 50 times a second.
        jitter = random.Random(self._pid)
        last_ns = time.monotonic_ns()
        try:
            while self.life.phase != "ended" and not self._halt.is_set():
                last_ns = self._tick(last_ns)
                if self._list_temp and time.monotonic() - listed > LIST_S:
                    self._list()
                    listed = time.monotonic()
                self._halt.wait(INTERVAL_S * jitter.uniform(0.7, 1.3))
        except SpillcastError as error:
            self.sampled.failure = error.message
        finally:
            self.sampled.client_cpu_s = time.thread_time()
            ended_s = cpu_s(server)
            if began_s is not None and ended_s is not None:
                self.sampled.server_cpu_s = ended_s - began_s
            self.done.set()

    def _tick(self, last_ns: int) -> int:
        rows = self._ask(b"tick", str(self._pid).encode())
        now_ns = time.monotonic_ns()
        gap_s = (now_ns - last_ns) / 1e9
        pids = [int(row[0] or 0) for row in rows]
        sessions = [row for pid, row in zip(pids, rows, strict=True) if pid == self._pid]
        seen = _seen(sessions[0]) if sessions else None
        phase = self.life.see(seen)
        if phase != "running":
            if self.life.unseen_s > GAP_S:
                self.sampled.gap_s += self.life.unseen_s
            return now_ns
        if self.life.new and seen is not None and self.life.started_s is not None:
            self.sampled.started_ns = now_ns - round((seen.now_s - self.life.started_s) * 1e9)
            self.sampled.query = str(self._ask(b"query", str(self._pid).encode())[0][0])
        self.sampled.ticks += 1
        for worker in set(pids) - self.sampled.pids:
            self.sampled.pids.add(worker)
            self._on_worker(worker)
        if gap_s > GAP_S:
            self.sampled.discarded += len(rows)
            self.sampled.gap_s += gap_s
        else:
            self._keep(rows, now_ns, round(gap_s * 1e6))
        return now_ns

    def _keep(self, rows: list[list[str | None]], now_ns: int, weight_us: int) -> None:
        samples = [
            {
                "time_ns": now_ns - self._origin_ns,
                "session": int(pid or 0),
                "event": event,
                "weight_us": weight_us,
                "sql_id": query_id,
                "coordinator": None if leader is None else int(leader),
            }
            for pid, leader, event, *_, query_id in rows
        ]
        self.sampled.samples += len(samples)
        with self._lock:
            self._rows += samples

    def _list(self) -> None:
        pids = ",".join(map(str, self.sampled.pids))
        for name, files, size in self._ask(b"list", b"{%s}" % pids.encode()):
            peak = self.sampled.temp_peak.get(str(name), (0, 0))
            self.sampled.temp_peak[str(name)] = max(peak, (int(size or 0), int(files or 0)))

    def _prepare(self, name: bytes, query: bytes) -> None:
        self._checked(self._connection.pgconn.prepare(name, query))

    def _ask(self, name: bytes, parameter: bytes) -> list[list[str | None]]:
        """Rows as text, by the bare protocol: a cursor would take ten times the CPU."""
        result = self._connection.pgconn.exec_prepared(name, [parameter])
        self._checked(result)
        columns = range(result.nfields)
        cells = ((result.get_value(row, at) for at in columns) for row in range(result.ntuples))
        return [[None if cell is None else cell.decode() for cell in row] for row in cells]

    def _checked(self, result: Any) -> None:
        from psycopg.pq import ExecStatus

        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            told = result.error_message.decode(errors="replace").strip().splitlines()
            raise SpillcastError(f"sampling failed: {told[0] if told else 'no reason given'}")


def _seen(row: list[str | None]) -> Seen:
    _, _, _, state, query_start, xact_start, state_change, now, text, _ = row
    return Seen(
        now_s=float(now or 0),
        state=state,
        query_start_s=float(query_start or 0),
        xact_start_s=None if xact_start is None else float(xact_start),
        state_change_s=float(state_change or 0),
        text=int(text or 0),
    )
