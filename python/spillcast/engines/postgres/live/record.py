"""Records a query of a PostgreSQL server by samples and captured I/O, or runs one again for it."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillcast.engines.engine import OnStatus, Say, SessionSelector
from spillcast.engines.live import SessionRecorder, prepare
from spillcast.engines.postgres.connection import (
    EXPLAINER,
    SAMPLER,
    Connection,
    literal,
    open_session,
    row,
    while_it_answers,
)
from spillcast.engines.postgres.live.activity import SESSION, ActivityQueries, find
from spillcast.engines.postgres.live.explain import (
    PLAN_FILE,
    UNKNOWN,
    Explained,
    estimate,
    former_calls,
    plan_summary,
)
from spillcast.engines.postgres.processes import (
    CALLS,
    WORKER_TITLE,
    local_process,
    postmaster,
    temp_directories,
)
from spillcast.errors import (
    InputError,
    OptionMissing,
    RehearsalFailed,
    RehearsalRefused,
    TargetUnsuited,
)
from spillcast.evidence.postgres import COMMENTS
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE, EndedBy, ObservedEngine
from spillcast.recording.observed import Server
from spillcast.recording.record import Recorder
from spillcast.redaction import STRUCK, struck_text
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.storage.rehearse import Rehearsal


@contextmanager
def sampler_connection(dsn: str) -> Iterator[Connection]:
    """Open a session for the sampler. SpillcastError if the server ends it."""
    with closing(open_session(dsn, SAMPLER)) as connection, while_it_answers():
        yield connection


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
    rolls it back; unless it is ``timed``, the plan has no times of its nodes. It ends with the
    query, after ``options.duration_s``, or upon Ctrl-C. ``on_status`` gets the capture's counts
    with ``samples`` and ``processes`` a few times a second. Without an ``output`` nothing is
    written; ``running`` has what there is so far.

    InputError for a server, a session or a right that is missing, and if the query ended before
    it was seen; SpillcastError if the connection is lost, and if no query began in time.
    """
    if (wanted is None) == (explain is None):
        raise OptionMissing("give either a session to find or a statement to explain")
    recorder = Recorder(output, options, running)
    with sampler_connection(dsn) as connection, ExitStack() as stack:
        pid, reason = local_process(connection)
        absent_because = prepare(recorder, pid, reason, say, CALLS)
        session: SessionRecorder
        if wanted is not None:
            selected = find(connection, wanted, say, recorder.options.duration_s)
            # What the session has set itself is not visible.
            whose = connection.execute(_WHOSE, [selected.pid]).fetchone() or (0, 0)
            session = _WatchedSession(
                recorder,
                connection,
                selected.pid,
                ServerSettings.of(connection).for_session(*whose),
                dsn=dsn,
                database=selected.database or connection.info.dbname,
                runs=selected.active and wanted.backend is None,
            )
        else:
            assert explain is not None
            run = Explained(dsn, explain, settings or {}, say, timed=timed)
            stack.callback(run.close)
            rows = run.connection.execute(_CURRENT, [list(NAMES)]).fetchall()
            of_run = {str(name): str(value) for name, value in rows}
            session = _ExplainedSession(recorder, connection, run.pid, of_run, run=run)
        session.begin(absent_because, say)
        return session.until_the_end(on_status)


class _PostgresSession(SessionRecorder):
    option = "--backend"
    # Beside a capture, which has the times: each look takes the server a millisecond.
    rate_hz, rate_alone_hz = 10, 50

    def __init__(
        self,
        recorder: Recorder,
        connection: Connection,
        pid: int,
        settings: Mapping[str, str],
        *,
        runs: bool = False,
    ) -> None:
        super().__init__(recorder, ActivityQueries(connection, SESSION, pid), pid, pid, runs=runs)
        self.connection, self.settings = connection, settings

    def observe(self) -> None:
        """Capture the session's process, and parallel workers from their start on."""
        self.recorder.observe(self, temp_dirs=temp_directories(self.pid), only_calls=True)
        parent = postmaster(self.pid)
        if parent is not None:
            # Where this is refused, workers are attached when they are first sampled.
            with suppress(OSError):
                self.recorder.attach_children(parent, WORKER_TITLE.format(pid=self.pid))

    def described(self) -> ObservedEngine:
        return engine_meta(
            self.connection, self.pid, self.settings, self.query.text, self.query.queryid
        )


