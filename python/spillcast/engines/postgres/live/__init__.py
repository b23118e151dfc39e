"""Records a query of a PostgreSQL server: of a given session, under EXPLAIN, or a rehearsal.

Parallel workers are children of the server, not of the session that they work for. The capture
watches for children of the server and attaches a session's workers within about 10 ms of their
start; a worker needs most of that time to connect. I/O of a worker before the attach is counted in
the recording; workers do no temp I/O so early.

``record --all`` uses one capture of the server and all its children, and one connection that
samples all sessions 20 times a second: when each query starts and ends, and which session a
parallel worker belongs to. Two seconds after the end of a query, the rows of its processes between
start and end become a recording, if they contain temp I/O. Rows that belong to no known query are
counted and reported.
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from spillcast.engines import Notify, OnStatus, SessionSelector
from spillcast.engines.live import SessionRecorder, prepare
from spillcast.engines.postgres import (
    CALLS,
    EXPLAINER,
    SAMPLER,
    WORKER_TITLE,
    Connection,
    check_text,
    driver_errors,
    literal,
    local_process,
    may_be_cut,
    open_session,
    postmaster,
    refused,
    server_message,
    shown_name,
    temp_directories,
)
from spillcast.engines.postgres.live.activity import (
    SESSION,
    SETTING_NAMES,
    ActivityQueries,
    ServerSettings,
    engine_meta,
    find_session,
)
from spillcast.engines.postgres.live.explain import (
    MAYBE_CANCELLED,
    estimate,
    plan_summary,
    previous_calls,
)
from spillcast.errors import (
    InputError,
    OptionMissing,
    RehearsalFailed,
    RehearsalRefused,
    SpillcastError,
    StatementFailed,
    StatementRejected,
    TargetUnsuited,
)
from spillcast.evidence.postgres import COMMENTS
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions
from spillcast.recording.live import Running
from spillcast.recording.meta import CALLS_FILE, ESTIMATE_FILE, PLAN_FILE, EndedBy, ObservedEngine
from spillcast.recording.record import Recorder
from spillcast.redaction import MASK, masked_document
from spillcast.units import format_duration

#: The time within which the server has to cancel a statement.
CANCEL_S = 10.0
_EXPLAIN = "explain (analyze, buffers, timing {timing}, format json) "
_SESSION_OWNER = "select a.datid, a.usesysid from pg_stat_get_activity(%s) a"
_CURRENT = "select name, current_setting(name) from pg_settings where name = any (%s)"


@contextmanager
def sampler_connection(dsn: str) -> Iterator[Connection]:
    """Opens a session for the sampler. StatementFailed if the server ends it."""
    with closing(open_session(dsn, SAMPLER)) as connection, driver_errors():
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
    notify: Notify = lambda _text: None,
    on_status: OnStatus = lambda _recorder, _status: None,
    running: Running | None = None,
) -> Recording:
    """Records the query of the session ``wanted``, or the statement ``explain``, to its end.

    A new session runs the statement under EXPLAIN (ANALYZE, BUFFERS) with ``settings``, and rolls
    it back; unless it is ``timed``, the plan has no times of its nodes. The recording ends with
    the query, after ``options.duration_s``, or upon Ctrl-C. ``on_status`` gets the capture's counts
    with ``samples`` and ``processes`` a few times a second. Without an ``output`` nothing is
    written; ``running`` gets the recording so far.

    InputError if a server, a session or a privilege is missing, and if the query ended before a
    sample showed it; SpillcastError if the connection is lost, and if no query started in time.
    """
    if (wanted is None) == (explain is None):
        raise OptionMissing("give either a session to find or a statement to explain")
    recorder = Recorder(output, options, running)
    with sampler_connection(dsn) as connection, ExitStack() as stack:
        pid, reason = local_process(connection)
        absent_because = prepare(recorder, pid, reason, notify, CALLS)
        session: SessionRecorder
        if wanted is not None:
            selected = find_session(connection, wanted, notify, recorder.options.duration_s)
            owner = connection.execute(_SESSION_OWNER, [selected.pid]).fetchone() or (0, 0)
            session = _WatchedSession(
                recorder,
                connection,
                selected.pid,
                ServerSettings.of(connection).for_session(*owner),
                dsn=dsn,
                database=selected.database or connection.info.dbname,
                runs=selected.active and wanted.backend is None,
            )
        else:
            assert explain is not None
            runner = stack.enter_context(_runner_of(dsn, explain, settings or {}, notify))
            session = _ExplainedSession(recorder, connection, runner, explain, timed=timed)
            stack.callback(session.cancel)
        session.begin(absent_because, notify)
        return session.until_the_end(on_status)


class _PostgresSession(SessionRecorder):
    option = "--backend"
    # A sample takes the server a millisecond, and a capture already measures the times.
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
        """Captures the session's process, and parallel workers from their start."""
        self.recorder.observe(self, temp_dirs=temp_directories(self.pid), only_calls=True)
        parent = postmaster(self.pid)
        if parent is not None:
            # If this fails, each worker is attached when a sample first shows it.
            with suppress(OSError):
                self.recorder.attach_children(parent, WORKER_TITLE.format(pid=self.pid))

    def describe_engine(self) -> ObservedEngine:
        return engine_meta(
            self.connection, self.pid, self.settings, self.query.text, self.query.queryid
        )


