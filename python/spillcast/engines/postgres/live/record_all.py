"""Records all queries of a server that spill: one capture of all processes, split by query."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spillcast import _core
from spillcast.engines import Notify, OnStatus
from spillcast.engines.live import LiveRecorder
from spillcast.engines.postgres import (
    CALLS,
    Connection,
    Workers,
    local_process,
    postmaster,
    row,
    temp_directories,
)
from spillcast.engines.postgres.live import sampler_connection
from spillcast.engines.postgres.live.activity import (
    ALL,
    SHOWN_S,
    ActivityQueries,
    ServerSettings,
    engine_meta,
    permission_error,
)
from spillcast.engines.sampler import SessionQuery
from spillcast.errors import CaptureUnavailable
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions, share_of
from spillcast.recording.meta import EndedBy, Memory, OtherIO, Temp
from spillcast.recording.observed import MissedIo, Worker
from spillcast.recording.record import Recorder
from spillcast.recording.schema import seconds_of, totals
from spillcast.recording.server import (
    QueryRecording,
    RecordingsFolder,
    ServerRecording,
    SessionRows,
    UnkeptQuery,
)
from spillcast.recording.writer import RecordingWriter
from spillcast.redaction import masked_text

RATE_HZ = 20
#: The time after the end of a query within which all its rows have arrived.
SETTLED_NS = 2_000_000_000
#: Rows are kept this long for queries that no sample has shown yet.
UNSEEN_NS = 5_000_000_000
#: A query counts as spilling for this long after its last temp I/O.
SPILLING_NS = 2_000_000_000


def record_all_of_postgres(
    dsn: str,
    output: Path,
    *,
    options: RecordOptions,
    notify: Notify,
    on_status: OnStatus = lambda _recorder, _status: None,
) -> ServerRecording:
    """Observes all processes of the server; writes a recording of each query into ``output``.

    ``output`` must not exist, or hold only recordings, which stay. Recording ends with the server
    or our connection, after ``options.duration_s``, or upon Ctrl-C; queries that still run are
    recorded up to then. ``on_status`` gets the capture's counts with ``active`` and ``spilling``
    queries and ``recordings`` made. InputError for a missing server or privilege, for a server on
    another machine, and if ``output`` holds anything else.
    """
    folder = RecordingsFolder(output)
    folder.check()
    _core.check_attaches(options.capture, "a server", "leave it out: perf events are used")
    with sampler_connection(dsn) as connection, ExitStack() as stack:
        pid, reason = local_process(connection)
        server = None if pid is None else postmaster(pid)
        if server is None:
            raise CaptureUnavailable(
                f"--all observes the server's processes: {reason or 'they cannot be seen'}",
                "run it on the server's machine; from here --backend PID samples one session's "
                "waits",
            )
        if not row(connection, "select pg_has_role(current_user, 'pg_read_all_stats', 'usage')")[0]:
            raise permission_error(connection, "sessions of other roles")
        stack.callback(folder.leave)
        rows = SessionRows(folder.make(share=options.share))
        stack.callback(rows.discard)
        recorder = Recorder(None, options, sink=rows)
        recorder.prepare(server, "the server's processes", CALLS)
        sessions = _AllSessions(recorder, rows, connection, server, folder, notify)
        return sessions.until_the_end(on_status)


@dataclass(frozen=True)
class Window:
    """The recorded time of a query: ns since the capture's start."""

    begin_ns: int
    end_ns: int
    #: The earliest time at which it may have ended.
    complete_until_ns: int

    @classmethod
    def of(cls, query: SessionQuery, origin_ns: int, until_ns: int) -> "Window":
        """Up to the query's end, or to ``until_ns`` (CLOCK_MONOTONIC) if it still ran then."""
        end_ns = query.ended_ns or until_ns
        complete_ns = query.complete_until_ns or until_ns
        return cls(max(query.began_ns - origin_ns, 0), end_ns - origin_ns, complete_ns - origin_ns)

    def elapsed_s(self, sums: "QuerySums") -> float:
        """Wall time of the query, which lasted at least until its last temp I/O."""
        return max(self.complete_until_ns - self.begin_ns, sums.temp_until_ns) / 1e9


@dataclass
class QuerySums:
    """The sums of a query's rows."""

    temp: Temp = field(default_factory=Temp)
    other_io: OtherIO = field(default_factory=OtherIO)
    #: CPU time outside calls; None if the capture does not measure it.
    cpu_s: float | None = None
    #: The end of the last temp I/O, ns since the query's start.
    temp_until_ns: int = 0