class _WatchedSession(_PostgresSession):
    """The recording of a query that a session of somebody's runs."""

    def __init__(self, *session: Any, dsn: str, database: str, runs: bool) -> None:
        super().__init__(*session, runs=runs)
        self._dsn, self._database = dsn, database
        self._rolled_back = self._rollbacks()
        self._plan: dict[str, Any] | None = None
        #: Its earlier calls, and when they had been counted (CLOCK_MONOTONIC).
        self._calls: list[dict[str, Any]] | None = None
        self._counted_ns = 0

    def observe(self) -> None:
        super().observe()
        self.recorder.know_before()

    def watch(self) -> None:
        # A call that is cancelled is not counted: they have to be asked for before it ends.
        if self._calls is None and self.query.queryid is not None:
            self._calls = former_calls(self._dsn, self._database, self.query.queryid)
            self._counted_ns = time.monotonic_ns()

    def completed(self) -> bool:
        life, calls = self.query.life, self._calls
        done = life.completed
        ended_ns = (self.query.started_ns or 0) + round((life.elapsed_s or 0.0) * 1e9)
        if done is None and calls and self.query.queryid and self._counted_ns < ended_ns:
            after = former_calls(self._dsn, self._database, self.query.queryid)
            if after:
                # One that fails is not counted; a call of another session meanwhile is, too.
                done = sum(row["calls"] for row in after) != sum(row["calls"] for row in calls)
        if done is None and self._rollbacks() != self._rolled_back:
            self.say(UNKNOWN)
        return done is not False

    @property
    def documents(self) -> Mapping[str, object]:
        self.watch()
        if self._plan is None and self.query.text:
            self._plan = estimate(self._dsn, self._database, self.query.text, self.settings)
        documents = {ESTIMATE_FILE: self._plan, FORMER_FILE: self._calls}
        return {name: document for name, document in documents.items() if document}

    def _rollbacks(self) -> int | None:
        """Transactions of its database that were rolled back so far; None: that is not counted."""
        text = "select xact_rollback from pg_stat_database where datname = %s"
        counted = self.connection.execute(text, [self._database]).fetchone()
        return None if counted is None else counted[0]


class _ExplainedSession(_PostgresSession):
    """The recording of a statement that a session of ours runs."""

    def __init__(self, *session: Any, run: Explained) -> None:
        super().__init__(*session)
        self._run = run

    @property
    def started_ns(self) -> int | None:
        return self._run.started_ns

    def start(self) -> None:
        super().start()
        self._run.start()

    def ended(self, timeout_s: float) -> EndedBy | None:
        return "end" if self._run.wait(timeout_s) else None

    def finish(self, ended_by: EndedBy) -> Recording:
        self.sampler.stop()
        self._run.finish()
        if self._run.plan is not None:
            self.recorder.add_document(PLAN_FILE, self._run.plan)
        return super().finish(ended_by)

    def elapsed_s(self) -> float:
        elapsed_s = self._run.elapsed_s
        return super().elapsed_s() if elapsed_s is None else elapsed_s

    def described(self) -> ObservedEngine:
        plan = None if self._run.plan is None else plan_summary(self._run.plan)
        of_run = {**self.settings, "settings_of": "the session that ran it", "plan": plan}
        # The identifier of EXPLAIN is not that of the statement which it runs.
        return engine_meta(self.connection, self.pid, of_run, self._run.statement)


#: A server that does not know one of them leaves it out.
NAMES = (
    "work_mem",
    "hash_mem_multiplier",
    "max_parallel_workers_per_gather",
    "temp_tablespaces",
    "track_io_timing",
    "io_method",
)
#: Of another's session: whose settings they are, and no plan.
OUTSIDE = {
    "settings_of": "server, database and role; what the session has set by itself does not show",
    "plan": None,
}

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
    settings: Mapping[str, Any],
    query: str = "",
    queryid: str | None = None,
) -> ObservedEngine:
    """Server, session, settings and query, and the summary of its plan."""
    info = connection.info
    return ObservedEngine(
        name="postgres",
        version=info.parameter_status("server_version"),
        server=Server(info.host or info.hostaddr, info.port, info.dbname, info.user),
        pid=pid,
        query=struck_text(query),
        queryid=queryid,
        settings={**settings, **{name: settings.get(name, of) for name, of in OUTSIDE.items()}},
    )


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


