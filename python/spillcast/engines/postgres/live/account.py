"""The account of a PostgreSQL query in meta.json: settings, engine, workers, sampling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from spillcast.engines.postgres.connection import Connection, row
from spillcast.engines.postgres.live.explain import Explained, plan_summary
from spillcast.engines.postgres.live.sampler import Sampler, SessionQuery
from spillcast.recording.captured import Joined
from spillcast.recording.meta import EndedBy, ObservedEngine
from spillcast.recording.postgres_meta import (
    Missed,
    RecordedQuery,
    Sampling,
    Server,
    TempFiles,
    Worker,
)
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
    """The settings of a session of ours."""
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