def _written(
    query: SessionQuery, window: Window, rows: SessionRows, path: Path, options: RecordOptions
) -> tuple[RecordingWriter, QuerySums]:
    """An unfinished recording with the rows of a query, and the sums of the rows."""
    writer = RecordingWriter(path, options.slices, share=options.share)
    selection = query.pids, window.begin_ns, window.end_ns
    sums = QuerySums()
    try:
        for part in rows.waits(*selection):
            writer.add_waits(part)
            writer.add_seconds(seconds_of(part))
            temp, other_io = totals(part)
            sums.temp, sums.other_io = sums.temp + temp, sums.other_io + other_io
            if part["cpu_before_ns"].null_count < part.num_rows:
                sums.cpu_s = (sums.cpu_s or 0.0) + part["cpu_before_ns"].sum() / 1e9
            ends = (part["start_ns"].values + part["elapsed_ns"].values)[part["temp"].values]
            sums.temp_until_ns = int(ends.max(initial=sums.temp_until_ns))
        for samples in rows.samples(*selection):
            writer.add_samples(samples)
    except BaseException:
        writer.discard()
        raise
    return writer, sums


class _AllSessions(LiveRecorder[ServerRecording]):
    def __init__(
        self,
        recorder: Recorder,
        rows: SessionRows,
        connection: Connection,
        server: int,
        folder: RecordingsFolder,
        notify: Notify,
    ) -> None:
        super().__init__(recorder, ActivityQueries(connection, ALL, SHOWN_S))
        self._rows, self._folder, self._server, self._notify = rows, folder, server, notify
        self._engine = engine_meta(connection, server, {})
        self._settings = ServerSettings.of(connection)
        #: Queries that have ended, but whose rows may not all have arrived.
        self._ended: list[SessionQuery] = []
        self._kept: list[QueryRecording] = []
        self._unkept: list[UnkeptQuery] = []
        self._dropped = 0
        recorder.observe(
            _core.Target.process(server),
            temp_dirs=temp_directories(server),
            only_calls=True,
            watch_memory=False,
        )
        self.sample(rate_hz=RATE_HZ, new_workers=Workers(server).new_workers)

    def start(self) -> None:
        super().start()
        # Only from here on Ctrl-C keeps what was recorded.
        observed = f"all processes of the server are observed from process {self._server} on"
        self._notify(f"{observed}; Ctrl-C ends it")

    def ended(self, timeout_s: float) -> EndedBy | None:
        if self.recorder.target.wait(timeout_s):
            return "end"
        if self.sampler.done.is_set():
            # The sampler lost its connection, perhaps because the server is shutting down.
            return "end" if self.recorder.target.wait(1.0) else "failure"
        return None

    def collect(self) -> None:
        """If rows were dropped, notes that queries up to now are incomplete."""
        super().collect()
        dropped = self.recorder.status()["dropped"]
        if dropped > self._dropped:
            self._dropped = dropped
            self._rows.lack(time.monotonic_ns() - self.recorder.origin_ns)

    def look(self) -> dict[str, Any]:
        """Keeps queries that have ended; reads the memory of those that spill now."""
        ended, self._ended = [*self._ended, *self.sampler.take_ended()], []
        settled_ns = time.monotonic_ns() - SETTLED_NS
        for query in ended:
            if (query.ended_ns or 0) < settled_ns:
                self._keep(query, _ended_by(query))
            else:
                self._ended.append(query)
        running = self.sampler.queries()
        # Rows before the oldest query are no longer needed.
        wanted = [query.began_ns for query in (*running, *self._ended)]
        oldest_ns = min([time.monotonic_ns() - UNSEEN_NS, *wanted])
        self._rows.forget(oldest_ns - self.recorder.origin_ns)
        now_ns = time.monotonic_ns() - self.recorder.origin_ns
        since_ns = now_ns - SPILLING_NS
        spilling = [query for query in running if self._rows.spilled(query.pids, since_ns, now_ns)]
        for query in spilling:
            query.look_at_memory()
        counts = {"active": len(running), "spilling": len(spilling)}
        return {**counts, "recordings": len(self._kept)}

    def _keep(self, query: SessionQuery, ended_by: EndedBy) -> None:
        recorder, rows = self.recorder, self._rows
        window = Window.of(query, recorder.origin_ns, self.sampler.last_ns)
        if not rows.spilled(query.pids, window.begin_ns, window.end_ns):
            return
        text = masked_text(query.text)
        if window.begin_ns < rows.whole_from_ns:
            because = (
                "the server did more I/O than could be kept while it ran: record it alone with "
                "--backend PID"
            )
            self._unkept.append(UnkeptQuery(query.pid, text, because))
            return
        path = self._folder.next(query.pid)
        writer, sums = _written(query, window, rows, path, recorder.options)
        if not sums.temp.operations or window.elapsed_s(sums) <= 0:
            writer.discard()
            return
        recording = self._finished(query, window, writer, sums, ended_by)
        self._kept.append(_summary(recording, query))

    def _finished(
        self,
        query: SessionQuery,
        window: Window,
        writer: RecordingWriter,
        sums: QuerySums,
        ended_by: EndedBy,
    ) -> Recording:
        """Finishes a recording: the server's meta data, reduced to this query."""
        about = self.recorder.account(window.elapsed_s(sums), query.began_ns)
        temp, other = sums.temp, sums.other_io
        calls = about.temp.operations + about.other_io.count
        share = min((temp.operations + other.count) / max(calls, 1), 1.0)
        peak_bytes = query.memory and query.memory.peak_bytes
        # A session that ended before its first look has that of the server.
        held_bytes = query.memory and query.memory.group_held_bytes
        if held_bytes is None:
            held_bytes = about.memory.group_held_bytes
        session = query.statement.database_id, query.statement.user_id
        meta = replace(
            about,
            ended_by=ended_by,
            before=None,
            engine=replace(
                self._engine,
                pid=query.pid,
                query=masked_text(query.text),
                queryid=query.queryid,
                settings={**self._engine.settings, **self._settings.for_session(*session)},
            ),
            memory=Memory(about.memory.limit_bytes, peak_bytes, held_bytes),
            # Throttling was counted for the whole server and the whole time.
            cpu_limits=replace(about.cpu_limits, throttled_s=None, throttled_periods=None),
            cpu_s=None if about.cpu_s is None else sums.cpu_s,
            temp=temp,
            other_io=other,
            # Run queue delay was counted for the whole server, not for this query.
            capture=replace(
                share_of(about.capture, share),
                dropped=0,
                run_queue_delay_s=query.run_queue_delay_s,
                run_queue_others_s=None,
            ),
            server=self.query_meta(
                query, ended_by, _workers(query, window, self.recorder.origin_ns)
            ),
            sampling=self.sampling_meta(query),
        )
        return writer.finish(meta)

    def finish(self, ended_by: EndedBy) -> ServerRecording:
        """Keeps the queries that have ended, and those that run, up to now."""
        recorder, sampler = self.recorder, self.sampler
        sampler.stop()
        recorder.stop()
        self.collect()
        recorded_s = time.monotonic() - self.attached_ns / 1e9
        for query in (*self._ended, *sampler.take_ended()):
            self._keep(query, _ended_by(query))
        for query in sampler.queries():
            self._keep(query, "failure" if ended_by == "end" else ended_by)
        status, server = recorder.status(), self._engine.server
        assert server is not None
        assigned = sum(kept.reads + kept.writes for kept in self._kept)
        return ServerRecording(
            path=self._folder.path,
            server=server,
            recorded_s=recorded_s,
            ended_by=ended_by,
            failure=sampler.failure,
            method=recorder.method,
            lost=status["lost"],
            recordings=self._kept,
            unkept=self._unkept,
            unassigned=max(status["temp_reads"] + status["temp_writes"] - assigned, 0),
        )


