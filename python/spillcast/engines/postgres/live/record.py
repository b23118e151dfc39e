"""Recording a query of a PostgreSQL server: its waits by samples, its I/O where it runs here."""

import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from spillcast.engines.engine import OnStatus, Say, Wanted
from spillcast.engines.postgres.connection import (
    SAMPLER,
    Connection,
    open_session,
    row,
    server_message,
)
from spillcast.engines.postgres.live.account import (
    engine_meta,
    query_meta,
    sampling_meta,
)
from spillcast.engines.postgres.live.backend import find, may_list_temp, no_query_error
from spillcast.engines.postgres.live.estimate import estimate
from spillcast.engines.postgres.live.explain import PLAN_FILE, Explained
from spillcast.engines.postgres.live.former import former_calls
from spillcast.engines.postgres.live.outcome import UNKNOWN, completed, rollbacks
from spillcast.engines.postgres.live.sampler import RATE_ALONE_HZ, RATE_HZ, Sampler
from spillcast.engines.postgres.live.settings import session_settings, settings_of
from spillcast.engines.postgres.processes import (
    CALLS,
    WORKER_TITLE,
    local_process,
    postmaster,
    temp_directories,
)
from spillcast.errors import InputError, SpillcastError
from spillcast.interruptible import no_interrupts
from spillcast.recording import Recording
from spillcast.recording.meta import ESTIMATE_FILE, FORMER_FILE
from spillcast.recording.options import RecordOptions
from spillcast.recording.recorder import Recorder
from spillcast.recording.run_so_far import RunSoFar
from spillcast.recording.running import Running
from spillcast.recording.source import AUTO, check_attaches

#: How often what came in is written; the sampler has a clock of its own.
TICK_S = 0.25


def record_postgres(
    dsn: str,
    output: Path | None,
    wanted: Wanted | None = None,
    *,
    explain: str | None = None,
    timed: bool = True,
    settings: Mapping[str, str] | None = None,
    options: RecordOptions | None = None,
    say: Say = lambda _text: None,
    on_status: OnStatus = lambda _recorder, _status: None,
    running: Running | None = None,
) -> Recording:
    """As ``RecordQuery`` tells; ``explain`` runs under EXPLAIN (ANALYZE, BUFFERS).

    Where it is not ``timed``, the plan has no times of its nodes, and takes none for them.
    """
    import psycopg

    if (wanted is None) == (explain is None):
        raise InputError("give either a session to find or a statement to explain")
    recorder = Recorder(output, options, running)
    recorder.check()
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(closing(open_session(dsn, SAMPLER)))
            absent_because = _prepare(recorder, connection, say)
            if wanted is not None:
                session = find(connection, wanted, say, recorder.options.duration_s)
                explain_with = partial(estimate, dsn, session.database or None)
                count_with = partial(former_calls, dsn, session.database or connection.info.dbname)
                watch = _Watch(recorder, connection, session.pid, None, explain_with, count_with)
                watch.database = session.database
            else:
                assert explain is not None
                run = Explained(dsn, explain, settings or {}, say, timed=timed)
                stack.callback(run.close)
                watch = _Watch(recorder, connection, run.pid, run)
            watch.begin(absent_because, say)
            return watch.until_the_end(on_status)
        except psycopg.Error as error:
            raise SpillcastError(f"PostgreSQL: {server_message(error)}") from None


def _prepare(recorder: Recorder, connection: Connection, say: Say) -> str | None:
    """Make the capture ready, which may take a moment; why there can be none, or None."""
    hint = "leave it out: perf events are used"
    check_attaches(recorder.options.capture, "a server", hint)
    pid = connection.info.backend_pid
    _, reason = local_process(connection)
    if reason is None:
        return _refusal(
            recorder, lambda: recorder.prepare(pid, "the server's processes", CALLS), say
        )
    say(f"only waits are recorded, not the I/O of its processes: {reason}")
    return reason


def _refusal(recorder: Recorder, attempt: Callable[[], object], say: Say) -> str | None:
    """Why a capture is refused, where it is not asked for by name; None where it is not."""
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


