"""What a recording's meta.json says of a PostgreSQL query: engine, workers, sampling."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from spillcast.engines.postgres.connection import Connection
from spillcast.engines.postgres.live.explain import Explained, plan_summary
from spillcast.engines.postgres.live.query import QueryLife
from spillcast.engines.postgres.live.sampler import Sampled
from spillcast.engines.postgres.live.settings import FROM_OUTSIDE, FROM_SESSION
from spillcast.recording.captured import Joined
from spillcast.recording.meta import ObservedEngine
from spillcast.recording.postgres_meta import (
    Missed,
    RecordedQuery,
    Sampling,
    Server,
    TempFiles,
    Worker,
)
from spillcast.redaction import struck_text


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
    pid: int,
    life: QueryLife,
    attached_s: float,
    ended_by: str,
    sampled: Sampled,
    workers: Sequence[Joined],
    unattached: int,
) -> RecordedQuery:
    """The query; instants are by the server's clock. Some workers were seen and
    not attached.

    ``ended_by`` is ``query``, ``duration``, ``interrupt``, or ``failure`` of the sampler's
    connection.
    """
    began_s = life.started_s
    began = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
    return RecordedQuery(
        backend=pid,
        query_started_at=None if began is None else began.isoformat(timespec="milliseconds"),
        query_elapsed_s=life.elapsed_s,
        before_recording_s=max(0.0, attached_s - (began_s or attached_s)),
        ended_by=ended_by,
        failure=sampled.failure,
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
            TempFiles(name, size, files)
            for name, (size, files) in sorted(sampled.temp_peak.items())
        ],
    )


def sampling_meta(sampled: Sampled, rate_hz: int, gap_s: float) -> Sampling:
    """What sampling gave and what it cost; ``gap_s`` is the minimum length of a gap."""
    return Sampling(
        rate_hz=rate_hz,
        samples=sampled.samples,
        ticks=sampled.ticks,
        discarded=sampled.discarded,
        gap_s=sampled.gap_s,
        gap_from_s=gap_s,
        client_cpu_s=sampled.client_cpu_s,
        server_cpu_s=sampled.server_cpu_s,
    )