class _WatchedSession(_PostgresSession):
    """The recording of a query that another client's session runs."""

    def __init__(self, *session: Any, dsn: str, database: str, runs: bool) -> None:
        super().__init__(*session, runs=runs)
        self._dsn, self._database = dsn, database
        self._rolled_back = self._rollbacks()
        self._plan: dict[str, Any] | None = None
        #: Earlier calls of the query, and when the server was queried for them (CLOCK_MONOTONIC).
        self._calls: list[dict[str, Any]] | None = None
        self._counted_ns = 0

    def observe(self) -> None:
        super().observe()
        self.recorder.keep_earlier_work()

    def watch(self) -> None:
        # Requested before the query ends, because the server does not count a cancelled call: if
        # the number of calls is higher afterwards, the query completed.
        if self._calls is None and self.query.queryid is not None:
            self._calls = previous_calls(self._dsn, self._database, self.query.queryid)
            self._counted_ns = time.monotonic_ns()

    def completed(self) -> bool:
        life, calls = self.query.life, self._calls
        done = life.completed
        ended_ns = (self.query.started_ns or 0) + round((life.elapsed_s or 0.0) * 1e9)
        if done is None and calls and self.query.queryid and self._counted_ns < ended_ns:
            after = previous_calls(self._dsn, self._database, self.query.queryid)
            if after:
                # Calls of other sessions in the meantime are counted, too.
                done = sum(row["calls"] for row in after) != sum(row["calls"] for row in calls)
        if done is None and self._rollbacks() != self._rolled_back:
            self.notify(MAYBE_CANCELLED)
        return done is not False

    @property
    def documents(self) -> Mapping[str, object]:
        self.watch()
        if self._plan is None and self.query.text:
            self._plan = estimate(self._dsn, self._database, self.query.text, self.settings)
        documents = {ESTIMATE_FILE: self._plan, CALLS_FILE: self._calls}
        return {name: document for name, document in documents.items() if document}

    def _rollbacks(self) -> int | None:
        """Transactions of its database that were rolled back so far; None if not counted."""
        text = "select xact_rollback from pg_stat_database where datname = %s"
        record = self.connection.execute(text, [self._database]).fetchone()
        return None if record is None else record[0]


