"""Records a query of a PostgreSQL server: its waits by samples, its I/O where it runs here."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.live import LiveRecorder, prepare
from spillcast.engines.postgres.connection import (
    SAMPLER,
    Connection,
    open_session,
    row,
    while_it_answers,
)
from spillcast.engines.postgres.live.activity import find, may_list_temp
from spillcast.engines.postgres.live.explain import (
    PLAN_FILE,
    Explained,
    WatchedStatement,
    plan_summary,
)
from spillcast.engines.postgres.live.sampler import Sampler, SessionQuery
from spillcast.engines.postgres.processes import (
    CALLS,
    WORKER_TITLE,
    local_process,
    postmaster,
    temp_directories,
)
from spillcast.errors import OptionMissing, QueryEnded
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.record import Recorder, RunSoFar
from spillcast.recording.server_meta import (
    RecordedQuery,
    Sampling,
    Server,
    TempFiles,
    Worker,
)
from spillcast.redaction import struck_text

Result = TypeVar("Result")


@contextmanager
def sampler_connection(dsn: str) -> Iterator[Connection]:
    """Open a session for the sampler. SpillcastError if the server ends it."""
    with closing(open_session(dsn, SAMPLER)) as connection, while_it_answers():
        yield connection


class SampledRecorder(LiveRecorder[Result]):
    """A recorder with a sampler of the server's sessions."""

    sampler: Sampler

    def __init__(self, recorder: Recorder, connection: Connection) -> None:
        super().__init__(recorder)
        self.connection = connection
        #: When the capture was attached, by the server's clock.
        self.attached_s = 0.0

    def start(self) -> None:
        """Sample."""
        self.sampler.start()

    def stop(self) -> None:
        """End sampling."""
        self.sampler.stop()

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

    def collect(self) -> None:
        """Pass the samples since the last call to the recorder."""
        super().collect()
        self.recorder.add_samples(self.sampler.take_samples())


#: A session that ran a query and is idle for so long has ended it, as the first looks at it show.
ENDED_S = 1.0
#: Looks a second where samples are all there is.
RATE_ALONE_HZ = 50
#: Beside a capture, which has the times: each look takes the server a millisecond.
RATE_HZ = 10


def record_postgres(
    dsn: str,
    output: Path | None,
    wanted: SessionSelector | None = None,
    *,
    explain: str | None = None,
    timed: bool = True,
    settings: Mapping[str, str] | None = None,
    options: RecordOptions | None = None,
    say: Say = lambda _text: None,
    on_status: OnStatus = lambda _recorder, _status: None,
    running: Running | None = None,
) -> Recording:
    """Record the query of the session ``wanted``, or the statement ``explain``, to its end.

    A session of its own runs the latter under EXPLAIN (ANALYZE, BUFFERS) with ``settings``, and
    rolls it back; unless it is ``timed``, the plan has no times of its nodes. Returns when the
    query has ended, after ``options.duration_s``, or upon Ctrl-C, which keeps what there is.
    ``say`` gets messages for the user; ``on_status`` gets the capture's counts with ``samples`` and
    ``processes`` a few times a second. Without an ``output`` nothing is written; ``running`` has
    what there is so far.

    InputError for a server, a session or a right that is missing, and if the query ended before
    it was seen; SpillcastError if the connection is lost, and if no query began within
    ``options.duration_s``.
    """
    if (wanted is None) == (explain is None):
        raise OptionMissing("give either a session to find or a statement to explain")
    recorder = Recorder(output, options, running)
    with sampler_connection(dsn) as connection, ExitStack() as stack:
        absent_because = prepare(recorder, local_process(connection), say, CALLS)
        if wanted is not None:
            session = find(connection, wanted, say, recorder.options.duration_s)
            statement = WatchedStatement(dsn, session.database, connection)
            session_recorder = _SessionRecorder(
                recorder,
                connection,
                session.pid,
                statement,
                runs=session.active and wanted.backend is None,
            )
        else:
            assert explain is not None
            run = Explained(dsn, explain, settings or {}, say, timed=timed)
            stack.callback(run.close)
            session_recorder = _SessionRecorder(recorder, connection, run.pid, run)
        session_recorder.begin(absent_because, say)
        return session_recorder.until_the_end(on_status)


