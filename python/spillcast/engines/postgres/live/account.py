"""The meta.json of a recorded query, and its rows out of those of a server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from spillcast.engines.postgres.connection import Connection, row
from spillcast.engines.postgres.live.explain import Explained, plan_summary
from spillcast.engines.postgres.live.sampler import Sampler, SessionQuery
from spillcast.recording import Recording
from spillcast.recording.capture import RecordOptions, share_of
from spillcast.recording.meta import EndedBy, Memory, Meta, ObservedEngine, OtherIO, Temp
from spillcast.recording.record import Joined
from spillcast.recording.schema import seconds_of, totals
from spillcast.recording.server import QueryRecording, SessionRows
from spillcast.recording.server_meta import (
    Missed,
    RecordedQuery,
    Sampling,
    Server,
    TempFiles,
    Worker,
)
from spillcast.recording.writer import RecordingWriter
from spillcast.redaction import struck_text

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
    workers: Sequence[Joined],
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
        workers=[
            Worker(
                worker.pid,
                worker.started_s,
                worker.attached_s,
                worker.before and Missed(*worker.before),
                worker.temp_files,
            )
            for worker in workers
        ],
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
                settings.update(_pairs(pairs))
        return settings


def settings_of(connection: Connection, pid: int) -> dict[str, str]:
    """The settings that another session began with; those it made itself are not visible."""
    whose = connection.execute(_WHOSE, [pid]).fetchone() or (0, 0)
    return ServerSettings.of(connection).for_session(*whose)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = (text.partition("=") for text in given)
    return {name: value for name, _, value in pairs if name in NAMES}


@dataclass(frozen=True)
class Window:
    """When a query ran, as far as it was recorded: ns since the capture's start."""

    begin_ns: int
    end_ns: int
    #: Until when it was sure to run.
    sure_until_ns: int

    @classmethod
    def of(cls, query: SessionQuery, origin_ns: int, until_ns: int) -> "Window":
        """Up to its end, or to ``until_ns`` (CLOCK_MONOTONIC) where it still ran then."""
        end_ns = query.ended_ns or until_ns
        sure_ns = query.sure_until_ns or until_ns
        return cls(max(query.began_ns - origin_ns, 0), end_ns - origin_ns, sure_ns - origin_ns)

    def elapsed_s(self, sums: "Sums") -> float:
        """Wall time of the query: its last temp I/O was of it, too."""
        return max(self.sure_until_ns - self.begin_ns, sums.temp_until_ns) / 1e9


@dataclass
class Sums:
    """What the rows of a query add up to."""

    temp: Temp = field(default_factory=Temp)
    other_io: OtherIO = field(default_factory=OtherIO)
    #: Outside of calls; None where the capture cannot tell.
    cpu_s: float | None = None
    #: When the last temp I/O ended, ns since the query's start.
    temp_until_ns: int = 0


def write(
    query: SessionQuery, window: Window, rows: SessionRows, path: Path, options: RecordOptions
) -> tuple[RecordingWriter, Sums]:
    """Write the rows of a query into a recording that is still to be finished."""
    writer = RecordingWriter(path, options.slices, share=options.share)
    where = query.pids, window.begin_ns, window.end_ns
    sums = Sums()
    try:
        for part in rows.waits(*where):
            writer.add_waits(part)
            writer.add_seconds(seconds_of(part))
            temp, other_io = totals(part)
            sums.temp, sums.other_io = sums.temp + temp, sums.other_io + other_io
            if part["cpu_before_ns"].null_count < part.num_rows:
                sums.cpu_s = (sums.cpu_s or 0.0) + part["cpu_before_ns"].sum() / 1e9
            ends = (part["start_ns"].values + part["elapsed_ns"].values)[part["temp"].values]
            sums.temp_until_ns = int(ends.max(initial=sums.temp_until_ns))
        for samples in rows.samples(*where):
            writer.add_samples(samples)
    except BaseException:
        writer.discard()
        raise
    return writer, sums


def finish(
    query: SessionQuery,
    writer: RecordingWriter,
    sums: Sums,
    about: Meta,
    engine: ObservedEngine,
    *,
    ended_by: EndedBy,
    attached_s: float,
    workers: Sequence[Joined],
    sampler: Sampler,
) -> Recording:
    """Make a recording whole; ``about`` is the account of the whole server."""
    capture, temp, other = about.capture, sums.temp, sums.other_io
    calls = about.temp.operations + about.other_io.count
    share = min((temp.operations + other.count) / max(calls, 1), 1.0)
    peak_bytes = None if query.memory is None else query.memory.peak_bytes
    meta = replace(
        about,
        ended_by=ended_by,
        before=None,
        engine=engine,
        memory=Memory(about.memory.limit_bytes, peak_bytes),
        # Throttling was counted of the whole server, and of all the time.
        cpu_limits=replace(about.cpu_limits, throttled_s=None, throttled_periods=None),
        cpu_s=None if about.cpu_s is None else sums.cpu_s,
        temp=temp,
        other_io=other,
        # Who else took the CPUs was seen of the server as a whole, whose other sessions are others.
        capture=replace(
            share_of(capture, share),
            dropped=0,
            run_queue_delay_s=query.run_queue_delay_s,
            run_queue_others_s=None,
        ),
        server=query_meta(query, attached_s, ended_by, workers),
        sampling=sampling_meta(query, sampler),
    )
    return writer.finish(meta)


def in_short(recording: Recording, query: SessionQuery) -> QueryRecording:
    """A recording as the list of all has it."""
    meta, statement, temp = recording.meta, query.statement, recording.meta.temp
    server_query = meta.server
    assert server_query is not None
    workers = len(query.workers)
    processes_s = recording.elapsed_s * (1 + workers)
    return QueryRecording(
        path=recording.path,
        pid=query.pid,
        user="" if statement is None else statement.user,
        database="" if statement is None else statement.database,
        application="" if statement is None else statement.application,
        query=meta.engine.query or "",
        started_at=meta.started_at,
        elapsed_s=recording.elapsed_s,
        before_recording_s=server_query.before_recording_s,
        ended_by=server_query.ended_by,
        workers=workers,
        reads=temp.reads,
        read_bytes=temp.bytes - recording.written_bytes.temp,
        writes=temp.writes,
        written_bytes=recording.written_bytes.temp,
        temp_s=temp.total_s,
        temp_share=temp.total_s / processes_s,
    )