#: Settings of the recorded session that its plan follows from.
PLANNED_BY = ("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather")
#: What a read-only transaction lets through, and which changes something nevertheless.
CHANGES = re.compile(
    r"(?i)\b(pg_(?:terminate|cancel)_backend|pg_(?:try_)?advisory\w*|pg_notify|pg_reload_conf|"
    r"pg_switch_wal|pg_logical\w*|pg_replication\w*|dblink\w*|lo_\w+|pg_file_\w+)\s*\("
)
_SPACE = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
#: The statement is ended by the server, should we not come to it.
GRACE_S = 5.0


def rehearse_postgres(
    dsn: str,
    recording: Recording,
    directory: Path,
    duration_s: float,
    folder: Path,
    *,
    statement: str | None = None,
    say: Say = lambda _text: None,
) -> "Rehearsal":
    """Run the recorded query, or ``statement``, under EXPLAIN (ANALYZE) for so long.

    Read-only, with the recording's settings and its temp files in the tablespace in ``directory``.
    InputError where there is none, Refusal for what is no SELECT, changes something, or does no
    temp I/O until then.
    """
    from spillcast.storage.rehearse import LONGER, Rehearsal

    with closing(open_session(dsn, EXPLAINER)) as connection:
        text = _checked(_text(connection, recording, statement))
        space = _tablespace(connection, directory)
    recorded_settings = recording.meta.engine.settings
    settings = {
        name: str(recorded_settings[name])
        for name in PLANNED_BY
        if recorded_settings.get(name) is not None
    }
    settings |= {
        "temp_tablespaces": space,
        "default_transaction_read_only": "on",
        "statement_timeout": f"{round((duration_s + GRACE_S) * 1000)}ms",
    }
    limit = f"for {format_duration(duration_s)} at most and cancelled then"
    say(
        f"runs under EXPLAIN ANALYZE in a read-only transaction, {limit}, its temp files in "
        f"tablespace {space}: {' '.join(text.split())}"
    )
    output = folder / f"rehearsal-{len(list(folder.iterdir()))}.spill"
    try:
        made = record_postgres(
            dsn,
            output,
            explain=text,
            # The clock of each node would take time that the recorded run did not.
            timed=recorded_settings.get("plan") is not None,
            settings=settings,
            options=RecordOptions(duration_s=duration_s),
            say=say,
        )
    except InputError as error:
        raise RehearsalFailed(f"it could not be rehearsed: {error.message}", error.hint) from None
    if not made.meta.captured:
        raise RehearsalFailed(f"it could not be rehearsed: {made.meta.capture.absent_because}")
    if not made.meta.temp.operations:
        raise RehearsalFailed(
            f"no temp I/O was done in {format_duration(made.elapsed_s)} of rehearsal", LONGER
        )
    return Rehearsal(made)


def _text(connection: Connection, recording: Recording, given: str | None) -> str:
    """The statement. Refusal where the recording does not hold all of it."""
    hint = "give the statement as it is to be run: --command 'select ...'"
    text = given or recording.meta.engine.query or recording.meta.engine.sql
    if not text:
        raise RehearsalRefused("the recording does not contain the text of its query", hint)
    if given is None and STRUCK in text:
        raise RehearsalRefused("its query contains secrets, which are not stored", hint)
    kept = "select setting::int from pg_settings where name = 'track_activity_query_size'"
    if given is None and len(text.encode()) >= row(connection, kept)[0] - 1:
        raise RehearsalRefused("the recording contains only the beginning of its query", hint)
    return text.strip().rstrip(";")


def _checked(text: str) -> str:
    """The statement. Refusal where it is no SELECT, or calls what changes something."""
    bare = COMMENTS.sub(" ", text).strip()
    if not re.match(r"(?i)\(*\s*(select|with|values|table)\b", bare):
        word = (bare.split() or [""])[0]
        raise RehearsalRefused(f"its query begins with '{word}', and only a SELECT is rehearsed")
    if (match := CHANGES.search(bare)) is not None:
        raise RehearsalRefused(
            f"its query calls {match[1]}, and queries that change something are not rehearsed"
        )
    return text


def _tablespace(connection: Connection, directory: Path) -> str:
    """The tablespace in a directory. InputError says how to make one."""
    place = str(directory.resolve())
    record = connection.execute(_SPACE, [place]).fetchone()
    if record is None:
        hint = f"as a superuser: create tablespace rehearsal location {literal(place)}"
        raise TargetUnsuited(f"{directory}: no tablespace of the server lies there", hint)
    return str(record[0])