class _SessionRecorder(SampledRecorder[Recording]):
    """The recording of one session's query."""

    def __init__(
        self,
        recorder: Recorder,
        connection: Connection,
        pid: int,
        ran: WatchedStatement | Explained,
        *,
        runs: bool = False,
    ) -> None:
        super().__init__(recorder, connection)
        #: Whether the session ran the wanted query when it was selected.
        self._runs, self._sampled_s = runs, 0.0
        self.pid, self.awaited = pid, f"a query of session {pid}"
        self._statement = ran if isinstance(ran, WatchedStatement) else None
        self._run = ran if isinstance(ran, Explained) else None
        self._unattached = 0
        self._say: Say = lambda _text: None
        #: What is known of the query now that it is watched no longer.
        self._ended: RunSoFar | None = None
        recorder.run_so_far = self.run_so_far

    def begin(self, absent_because: str | None, say: Say) -> None:
        """Attach to the session and to workers that it starts, and prepare the sampler."""
        connection, self._say = self.connection, say
        if self._run is not None:
            self._settings = session_settings(self._run.connection)
        else:
            self._settings = settings_of(connection, self.pid)
        list_temp = may_list_temp(connection)
        rate_hz = RATE_HZ if self.attach(self._observe, absent_because, say) else RATE_ALONE_HZ
        self.sample(rate_hz=rate_hz, list_temp=list_temp, session=self.pid, on_worker=self._attach)
        [self._query] = self.sampler.queries()

    def _observe(self) -> None:
        self.recorder.observe(self, temp_dirs=temp_directories(self.pid), only_calls=True)
        if self._run is None:
            self.recorder.know_before()
        parent = postmaster(self.pid)
        if parent is not None:
            # Where this is refused, workers are attached when they are first sampled.
            with contextlib.suppress(OSError):
                self.recorder.attach_children(parent, WORKER_TITLE.format(pid=self.pid))

    def _attach(self, worker: int) -> None:
        try:
            self.recorder.attach(worker)
        except ProcessLookupError:
            pass
        except OSError:
            self._unattached += 1

    def start(self) -> None:
        """Begin to sample, and start the statement of ``--explain``."""
        super().start()
        self._sampled_s = time.monotonic()
        if self._run is not None:
            self._run.start()
            self.began_s = time.monotonic()

    def ended(self, timeout_s: float) -> EndedBy | None:
        """Sleep until the query has ended, or sampling of a session's that is not ours."""
        if self._run is not None:
            return "end" if self._run.wait(timeout_s) else None
        if not self.sampler.done.wait(timeout_s):
            return None
        return "failure" if self.sampler.failure else "end"

    def look(self) -> dict[str, Any]:
        """What was sampled so far; of a query that runs, its earlier calls are counted."""
        query = self._query
        waiting = query.life.phase == "waiting"
        if self.began_s is None and not waiting:
            self.began_s = time.monotonic()
        elif self._runs and waiting and time.monotonic() - self._sampled_s > ENDED_S:
            raise QueryEnded(
                f"the query of session {self.pid} ended before it could be recorded",
                f"record again while it runs; --backend {self.pid} waits for its next query",
            )
        if query.life.phase == "running" and self._statement is not None:
            self._statement.calls(query)
        return {"samples": query.samples, "processes": len(query.pids), "waiting": waiting}

    def finish(self, ended_by: EndedBy) -> Recording:
        """Keep the recording. InputError where the query ended before anything was seen of it."""
        recorder, query, life, run = self.recorder, self._query, self._query.life, self._run
        self.sampler.stop()
        recorder.add_samples(self.sampler.take_samples())
        if run is not None:
            run.finish()
        if ended_by == "end" and self._statement is not None:
            ended_by = "end" if self._statement.completed(query, self._say) else "error"
        began_s, until_s = life.started_s, life.seen_until_s
        if run is not None and run.elapsed_s is not None:
            elapsed_s = run.elapsed_s
        elif began_s is None or until_s is None:
            raise QueryEnded(query.failure or f"session {self.pid} has ended without a query")
        else:
            elapsed_s = until_s - max(began_s, self.attached_s)
        if elapsed_s <= 0:
            raise QueryEnded("the query ended before anything was recorded")
        if run is not None and run.plan is not None:
            recorder.add_document(PLAN_FILE, run.plan)
        if ended_by != "end":
            for name, document in self._documents.items():
                recorder.add_document(name, document)
        extra = self._known(ended_by)
        self._ended = RunSoFar(self._started_ns, {**extra, "elapsed_s": elapsed_s})
        extra["sampling"] = sampling_meta(query, self.sampler)
        return recorder.finish(elapsed_s=elapsed_s, started_ns=self._started_ns, extra=extra)

    def run_so_far(self) -> RunSoFar:
        """The query as it is known by now."""
        if self._ended is not None:
            return self._ended
        return RunSoFar(self._started_ns, self._known("duration"), self._documents)

    @property
    def _started_ns(self) -> int | None:
        return self._query.started_ns if self._run is None else self._run.started_ns

    def _known(self, ended_by: EndedBy) -> dict[str, Any]:
        """The account of the query for meta.json."""
        workers = self.recorder.joined(self._started_ns)
        return {
            "ended_by": ended_by,
            "engine": engine_meta(
                self.connection,
                self.pid,
                self._settings,
                self._query.text,
                self._query.queryid,
                self._run,
            ),
            "server": query_meta(self._query, self.attached_s, ended_by, workers, self._unattached),
        }

    @property
    def _documents(self) -> Mapping[str, object]:
        """Evidence of what remains of a query that still runs, by file."""
        if self._statement is None:
            return {}
        return self._statement.documents(self._query, self._settings)