class _ExplainedSession(_PostgresSession):
    """The recording of a statement that spillcast runs under EXPLAIN, and rolls back.

    ``runner`` is the session that runs it.
    """

    def __init__(
        self,
        recorder: Recorder,
        connection: Connection,
        runner: Connection,
        statement: str,
        *,
        timed: bool,
    ) -> None:
        rows = runner.execute(_CURRENT, [list(SETTING_NAMES)]).fetchall()
        settings = {str(name): str(value) for name, value in rows}
        super().__init__(recorder, connection, runner.info.backend_pid, settings)
        self._runner, self._statement = runner, statement
        self._explain = _EXPLAIN.format(timing="on" if timed else "off")
        self._plan: Any = None
        self._failure: SpillcastError | None = None
        #: Whether ``cancel`` ended it, not a timeout or another session.
        self._cancelled = False
        #: The start and the end of the statement (CLOCK_MONOTONIC).
        self._started_ns: int | None = None
        self._ended_ns: int | None = None
        self._thread = threading.Thread(target=self._run, name="spillcast-explain", daemon=True)

    @property
    def started_ns(self) -> int | None:
        return self._started_ns

    def start(self) -> None:
        super().start()
        self._thread.start()

    def ended(self, timeout_s: float) -> EndedBy | None:
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else "end"

    def cancel(self) -> None:
        """Ends the statement if it still runs."""
        import psycopg

        if self._thread.is_alive():
            self._cancelled = True
            with suppress(psycopg.Error):
                self._runner.cancel_safe(timeout=CANCEL_S)
            self._thread.join()

    def finish(self, ended_by: EndedBy) -> Recording:
        self.sampler.stop()
        self.cancel()
        if self._failure is not None:
            raise self._failure
        if self._plan is not None:
            self.recorder.add_document(PLAN_FILE, self._plan)
        return super().finish(ended_by)

    def elapsed_s(self) -> float:
        if self._started_ns is None or self._ended_ns is None:
            return super().elapsed_s()
        return (self._ended_ns - self._started_ns) / 1e9

    def describe_engine(self) -> ObservedEngine:
        plan = None if self._plan is None else plan_summary(self._plan)
        settings = {**self.settings, "settings_of": "the session that ran it", "plan": plan}
        # The identifier of EXPLAIN differs from that of the statement that it runs.
        return engine_meta(self.connection, self.pid, settings, self._statement)

    def _run(self) -> None:
        import psycopg

        self._started_ns = time.monotonic_ns()
        try:
            # Rolls back the statement's changes; a binary result prevents a second statement.
            with self._runner.transaction(force_rollback=True):
                text = (self._explain + self._statement).encode()
                cursor = self._runner.execute(text, binary=True)
                self._plan = masked_document(cursor.fetchall()[0][0])
        except psycopg.errors.QueryCanceled as error:
            if not self._cancelled:
                hint = "against a timeout: --set statement_timeout=0"
                self._failure = StatementFailed(f"--explain: {server_message(error)}", hint)
        except psycopg.OperationalError as error:
            self._failure = StatementFailed(f"--explain: {server_message(error)}")
        except psycopg.Error as error:
            self._failure = StatementRejected(f"--explain: {server_message(error)}")
        finally:
            self._ended_ns = time.monotonic_ns()


@contextmanager
def _runner_of(
    dsn: str, statement: str, settings: Mapping[str, str], notify: Notify
) -> Iterator[Connection]:
    """Opens a session for a statement. InputError names a setting that the server refuses."""
    import psycopg

    check_text("--explain", statement)
    for name, value in settings.items():
        check_text("--set", f"{name}={value}")
    with closing(open_session(dsn, EXPLAINER)) as runner:
        for name, value in settings.items():
            with refused(StatementRejected, f"--set {name}={value}"):
                runner.execute("select set_config(%s, %s, false)", [name, value])
        if runner.info.server_version >= 140_000:
            # With this, the server ends the statement if spillcast is killed.
            runner.execute("set client_connection_check_interval = '1s'")
        try:
            runner.execute("set track_io_timing = on")
        except psycopg.Error as error:
            notify(f"the plan may have no I/O times: {server_message(error)}")
            if runner.info.server_version >= 150_000:
                user = shown_name(runner.info.user)
                notify(f"  as a superuser: grant set on parameter track_io_timing to {user}")
        yield runner


#: Settings of the recorded session that determine its plan.
PLAN_SETTINGS = ("work_mem", "hash_mem_multiplier", "max_parallel_workers_per_gather")
#: Functions that change something although a read-only transaction permits them.
CHANGES = re.compile(
    r"(?i)\b(pg_(?:terminate|cancel)_backend|pg_(?:try_)?advisory\w*|pg_notify|pg_reload_conf|"
    r"pg_switch_wal|pg_logical\w*|pg_replication\w*|dblink\w*|lo_\w+|pg_file_\w+)\s*\("
)
_TABLESPACE = "select spcname from pg_tablespace where pg_tablespace_location(oid) = %s"
#: The server cancels the statement if spillcast has not done so within this time.
GRACE_S = 5.0