class _Watch:
    """The recording of one session's query; to the recorder it is the target."""

    def __init__(
        self,
        recorder: Recorder,
        connection: Connection,
        pid: int,
        run: Explained | None,
        explain_with: Callable[[str, Mapping[str, str]], dict[str, Any] | str] | None = None,
        count_with: Callable[[str], list[dict[str, Any]]] | None = None,
    ) -> None:
        self.pid = pid
        self.exit_status: int | None = None
        self._recorder = recorder
        self._connection = connection
        self._run = run
        self._explain_with = explain_with
        self._count_with = count_with
        self._unattached = 0
        #: The plan of the statement by estimates alone, or why there is none; None until asked for.
        self._plan: dict[str, Any] | str | None = None
        #: What was counted of its earlier calls; None until asked for.
        self._calls: list[dict[str, Any]] | None = None
        self.database = ""
        self._say: Say = lambda _text: None
        self._rolled_back: int | None = None
        #: When its earlier calls had been counted (CLOCK_MONOTONIC).
        self._counted_ns: int | None = None
        #: What is known of the query now that it is watched no longer.
        self._ended: RunSoFar | None = None
        recorder.run_so_far = self.run_so_far

    def begin(self, absent_because: str | None, say: Say) -> None:
        """Attach to the session and the workers to come, and start to sample."""
        # From its start on, the sampler has the connection for itself.
        connection, recorder, self._say = self._connection, self._recorder, say
        self._rolled_back = rollbacks(connection, self.database)
        if self._run is not None:
            self._settings = session_settings(self._run.connection)
        else:
            self._settings = settings_of(connection, self.pid)
        list_temp = may_list_temp(connection)
        if absent_because is None:
            absent_because = _refusal(recorder, self._observe, say)
        if absent_because is not None:
            recorder.observe_from_afar(self, absent_because)
        for notice in recorder.new_notices():
            say(notice)
        try:
            (self._attached_s,) = row(connection, "select date_part('epoch', clock_timestamp())")
            self._sampler = Sampler(
                connection,
                self.pid,
                recorder.origin_ns,
                self._attach,
                list_temp=list_temp,
                rate_hz=RATE_HZ if absent_because is None else RATE_ALONE_HZ,
            )
        except BaseException:
            recorder.abandon()
            raise

    def _observe(self) -> None:
        directories = temp_directories(self.pid)
        self._recorder.observe(self, temp_dirs=directories, only_calls=True)
        if self._run is None:
            self._recorder.know_before()
        parent = postmaster(self.pid)
        if parent is not None:
            # Where this is refused, workers are attached when they are first sampled.
            with contextlib.suppress(OSError):
                self._recorder.attach_children(parent, WORKER_TITLE.format(pid=self.pid))

    def _attach(self, worker: int) -> None:
        try:
            self._recorder.attach(worker)
        except ProcessLookupError:
            pass
        except OSError:
            self._unattached += 1

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the query has ended or the time is over; True when it has ended."""
        if self._run is not None:
            return self._run.wait(timeout_s)
        return self._sampler.done.wait(timeout_s)

    def until_the_end(self, on_status: OnStatus) -> Recording:
        """Record until the query has ended, the time is over, or Ctrl-C; keep the recording."""
        try:
            try:
                self._sampler.start()
                if self._run is not None:
                    self._run.start()
                ended_by = self._follow(on_status)
            except KeyboardInterrupt:
                if self._sampler.life.phase == "waiting" and self._run is None:
                    raise
                ended_by = "interrupt"
            with no_interrupts():
                return self._finish(ended_by)
        except BaseException:
            self._sampler.stop()
            self._recorder.abandon()
            raise

    def _follow(self, on_status: OnStatus) -> str:
        """Write what comes in; how it ended."""
        sampler, recorder = self._sampler, self._recorder
        limit_s = recorder.options.duration_s
        since, began = time.monotonic(), None
        while not self.wait(TICK_S):
            recorder.collect()
            recorder.add_samples(sampler.take())
            sampled = sampler.sampled
            counts = {"samples": sampled.samples, "processes": len(sampled.pids)}
            waiting = sampler.life.phase == "waiting"
            on_status(recorder, {**recorder.status(), **counts, "waiting": waiting})
            if began is None and (self._run is not None or sampler.life.phase != "waiting"):
                began = time.monotonic()
            if sampler.life.phase == "running" and self._counted_ns is None and self._former:
                # Before the call ends: one that is cancelled is not counted.
                self._counted_ns = time.monotonic_ns()
            if limit_s is None or time.monotonic() - (began or since) < limit_s:
                continue
            if began is None:
                raise no_query_error(f"a query of session {self.pid}", limit_s)
            return "duration"
        return "failure" if sampler.sampled.failure and self._run is None else "query"

    def _finish(self, ended_by: str) -> Recording:
        recorder, life = self._recorder, self._sampler.life
        sampled = self._sampler.stop()
        recorder.add_samples(self._sampler.take())
        if self._run is not None:
            self._run.finish()
        if ended_by == "query" and self._run is None and not self._completed():
            ended_by = "error"
        began_s, until_s = life.started_s, life.seen_until_s
        if self._run is not None and self._run.elapsed_s is not None:
            elapsed_s = self._run.elapsed_s
        elif began_s is None or until_s is None:
            raise InputError(sampled.failure or f"session {self.pid} has ended without a query")
        else:
            elapsed_s = until_s - max(began_s, self._attached_s)
        if elapsed_s <= 0:
            raise InputError("the query ended before anything was recorded")
        run = self._run
        if run is not None and run.plan is not None:
            recorder.add_document(PLAN_FILE, run.plan)
        if ended_by != "query":
            for name, document in self._telling.items():
                recorder.add_document(name, document)
        extra = self._known(ended_by)
        self._ended = RunSoFar(self._started_ns, {**extra, "elapsed_s": elapsed_s})
        extra["sampling"] = sampling_meta(sampled, self._sampler.rate_hz, self._sampler.gap_s)
        return recorder.finish(elapsed_s=elapsed_s, started_ns=self._started_ns, extra=extra)

    def _completed(self) -> bool:
        """Whether the query ran to its end, as far as can be told."""
        life, sampled = self._sampler.life, self._sampler.sampled
        done, queryid = life.completed, sampled.queryid
        if done is None and self._count_with is not None and queryid is not None:
            ended_ns = (sampled.started_ns or 0) + round((life.elapsed_s or 0.0) * 1e9)
            in_time = self._counted_ns is not None and self._counted_ns < ended_ns
            before = self._calls if in_time else None
            done = completed(before or [], self._count_with(queryid))
        if done is None and rollbacks(self._connection, self.database) != self._rolled_back:
            self._say(UNKNOWN)
        return done is not False

    def run_so_far(self) -> RunSoFar:
        """The query as it is known by now; its plan and its earlier calls are asked for once."""
        if self._ended is not None:
            return self._ended
        return RunSoFar(self._started_ns, self._known("duration"), self._telling)

    @property
    def _started_ns(self) -> int | None:
        return self._sampler.sampled.started_ns if self._run is None else self._run.started_ns

    def _known(self, ended_by: str) -> dict[str, Any]:
        """What meta.json says of the query."""
        sampled, life = self._sampler.sampled, self._sampler.life
        query, queryid = sampled.query, sampled.queryid
        workers = self._recorder.joined(self._started_ns), self._unattached
        return {
            "ended_by": "end" if ended_by == "query" else ended_by,
            "engine": engine_meta(
                self._connection, self.pid, self._settings, query, queryid, self._run
            ),
            "postgres": query_meta(self.pid, life, self._attached_s, ended_by, sampled, *workers),
        }

    @property
    def _telling(self) -> Mapping[str, object]:
        """What may tell what is to come of a query that goes on, by file."""
        documents = {ESTIMATE_FILE: self._estimated, FORMER_FILE: self._former}
        return {name: document for name, document in documents.items() if document}

    @property
    def _former(self) -> list[dict[str, Any]]:
        """Rows of its statement's earlier calls; none where none were counted."""
        queryid = self._sampler.sampled.queryid
        if self._count_with is None or queryid is None:
            return []
        if self._calls is None:
            self._calls = self._count_with(queryid)
        return self._calls

    @property
    def _estimated(self) -> dict[str, Any] | None:
        """The plan of the statement, which is not run; None where nothing is known of it."""
        statement = self._sampler.sampled.query
        if self._explain_with is None or not statement:
            return None
        if self._plan is None:
            self._plan = self._explain_with(statement, self._settings)
        return self._plan if isinstance(self._plan, dict) else None