#: A server that does not know one of them leaves it out.
NAMES = (
    "work_mem",
    "hash_mem_multiplier",
    "max_parallel_workers_per_gather",
    "temp_tablespaces",
    "track_io_timing",
    "io_method",
)
FROM_SESSION = "the session that ran it"
FROM_OUTSIDE = "server, database and role; what the session has set by itself does not show"

# Our own session has its role's and database's settings too: where one of these holds, the server's
# file says what is below it, for those who may see the file, and else the built-in value.
_SERVER = """
select s.name, s.source in ('default', 'configuration file', 'command line',
                            'environment variable', 'override'),
       current_setting(s.name), s.boot_val || coalesce(s.unit, '')
  from pg_settings s where s.name = any (%s)
"""
_FILE = "select name, setting from pg_file_settings where applied"
_MAY_READ_FILE = "select has_function_privilege('pg_show_all_file_settings()', 'execute')"
# From the widest to the narrowest, as they go one over the other.
_GIVEN = """
select s.setdatabase, s.setrole, s.setconfig from pg_db_role_setting s
 order by s.setrole <> 0, s.setdatabase <> 0
"""
_WHOSE = "select a.datid, a.usesysid from pg_stat_get_activity(%s) a"
_CURRENT = "select name, current_setting(name) from pg_settings where name = any (%s)"


def engine_meta(
    connection: Connection,
    pid: int,
    settings: Mapping[str, str],
    query: str,
    queryid: str | None,
    explained: Explained | None,
) -> ObservedEngine:
    """Server, session, settings and query; its plan where it was explained."""
    info, plan = connection.info, None if explained is None else explained.plan
    return ObservedEngine(
        name="postgres",
        version=info.parameter_status("server_version"),
        server=Server(info.host or info.hostaddr, info.port, info.dbname, info.user),
        pid=pid,
        query=struck_text(query if explained is None else explained.statement),
        # That of EXPLAIN is not that of the statement which it runs.
        queryid=queryid if explained is None else None,
        settings={
            **settings,
            "settings_of": FROM_OUTSIDE if explained is None else FROM_SESSION,
            "plan": None if plan is None else plan_summary(plan),
        },
    )


def query_meta(
    query: SessionQuery,
    attached_s: float,
    ended_by: EndedBy,
    workers: Sequence[Worker],
    unattached: int = 0,
) -> RecordedQuery:
    """The query; instants are by the server's clock. Some workers were seen and not attached.

    A failure is one of the sampler's connection.
    """
    began_s = query.life.started_s
    began = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
    return RecordedQuery(
        backend=query.pid,
        query_started_at=None if began is None else began.isoformat(timespec="milliseconds"),
        query_elapsed_s=query.life.elapsed_s,
        before_recording_s=max(0.0, attached_s - (began_s or attached_s)),
        ended_by="query" if ended_by == "end" else ended_by,
        failure=query.failure,
        workers=workers,
        workers_not_attached=unattached,
        temp_files=[
            TempFiles(name, size, files) for name, (size, files) in sorted(query.temp_peak.items())
        ],
    )


def sampling_meta(query: SessionQuery, sampler: Sampler) -> Sampling:
    """What sampling gave of a query, and its share of what sampling cost."""
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


def session_settings(connection: Connection) -> dict[str, str]:
    """The settings of a session that spillcast opened."""
    return dict(connection.execute(_CURRENT, [list(NAMES)]).fetchall())


@dataclass(frozen=True)
class ServerSettings:
    """What sessions begin with: the server's own settings, and those given beside."""

    servers: Mapping[str, str]
    #: Database, role (0 for any) and NAME=VALUE pairs, from the widest to the narrowest.
    given: Sequence[tuple[int, int, Sequence[str]]]

    @classmethod
    def of(cls, connection: Connection) -> "ServerSettings":
        """As the server has them now."""
        rows = connection.execute(_SERVER, [list(NAMES)]).fetchall()
        file: dict[str, str] = {}
        if row(connection, _MAY_READ_FILE)[0]:
            file = dict(connection.execute(_FILE).fetchall())
        servers = {
            str(name): str(current if is_servers else file.get(name, built_in))
            for name, is_servers, current, built_in in rows
        }
        return cls(servers, connection.execute(_GIVEN).fetchall())

    def for_session(self, database_id: int, user_id: int) -> dict[str, str]:
        """What a session begins with; what it sets itself is not visible."""
        settings = dict(self.servers)
        for database, role, pairs in self.given:
            if database in (0, database_id) and role in (0, user_id):
                named = (text.partition("=") for text in pairs)
                settings |= {name: value for name, _, value in named if name in NAMES}
        return settings


def settings_of(connection: Connection, pid: int) -> dict[str, str]:
    """The settings that another session began with; those it made itself are not visible."""
    whose = connection.execute(_WHOSE, [pid]).fetchone() or (0, 0)
    return ServerSettings.of(connection).for_session(*whose)