def _ended_by(query: SessionQuery) -> EndedBy:
    return "error" if query.life.completed is False else "end"


def _workers(query: SessionQuery, window: Window, origin_ns: int) -> list[Worker]:
    """The query's workers; those started during the recording were observed from their start."""
    zero_ns = origin_ns + window.begin_ns
    workers = []
    for pid, started_ns in query.workers.items():
        is_whole = started_ns is not None and started_ns >= origin_ns
        started_s = None if started_ns is None else (started_ns - zero_ns) / 1e9
        attached_ns = started_ns if started_ns is not None and is_whole else origin_ns
        missed = MissedIo(0, 0, 0) if is_whole else None
        workers.append(Worker(pid, started_s, (attached_ns - zero_ns) / 1e9, missed))
    return workers


def _summary(recording: Recording, query: SessionQuery) -> QueryRecording:
    meta, statement, temp = recording.meta, query.statement, recording.meta.temp
    server_query = meta.server
    assert server_query is not None
    return QueryRecording(
        path=recording.path,
        pid=query.pid,
        user=statement.user,
        database=statement.database,
        application=statement.application,
        query=meta.engine.query or "",
        started_at=meta.started_at,
        elapsed_s=recording.elapsed_s,
        before_recording_s=server_query.before_recording_s,
        ended_by=server_query.ended_by,
        workers=len(query.workers),
        reads=temp.reads,
        read_bytes=temp.bytes - recording.written_bytes.temp,
        writes=temp.writes,
        written_bytes=recording.written_bytes.temp,
        temp_s=temp.total_s,
        temp_share=temp.total_s / recording.elapsed_s / (1 + len(query.workers)),
    )