def rehearse_postgres(
    dsn: str,
    recording: Recording,
    directory: Path,
    duration_s: float,
    folder: Path,
    *,
    statement: str | None = None,
    notify: Notify = lambda _text: None,
) -> Recording:
    """Runs the recorded query, or ``statement``, under EXPLAIN (ANALYZE) for ``duration_s``.

    The transaction is read-only, with the recording's settings and with temp files in the
    tablespace in ``directory``. InputError if there is no such tablespace; Refusal for a statement
    that is not a SELECT or changes something, and if it does no temp I/O.
    """
    from spillcast.storage.rehearse import LONGER_HINT

    with closing(open_session(dsn, EXPLAINER)) as connection:
        text = _whole_text(connection, recording, statement)
        _check_read_only(text)
        space = _tablespace(connection, directory)
    recorded_settings = recording.meta.engine.settings
    settings = {
        name: str(recorded_settings[name])
        for name in PLAN_SETTINGS
        if recorded_settings.get(name) is not None
    }
    settings |= {
        "temp_tablespaces": space,
        "default_transaction_read_only": "on",
        "statement_timeout": f"{round((duration_s + GRACE_S) * 1000)}ms",
    }
    limit = f"for {format_duration(duration_s)} at most and cancelled then"
    notify(
        f"runs under EXPLAIN ANALYZE in a read-only transaction, {limit}, its temp files in "
        f"tablespace {space}: {' '.join(text.split())}"
    )
    output = folder / f"rehearsal-{len(list(folder.iterdir()))}.spill"
    try:
        made = record_postgres(
            dsn,
            output,
            explain=text,
            # Timing each node takes time: done only if the recorded run did so, too.
            timed=recorded_settings.get("plan") is not None,
            settings=settings,
            options=RecordOptions(duration_s=duration_s),
            notify=notify,
        )
    except InputError as error:
        raise RehearsalFailed(f"it could not be rehearsed: {error.message}", error.hint) from None
    if not made.meta.captured:
        raise RehearsalFailed(f"it could not be rehearsed: {made.meta.capture.absent_because}")
    if not made.meta.temp.operations:
        raise RehearsalFailed(
            f"no temp I/O was done in {format_duration(made.elapsed_s)} of rehearsal", LONGER_HINT
        )
    return made


def _whole_text(connection: Connection, recording: Recording, statement: str | None) -> str:
    """``statement``, else the recorded query. Refusal if the recording lacks a part of it."""
    hint = "give the statement as it is to be run: --command 'select ...'"
    text = statement or recording.meta.engine.query or recording.meta.engine.sql
    if not text:
        raise RehearsalRefused("the recording does not contain the text of its query", hint)
    if statement is None and MASK in text:
        raise RehearsalRefused("its query contains secrets, which are not stored", hint)
    if statement is None and may_be_cut(connection, text):
        raise RehearsalRefused("the recording contains only the beginning of its query", hint)
    return text.strip().rstrip(";")


def _check_read_only(text: str) -> None:
    """Refusal for a statement that is not a SELECT, or calls a function that changes something."""
    bare = COMMENTS.sub(" ", text).strip()
    if not re.match(r"(?i)\(*\s*(select|with|values|table)\b", bare):
        word = (bare.split() or [""])[0]
        raise RehearsalRefused(f"its query begins with '{word}', and only a SELECT is rehearsed")
    if (match := CHANGES.search(bare)) is not None:
        raise RehearsalRefused(
            f"its query calls {match[1]}, and queries that change something are not rehearsed"
        )


def _tablespace(connection: Connection, directory: Path) -> str:
    """The name of the tablespace in a directory. InputError if there is none."""
    location = str(directory.resolve())
    record = connection.execute(_TABLESPACE, [location]).fetchone()
    if record is None:
        hint = f"as a superuser: create tablespace rehearsal location {literal(location)}"
        raise TargetUnsuited("no tablespace of the server is there", hint, directory)
    return str(record[0])
